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
from dataformats.storage.remote.disk_blocks import DiskBlocks
from tests.storage.remote.counting_store import CountingStore
from tests.storage.remote.test_block_cache import read

DATA = np.random.default_rng(3).bytes(100_000)


def cache_in(folder: Path) -> BlockCache:
    return BlockCache(0, 1000, DiskBlocks(folder, 2**20))


def test_other_caches_find_blocks(tmp_path: Path) -> None:
    store = CountingStore()
    file = store.file("a", DATA)
    for cache in (cache_in(tmp_path), cache_in(tmp_path), pickle.loads(pickle.dumps(cache_in(tmp_path)))):
        assert read(cache, (file, 500, 5000)) == [DATA[500:5500]]
    assert store.n_requests == 1
    changed = CountingStore()
    changed.folder = store.folder
    file = changed.file("a", DATA[::-1])  # another version
    assert read(cache_in(tmp_path), (file, 500, 5000)) == [DATA[::-1][500:5500]]


def test_files_without_a_version_are_not_kept(tmp_path: Path) -> None:
    """Another file may have the same name and size."""
    file = CountingStore().file("a", DATA)
    file.is_versioned = False
    assert read(cache_in(tmp_path), (file, 500, 5000)) == [DATA[500:5500]]
    assert list(tmp_path.glob("*.block")) == []


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "gone"])
def test_damaged_blocks_are_requested_again(damage: str, tmp_path: Path) -> None:
    store = CountingStore()
    file = store.file("a", DATA)
    assert read(cache_in(tmp_path), (file, 0, 1500)) == [DATA[:1500]]
    one, two = sorted(tmp_path.glob("*.block"))
    whole = one.read_bytes()
    if damage == "gone":
        one.unlink()
    else:
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        one.write_bytes({"flip": flipped, "cut": whole[:-1], "empty": b"", "other": two.read_bytes()}[damage])
    assert read(cache_in(tmp_path), (file, 0, 1500)) == [DATA[:1500]]
    assert (store.n_requests, one.read_bytes()) == (2, whole)


def test_the_least_recently_used_files_are_deleted(tmp_path: Path) -> None:
    disk = DiskBlocks(tmp_path, 100_000)
    (tmp_path / "mine.txt").write_bytes(bytes(200_000))
    for n in range(300):
        disk.put({str(n): bytes(1000)})
        os.utime(disk._path(str(n)), ns=(n, n))
        if n % 7 == 0:
            disk.get("0")
        assert sum(path.stat().st_size for path in tmp_path.glob("*.block")) <= 100_000 + 100_000 // 16 + 1004
    assert disk.get("0") == disk.get("299") == bytes(1000)
    assert disk.get("1") is None
    assert (tmp_path / "mine.txt").stat().st_size == 200_000


def test_a_disk_without_room_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "no space left")

    file = CountingStore().file("a", DATA)
    cache = cache_in(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert read(cache, (file, 500, 5000)) == [DATA[500:5500]]
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


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
