"""Blocks on the local disk: shared by processes, bounded, and a damaged one is read again."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.storage.remote.disk_blocks import FILE_BYTES, PAGE_BYTES, DiskBlocks
from dataformats.testing.loop_over import loop_over
from tests.storage.remote.counting_store import CountingStore
from tests.storage.remote.test_block_cache import read

BLOCK = 4 * PAGE_BYTES
DATA = np.random.default_rng(3).bytes(100_000)


def cache_of(store: CountingStore, folder: Path, data: bytes = DATA) -> tuple[BlockCache, Any]:
    """Return a cache with no memory, and a file whose blocks are kept in a folder."""
    file = store.file("a", data)
    file.disk = DiskBlocks(folder, 2**22)
    return BlockCache(0, BLOCK), file


def test_other_caches_find_blocks(tmp_path: Path) -> None:
    store = CountingStore()
    _, file = cache_of(store, tmp_path)
    for _ in range(2):
        assert read(BlockCache(0, BLOCK), (file, 500, 50_000)) == [DATA[500:50_500]]
        file.disk = pickle.loads(pickle.dumps(file.disk))
    for block_bytes in (PAGE_BYTES, 2 * BLOCK):  # of another size
        assert read(BlockCache(0, block_bytes), (file, 500, 50_000)) == [DATA[500:50_500]]
    assert store.n_requests == 1
    changed = CountingStore()
    changed.folder = store.folder
    cache, file = cache_of(changed, tmp_path, DATA[::-1])  # another version
    assert read(cache, (file, 500, 50_000)) == [DATA[::-1][500:50_500]]
    assert changed.n_requests == 1


@loop_over("block_bytes", [PAGE_BYTES, BLOCK, FILE_BYTES, 1000])
def test_values(block_bytes: int, tmp_path: Path) -> None:
    """Any reads in any order, across the ends of files on the disk and of the remote one."""
    data = np.random.default_rng(4).bytes(2 * FILE_BYTES + 12_345)
    store, random = CountingStore(), np.random.default_rng(5)
    _, file = cache_of(store, tmp_path, data)
    n_requests = []
    for _ in range(2):
        for cache in (BlockCache(0, block_bytes), BlockCache(2**20, block_bytes)):
            for _ in range(20):
                starts = random.integers(0, len(data), 5)
                rows = [(file, int(at), int(random.integers(1, min(300_000, len(data) - at) + 1))) for at in starts]
                assert read(cache, *rows) == [data[at : at + n] for _, at, n in rows]
        read(BlockCache(0, block_bytes), (file, 0, len(data)))
        n_requests.append(store.n_requests)
    assert block_bytes == 1000 or n_requests[0] == n_requests[1]


def test_files_without_a_version_are_not_kept(tmp_path: Path) -> None:
    """Another file may have the same name and size."""
    cache, file = cache_of(CountingStore(), tmp_path)
    file.is_versioned = False
    assert read(cache, (file, 500, 5000)) == [DATA[500:5500]]
    assert list(tmp_path.glob("*.block")) == []


@loop_over("damage", ["flip", "cut", "empty", "other", "shift", "gone"])
def test_damaged_blocks_are_requested_again(damage: str, tmp_path: Path) -> None:
    data = np.random.default_rng(4).bytes(2 * FILE_BYTES)
    store = CountingStore()
    cache, file = cache_of(store, tmp_path, data)
    begin = FILE_BYTES - 2 * BLOCK
    expected = [data[begin : begin + 4 * BLOCK]]
    assert read(cache, (file, begin, 4 * BLOCK)) == expected
    one, two = sorted(tmp_path.glob("*.block"))
    whole, other = one.read_bytes(), two.read_bytes()
    sums = FILE_BYTES + 4 * next(at for at in range(FILE_BYTES // PAGE_BYTES) if any(whole[FILE_BYTES + 4 * at :][:4]))
    place = PAGE_BYTES * (sums - FILE_BYTES) // 4
    if damage == "gone":
        one.unlink()
    else:
        flipped = bytearray(whole)
        flipped[place + 5] ^= 1
        shifted = bytearray(whole)
        shifted[place : place + 2 * PAGE_BYTES] = whole[place + PAGE_BYTES :][:PAGE_BYTES] + whole[place:][:PAGE_BYTES]
        cases: dict[str, bytes] = {
            "flip": bytes(flipped),
            "cut": whole[:sums],
            "empty": b"",
            "other": other,
            "shift": bytes(shifted),
        }
        one.write_bytes(cases[damage])
    n_requests = store.n_requests
    for _ in range(2):
        assert read(cache, (file, begin, 4 * BLOCK)) == expected
        assert store.n_requests == n_requests + 1
    assert damage == "other" or one.read_bytes() == whole


def test_a_page_of_another_file_is_missing(tmp_path: Path) -> None:
    disk = DiskBlocks(tmp_path, 2**30)
    for name in ("a", "b"):
        disk.put([name], 0, name.encode() * PAGE_BYTES)
    one, two = tmp_path.glob("*.block")
    one.write_bytes(two.read_bytes())
    (found_a,), (found_b,) = (disk.get([name], PAGE_BYTES, [(0, 9)]) for name in ("a", "b"))
    assert (found_a, found_b) in ((b"a" * 9, None), (None, b"b" * 9))


def test_the_least_recently_used_files_are_deleted(tmp_path: Path) -> None:
    disk = DiskBlocks(tmp_path, 40 * 2**20)
    (tmp_path / "mine.txt").write_bytes(bytes(2**20))
    page = bytes(PAGE_BYTES)
    for n in range(120):
        disk.put([str(n)], 0, bytes(FILE_BYTES // 2))
        os.utime(disk._path(f"{n}\n0"), ns=(n, n))
        if n % 7 == 0:
            disk.get(["0"], FILE_BYTES, [(0, 1)])
        held = sum(path.stat().st_blocks * 512 for path in tmp_path.glob("*.block"))
        assert held <= (40 + 40 / 16 + 1) * 2**20
    for n in (0, 119):
        assert disk.get([str(n)], FILE_BYTES, [(1, PAGE_BYTES)]) == [page]
    assert disk.get(["1"], FILE_BYTES, [(0, 1)]) == [None]
    assert (tmp_path / "mine.txt").stat().st_size == 2**20


def test_a_disk_without_room_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "no space left")

    cache, file = cache_of(CountingStore(), tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        assert read(cache, (file, 500, 5000)) == [DATA[500:5500]]
    with monkeypatch.context() as patched:
        whole = os.pwrite
        patched.setattr(os, "pwrite", lambda descriptor, data, at: whole(descriptor, data[:-1], at))
        assert read(cache, (file, 500, 5000)) == [DATA[500:5500]]
    assert file.disk.get(file.cache_key, file.size, [(0, BLOCK)]) == [None]
    assert read(cache, (file, 500, 5000)) == [DATA[500:5500]]
    assert file.disk.get(file.cache_key, file.size, [(0, BLOCK)]) == [DATA[:BLOCK]]


def test_open(tmp_path: Path) -> None:
    url = "memory://disk-blocks/x.tfrecord"
    with dataformats.create(url, overwrite=True) as writer:
        writer.extend([b"one", b"two"])
    source = dataformats.open(url, cache=f"disk:{tmp_path / 'blocks'}")
    assert list(pickle.loads(pickle.dumps(source))) == [b"one", b"two"]
    assert source.read_bytes([1, 0]) == [b"two", b"one"]
    assert len(list((tmp_path / "blocks").glob("*.block"))) == 1
    for cache, n_bytes in (("disk:", 2**30), (f"disk:{tmp_path}", 100)):
        with pytest.raises(ValueError, match="at least 1 MiB"):
            dataformats.open(url, cache=cache, cache_bytes=n_bytes)
    with pytest.raises(ValueError, match="behind URLs"):
        dataformats.open("tests/golden/real/photos.tfrecord", cache=f"disk:{tmp_path}")
