"""Read pieces of any files into one buffer without an engine: by threads, or one call per remote file system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dataformats.errors import TruncatedError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.remote.block_cache import FileRange
from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.range_requests import get_ranges
from dataformats.storage.threads import ThreadPool

_THREADS = min(16, 4 * (os.cpu_count() or 1))
_INLINE_PIECES = 4
_INLINE_BYTES = 64 * 1024
_SPLIT_BYTES = 8 * 2**20
_POOL = ThreadPool(_THREADS, "dataformats-io")


class Piece(NamedTuple):
    """A range of a file and its place in a buffer, in bytes."""

    file: StoredFile
    offset: int
    place: int
    length: int


@dataclass(frozen=True, slots=True)
class _Remote:
    """A piece of a remote file."""

    piece: Piece
    file: FsspecFile

    def room(self, buffer: memoryview) -> memoryview:
        """Return the place of the piece in the buffer."""
        return buffer[self.piece.place : self.piece.place + self.piece.length]


def fetch(pieces: Sequence[Piece], buffer: memoryview) -> None:
    """Read all pieces into the buffer.

    Pieces behind fsspec are requested by one call per file system, which reads them concurrently if it can; or their
    blocks are, if a `BlockCache` has room for all of them.

    Raises:
        TruncatedError: A file was truncated since it was opened.
        FormatError: A file changed, or its server does not support range requests.
    """
    of_file: dict[StoredFile, list[Piece]] = {}
    for piece in pieces:
        if piece.length:
            of_file.setdefault(piece.file, []).extend(_split(piece))
    remote: dict[tuple[int, int], list[_Remote]] = {}
    others: list[Piece] = []
    for file, parts in of_file.items():
        if isinstance(file, FsspecFile):
            remote.setdefault((id(file.fs), id(file.cache)), []).extend(_Remote(part, file) for part in parts)
        else:
            others += parts
    for wanted in remote.values():
        _fetch_ranges(wanted, buffer)
    _fetch_by_threads(others, buffer)


def _split(piece: Piece) -> list[Piece]:
    if piece.length <= _SPLIT_BYTES:
        return [piece]
    return [
        Piece(piece.file, piece.offset + at, piece.place + at, min(_SPLIT_BYTES, piece.length - at))
        for at in range(0, piece.length, _SPLIT_BYTES)
    ]


def _fetch_ranges(parts: Sequence[_Remote], buffer: memoryview) -> None:
    """Read pieces of files behind one file system, through the cache of this thread, or else of the files, if any."""
    n_bytes = sum(part.piece.length for part in parts)
    ours, theirs = READ_CONTEXT.cache, parts[0].file.cache
    for cache in (ours if ours is not None and ours.saves else None, theirs):
        if cache is not None and n_bytes <= cache.limit_bytes:
            cache.read([FileRange(part.file, part.piece.offset, part.room(buffer)) for part in parts])
            return
    requests = [part.file.request(part.piece.offset, part.piece.length) for part in parts]
    for part, answer in zip(parts, get_ranges(parts[0].file.fs, requests), strict=True):
        if isinstance(answer, Exception):
            raise answer
        part.room(buffer)[:] = answer
    FsspecFile.check_unchanged([part.file for part in parts])


def _fetch_by_threads(parts: Sequence[Piece], buffer: memoryview) -> None:
    n_bytes = sum(part.length for part in parts)
    # Handing work to a thread costs more than a few warm reads.
    if (len(parts) <= _INLINE_PIECES and n_bytes <= _SPLIT_BYTES) or (n_bytes <= _INLINE_BYTES and _local(parts)):
        _read(parts, buffer)
        return
    share = max(1, -(-len(parts) // _THREADS))
    shares = [parts[first : first + share] for first in range(0, len(parts), share)]
    for done in [_POOL.executor().submit(_read, part, buffer) for part in shares]:
        done.result()


def _local(parts: Sequence[Piece]) -> bool:
    return all(part.file.local is not None for part in parts)


def _read(parts: Sequence[Piece], buffer: memoryview) -> None:
    for part in parts:
        _check_whole(part, part.file.read_into(part.offset, buffer[part.place : part.place + part.length]))


def _check_whole(part: Piece, n_bytes: int) -> None:
    if n_bytes != part.length:
        raise TruncatedError(
            "the file ends early",
            path=part.file.name,
            offset_bytes=part.offset,
            expected=f"{part.length} bytes",
            found=f"{n_bytes} bytes",
        )
