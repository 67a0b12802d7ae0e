"""The fast path against the reference path, which specifies it: the same blobs, or no result."""

from __future__ import annotations

import errno
import gc
import gzip
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dataformats
from dataformats.batch.value_slices import SplitBlobs, ValueSlice, join_blobs
from dataformats.errors import FormatError
from dataformats.interfaces import Extents, KernelCheck, Located
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import FrameCheck, buffers, crc32c, lay_out, mask, read_laid, reads_batches
from dataformats.storage import descriptors, threads
from dataformats.storage import reference_read as reading
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.files import LocalFile
from dataformats.storage.native import fast_read
from dataformats.storage.native.file_set import FileSet
from dataformats.storage.shared_memory_file import CachedFile, MappedFile
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

pytestmark = pytest.mark.skipif(not reads_batches(), reason="without compiled kernels there is only the reference path")

WAYS: dict[str, tuple[Callable[[Path], StoredFile], str]] = {
    "auto": (LocalFile, "auto"),
    "uring": (LocalFile, "uring"),
    "libaio": (LocalFile, "libaio"),
    "threads": (LocalFile, "threads"),
    "memory": (lambda path: CachedFile(LocalFile(path)), "auto"),
    "mmap": (lambda path: MappedFile(LocalFile(path)), "mmap"),
}
SIZES = [0, 1, 7, 300, 4096, 5000, 16_383, 16_384, 40_000, 300_000]


def noise(n: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(n)


def written(folder: Path, contents: list[bytes], way: str) -> FileSet:
    make, io = WAYS[way]
    found = []
    for number, content in enumerate(contents):
        path = folder / f"{number}"
        path.write_bytes(content)
        found.append(make(path))
    return FileSet(found, io)


def extents(rows: list[tuple[int, int, int]], **more: Any) -> Extents:
    file, offset, length = ([row[column] for row in rows] for column in range(3))
    return Extents(np.array(file, np.int32), np.array(offset, np.int64), np.array(length, np.int64), **more)


def gathered(files: FileSet, *requests: Extents, window: ValueSlice | None = None) -> list[list[bytes]] | None:
    found = read(files, requests, windows=[window] * len(requests))
    return None if found is None else [list(join_blobs(blobs)) for blobs in found]


def read(files: FileSet, requests: Sequence[Extents], limit: int = 2**31, windows: Any = ()) -> list[Any] | None:
    located = {str(number): Located(request) for number, request in enumerate(requests)}
    stored = fast_read.read(files, located, limit, windows)
    return None if stored is None else [blobs for blobs, _ in stored.values()]


def draw_window(data: Any) -> ValueSlice | None:
    windows = st.builds(ValueSlice, st.integers(-5000, 5000), st.sampled_from([1, 8, 300, 4096]))
    window: ValueSlice | None = data.draw(st.none() | windows)
    return window


def cut(blob: bytes, window: ValueSlice) -> bytes | None:
    """Return the bytes of the window, or `None` if the blob is too short for it."""
    begin = window.begin + (len(blob) if window.begin < 0 else 0)
    return blob[begin : begin + window.n_bytes] if 0 <= begin <= len(blob) - window.n_bytes else None


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=share(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_blobs_are_slices(way: str, data: Any, tmp_path: Path) -> None:
    sizes = data.draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=4))
    contents = [noise(size, i) for i, size in enumerate(sizes)]
    files = written(tmp_path, contents, way)
    head, tail = data.draw(st.sampled_from([(0, 0), (12, 4), (8, 0), (64, 64)]))
    requests = []
    for _ in range(data.draw(st.integers(1, 3))):
        rows = []
        for number in data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=40)):
            if sizes[number] >= head + tail:
                offset = data.draw(st.integers(head, sizes[number] - tail))
                rows.append((number, offset, data.draw(st.integers(0, sizes[number] - tail - offset))))
        requests.append(extents(rows, head=head, tail=tail))
    windows = [draw_window(data) for _ in requests]
    found = read(files, requests, 2**31, windows)
    assert found is not None
    for request, window, blobs_read in zip(requests, windows, found, strict=True):
        blobs = join_blobs(blobs_read)
        where = zip(request.file.tolist(), request.offset.tolist(), request.length.tolist(), strict=True)
        assert list(blobs) == [contents[number][offset : offset + length] for number, offset, length in where]
        values, offsets = blobs.contiguous()
        assert values.tobytes() == b"".join(blobs)
        if isinstance(blobs_read, SplitBlobs):
            assert window == blobs_read.value_slice
            parts = [cut(blob, blobs_read.value_slice) for blob in blobs]
            assert all(part in (None, row.tobytes()) for part, row in zip(parts, blobs_read.rows, strict=True))
        assert offsets.tolist() == [0, *np.cumsum(request.length).tolist()]
        assert values.flags.writeable


