"""The fast path of a read: look up extents, lay out blobs, read and verify them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.dispatch import implementation, kernels

MAX_FRAMING = 64
"""The most bytes of framing before or behind a blob."""

SKIP_FILE = -2
"""Instead of a descriptor: this call reads nothing from that file."""


class FrameCheck(IntEnum):
    """How a blob is verified, by its framing and by the checksum in an index."""

    NOTHING = 0
    CRC32 = 1
    """The CRC-32 of the blob equals the stored one."""
    LENGTH = 2
    """The head begins with the blob's length, 8 bytes, little-endian."""
    TFRECORD = 3
    """The head is the length and its masked CRC-32C; the tail is the blob's masked CRC-32C, and equals the stored
    one."""


Out = tuple["NDArray[np.uint8]", "NDArray[np.uint8] | None", int, int]
"""Memory for the blobs of one field: uint8[size], for the blobs back to back; and for a value slice, if any:
uint8[n * n_bytes], the begin of the slice in a blob (below 0: from its end), and its n_bytes. A blob that is too short
for the slice stays whole."""


def reads_batches() -> bool:
    """Return True if these kernels are available. Their reference implementation is `storage.reference_read`."""
    return implementation() == "native"


def hold_extents(
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    stored: NDArray[np.uint32] | None,
    framing: tuple[int, int],
    check: int,
) -> Any:
    """Pin the extents of one field for `lay_out`, which reads the arrays in place.

    Args:
        file: int32[n], the file of each blob.
        offset: int64[n], its offset in the file.
        length: int64[n], its bytes.
        stored: uint32[n], its checksum in the index; `None` without checksums.
        framing: Bytes before and behind each blob, at most `MAX_FRAMING`.
        check: A `FrameCheck`.

    Returns:
        An opaque object that keeps the arrays alive.
    """
    return kernels().hold_extents(file, offset, length, stored, *framing, check)


def hold_index(starts: NDArray[np.int64], framing: tuple[int, int], check: int, *, has_stored: bool) -> Any:
    """Pin the indexes of files for `lay_out`; each is given by `hold_blocks` or `hold_table`, once.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        framing: Bytes before and behind each blob, at most `MAX_FRAMING`.
        check: A `FrameCheck`.
        has_stored: True if indexes have checksums.

    Returns:
        An opaque object, as `hold_extents` returns it.
    """
    return kernels().hold_index(starts, *framing, check, has_stored)


def hold_blocks(index: Any, file: int, n: int, source: bytes, is_path: bool, facts: Sequence[int]) -> bool:
    """Give an index the packed blocks of a file: see `indexing.block_file`.

    Args:
        index: The result of `hold_index`.
        file: The number of the file.
        n: Rows; a record behind them is not found.
        source: The blocks; or the path of a file with them, which is opened for each batch.
        is_path: True for a path.
        facts: Where the blocks begin, their seal, where the first blob begins, the bytes between blobs; bytes of a
            row and constant, of lengths and of checksums.

    Returns:
        False if `source` is the blocks and one is damaged. Blocks behind a path are verified when they are read.
    """
    done: bool = kernels().hold_blocks(index, file, n, source, is_path, *facts)
    return done


def hold_table(index: Any, file: int, n: int, source: bytes, is_path: bool, facts: Sequence[int]) -> bool:
    """Give an index the table of a file, as `hold_blocks`: offsets (int64), and checksums (uint32).

    A record whose neighbors have offsets out of order is not found.

    Args:
        index: The result of `hold_index`.
        file: The number of the file.
        n: Rows.
        source: The table, or the path of a file with it.
        is_path: True for a path.
        facts: Where the offsets and the checksums begin, where the first record must begin, and where the last ends.
    """
    done: bool = kernels().hold_table(index, file, n, source, is_path, *facts)
    return done


def look_up(
    index: Any,
    records: NDArray[np.int64],
    out: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]],
) -> int:
    """Look records up; return how many were not found.

    Args:
        index: The result of `hold_index`.
        records: int64[n].
        out: file, offset, length and checksum, each (n,), filled in; the length of a record not found is -1.
    """
    n_missing: int = kernels().look_up(index, records, *out)
    return n_missing


def hold_files(memories: NDArray[np.uint64], sizes: NDArray[np.int64], mtimes_ns: NDArray[np.int64]) -> Any:
    """Pin the files of a dataset for `lay_out` and `read_record`, which read the arrays in place.

    Args:
        memories: uint64[n], the address of each file, 0 if it is read through a descriptor; it may change.
        sizes: int64[n], bytes; changes with the address.
        mtimes_ns: int64[n], the modification time, which must not have changed; -1: not checked.

    Returns:
        An opaque object that keeps the arrays alive.
    """
    return kernels().hold_files(memories, sizes, mtimes_ns)


def lay_out(
    indexes: tuple[Any, ...],
    records: NDArray[np.int64] | None,
    files: Any,
    max_bytes: int,
    room: NDArray[np.int64],
) -> tuple[Any, list[int], list[int]] | None:
    """Lay blobs out back to back, field by field.

    Args:
        indexes: The result of `hold_extents` for each field.
        records: int64[n], the blobs to read; `None`: all.
        files: The result of `hold_files`.
        max_bytes: The most bytes of a blob.
        room: int64, filled with, for each field, the places of its n blobs, the end of the last, and n lengths.

    Returns:
        The layout for `read_laid`; for each field the bytes of all its blobs; and the numbers of the files to read
        that are not in memory, ascending. `None` if a blob cannot be read; the reference path reports why.
    """
    found: tuple[Any, list[int], list[int]] | None = kernels().lay_out(indexes, records, files, max_bytes, room)
    return found


def read_laid(
    laid: Any,
    outs: tuple[Out, ...],
    fds: NDArray[np.int32],
    engine: Any,
    threads: Any = None,
    n_threads: int = 1,
    with_memory: bool = True,
) -> bool:
    """Read and verify blobs. Returns False if anything failed; the reference path reports what.

    Args:
        laid: The layout from `lay_out`.
        outs: Memory for the blobs of each field.
        fds: int32[n_files], descriptors, or `SKIP_FILE`.
        engine: The engine that reads files; `None`: one system call after the other.
        threads: A pool from `thread_pool_open` for large batches; `None`: this thread only.
        n_threads: The most threads that share the work, this one included.
        with_memory: False: skip files in memory.
    """
    done: bool = kernels().read_laid(laid, outs, fds, engine, threads, n_threads, with_memory)
    return done


def read_record(
    indexes: tuple[Any, ...], row: int, files: Any, max_bytes: int, fds: list[int], engine: Any
) -> list[bytearray] | None:
    """Read and verify the blobs of one record, for which a batch would take several calls.

    Args:
        indexes: The result of `hold_extents` for each field.
        row: The record.
        files: The result of `hold_files`.
        max_bytes: The most bytes of all blobs together.
        fds: The descriptor of each field's file; -1 for a file in memory.
        engine: The engine that reads files; `None`: one system call after the other.

    Returns:
        The blob of each field; `None` if one is longer, lies outside its file, or is damaged: the reference path
        reports why.
    """
    found: list[bytearray] | None = kernels().read_record(indexes, row, files, max_bytes, fds, engine)
    return found


def thread_pool_open(most: int) -> Any:
    """Create a thread pool of at most `most` threads (0 to 64). Threads start on first use.

    A forked child has none of them and must open a new pool.

    Raises:
        OSError: The system has no POSIX threads, or no memory.
    """
    return kernels().thread_pool_open(most)
