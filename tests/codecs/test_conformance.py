"""The conformance suite of codecs, over every codec that this package has."""

from __future__ import annotations

import importlib.util

import pytest

from dataformats.registry import codecs
from dataformats.testing import CodecCase, CodecConformance
from dataformats.testing.loop_over import loop_over
from tests.campaign import chosen
from tests.cases import CODECS

DAMAGE = ("test_cut_at_every_byte", "test_every_bit_flipped", "test_any_bytes")


def is_installed(case: CodecCase) -> bool:
    return case.kind not in ("mp4", "webm", "audio(16000)") or importlib.util.find_spec("av") is not None


class TestCodecs(CodecConformance):
    """Damage takes long, so that each codec is a test. All other tests loop over the codecs."""

    choose_damage = staticmethod(chosen)

    @pytest.fixture(params=CODECS, ids=str)
    def case(self, request: pytest.FixtureRequest) -> CodecCase:
        found: CodecCase = request.param
        if not is_installed(found):
            pytest.skip("needs the extra 'video'")
        return found


for name, method in vars(CodecConformance).items():
    if name.startswith("test_") and name not in DAMAGE:
        setattr(TestCodecs, name, loop_over("case", filter(is_installed, CODECS))(method))


def test_every_codec_has_a_case() -> None:
    shipped = {name for name in codecs if codecs.shipped(name)}
    assert shipped - {case.coder.kind.codec for case in CODECS} == set()
