"""Read pieces of any files into one buffer without an engine: by threads, or one call per remote file system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.remote import FsspecFile
from dataformats.storage.threads import ThreadPool

__all__ = ["Piece", "fetch"]

_THREADS = min(16, 4 * (os.cpu_count() or 1))
_INLINE_PIECES = 4
_INLINE_BYTES = 64 * 1024
_SPLIT_BYTES = 8 * 2**20
_POOL = ThreadPool(_THREADS, "dataformats-io")


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a file and its place in a buffer, in bytes."""

    file: StoredFile
    offset: int
    place: int
    length: int


def fetch(pieces: Sequence[Piece], buffer: memoryview) -> None:
    """Read all pieces into the buffer.

    Pieces behind fsspec are requested by one call per file system, which reads them concurrently if it can.

    Raises:
        TruncatedError: A file was truncated since it was opened.
        FormatError: A file system returned more bytes than requested.
    """
    parts = [part for piece in pieces if piece.length for part in _split(piece)]
    remote: dict[int, tuple[Any, list[Piece]]] = {}
    others = []
    for part in parts:
        if isinstance(part.file, FsspecFile):
            remote.setdefault(id(part.file._fs), (part.file._fs, []))[1].append(part)
        else:
            others.append(part)
    for fs, wanted in remote.values():
        _fetch_ranges(fs, wanted, buffer)
    _fetch_by_threads(others, buffer)


def _split(piece: Piece) -> list[Piece]:
    if piece.length <= _SPLIT_BYTES:
        return [piece]
    return [
        Piece(piece.file, piece.offset + at, piece.place + at, min(_SPLIT_BYTES, piece.length - at))
        for at in range(0, piece.length, _SPLIT_BYTES)
    ]


def _fetch_ranges(fs: Any, parts: Sequence[Piece], buffer: memoryview) -> None:
    answers = fs.cat_ranges(
        [part.file._path for part in parts if isinstance(part.file, FsspecFile)],
        [part.offset for part in parts],
        [part.offset + part.length for part in parts],
        on_error="return",
    )
    for part, answer in zip(parts, answers, strict=True):
        if isinstance(answer, BaseException):
            answer.add_note(f"while {part.length} bytes of {part.file.name!r} were read from byte {part.offset} on")
            raise answer
        if len(answer) > part.length:
            raise FormatError(
                "the file system returned more bytes than requested",
                path=part.file.name,
                offset_bytes=part.offset,
                expected=f"{part.length} bytes",
                found=f"{len(answer)} bytes",
            )
        buffer[part.place : part.place + len(answer)] = answer
        _check_whole(part, len(answer))


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
