"""Pages of remote files in a folder of the local disk or of shared memory, which processes share."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dataformats.columns.numbers import offsets_of
from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.file_lock import NO_LINK, FileLock
from dataformats.storage.holes import free_ranges

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PAGE_BYTES = 4 * 2**10
"""A part of a file on the disk that has a checksum, and is there or missing."""
FILE_BYTES = 2**20
"""The bytes of a remote file that one file on the disk has room for."""

_SUFFIX = ".block"
_N_PAGES = FILE_BYTES // PAGE_BYTES
_SUM_BYTES = 4
_CHECKED_BYTES = 2**18  # whose checksums are computed at once
_STARTS = np.arange(0, FILE_BYTES, PAGE_BYTES)
_SEEDS = np.arange(_N_PAGES, dtype=np.uint32) * np.uint32(0x9E3779B1)
_MAX_FILES = 2**31  # files of one number wait for each other


class PageUses(NamedTuple):
    """When pages of files on the disk are used next: ranges of pages, which cover each file.

    Attributes:
        rows: int64[n], the row of the file, ascending.
        begins: int64[n], its first page.
        ends: int64[n], the page behind its last one.
        uses: float64[n], when they are used next: a smaller number is sooner, `inf` is unknown.
    """

    rows: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    uses: NDArray[np.float64]


class _StoredPart(NamedTuple):
    """Some pages of a file on the disk as they were read, and where the wanted bytes lie in them."""

    number: int
    skipped: int
    length: int
    pages: bytes
    sums: NDArray[np.uint32]
    seeds: NDArray[np.uint32]


class NextUse(Protocol):
    """Says when parts of remote files are read next, as a loader knows from its plan. Thread-safe."""

    def __call__(self, digest: str, numbers: NDArray[np.int64], *, is_read: bool = False) -> PageUses | None:
        """Return the next use of the pages of some files on the disk; `None` if it is unknown.

        Args:
            digest: `digest_of_key` of the remote file.
            numbers: int64[n], which MiB of the remote file each has.
            is_read: True: these pages are being read, and the use after that is meant.
        """
        ...


class DiskBlocks:
    """Pages of remote files. Thread-safe.

    A file has the pages of a MiB of a remote file at their places, and behind them a checksum of each: CRC-32 of name,
    number and bytes, or 0 for a page that is missing. A checksum is written after its page, and pages never change. So
    processes need no lock to read and to write, and a page that a killed process left incomplete, or that was damaged,
    is a missing page. If the files exceed the limit, one process at a time deletes the least recently used ones; if it
    knows the next use of pages, it then deletes the pages that are used last, and leaves holes.

    Args:
        folder: Made if it is missing. Other files in it are left alone.
        limit_bytes: The most bytes of all files; exceeded at most by an eighth for each process that writes.

    Raises:
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._unchecked_bytes = limit_bytes // 16  # written since the size of the folder was last computed
        self._found_bytes = 0  # since then
        self._horizon = math.inf  # then, files of this next use or a later one were deleted
        folder.mkdir(parents=True, exist_ok=True)
        self._claims = -1
        with suppress(OSError):  # another user made it
            self._claims = os.open(folder / "claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | NO_LINK, 0o666)

    def __reduce__(self) -> tuple[Any, ...]:
        return DiskBlocks, (self.folder, self.limit_bytes)

    def get(self, key: Sequence[str], size: int, ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Return ranges of a file; `None` for each one of which a page is missing.

        Args:
            key: Identifies the file and its version.
            size: The bytes of the file.
            ranges: Offset and length of each, within the file; ascending ones are faster.
        """
        parts = [
            (at // FILE_BYTES, number, at % FILE_BYTES, min(offset + length - at, FILE_BYTES - at % FILE_BYTES))
            for number, (offset, length) in enumerate(ranges)
            for at in (offset, *range(offset - offset % FILE_BYTES + FILE_BYTES, offset + length, FILE_BYTES))
        ]
        found: list[list[bytes]] = [[] for _ in ranges]
        for some in self._stored(key, size, parts):
            for part, is_sound in zip(some, _are_sound(some), strict=True):
                if is_sound:
                    found[part.number].append(part.pages[part.skipped : part.skipped + part.length])
        whole = [one[0] if len(one) == 1 else b"".join(one) for one in found]
        self._found_bytes += sum(map(len, whole))
        return [data if len(data) == length else None for data, (_, length) in zip(whole, ranges, strict=True)]

    def _stored(
        self, key: Sequence[str], size: int, parts: Sequence[tuple[int, int, int, int]]
    ) -> Iterator[list[_StoredPart]]:
        """Yield some parts after the other of files on the disk, given by file, number of range, offset and length."""
        some, left = list[_StoredPart](), _CHECKED_BYTES
        for file, group in groupby(parts, itemgetter(0)):
            name, n_bytes = _name(key, file), size - file * FILE_BYTES
            with suppress(OSError), _opened(self._path(name), os.O_RDONLY) as descriptor:
                sums, seeds = _stored_sums(descriptor), _seeds(name)
                for _, number, offset, length in group:
                    first, end = offset // PAGE_BYTES, -(-(offset + length) // PAGE_BYTES)
                    at, stop = first * PAGE_BYTES, min(end * PAGE_BYTES, n_bytes)
                    pages = os.pread(descriptor, stop - at, at)
                    if len(pages) == stop - at:
                        some.append(_StoredPart(number, offset - at, length, pages, sums[first:end], seeds[first:end]))
                        left -= len(pages)
                    if left <= 0:
                        yield some
                        some, left = [], _CHECKED_BYTES
                with suppress(OSError):
                    os.utime(descriptor)  # it was used now
        if some:
            yield some

    def has(self, key: Sequence[str], offset: int, length: int) -> bool:
        """Return True if all pages of a range are there, sound or damaged."""
        for file in range(offset // FILE_BYTES, -(-(offset + length) // FILE_BYTES)):
            begin = file * FILE_BYTES
            first, end = max(0, offset - begin) // PAGE_BYTES, -(-(offset + length - begin) // PAGE_BYTES)
            try:
                with _opened(self._path(_name(key, file)), os.O_RDONLY) as descriptor:
                    if not _stored_sums(descriptor)[first:end].all():
                        return False
                    with suppress(OSError):
                        os.utime(descriptor)  # it will be used
            except OSError:
                return False
        return True

    def put(self, key: Sequence[str], offset: int, data: bytes | memoryview, next_use: NextUse | None = None) -> bool:
        """Keep a range of a file; return False if the disk has no room for all of it, which is no error of the read.

        Args:
            key: Identifies the file and its version.
            offset: The first byte: a multiple of `PAGE_BYTES`.
            data: The bytes: they end at such a multiple, or with the file.
            next_use: Says what is read next; `None`: the least recently used files give way.
        """
        at, is_whole = 0, True
        while at < len(data):
            file, begin = divmod(offset + at, FILE_BYTES)
            part = memoryview(data)[at : at + FILE_BYTES - begin]
            unchecked = self._unchecked_bytes
            if unchecked >= self.limit_bytes // 16 and not self._evict(next_use) and unchecked >= self.limit_bytes // 8:
                return False  # another process deletes files for a long time
            if next_use is None or self._admits(key, file, begin + len(part) // 2, next_use):
                try:
                    self._write(_name(key, file), begin, part)
                except OSError:
                    return False
            else:
                is_whole = False
            self._unchecked_bytes += len(part) + PAGE_BYTES  # with the checksums
            at += len(part)
        return is_whole

    def _admits(self, key: Sequence[str], file: int, middle: int, next_use: NextUse) -> bool:
        """Return False if a part with this middle is used later than pages that were deleted a moment ago."""
        is_recent = self._found_bytes < self.limit_bytes // 16 and self._horizon < math.inf
        uses = next_use(digest_of_key(key), np.array([file]), is_read=True) if is_recent else None
        if uses is None:
            return True
        return bool(uses.uses[np.flatnonzero(uses.begins <= middle // PAGE_BYTES)[-1]] < self._horizon)

    def _write(self, name: str, begin: int, part: memoryview) -> None:
        page = begin // PAGE_BYTES
        starts = _STARTS[: -(-len(part) // PAGE_BYTES)]
        sums = _sums(part, starts, len(part), _seeds(name)[page : page + len(starts)]).data.cast("B")
        with _opened(self._path(name), os.O_RDWR | os.O_CREAT) as descriptor:
            n_bytes = os.pwrite(descriptor, part, begin)
            if n_bytes == len(part):
                n_bytes += os.pwrite(descriptor, sums, FILE_BYTES + page * _SUM_BYTES)
        if n_bytes < len(part) + len(sums):
            raise OSError("the disk is full")

    def claim(self, key: Sequence[str], offset: int, length: int) -> bool:
        """Claim a range of a file until `release`, or the end of this process; return False if another process has it.

        A process that downloads a range claims it, so that others wait. All processes go on rightly if some do not.
        """
        if fcntl is None:
            return True
        try:
            fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, *_claimed(key, offset, length))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # the file system has no locks
            return True
        return True

    def release(self, key: Sequence[str], offset: int, length: int) -> None:
        """End a claim."""
        if fcntl is not None:
            with suppress(OSError):
                fcntl.lockf(self._claims, fcntl.LOCK_UN, *_claimed(key, offset, length))

    def _evict(self, next_use: NextUse | None) -> bool:
        """Bring the files below the limit, unless another process does; return True if this one did."""
        try:
            lock = FileLock(self.folder / "lock", create=True)
        except OSError:
            return False
        try:
            self._unchecked_bytes = self._found_bytes = 0
            self._delete_some(next_use)
        finally:
            lock.release()
        return True

    def _delete_some(self, next_use: NextUse | None) -> None:
        """Delete pages until a sixteenth of the limit is free."""
        found: list[tuple[int, int, str]] = []
        for entry in os.scandir(self.folder):
            with suppress(OSError):  # deleted meanwhile
                if entry.name.endswith(_SUFFIX):
                    info = entry.stat(follow_symlinks=False)
                    found.append((info.st_mtime_ns, getattr(info, "st_blocks", 2048) * 512, entry.name))
        found.sort()
        sizes = np.array([size for _, size, _ in found], np.int64)
        excess = int(sizes.sum()) - (self.limit_bytes - self.limit_bytes // 16)
        self._horizon = math.inf
        if excess <= 0:
            return
        table, n_pages = self._uses([name for _, _, name in found], sizes, next_use)
        table = table[np.argsort(-table[:, 3], kind="stable")]  # stable: the least recently used come first
        chosen = table[: np.searchsorted(np.cumsum(table[:, 4]), excess) + 1]
        self._horizon = float(chosen[-1, 3])
        chosen = chosen[np.argsort(chosen[:, 0], kind="stable")]
        for ranges in np.split(chosen, np.flatnonzero(np.diff(chosen[:, 0])) + 1):
            row = int(ranges[0, 0])
            path, is_whole = self.folder / found[row][2], ranges[:, 4].sum() >= n_pages[row] * PAGE_BYTES
            with suppress(OSError):
                if is_whole or not _punch(path, ranges[:, 1:3].astype(int).tolist()):
                    os.unlink(path)

    def _uses(
        self, names: list[str], sizes: NDArray[np.int64], next_use: NextUse | None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the columns of `PageUses` for files, and the bytes that these pages have; and how many each file has.

        Files of which nothing is known come first, whole, and with 0 pages.
        """
        n_pages = np.zeros(len(names), np.int64)
        tables: list[NDArray[np.float64]] = []
        parts = sorted((*name.removesuffix(_SUFFIX).partition("-"), row) for row, name in enumerate(names))
        files = (part for part in parts if next_use is not None and part[2].isdecimal())
        for _, group in groupby(files, itemgetter(0)):
            digests, _, numbers, rows = zip(*group, strict=True)
            uses = None if next_use is None else next_use(digests[0], np.array(numbers, np.int64))
            if uses is None:
                continue
            before = np.zeros((len(rows), _N_PAGES + 1), np.int64)  # present pages before each page
            for row, number in enumerate(rows):
                with suppress(OSError), _opened(self.folder / names[number], os.O_RDONLY) as descriptor:
                    np.cumsum(_stored_sums(descriptor) != 0, out=before[row, 1:])
            n_pages[list(rows)] = before[:, -1]
            n_bytes = (before[uses.rows, uses.ends] - before[uses.rows, uses.begins]) * PAGE_BYTES
            table = np.column_stack([np.array(rows)[uses.rows], uses.begins, uses.ends, uses.uses, n_bytes])
            tables.append(table[n_bytes > 0].astype(np.float64))
        others = np.flatnonzero(n_pages == 0)
        none, all_pages = np.zeros(len(others)), np.full(len(others), _N_PAGES)
        others_table = np.column_stack([others, none, all_pages, none + np.inf, sizes[others]])
        return np.concatenate([others_table.astype(np.float64), *tables]), n_pages

    def _path(self, name: str) -> str:
        key, _, number = name.rpartition("\n")
        return os.path.join(self.folder, f"{_digest(key)}-{number}{_SUFFIX}")

    def __del__(self, close: Any = os.close) -> None:  # `os` may be gone when Python ends
        if getattr(self, "_claims", -1) >= 0:
            close(self._claims)


@contextmanager
def _opened(path: str | Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC | NO_LINK, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _stored_sums(descriptor: int) -> NDArray[np.uint32]:
    """Return the checksums of all pages, 0 for those that are missing."""
    n_bytes = _N_PAGES * _SUM_BYTES
    return np.frombuffer(os.pread(descriptor, n_bytes, FILE_BYTES).ljust(n_bytes, b"\0"), np.uint32)


def _punch(path: Path, ranges: Sequence[tuple[int, int]]) -> bool:
    """Make ranges of pages missing, and free their room; return False if the file system cannot."""
    with _opened(path, os.O_RDWR) as descriptor:
        for begin, end in ranges:
            os.pwrite(descriptor, bytes((end - begin) * _SUM_BYTES), FILE_BYTES + begin * _SUM_BYTES)
        return free_ranges(descriptor, [(begin * PAGE_BYTES, (end - begin) * PAGE_BYTES) for begin, end in ranges])


def digest_of_key(key: Sequence[str]) -> str:
    """Return the text that names of files on the disk begin with, if they have parts of a remote file."""
    return _digest("\n".join(key))


@functools.lru_cache(256)
def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=20).hexdigest()


def _name(key: Sequence[str], file: int) -> str:
    return "\n".join([*key, str(file)])


def _seeds(name: str) -> NDArray[np.uint32]:
    """Return what is mixed into the checksum of each page of a file, so that pages of others are not taken for its."""
    return _SEEDS ^ np.uint32(crc32(name.encode()))


def _sums(data: Any, starts: NDArray[np.int64], end: Any, seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the checksums of the pages that begin at `starts`, before `end`: uint32, none of them 0."""
    sums: NDArray[np.uint32] = crc32_extents(data, starts, np.minimum(end - starts, PAGE_BYTES)) ^ seeds
    return np.maximum(sums, 1)


def _are_sound(parts: Sequence[_StoredPart]) -> list[bool]:
    """Return for each part if its pages have their checksums."""
    pages = [part.pages for part in parts]
    counts = np.fromiter((len(part.sums) for part in parts), np.int64, len(parts))
    begins, firsts = offsets_of(np.fromiter(map(len, pages), np.int64, len(parts))), offsets_of(counts)
    starts = np.repeat(begins[:-1] - PAGE_BYTES * firsts[:-1], counts) + PAGE_BYTES * np.arange(firsts[-1])
    seeds, expected = (
        np.concatenate(columns) for columns in zip(*((part.seeds, part.sums) for part in parts), strict=True)
    )
    sums = _sums(b"".join(pages), starts, np.repeat(begins[1:], counts), seeds)
    sound: list[bool] = np.logical_and.reduceat(sums == expected, firsts[:-1]).tolist()
    return sound


def _claimed(key: Sequence[str], offset: int, length: int) -> tuple[int, int]:
    """Return the bytes of the file of claims that stand for the pages of a range: how many, and the first."""
    first, end = offset // PAGE_BYTES, -(-(offset + length) // PAGE_BYTES)
    return end - first, (crc32("\n".join(key).encode()) % _MAX_FILES) * 2**32 + first
