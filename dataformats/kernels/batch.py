"""A batch in one go: where records lie, where their blobs go, and the blobs themselves, verified."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.dispatch import implementation, kernels

__all__ = [
    "LEFT",
    "MAX_FRAMING",
    "FrameCheck",
    "Out",
    "hold_extents",
    "lay_out",
    "read_laid",
    "reads_batches",
    "thread_pool_open",
]

MAX_FRAMING = 64
"""The most bytes of framing before or behind a blob."""

LEFT = -2
"""In place of a descriptor: what lies in that file is left to another call."""


class FrameCheck(IntEnum):
    """What tells that a blob is sound, by its framing and by what an index has stored."""

    NOTHING = 0
    CRC32 = 1
    """The CRC-32 of the blob is the stored one."""
    LENGTH = 2
    """The head begins with the blob's length, 8 bytes, little-endian."""
    TFRECORD = 3
    """The head is the length and its masked CRC-32C, the tail that of the blob, which is the stored one."""


Out = tuple["NDArray[np.uint8]", "NDArray[np.uint8] | None", int, int]
"""Where the blobs of one field go: uint8[size], back to back; and the part of each blob that goes elsewhere, if any:
uint8[n * n_bytes], where that part begins in a blob (below 0, as in Python, from its end), and its n_bytes. A blob that
is too short to have it stays whole."""


def reads_batches() -> bool:
    """Return True where these kernels are there: they have no twin but the careful way of `storage.reading`."""
    return implementation() == "native"


def hold_extents(
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    stored: NDArray[np.uint32] | None,
    framing: tuple[int, int],
    check: int,
) -> Any:
    """Return what `lay_out` takes: where the blobs of one field lie. It holds on to the arrays.

    Args:
        file: int32[n], each blob's file.
        offset: int64[n], where it begins there.
        length: int64[n], its bytes.
        stored: uint32[n], its checksum as an index has it; `None` where none does.
        framing: Bytes before and behind each blob, at most `MAX_FRAMING`.
        check: A `FrameCheck`.
    """
    return kernels().hold_extents(file, offset, length, stored, *framing, check)


def lay_out(
    indexes: tuple[Any, ...],
    records: NDArray[np.int64] | None,
    files: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]],
    max_bytes: int,
    room: NDArray[np.int64],
) -> tuple[Any, list[int], list[int]] | None:
    """Lay blobs out back to back, field by field.

    Args:
        indexes: Of each field, what `hold_extents` gave.
        records: int64[n], which of its blobs; `None`: all.
        files: Of each file its address, uint64[n_files], 0 where it is read through a descriptor; its bytes,
            int64[n_files]; and when it was changed last, int64[n_files] nanoseconds, which must still be so; -1:
            anything goes.
        max_bytes: A longer blob cannot be read.
        room: int64, filled with, of each field, the places of its n blobs, where the last one ends, and n lengths.

    Returns:
        What `read_laid` takes; of each field the bytes of all its blobs; and the numbers of the files to be read that
        are not in memory, ascending. `None` where a blob cannot be read: why, the careful way tells.
    """
    found: tuple[Any, list[int], list[int]] | None = kernels().lay_out(indexes, records, *files, max_bytes, room)
    return found


def read_laid(
    laid: Any,
    outs: tuple[Out, ...],
    fds: NDArray[np.int32],
    engine: Any,
    helpers: Any = None,
    n_threads: int = 1,
    with_memory: bool = True,
) -> bool:
    """Read and verify blobs; return False where anything failed: what, the careful way tells.

    Args:
        laid: What `lay_out` gave first.
        outs: Where the blobs of each field go.
        fds: int32[n_files], descriptors, or `LEFT`.
        engine: What reads files; `None`: one call after the other.
        helpers: What `thread_pool_open` gave: threads that help with a large batch; `None`: none do.
        n_threads: How many threads share the work at most, this one included.
        with_memory: False: what lies in memory is left to another call.
    """
    done: bool = kernels().read_laid(laid, outs, fds, engine, helpers, n_threads, with_memory)
    return done


def thread_pool_open(most: int) -> Any:
    """Return what `read_laid` takes: at most so many threads, in [0, 64], of which none is started yet.

    A forked child has none of them, and opens its own.

    Raises:
        OSError: The system has no such threads, or no memory.
    """
    return kernels().thread_pool_open(most)