NEIGHBORS = [(0, number * 100, 100) for number in range(200)]
"""Short blobs with nothing between, in more than one run."""


@loop_over(
    "rows",
    [
        NEIGHBORS,
        NEIGHBORS[::-1],
        [row for pair in zip(NEIGHBORS[1::2], NEIGHBORS[::2], strict=True) for row in pair],
        [row for number, row in enumerate(NEIGHBORS) for row in [row, (number % 2, 50, 0)]],
        [row for row in NEIGHBORS for row in [row, (1, *row[1:])]],
        [(0, start, length) for _, start, _ in NEIGHBORS for start, length in [(start, 60), (start + 60, 40)]],
        [row for row in NEIGHBORS if row[1] % 700],
        NEIGHBORS[:20] + NEIGHBORS[:20] + NEIGHBORS[10:30],
    ],
)
@loop_over("way", WAYS)
def test_short_neighbors_are_slices(way: str, rows: list[tuple[int, int, int]], tmp_path: Path) -> None:
    contents = [noise(20_000, 1), noise(20_000, 2)]
    files = written(tmp_path, contents, way)
    blobs = [contents[file][offset : offset + length] for file, offset, length in rows]
    sums = np.array([zlib.crc32(blob) for blob in blobs], np.uint32)
    checked = extents(rows, check=Checked(FrameCheck.CRC32), stored=sums)
    for requests in ([extents(rows)], [checked], [checked, extents(rows[::-1])]):
        assert gathered(files, *requests) == [blobs, blobs[::-1]][: len(requests)]
    for row in (0, len(rows) // 2, len(rows) - 1):
        wrong = sums.copy()
        wrong[row] ^= 1
        assert gathered(files, replace(checked, stored=wrong)) is None


class Checked(KernelCheck):
    """A check by the kernel alone: the reference path is not used here."""

    def __init__(self, kernel: FrameCheck) -> None:
        self.kernel = kernel

    def __call__(self, frames: Any, extents: Extents) -> dict[int, FormatError]:
        raise AssertionError("the kernel verifies these")


def tfrecord(blob: bytes) -> bytes:
    head = struct.pack("<Q", len(blob))
    return head + struct.pack("<I", mask(crc32c(head))) + blob + struct.pack("<I", mask(crc32c(blob)))


FRAMES: dict[FrameCheck, tuple[int, int, Callable[[bytes], bytes], Callable[[bytes], int] | None]] = {
    FrameCheck.CRC32: (0, 0, lambda blob: blob, zlib.crc32),
    FrameCheck.LENGTH: (8, 0, lambda blob: struct.pack("<q", len(blob)) + blob, None),
    FrameCheck.TFRECORD: (12, 4, tfrecord, lambda blob: mask(crc32c(blob))),
}


def framed(check: FrameCheck, blobs: list[bytes]) -> tuple[bytes, Extents]:
    head, tail, frame, checksum = FRAMES[check]
    at, rows, content = 0, [], b""
    for blob in blobs:
        rows.append((0, at + head, len(blob)))
        content += frame(blob)
        at = len(content)
    stored = None if checksum is None else np.array([checksum(blob) for blob in blobs], np.uint32)
    return content, extents(rows, head=head, tail=tail, stored=stored, check=Checked(check))


@loop_over("way", WAYS)
def test_indexed_checksums_count(way: str, tmp_path: Path) -> None:
    content, request = framed(FrameCheck.TFRECORD, [noise(50), noise(60)])
    assert request.stored is not None
    request.stored[1] ^= 1
    assert gathered(written(tmp_path, [content], way), request) is None


OUTSIDE = [(0, 101), (100, 1), (101, 0), (-1, 1), (0, -1), (2**63 - 1, 0), (2**63 - 1, 2**63 - 1), (0, 2**63 - 1)]
OUTSIDE += [(-(2**63), 2**63 - 1), (50, -(2**63)), (1, 2**62)]


@loop_over("way", ["auto", "memory"])
@loop_over("offset, length", OUTSIDE)
def test_outside(way: str, offset: int, length: int, tmp_path: Path) -> None:
    """An extent alone, unchecked, causes no read and no allocation."""
    files = written(tmp_path, [noise(100)], way)
    assert gathered(files, extents([(0, 20, 30), (0, offset, length)])) is None
    assert gathered(files, extents([(0, 0, 10), (1, 0, 10)])) is None
    assert gathered(files, extents([(0, 0, 10), (-1, 0, 10)])) is None
    assert read(files, [extents([(0, 0, 10)])], 9) is None


def compressed(folder: Path, contents: list[bytes]) -> FileSet:
    """Files of these decompressed contents, alternately in GZIP and ZLIB; as with an index, their sizes are known."""
    files = []
    for number, content in enumerate(contents):
        kind = ("gzip", "zlib")[number % 2]
        path = folder / f"{number}.{kind}"
        path.write_bytes(gzip.compress(content, 1) if kind == "gzip" else zlib.compress(content, 1))
        files.append(DecompressedFile(LocalFile(path), kind))
        files[-1].known_size(len(content), None, "")
    return FileSet(files)


@settings(max_examples=share(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_compressed_blobs_are_slices(data: Any, tmp_path: Path) -> None:
    sizes = data.draw(st.lists(st.sampled_from(SIZES[2:]), min_size=1, max_size=3))
    contents = [noise(size // 2, i) + bytes(size - size // 2) for i, size in enumerate(sizes)]
    rows = []
    for number in data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=20)):
        offset = data.draw(st.integers(0, sizes[number]))
        rows.append((number, offset, data.draw(st.integers(0, sizes[number] - offset))))
    found = gathered(compressed(tmp_path, contents), extents(rows), window=draw_window(data))
    assert found in (None, [[contents[number][offset : offset + length] for number, offset, length in rows]])


@pytest.mark.parametrize("n_files", [1, 3])
def test_neighbors_in_compressed_files_take_the_fast_path(n_files: int, tmp_path: Path) -> None:
    blobs = [noise(size) for size in (50, 0, 3000, 7)]
    content, one = framed(FrameCheck.TFRECORD, blobs)
    assert one.stored is not None
    request = replace(
        one,
        file=np.repeat(np.arange(n_files, dtype=np.int32), len(blobs)),
        offset=np.tile(one.offset, n_files),
        length=np.tile(one.length, n_files),
        stored=np.tile(one.stored, n_files),
    )
    assert gathered(compressed(tmp_path, [content] * n_files), request) == [blobs * n_files]
    damaged = content[:100] + bytes([content[100] ^ 1]) + content[101:]
    assert gathered(compressed(tmp_path, [*[content] * (n_files - 1), damaged]), request) is None


@loop_over("offset, length", OUTSIDE)
def test_outside_compressed_files(offset: int, length: int, tmp_path: Path) -> None:
    files = compressed(tmp_path, [noise(100)])
    assert gathered(files, extents([(0, 20, 30), (0, offset, length)])) is None
    for file in (-1, 1):
        assert gathered(files, extents([(0, 0, 10), (file, 0, 10)])) is None
    assert read(files, [extents([(0, 0, 10)])], 9) is None
    assert read(files, [extents([(0, 0, 1), (0, 99, 1)])]) is None  # far apart
    assert read(files, [extents([(0, 0, 10)]), extents([(0, 0, 10)])]) is None
    files[0].known_size(200, None, "")  # type: ignore[attr-defined]
    assert gathered(files, extents([(0, 50, 100)])) is None


def test_fallback_to_the_reference_path(tmp_path: Path) -> None:
    files = written(tmp_path, [noise(100)], "auto")
    assert gathered(files, extents([(0, 0, 10)], problems={0: FormatError("known")})) is None
    assert gathered(files, extents([(0, 0, 10)], check=lambda frames, extents: {})) is None
    assert gathered(files, extents([(0, 70, 10)], head=65)) is None


@loop_over("way", ["auto", "uring", "libaio", "threads"])
@loop_over("change", ["cut", "grow", "touch", "replace", "delete"])
def test_changed_files(change: str, way: str, tmp_path: Path) -> None:
    files = written(tmp_path, [noise(100_000)], way)
    request = extents([(0, 10, 30), (0, 50_000, 20_000), (0, 99_000, 1000)])
    assert gathered(files, request) is not None
    path = tmp_path / "0"
    if change == "cut":
        os.truncate(path, 99_999)
    elif change == "grow":
        with path.open("ab") as file:
            file.write(b"x")
    elif change == "touch":
        os.utime(path, ns=(1, 1))
    elif change == "replace":
        (tmp_path / "new").write_bytes(noise(100_000, 1))
        os.utime(tmp_path / "new", ns=(1, 1))  # two writes within a tick of the clock have one time
        (tmp_path / "new").replace(path)
    else:
        path.unlink()
    assert gathered(files, request) is None
    with pytest.raises(FormatError, match=r"changed|shorter"):
        reading.read_blobs(files, [request], max_bytes=2**31)


def test_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some in memory, the others a few at a time."""
    monkeypatch.setattr(descriptors, "_MAX_OPEN", 10)
    contents = [noise(200, i) for i in range(50)]
    local = [*written(tmp_path, contents, "auto")]
    files = FileSet([CachedFile(file) if number % 7 == 0 else file for number, file in enumerate(local)])
    rows = [(number, number, 100) for number in np.random.default_rng(0).permutation(50).tolist()]
    requests = extents(rows), extents([(number, 0, 5) for number, _, _ in rows[:30]])
    expected = [[contents[number][number : number + 100] for number, _, _ in rows]]
    expected += [[contents[number][:5] for number, _, _ in rows[:30]]]
    gc.collect()  # garbage of other tests holds descriptors
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    assert gathered(files, *requests) == expected
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 12 + 8  # open files, and the files in memory


def test_large_arrays_are_reused_after_their_last_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_POOL", buffers._Pool())  # other users may give buffers back at any moment
    files = written(tmp_path, [noise(40 << 20)], "auto")
    request = extents([(0, 0, 10 << 20), (0, 10 << 20, 30 << 20)])

    def values() -> Any:
        found = read(files, [request])
        assert found is not None
        return join_blobs(found[0]).contiguous()[0]

    first = values()
    part = first.view(np.uint64)[5:10]
    kept = part.copy()
    address = first.ctypes.data
    del first
    second = values()
    assert second.ctypes.data != address  # a view of the first is still held
    second[:] = 0
    assert (part == kept).all()
    del part
    assert values().ctypes.data == address


def test_pool_keeps_recently_used_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool keeps up to `_KEPT` bytes, recently used sizes first; slightly smaller requests reuse them."""
    pool = buffers._Pool()
    monkeypatch.setattr(buffers, "_KEPT", 10 << 20)

    def address(n_bytes: int) -> int:
        return int(pool.take(n_bytes).ctypes.data)

    first = address(4 << 20)
    assert address(4 << 20) == first
    assert address((4 << 20) - (300 << 10)) == first
    assert address(4 << 20) == first
    held = [pool.take(4 << 20) for _ in range(3)]
    assert sum(map(len, pool._free.values())) == 0
    del held
    assert {size: len(free) for size, free in pool._free.items()} == {4 << 20: 2}
    large = address(9 << 20)
    assert {size: len(free) for size, free in pool._free.items()} == {4 << 20: 0, 9 << 20: 1}
    assert address(9 << 20) == large
    address(20 << 20)
    assert {size: len(free) for size, free in pool._free.items()} == {4 << 20: 0, 9 << 20: 1}


def test_overlapping_extents_take_the_slow_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file must not ask for as many times its size as it has records."""
    monkeypatch.setattr(fast_read, "OVERLAP_BYTES", 100_000)
    files = written(tmp_path, [noise(60_000)], "auto")
    assert gathered(files, extents([(0, 0, 60_000)] * 2)) is not None
    assert gathered(files, extents([(0, 0, 60_000)] * 3)) is None
    assert (
        list(reading.read_blobs(files, [extents([(0, 0, 60_000)] * 3)], max_bytes=2**31)[0].blobs)
        == [noise(60_000)] * 3
    )


def test_out_of_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference path opens one file at a time."""
    files = written(tmp_path, [noise(100), noise(100, 1)], "auto")

    def refuse(numbers: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files, "take", refuse)
    request = extents([(0, 0, 10), (1, 5, 10)])
    assert gathered(files, request) is None
    blobs = reading.read_blobs(files, [request], max_bytes=2**31)[0].blobs
    assert list(blobs) == [noise(100)[:10], noise(100, 1)[5:15]]


@loop_over("n_readers, n_threads", [(1, 4), (2, 2), (4, 1), (9, 1)])
def test_readers_share_the_processors(
    n_readers: int, n_threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read beside other reads wakes none of their threads."""
    monkeypatch.setattr(threads, "N_THREADS", 4)
    asked: list[int] = []

    def read_shared(laid: Any, outs: Any, fds: Any, engine: Any, helpers: Any, n: int, *more: Any) -> bool:
        asked.append(n)
        return read_laid(laid, outs, fds, engine, helpers, n, *more)

    monkeypatch.setattr(fast_read, "read_laid", read_shared)
    files = written(tmp_path, [noise(900_000)], "auto")
    request = extents([(0, at, 3000) for at in range(0, 900_000, 3000)])

    def read() -> list[list[bytes]] | None:
        threads.declare_readers(n_readers)
        return gathered(files, request)

    with ThreadPoolExecutor(1) as reader:
        assert reader.submit(read).result() == [[noise(900_000)[at : at + 3000] for at in range(0, 900_000, 3000)]]
    assert asked == [n_threads]


def test_sources_go_without_the_collector(tmp_path: Path) -> None:
    """Few objects stand for gigabytes in memory: the collector would have no reason to run."""
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", payload="bytes") as writer:
        writer.extend([noise(1000)] * 20)
    gc.disable()
    try:
        ways: list[dict[str, Any]] = [{}, {"cache": "memory"}, {"io": "mmap"}]
        for options in ways:
            source: Any = dataformats.open(path, payload="bytes", **options)
            source.read(range(20))
            held = weakref.ref(source), weakref.ref(source._blobs.files)
            del source
            assert [one() for one in held] == [None, None]
    finally:
        gc.enable()


def test_closing_gives_memory_back(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", payload="bytes") as writer:
        writer.extend([noise(1000)] * 20)
    with dataformats.open(path, payload="bytes", cache="memory") as source:
        held = weakref.ref(source._blobs.files)  # type: ignore[attr-defined]
        assert source[3] == noise(1000)
    assert held() is None
    assert source[3] == noise(1000)  # it opens again


def test_file_loaded_by_another_thread_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path, [noise(100), b"never asked for"], "memory")
    one = extents([(0, 0, 0)])  # an empty extent lies even in a file that has no bytes yet
    table = fast_read.PinnedTable(("x",), (fast_read.pin_extents(one),), (one.file,))

    def overtaken(*arguments: Any) -> Any:
        laid = lay_out(*arguments)
        files.bring_in([0])
        return laid

    monkeypatch.setattr(fast_read, "lay_out", overtaken)
    found: Any = fast_read.read(files, fast_read.PinnedRows(table, np.zeros(1, np.int64)), 2**31)
    assert list(join_blobs(found["x"][0])) == [b""]
