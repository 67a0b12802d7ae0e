"""Damaged Syrah files: every bit flipped, every cut."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.backends.syrah import BACKEND
from dataformats.errors import (
    CodecError,
    DataFormatsError,
    FormatError,
)
from dataformats.storage.files import LocalFile
from tests.backends.test_syrah import DTYPES, ITEMS, left_behind, open_file, plain_file, resumed


def test_cut_at_every_byte(tmp_path: Path) -> None:
    data, path = plain_file(DTYPES, ITEMS), tmp_path / "a.syr"
    for stop in range(len(data)):
        path.write_bytes(data[:stop])
        with pytest.raises(FormatError):
            open_file(path)
        if stop:
            BACKEND.sniff(LocalFile(path))


def test_every_bit_flipped(tmp_path: Path) -> None:
    data, path = plain_file(DTYPES, ITEMS), tmp_path / "a.syr"
    tracemalloc.start()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        BACKEND.sniff(LocalFile(path))
        try:
            src = dataformats.open(path)
        except DataFormatsError:
            continue
        assert len(src) == 3
        for i in range(3):
            try:
                src[i]
            except DataFormatsError as error:
                assert isinstance(error, FormatError | CodecError), error  # noqa: PT017  # several may come
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * 2**20


def test_resuming_what_was_torn(tmp_path: Path) -> None:
    path, journal = left_behind(tmp_path)
    data, entries = path.read_bytes(), journal.read_bytes()
    for stop in range(len(data)):
        path.write_bytes(data[:stop])
        journal.write_bytes(entries)
        ends = 22 + np.cumsum([8 + i for i in range(6)])
        assert resumed(path) == int((ends <= stop).sum())
    path.write_bytes(data)
    journal.write_bytes(entries[:-1])
    assert resumed(path) == 5
