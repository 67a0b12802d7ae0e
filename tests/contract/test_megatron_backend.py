"""The backend of examples/megatron_backend.py: pairs of files with one fixed field, as another package would add it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.spec import Type
from dataformats.testing import BackendConformance, FormatCase
from dataformats.testing.records import KINDS
from tests.examples import needs_examples, register_examples

pytestmark = needs_examples
registered = register_examples("megatron_backend")


CASE = FormatCase(
    "megatron",
    "megatron",
    ".bin",
    setup="megatron_backend:register",
    payload=None,
    spec={"tokens": "int32[]"},
    beside=(".idx",),
    refuses=frozenset(KINDS),
    verifies_records=False,
    fingerprints_records=False,
    cut_refused=(".idx",),
    read_once=(".idx",),
)


class TestMegatron(BackendConformance):
    @pytest.fixture
    def case(self) -> FormatCase:
        return CASE


def test_the_bytes_of_the_format(tmp_path: Path) -> None:
    """A pair as Megatron-LM lays it out: documents of several sequences, in any order."""
    (tmp_path / "a.bin").write_bytes(np.array([1, 2, 3, 4, 5, 6], "<u2").tobytes())
    tables = np.array([2, 1, 3], "<i4").tobytes() + np.array([0, 4, 6], "<i8").tobytes()
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 3, 3)
    (tmp_path / "a.idx").write_bytes(header + tables + np.array([0, 2, 3], "<i8").tobytes())
    src = dataformats.open(tmp_path / "a.bin")
    assert (src.format, dict(src.spec)) == ("megatron", {"tokens": Type("uint16", dims=(None,))})
    assert [record["tokens"].tolist() for record in src] == [[1, 2], [3], [4, 5, 6]]
    dataformats.convert(src, tmp_path / "b.bin", "megatron")
    assert (tmp_path / "b.idx").read_bytes()[:34] == header[:26] + struct.pack("<Q", 4)
