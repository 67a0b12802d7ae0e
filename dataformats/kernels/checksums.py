"""Checksums: CRC-32C and CRC-32 of a buffer, and of many extents of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.kernels.dispatch import kernels
from dataformats.kernels.reference.checksums import mask

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


def crc32c(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, any C-contiguous buffer.

    `value` is the CRC of the bytes before `data`, if any.

    Raises:
        ValueError: `data` is not C-contiguous, or `value` is not in [0, 2**32).
    """
    return kernels().crc32c(data, value)  # type: ignore[no-any-return]  # either module


def crc32(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32 of zlib of `data`, any C-contiguous buffer.

    `value` is the CRC of the bytes before `data`, if any.

    Raises:
        ValueError: `data` is not C-contiguous, or `value` is not in [0, 2**32).
    """
    return kernels().crc32(data, value)  # type: ignore[no-any-return]  # either module


def crc32c_extents(buffer: BytesLike, starts: ArrayLike, lengths: ArrayLike) -> NDArray[np.uint32]:
    """Return the CRC-32C of each `buffer[starts[i] : starts[i] + lengths[i]]`, `(n,) uint32`.

    Extents may overlap, repeat and be empty. All are checked before any byte is read.

    Raises:
        ValueError: An extent does not lie in `buffer` (the message has its number), or `starts` and
            `lengths` are not equally long.
        TypeError: `starts` or `lengths` are not integers.
    """
    starts, lengths = _int64("starts", starts), _int64("lengths", lengths)
    out = np.empty(len(starts), dtype=np.uint32)
    kernels().crc32c_extents(buffer, starts, lengths, out)
    return out


def crc32_extents(buffer: BytesLike, starts: ArrayLike, lengths: ArrayLike) -> NDArray[np.uint32]:
    """Return the CRC-32 of zlib of each `buffer[starts[i] : starts[i] + lengths[i]]`, `(n,) uint32`.

    Extents may overlap, repeat and be empty. All are checked before any byte is read.

    Raises:
        ValueError: An extent does not lie in `buffer` (the message has its number), or `starts` and
            `lengths` are not equally long.
        TypeError: `starts` or `lengths` are not integers.
    """
    starts, lengths = _int64("starts", starts), _int64("lengths", lengths)
    out = np.empty(len(starts), dtype=np.uint32)
    kernels().crc32_extents(buffer, starts, lengths, out)
    return out


def crc32c_items(items: Sequence[BytesLike]) -> NDArray[np.uint32]:
    """Return the CRC-32C of each item, any C-contiguous buffer, `(n,) uint32`."""
    out = np.empty(len(items), np.uint32)
    kernels().crc32c_items(items, out)
    return out


def crc32_items(items: Sequence[BytesLike], n: int) -> NDArray[np.uint32]:
    """Return the CRC-32 of zlib of each of `n` equal groups of consecutive items, `(n,) uint32`.

    Raises:
        ValueError: The number of items, any C-contiguous buffers, is not a multiple of `n`.
    """
    out = np.empty(n, np.uint32)
    kernels().crc32_items(items, out)
    return out


def masked_crc32c(data: BytesLike) -> int:
    """Return the masked CRC-32C of `data`, as TFRecord stores it."""
    return mask(crc32c(data))


def _int64(name: str, numbers: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(numbers)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, found {array.dtype}")
    return np.require(array, dtype=np.int64, requirements=["C", "A"])
