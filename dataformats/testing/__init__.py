"""The conformance suites for backends and codecs; they need pytest.

    import pytest
    from dataformats.testing import BackendConformance, BackendDurability, FormatCase

    CASES = [FormatCase("mine", "mine", ".mine", shard_names=("train-0.mine", "train-1.mine", "train-2.mine"))]

    class TestBackend(BackendConformance):
        @pytest.fixture(params=CASES, ids=str)
        def case(self, request):
            return request.param

    class TestBackendThoroughly(BackendDurability):
        @pytest.fixture(params=CASES, ids=str)
        def case(self, request):
            return request.param

`BackendConformance` takes seconds. `BackendDurability` takes minutes: it damages files at every byte, kills writers,
and reads in other processes. A test that exceeds `timeout_s` of its class fails. `TableConformance` is for formats
whose `open` returns a `Table`.

A `FormatCase` describes the limits of a format; override no test. If the backend is registered by a call of
`register_backend` and not by an entry point, name that call in `setup="module:function"`: new processes do not know the
format otherwise. If the format holds lines of text and not arbitrary bytes, set `records="documents"`. If it has fixed
fields, name them in `spec`.

A codec has a suite, too:

    class TestCodec(CodecConformance):
        @pytest.fixture
        def case(self):
            return CodecCase("mine", [1, 2], frozen=[(1, "01")], damaged=[b""], codecs={"mine": Mine()})
"""

from __future__ import annotations

import pytest

_TOPICS = (
    "reading",
    "columns",
    "views",
    "writing",
    "locations",
    "indexes",
    "processes",
    "io_modes",
    "damage",
    "converting",
    "dataset_fixture",
    "subprocess_entry",
    "codec_suite",
)
pytest.register_assert_rewrite(*(f"dataformats.testing.{topic}" for topic in _TOPICS))

from dataformats.testing.case import FormatCase  # noqa: E402  # asserts are rewritten in modules imported from here on
from dataformats.testing.codec_suite import CodecCase, CodecConformance  # noqa: E402
from dataformats.testing.suite import BackendConformance, BackendDurability, TableConformance  # noqa: E402

__all__ = [
    "BackendConformance",
    "BackendDurability",
    "CodecCase",
    "CodecConformance",
    "FormatCase",
    "TableConformance",
]
