"""Reading extents into blobs: compared with slices of the files, and out of range in every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import piece_reads as fetching
from dataformats.storage import reference_read as reading
from dataformats.storage.files import LocalFile
from dataformats.storage.reference_read import read_blobs
from dataformats.testing.loop_over import loop_over

MAX = 2**63 - 1


class Bytes(StoredFile):
    """A file in memory that counts its reads."""

    def __init__(self, data: bytes, name: str = "memory") -> None:
        self.data, self.name, self.size, self.identity = data, name, len(data), (str(len(data)),)
        self.reads: list[tuple[int, int]] = []

    def read_into(self, offset: int, out: memoryview) -> int:
        self.reads.append((offset, len(out)))
        part = self.data[offset : offset + len(out)]
        out[: len(part)] = part
        return len(part)

    def file_beside(self, name: str) -> StoredFile | None:
        return None


def noise(n: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(n)


def extents(rows: list[tuple[int, int, int]], **more: Any) -> Extents:
    file, offset, length = ([row[column] for row in rows] for column in range(3))
    return Extents(np.array(file, np.int32), np.array(offset, np.int64), np.array(length, np.int64), **more)


def read(files: list[StoredFile], request: Extents, max_bytes: int = 2**31) -> reading.Fetched:
    return read_blobs(files, [request], max_bytes=max_bytes)[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_blobs_are_slices(data: Any) -> None:
    files: list[StoredFile] = [Bytes(noise(size, i)) for i, size in enumerate(data.draw(SIZES))]
    requests = []
    for _ in range(data.draw(st.integers(1, 3))):
        rows = []
        for number in data.draw(st.lists(st.integers(0, len(files) - 1), max_size=12)):
            offset = data.draw(st.integers(0, files[number].size))
            rows.append((number, offset, data.draw(st.integers(0, min(9000, files[number].size - offset)))))
        requests.append(extents(rows))
    for request, fetched in zip(requests, read_blobs(files, requests, max_bytes=2**31), strict=True):
        assert fetched.problems == {}
        whole = [files[number].data for number in request.file]
        expected = [d[o : o + n] for d, o, n in zip(whole, request.offset, request.length, strict=True)]
        assert list(fetched.blobs) == expected


SIZES = st.lists(st.sampled_from([0, 1, 100, 4096, 20_000, 70_000]), min_size=1, max_size=4)


def test_neighbors_are_read_as_one() -> None:
    file = Bytes(noise(100_000))
    fetched = read(
        [file], extents([(0, 5000, 10), (0, 0, 100), (0, 50, 100), (0, 50, 100), (0, 160, 10), (0, 60_000, 5)])
    )
    assert file.reads == [(0, 170), (5000, 10), (60_000, 5)] or file.reads == [(0, 170), (5000, 10), (60_000, 5)]
    assert list(fetched.blobs)[1] == file.data[:100]
    file.reads.clear()
    read([file], extents([(0, 0, 10), (0, 10 + reading._GAP, 10), (0, 21 + 2 * reading._GAP, 10)]))
    assert file.reads == [(0, 20 + reading._GAP), (21 + 2 * reading._GAP, 10)]


def test_files_are_not_joined() -> None:
    files: list[StoredFile] = [Bytes(b"abc"), Bytes(b""), Bytes(b"def")]
    fetched = read(files, extents([(2, 0, 3), (0, 3, 0), (1, 0, 0), (0, 0, 3), (2, 3, 0)]))
    assert list(fetched.blobs) == [b"def", b"", b"", b"abc", b""]


def test_nothing() -> None:
    assert read_blobs([], [], max_bytes=1) == []
    assert list(read([Bytes(b"")], extents([])).blobs) == []
    assert list(read([], extents([])).blobs) == []


OUTSIDE = [(0, 101), (100, 1), (101, 0), (-1, 1), (0, -1), (MAX, 0), (MAX, MAX), (0, MAX), (-MAX - 1, 1)]
OUTSIDE += [(-MAX - 1, MAX), (50, -MAX - 1), (MAX, -MAX - 1), (-MAX - 1, -MAX - 1), (1, MAX), (100, MAX)]
OUTSIDE += [(MAX - 10, 20), (8, MAX - 7)]


@loop_over("offset, length", OUTSIDE)
@loop_over("head, tail", [(0, 0), (12, 4), (4, 0)])
def test_outside(offset: int, length: int, head: int, tail: int) -> None:
    file = Bytes(noise(100))
    request = extents([(0, 20, 30), (0, offset, length), (0, 60, 5)], head=head, tail=tail)
    fetched = read([file], request, max_bytes=MAX)
    assert list(fetched.problems) == [1]
    error = fetched.problems[1]
    assert isinstance(error, TruncatedError)
    assert (error.path, error.offset_bytes) == ("memory", offset)
    assert list(fetched.blobs) == [file.data[20:50], b"", file.data[60:65]]


def test_framing_must_be_inside() -> None:
    file = Bytes(noise(100))
    fetched = read([file], extents([(0, 12, 84), (0, 11, 1), (0, 12, 85)], head=12, tail=4))
    assert list(fetched.problems) == [1, 2]
    assert fetched.blobs[0] == file.data[12:96]


def test_too_long() -> None:
    file = Bytes(noise(100))
    fetched = read([file], extents([(0, 0, 50), (0, 0, 51), (0, 10, 1)]), max_bytes=50)
    assert list(fetched.problems) == [1]
    assert "max_record_bytes" in str(fetched.problems[1])
    assert type(fetched.problems[1]) is FormatError


def test_checks_see_frames() -> None:
    seen: list[tuple[list[bytes], list[int]]] = []

    def check(frames: Blobs, request: Extents) -> dict[int, FormatError]:
        assert request.stored is not None
        seen.append((list(frames), request.stored.tolist()))
        return {1: ChecksumError("data", stored=1, computed=2)}

    files: list[StoredFile] = [Bytes(noise(50), "a"), Bytes(noise(50, 1), "b")]
    stored = np.array([7, 8, 9, 10], np.uint32)
    known = {0: FormatError("known", path="a")}
    request = extents(
        [(0, 5, 5), (0, 5, 5), (1, 48, 9), (1, 9, 3)], head=2, tail=1, stored=stored, check=check, problems=known
    )
    fetched = read(files, request)
    assert seen == [([files[0].data[3:11], files[1].data[7:13]], [8, 10])]  # type: ignore[attr-defined]
    assert sorted(fetched.problems) == [0, 2, 3]
    assert fetched.problems[0] is known[0]
    assert fetched.problems[3].path == "b"
    assert fetched.blobs[1] == files[0].data[5:10]  # type: ignore[attr-defined]


def test_buffers_are_not_written_to() -> None:
    fetched = read([Bytes(b"abc")], extents([(0, 0, 3)]))
    with pytest.raises(ValueError, match="read-only"):
        fetched.blobs.buffer[0] = 1


def test_many_pieces(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(noise(3_000_000))
    file, whole = LocalFile(path), path.read_bytes()
    rows = [(0, offset, 200) for offset in range(0, 2_999_000, 5000)]
    fetched = read([file], extents(rows[::-1]))
    assert list(fetched.blobs) == [whole[offset : offset + 200] for _, offset, _ in rows[::-1]]


def test_large_pieces_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_SPLIT_BYTES", 1000)
    monkeypatch.setattr(fetching, "_INLINE_BYTES", 0)
    path = tmp_path / "data"
    path.write_bytes(noise(123_457))
    assert read([LocalFile(path)], extents([(0, 3, 123_450)])).blobs[0] == path.read_bytes()[3:-4]


def test_short_reads_are_errors() -> None:
    file = Bytes(noise(100))
    file.size = 200  # simulates a file that shrank
    with pytest.raises(TruncatedError, match="memory"):
        read([file], extents([(0, 90, 20)]))
