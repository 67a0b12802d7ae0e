"""Reads in order of compressed files: equal to random access, in threads, at jumps, damage, and the limits."""

import gzip
import random
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dataformats.storage.compressed import ordered_stream
from dataformats.storage.compressed.decompressor import fast_library
from dataformats.storage.compressed.ordered_stream import OrderedStream
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.files import LocalFile

COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zlib": zlib.compress}
KINDS = sorted(COMPRESS)
DATA = b"".join(random.Random(0).randbytes(100) + bytes(150) for _ in range(20_000))
STEP = 300_001


def opened(folder: Path, compressed: bytes, kind: str, name: str = "x") -> DecompressedFile:
    path = folder / name
    path.write_bytes(compressed)
    return DecompressedFile(LocalFile(path), kind)


def read(file: DecompressedFile, offset: int, n: int) -> bytes:
    out = bytearray(n)
    return bytes(out[: file.read_in_order(offset, memoryview(out))])


def ranges(n: int = STEP) -> list[tuple[int, int]]:
    return [(begin, min(n, len(DATA) - begin)) for begin in range(0, len(DATA), n)]


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The offset and length of each read that a stream could serve."""
    found: list[tuple[int, int]] = []
    original = OrderedStream.read_into

    def read_into(self: OrderedStream, offset: int, out: memoryview) -> bool:
        served = original(self, offset, out)
        if served:
            found.append((offset, len(out)))
        return served

    monkeypatch.setattr(OrderedStream, "read_into", read_into)
    return found


HAS_ISAL = hasattr(fast_library("isal.igzip"), "_IGzipReader")
needs_isal = pytest.mark.skipif(not HAS_ISAL, reason="ISA-L is not installed")


@pytest.mark.parametrize("kind", KINDS)
def test_two_epochs_in_order(tmp_path: Path, kind: str, streamed: list[tuple[int, int]]) -> None:
    file = opened(tmp_path, COMPRESS[kind](DATA), kind)
    for _ in range(2):
        assert b"".join(read(file, *each) for each in ranges()) == DATA
    if HAS_ISAL:
        assert streamed == 2 * ranges()
    file.release()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_take_turns(tmp_path: Path, kind: str, streamed: list[tuple[int, int]]) -> None:
    file = opened(tmp_path, COMPRESS[kind](DATA), kind)
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda each: read(file, *each), ranges(50_000)))
    assert b"".join(parts) == DATA
    file.release()


@needs_isal
def test_members_follow_each_other(tmp_path: Path, streamed: list[tuple[int, int]]) -> None:
    half = len(DATA) // 2
    file = opened(tmp_path, gzip.compress(DATA[:half]) + gzip.compress(DATA[half:]) + bytes(9), "gzip")
    assert b"".join(read(file, *each) for each in ranges()) == DATA
    assert streamed == ranges()


@needs_isal
def test_old_bytes_come_from_random_access(tmp_path: Path, streamed: list[tuple[int, int]]) -> None:
    file = opened(tmp_path, gzip.compress(DATA), "gzip")
    for each in ranges(50_000):
        read(file, *each)
    streamed.clear()
    assert read(file, 70_000, 1_000) == DATA[70_000:71_000]
    assert streamed == []


@needs_isal
def test_jump_beyond_limit(tmp_path: Path, streamed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_stream, "_LONGEST_JUMP", 1_000_000)
    file = opened(tmp_path, gzip.compress(DATA), "gzip")
    places = [0, 500_000, 1_400_000, 3_500_000]
    assert [read(file, place, 10) for place in places] == [DATA[place : place + 10] for place in places]
    assert [offset for offset, _ in streamed] == places[:3]


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_file_reads_like_random_access(tmp_path: Path, kind: str) -> None:
    compressed = COMPRESS[kind](DATA)
    file = opened(tmp_path, compressed[: len(compressed) // 2], kind)
    size = file.size
    assert 0 < size < len(DATA)
    assert b"".join(read(file, begin, min(STEP, size - begin)) for begin in range(0, size, STEP)) == DATA[:size]


def test_unknown_flags_are_left_to_reference(tmp_path: Path, streamed: list[tuple[int, int]]) -> None:
    compressed = bytearray(gzip.compress(DATA))
    compressed[3] |= 0x80
    path = tmp_path / "x"
    path.write_bytes(compressed)
    stream = OrderedStream(LocalFile(path), "gzip", len(DATA))
    assert not stream.read_into(0, memoryview(bytearray(10)))


def test_few_files_keep_streams(tmp_path: Path) -> None:
    files = [opened(tmp_path, gzip.compress(DATA[:1000]), "gzip", str(number)) for number in range(6)]
    for file in files:
        assert read(file, 0, 1000) == DATA[:1000]
    assert [file._stream is not None for file in files] == [False, False, True, True, True, True]


@needs_isal
def test_helper_pauses_ahead_of_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_stream, "_BLOCK", 2**16)
    monkeypatch.setattr(ordered_stream, "_AHEAD", 2**18)
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(DATA))
    stream, out = OrderedStream(LocalFile(path), "gzip", len(DATA)), memoryview(bytearray(1000))
    assert stream.read_into(0, out)
    assert stream._end < 2**18
    assert stream.read_into(1000, out)
    with stream._changed:
        assert stream._changed.wait_for(lambda: not stream._has_helper and stream._end >= 2000 + 2**18, 10) or (
            stream._end >= 2000 + 2**18
        )
        assert stream._end <= 2000 + 2**18 + 2**16
