"""The formats and the codec of docs/extending.md keep the contracts of the conformance suites."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest

from dataformats.testing import BackendConformance, CodecCase, CodecConformance, FormatCase, TableConformance
from tests.cases import SEQUENCES
from tests.examples import install_examples, needs_examples, register_examples

pytestmark = needs_examples
registered = register_examples("length_prefixed", "bits_codec")
installed = install_examples("dataformats_rows", "dataformats_sqlite")


# ---- the format


def ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate((4 + length for length in lengths), initial=8))[1:]


CASE = FormatCase(
    "lengthprefixed",
    "lengthprefixed",
    ".lp",
    setup="length_prefixed:register",
    verifies_records=False,
    fingerprints_records=False,
    shard_names=tuple(f"train-{number:05d}-of-00003.lp" for number in range(3)),
    ends=ends,
)


class TestLengthPrefixed(BackendConformance):
    @pytest.fixture
    def case(self) -> FormatCase:
        return CASE


# ---- the codec


class TestBits(CodecConformance):
    @pytest.fixture
    def case(self) -> CodecCase:
        bools = [np.zeros((3, 5), bool), np.ones((3, 5), bool), np.eye(3, 5, dtype=bool)]
        return CodecCase(
            "bits(3,5)",
            bools,
            frozen=[(bools[1], "fffe"), (bools[2], "8208")],
            refuses=[np.zeros((3, 5), np.uint8), np.zeros((5, 3), bool), [[True] * 5] * 4, "101"],
            damaged=[b"", b"\0", b"\0\0\0"],
            bad_args=["", "3,x", "-1", "3.5"],
            cuts=True,
        )


# ---- the format of fields


def ends_of_rows(lengths: Sequence[int]) -> list[int]:
    header = len(b'{"i": "int64", "d": "bytes"}')  # the spec of the damaged files
    return list(accumulate((8 + length for length in lengths), initial=12 + header))[1:]


ROWS = FormatCase(
    "rows",
    "rows",
    ".rows",
    payload=None,
    refuses=SEQUENCES,
    verifies_records=False,
    fingerprints_records=False,
    indexed=True,
    ends=ends_of_rows,
    shard_names=tuple(f"train-{number:05d}-of-00003.rows" for number in range(3)),
)


class TestRows(BackendConformance):
    @pytest.fixture
    def case(self) -> FormatCase:
        return ROWS


# ---- the table

SQLITE = FormatCase(
    "sqlite",
    "sqlite",
    ".sqlite",
    payload=None,
    refuses=SEQUENCES,
    survives_kill=False,
    pending_may_be_lost=True,
    verifies_records=False,
    fingerprints_records=False,
    shard_names=tuple(f"train-{number:05d}-of-00003.sqlite" for number in range(3)),
    cut_refused=(".sqlite",),
    read_once=(".sqlite",),
    flip_every=101,
)


class TestSqlite(TableConformance):
    @pytest.fixture
    def case(self) -> FormatCase:
        return SQLITE
