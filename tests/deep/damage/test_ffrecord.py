"""Damaged FFRecord files of the old version, and unfinished ones; the conformance suite damages all others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dataformats.backends.ffrecord import BACKEND
from dataformats.errors import FormatError
from dataformats.storage.files import LocalFile
from tests.backends.test_ffrecord import SMALL, left, plain_file, read_path, resumed
from tests.campaign import chosen


def damaged_reads(path: Path, data: bytes) -> Iterator[tuple[int, bytes | FormatError]]:
    path.write_bytes(data)
    try:
        yield from enumerate(read_path(path))
    except FormatError:
        return


def test_every_bit_of_an_old_version_flipped(tmp_path: Path) -> None:
    data = bytes(4) + plain_file(SMALL)[4:]  # its header has no checksum
    for bit in chosen(range(8 * len(data))):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        for i, blob in damaged_reads(tmp_path / "a.ffr", bytes(flipped)):
            assert isinstance(blob, FormatError) or blob == SMALL[i]
        BACKEND.sniff(LocalFile(tmp_path / "a.ffr"))


@pytest.mark.parametrize("records", [None, 5])
def test_cut_data_give_the_sound_prefix(tmp_path: Path, records: int | None) -> None:
    path = tmp_path / "a.ffr"
    left(path, records=records)
    data, journal = path.read_bytes(), (tmp_path / "a.ffr.journal").read_bytes()
    base = len(data) - sum(map(len, SMALL))
    ends = np.cumsum([len(blob) for blob in SMALL]) + base
    for stop in chosen(range(len(data) + 1)):
        path.write_bytes(data[:stop])
        (tmp_path / "a.ffr.journal").write_bytes(journal)
        assert resumed(path, records=records) == int(np.searchsorted(ends, stop, side="right"))


def test_flipped_bits_never_survive_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "a.ffr"
    left(path)
    data, journal = path.read_bytes(), (tmp_path / "a.ffr.journal").read_bytes()
    for bit in chosen(range(8 * len(data))):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        (tmp_path / "a.ffr.journal").write_bytes(journal)
        assert resumed(path) < len(SMALL)
