"""A batch in one go: where records lie, where their blobs go, and the blobs themselves, verified."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.choosing import implementation, kernels

__all__ = ["MAX_FRAMING", "BlobField", "FrameCheck", "locate", "places", "read_batch", "reads_batches"]

MAX_FRAMING = 64
"""The most bytes of framing before or behind a blob."""


class BlobField(NamedTuple):
    """The extents of one field, and where their blobs go; the kernel takes it as a tuple.

    Attributes:
        file: int32[n], each blob's file.
        offset: int64[n], where it begins there.
        length: int64[n], its bytes.
        stored: uint32[n], its checksum as an index has it; `None` where none does.
        place: int64[n] or longer, where it goes in `out`.
        out: uint8[size].
        head: Bytes of framing before each blob.
        tail: Bytes of framing behind it.
        check: A `FrameCheck`.
        window_place: int64[n], where the part of each blob that goes elsewhere goes in `window_out`.
        window_out: uint8[size].
        window_begin: Where that part begins in a blob; below 0, as in Python, from its end.
        window_bytes: Its bytes; 0: there is none. A blob that is too short to have it stays whole.
    """

    file: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    stored: NDArray[np.uint32] | None
    place: NDArray[np.int64]
    out: NDArray[np.uint8]
    head: int
    tail: int
    check: int
    window_place: NDArray[np.int64] | None = None
    window_out: NDArray[np.uint8] | None = None
    window_begin: int = 0
    window_bytes: int = 0


class FrameCheck(IntEnum):
    """What tells that a blob is sound, by its framing and by what an index has stored."""

    NOTHING = 0
    CRC32 = 1
    """The CRC-32 of the blob is the stored one."""
    LENGTH = 2
    """The head begins with the blob's length, 8 bytes, little-endian."""
    TFRECORD = 3
    """The head is the length and its masked CRC-32C, the tail that of the blob, which is the stored one."""


def reads_batches() -> bool:
    """Return True where `read_batch` is there: it has no twin but the careful way of `storage.reading`."""
    return implementation() == "native"


def locate(
    starts: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    stored: NDArray[np.uint32] | None,
    indices: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32] | None]:
    """Return file, offset, length and stored checksum of some records, out of an index of several files.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        offset: int64[n], where each record lies in its file.
        length: int64[n], its bytes.
        stored: uint32[n], its checksum as stored, or `None`.
        indices: int64[k], records.

    Raises:
        IndexError: One is not in `[0, n)`.
        ValueError: The arrays do not fit each other.
    """
    k = len(indices)
    found = np.empty(k, np.int32), np.empty(k, np.int64), np.empty(k, np.int64)
    sums = None if stored is None else np.empty(k, np.uint32)
    failed = kernels().locate(starts, offset, length, stored, indices, *found, sums)
    if failed >= 0:
        raise IndexError(f"record {indices[failed]} is outside [0, {len(offset)})")
    return (*found, sums)


def places(
    sizes: NDArray[np.int64],
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    framing: tuple[int, int],
    max_bytes: int,
) -> NDArray[np.int64] | None:
    """Return where blobs lie that are laid back to back, int64[n + 1]; `None` where one cannot be read.

    Args:
        sizes: int64[n_files], bytes of the files.
        file: int32[n], each blob's file.
        offset: int64[n], where it begins there.
        length: int64[n], its bytes.
        framing: The bytes before and behind it that must be in the file as well.
        max_bytes: A longer one cannot be read.
    """
    offsets = np.empty(len(offset) + 1, np.int64)
    total = kernels().places(sizes, file, offset, length, *framing, max_bytes, offsets)
    return None if total < 0 else offsets


def read_batch(
    fds: NDArray[np.int32],
    memories: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    mtimes_ns: NDArray[np.int64],
    fields: Sequence[BlobField],
    engine: Any,
) -> bool:
    """Read and verify the blobs of all fields; return False where anything failed: what, the careful way tells.

    Args:
        fds: int32[n_files], descriptors.
        memories: uint64[n_files], addresses of files in memory; 0: it is read through its descriptor.
        sizes: int64[n_files], bytes.
        mtimes_ns: int64[n_files], when each file was changed last, which must still be so; -1: anything goes.
        fields: The extents and places of each field.
        engine: What reads files; `None`: one call after the other.
    """
    done: bool = kernels().read_batch(fds, memories, sizes, mtimes_ns, tuple(fields), engine)
    return done
