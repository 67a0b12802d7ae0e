"""Extents of decompressed files: if all of their blocks are in memory, they are copied into one span."""

from __future__ import annotations

import ctypes
import gzip
from pathlib import Path

import numpy as np
import pytest

from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.chunked_file import ChunkedFile, ChunkTable
from dataformats.storage.compressed.memory_spans import MemorySpans, find_kept
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over

CHUNK = 100_000
DATA = np.random.default_rng(0).bytes(1_000_000)


def keep(data: bytes, size: int) -> bytes:
    return data


def opened(kind: str, path: Path) -> StoredFile:
    if kind == "gzip":
        path.write_bytes(gzip.compress(DATA))
        return DecompressedFile(LocalFile(str(path)), "gzip")
    path.write_bytes(DATA)
    sizes = np.full(len(DATA) // CHUNK, CHUNK)
    return ChunkedFile(LocalFile(str(path)), ChunkTable(np.cumsum(sizes) - sizes, sizes, sizes), keep, "none at all")


def requests_of(*rows: tuple[int, int, int]) -> list[Extents]:
    """Return extents of (file, offset, length), with frames, in two requests."""
    file, offset, length = np.array(rows, np.int64).T
    half = len(rows) // 2
    return [
        Extents(file[here].astype(np.int32), offset[here], length[here], head=3, tail=2)
        for here in (slice(half), slice(half, None))
    ]


def frames(found: MemorySpans) -> list[bytes]:
    (address,), (size,) = found.facts[0].tolist(), found.facts[1].tolist()
    span = ctypes.string_at(address, size)
    return [
        span[begin - one.head : begin + length + one.tail]
        for one in found.extents
        for begin, length in zip(one.offset.tolist(), one.length.tolist(), strict=True)
    ]


@pytest.mark.parametrize("kind", ["gzip", "chunks"])
def test_extents_of_kept_blocks_are_copied(kind: str, tmp_path: Path) -> None:
    files = [opened(kind, tmp_path / name) for name in "abc"]
    rng = np.random.default_rng(1)
    rows = [(int(rng.choice([0, 2])), int(rng.integers(3, 900_000)), int(rng.integers(0, 600))) for _ in range(200)]
    rows += [(2, 100, 900_000), (0, CHUNK - 5, 3), (0, 262_140, 10), (2, len(DATA) - 2, 0), (0, 3, 0)]
    requests = requests_of(*rows)
    assert find_kept(files, requests, 10**6) is None
    files[0].decompress(0, len(DATA))
    assert find_kept(files, requests, 10**6) is None
    files[2].decompress(0, len(DATA))
    found = find_kept(files, requests, 10**6)
    assert found is not None
    assert frames(found) == [DATA[begin - 3 : begin + length + 2] for _, begin, length in rows]


@loop_over("kind", ["gzip", "chunks"])
@loop_over(
    "row", [(0, 2, 5), (0, len(DATA) - 5, 4), (0, 10, -1), (0, 10, 2001), (1, 10, 1), (-1, 10, 1), (0, 2**62, 2**62)]
)
def test_extents_outside_are_left_to_other_reads(kind: str, row: tuple[int, int, int], tmp_path: Path) -> None:
    file = opened(kind, tmp_path / "a")
    file.decompress(0, file.size)
    assert find_kept([file], requests_of((0, 10, 5), (0, 20, 5)), 2000) is not None
    assert find_kept([file], requests_of((0, 10, 5), row), 2000) is None


def test_overlapping_extents_are_not_copied_again_and_again(tmp_path: Path) -> None:
    file = opened("chunks", tmp_path / "a")
    file.decompress(0, file.size)
    assert find_kept([file], requests_of(*[(0, 10, 900_000)] * 60), 10**6) is not None
    assert find_kept([file], requests_of(*[(0, 10, 900_000)] * 80), 10**6) is None


def test_blocks_of_an_outdated_size_are_not_used(tmp_path: Path) -> None:
    """A block that was kept when an index said that the file is shorter."""
    (tmp_path / "a").write_bytes(gzip.compress(DATA))
    file = DecompressedFile(LocalFile(str(tmp_path / "a")), "gzip")
    file.known_size(300_000, None, "")
    file.decompress(0, file.size)
    file.known_size(len(DATA), None, "")
    for row in ((0, 310_000, 5), (0, 299_990, 50)):
        assert find_kept([file], requests_of((0, 10, 5), row), 2000) is None
    assert find_kept([file], requests_of((0, 10, 5), (0, 299_900, 50)), 2000) is not None
