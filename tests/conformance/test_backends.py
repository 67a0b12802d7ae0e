"""The conformance suite, over every format and way of writing it that this package has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest

from dataformats.registry import backends
from dataformats.testing import BackendConformance, FormatCase


def tfrecord_ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(12 + length + 4 for length in lengths))


def ffrecord_ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(lengths, initial=12 + 12 * len(lengths)))[1:]


TRAIN = tuple(f"train-{number:05d}-of-00003.tfrecord" for number in range(3))

CASES = [
    FormatCase("tfrecord", "tfrecord", ".tfrecord", indexed=True, shard_names=TRAIN, ends=tfrecord_ends),
    FormatCase(
        "tfrecord-gzip",
        "tfrecord",
        ".tfrecord.gz",
        create_options={"compression": "gzip"},
        indexed=True,
        shard_names=TRAIN,
    ),
    FormatCase(
        "tfrecord-zlib",
        "tfrecord",
        ".tfrecord",
        create_options={"compression": "zlib"},
        indexed=True,
        shard_names=TRAIN,
    ),
    FormatCase(
        "ffrecord",
        "ffrecord",
        ".ffr",
        shard_names=("PART_00000.ffr", "PART_00001.ffr", "PART_00002.ffr"),
        ends=ffrecord_ends,
    ),
]


class TestBackends(BackendConformance):
    @pytest.fixture(params=CASES, ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        found: FormatCase = request.param
        return found


TO_COME = {"ofrecord", "syrah", "granular"}


def test_every_format_has_a_case() -> None:
    formats = {case.format for case in CASES}
    assert set(backends) - TO_COME <= formats <= set(backends)
