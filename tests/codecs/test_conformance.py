"""The conformance suite of codecs, over every codec that this package has."""

from __future__ import annotations

import pytest

from dataformats.registry import codecs
from dataformats.testing import CodecCase, CodecConformance
from tests.cases import CODECS


class TestCodecs(CodecConformance):
    @pytest.fixture(params=CODECS, ids=str)
    def case(self, request: pytest.FixtureRequest) -> CodecCase:
        found: CodecCase = request.param
        if found.kind in ("mp4", "webm", "audio(16000)"):
            pytest.importorskip("av", reason="needs the extra 'video'")
        return found


def test_every_codec_has_a_case() -> None:
    shipped = {name for name in codecs if codecs.shipped(name)}
    assert shipped - {case.coder.kind.codec for case in CODECS} == set()
