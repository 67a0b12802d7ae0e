"""Damaged index files: every byte is changed in turn."""

from __future__ import annotations

import pytest

import tests.indexing.test_index_cache as fast
from dataformats.indexing.block_file import (
    BrokenBlockError,
)
from dataformats.indexing.index_cache import IndexCache
from dataformats.storage.files import LocalFile
from tests.campaign import chosen
from tests.indexing.test_index_cache import COLUMNS, METADATA, raw

file = fast.file  # fixtures


def test_damaged_headers_are_ignored_and_damaged_blocks_are_broken(file: LocalFile) -> None:
    shelf = IndexCache("beside")
    shelf.save(file, "kind", COLUMNS, METADATA)
    path = raw(shelf.path(file))
    whole = path.read_bytes()
    header = 16 + int.from_bytes(whole[8:12], "little")
    for n in chosen(range(len(whole))):
        path.write_bytes(whole[:n])
        assert shelf.load(file, "kind") is None
    for bit in chosen(range(8 * len(whole))):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found = shelf.load(file, "kind")
        assert (found is None) == (bit < 8 * header)
        if found is not None:
            with pytest.raises(BrokenBlockError):
                found.rows(0, 40)
    path.write_bytes(whole + b"\0")
    assert shelf.load(file, "kind") is None
