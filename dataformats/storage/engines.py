"""How pieces of files get into a buffer: `preadv` in a bounded pool of threads, one pool a process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dataformats.errors import TruncatedError
from dataformats.storage.files import StoredFile
from dataformats.storage.forks import after_fork

__all__ = ["Engine", "Piece", "engine", "fetch"]

_THREADS = min(16, 4 * (os.cpu_count() or 1))
_INLINE_PIECES = 4
_INLINE_BYTES = 64 * 1024
_SPLIT_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file and their place in a buffer."""

    file: StoredFile
    offset: int
    place: int
    length: int


def fetch(pieces: Sequence[Piece], buffer: memoryview) -> None:
    """Read all pieces into the buffer; it is full when this returns.

    Raises:
        TruncatedError: A file is shorter than it was when it was opened.
    """
    parts = [part for piece in pieces for part in _split(piece)]
    # Handing work to a thread costs more than a few warm reads.
    if (len(parts) <= _INLINE_PIECES and len(buffer) <= _SPLIT_BYTES) or (
        len(buffer) <= _INLINE_BYTES and _warm(parts)
    ):
        _read(parts, buffer)
        return
    share = max(1, -(-len(parts) // _THREADS))
    shares = [parts[first : first + share] for first in range(0, len(parts), share)]
    for done in [_POOL.executor().submit(_read, part, buffer) for part in shares]:
        done.result()


def _warm(parts: Sequence[Piece]) -> bool:
    return all(part.file.local is not None for part in parts)


def _split(piece: Piece) -> list[Piece]:
    if piece.length <= _SPLIT_BYTES:
        return [piece]
    return [
        Piece(piece.file, piece.offset + at, piece.place + at, min(_SPLIT_BYTES, piece.length - at))
        for at in range(0, piece.length, _SPLIT_BYTES)
    ]


def _read(parts: Sequence[Piece], buffer: memoryview) -> None:
    for part in parts:
        n = part.file.read_into(part.offset, buffer[part.place : part.place + part.length])
        if n != part.length:
            raise TruncatedError(
                "the file ends early",
                path=part.file.name,
                offset_bytes=part.offset,
                expected=f"{part.length} bytes",
                found=f"{n} bytes",
            )


class _Pool:
    """The threads of this process, started at first use and again in a forked child."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._executor = None

    def executor(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="dataformats-io")
        return self._executor


_POOL = _Pool()


@dataclass(frozen=True, slots=True)
class Engine:
    """How files are read."""

    capsule: object = None
    warm_first: bool = False


def engine(name: str) -> Engine:
    """Return the engine."""
    return Engine()
