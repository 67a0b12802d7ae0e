"""Pieces of decompressed files: those that lie in one block in memory are copied, the others are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.chunked_file import ChunkedFile, ChunkTable
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.files import LocalFile
from dataformats.storage.piece_reads import Piece, fetch

CHUNK = 1000


def keep(data: bytes, size: int) -> bytes:
    return data


def opened(kind: str, path: Path, data: bytes) -> StoredFile:
    if kind == "gzip":
        path.write_bytes(gzip.compress(data))
        return DecompressedFile(LocalFile(str(path)), "gzip")
    path.write_bytes(data)
    sizes = np.full(len(data) // CHUNK, CHUNK)
    return ChunkedFile(LocalFile(str(path)), ChunkTable(np.cumsum(sizes) - sizes, sizes, sizes), keep, "none at all")


@pytest.mark.parametrize("kind", ["gzip", "chunks"])
def test_pieces_in_memory_are_copied(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    data = random.bytes(1_000_000)
    file = opened(kind, tmp_path / "x", data)
    file.decompress(0, file.size)
    read, real = list[int](), type(file).read_into

    def read_into(file: StoredFile, offset: int, out: memoryview) -> int:
        read.append(offset)
        return real(file, offset, out)

    monkeypatch.setattr(type(file), "read_into", read_into)
    lengths = random.integers(0, 600, 200)
    offsets = random.integers(0, len(data) - lengths)
    offsets[-1], lengths[-1] = 262_100, 100  # in two blocks
    places = np.cumsum(lengths) - lengths
    buffer = bytearray(int(lengths.sum()))
    rows = zip(offsets.tolist(), places.tolist(), lengths.tolist(), strict=True)
    fetch([Piece(file, *row) for row in rows], memoryview(buffer))
    assert bytes(buffer) == b"".join(
        data[at : at + n] for at, n in zip(offsets.tolist(), lengths.tolist(), strict=True)
    )
    block = CHUNK if kind == "chunks" else 256 * 1024
    crosses = offsets // block != (offsets + lengths - 1) // block
    assert sorted(read) == sorted(offsets[crosses & (lengths > 0)].tolist())
