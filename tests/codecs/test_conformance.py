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
        return found


def test_every_codec_has_a_case() -> None:
    """Videos take seconds to encode: test_videos.py has their damage."""
    shipped = {name for name in codecs if codecs.shipped(name)}
    assert shipped - {case.coder.kind.codec for case in CODECS} == {"mp4", "webm"}
