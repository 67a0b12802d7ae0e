"""Checksums in plain Python and numpy.

A CRC is the remainder of a division of polynomials over GF(2). This code uses one property: the register is linear
over XOR. So the register after n more zero bytes is the XOR of the results for each of its four bytes, which takes
four look-ups; and the registers of two neighboring pieces join by one such step.
"""

from __future__ import annotations

import functools
import operator
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Buffer

    BytesLike = Buffer | NDArray[Any]  # type checkers know that an ndarray is a Buffer only from Python 3.12 on

CRC32C_POLYNOMIAL = 0x82F63B78  # 0x1EDC6F41 with its bits reversed: RFC 3720, section 12.1
MASK_DELTA = 0xA282EAD8  # kMaskDelta of tensorflow/core/lib/hash/crc32c.h
PLAIN_LOOP_BYTES = 1024  # up to here a loop over the bytes beats the fixed cost of some hundred numpy calls
PIECE_BYTES = 1 << 20  # bounds the temporary arrays to a few times this

Words = NDArray[np.uint32]


def crc32c(data: BytesLike, value: int = 0, /) -> int:
    """Return the CRC-32C of the bytes that gave `value` followed by `data`.

    Raises:
        ValueError: `data` is not C-contiguous, or `value` is not in [0, 2**32).
    """
    octets = octets_of(data)
    register = _checked(value) ^ 0xFFFFFFFF
    for begin in range(0, len(octets), PIECE_BYTES):
        piece = octets[begin : begin + PIECE_BYTES]
        if len(piece) <= PLAIN_LOOP_BYTES:
            register = _register_after_bytes(register, piece)
        else:
            register = _register_after_piece(register, piece)
    return register ^ 0xFFFFFFFF


def crc32(data: BytesLike, value: int = 0, /) -> int:
    """Return the CRC-32 of zlib of the bytes that gave `value` followed by `data`.

    Raises:
        ValueError: `data` is not C-contiguous, or `value` is not in [0, 2**32).
    """
    return zlib.crc32(octets_of(data).data, _checked(value))


def crc32c_extents(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: Words, /) -> None:
    """Write the CRC-32C of `buffer[starts[i] : starts[i] + lengths[i]]` to `out[i]`.

    Raises:
        ValueError: An extent does not lie in `buffer`, or the arrays differ in length. Nothing was read then.
    """
    _write_extents(crc32c, buffer, starts, lengths, out)


def crc32_extents(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: Words, /) -> None:
    """Write the CRC-32 of `buffer[starts[i] : starts[i] + lengths[i]]` to `out[i]`.

    Raises:
        ValueError: An extent does not lie in `buffer`, or the arrays differ in length. Nothing was read then.
    """
    _write_extents(crc32, buffer, starts, lengths, out)


def crc32c_items(items: Sequence[BytesLike], out: Words, /) -> None:
    """Write the CRC-32C of each of `len(out)` equal groups of consecutive items to `out`.

    Raises:
        ValueError: The number of items is not a multiple of `len(out)`.
    """
    _write_items(crc32c, items, out)


def crc32_items(items: Sequence[BytesLike], out: Words, /) -> None:
    """Write the CRC-32 of each of `len(out)` equal groups of consecutive items to `out`.

    Raises:
        ValueError: The number of items is not a multiple of `len(out)`.
    """
    _write_items(crc32, items, out)


@overload
def mask(crc: int) -> int: ...
@overload
def mask(crc: Words) -> Words: ...
def mask(crc: int | Words) -> int | Words:
    """Return TFRecord's masked form of a CRC-32C: rotated right by 15 bits, plus a constant, modulo 2**32.

    The mask keeps the CRC strong for data that contain CRCs themselves. Takes one CRC, or a uint32 array of them.
    """
    if isinstance(crc, np.ndarray):
        right, left, delta = np.uint32(15), np.uint32(17), np.uint32(MASK_DELTA)
        return ((crc >> right) | (crc << left)) + delta
    crc = int(crc)
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def _register_after_bytes(register: int, octets: NDArray[np.uint8]) -> int:
    """The textbook loop: one byte, one look-up."""
    table = byte_table()
    for octet in octets.tobytes():
        register = table[(register ^ octet) & 0xFF] ^ (register >> 8)
    return register


def _register_after_piece(register: int, octets: NDArray[np.uint8]) -> int:
    """Join neighbors pairwise, all pairs of a level at once, until one word is left.

    Zero bytes in front do not change a register of 0, so they fill the piece up to whole words, and each level to
    an even number of words. A register other than 0 is XORed into the first four bytes, which is equivalent.
    """
    words = np.zeros(-(-len(octets) // 4), dtype="<u4")
    first = 4 * len(words) - len(octets)
    message = words.view(np.uint8)
    message[first:] = octets
    message[first : first + 4] ^= np.frombuffer(register.to_bytes(4, "little"), dtype=np.uint8)
    words = words.astype(np.uint32, copy=False)
    level = 0
    while len(words) > 1:
        if len(words) % 2:
            words = np.concatenate([np.zeros(1, dtype=np.uint32), words])
        words = _advance(words[0::2], _zeros_table(level)) ^ words[1::2]
        level += 1
    return int(_advance(words, _zeros_table(0))[0])


def _advance(registers: Words, table: Words) -> Words:
    """Return `registers` after the zero bytes of `table`, `(4, 256) uint32`."""
    advanced: Words = table[0].take(registers & 0xFF)
    advanced ^= table[1].take((registers >> 8) & 0xFF)
    advanced ^= table[2].take((registers >> 16) & 0xFF)
    advanced ^= table[3].take(registers >> 24)
    return advanced


@functools.cache
def _zeros_table(level: int) -> Words:
    """Return the table, `(4, 256) uint32`, of `4 * 2**level` zero bytes.

    Entry `[k, b]` is the effect on the later register of byte k, if that byte is b.
    """
    if level > 0:
        half = _zeros_table(level - 1)
        return _advance(half, half)
    shifts = np.array([[0], [8], [16], [24]], dtype=np.uint32)
    registers: Words = np.arange(256, dtype=np.uint32) << shifts
    table = np.array(byte_table(), dtype=np.uint32)
    for _ in range(4):
        registers = table[registers & np.uint32(0xFF)] ^ (registers >> np.uint32(8))
    return registers


@functools.cache
def byte_table() -> list[int]:
    """Return the registers 0 to 255 after one zero byte."""
    table = []
    for register in range(256):
        for _ in range(8):
            register = (register >> 1) ^ (CRC32C_POLYNOMIAL if register & 1 else 0)
        table.append(register)
    return table


def _write_items(checksum: Callable[[BytesLike, int], int], items: Sequence[BytesLike], out: Words) -> None:
    group = len(items) // max(1, len(out))
    if group * len(out) != len(items):
        raise ValueError(f"out must have a checksum for each group of items, found {len(out)} for {len(items)}")
    for i in range(len(out)):
        value = 0
        for item in items[i * group : (i + 1) * group]:
            value = checksum(item, value)
        out[i] = value


def _write_extents(
    checksum: Callable[[NDArray[np.uint8]], int],
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: Words,
) -> None:
    octets = octets_of(buffer)
    _check_extents(len(octets), starts, lengths, out)
    for i, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        out[i] = checksum(octets[start : start + length])


def _check_extents(n_bytes: int, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: Words) -> None:
    for name, array in (("starts", starts), ("lengths", lengths)):
        if array.ndim != 1 or array.dtype != np.int64 or not (array.flags.c_contiguous and array.flags.aligned):
            raise TypeError(f"{name} must be a contiguous int64 array of one dimension")
    if out.ndim != 1 or out.dtype != np.uint32 or not out.flags.carray:
        raise TypeError("out must be a writable contiguous uint32 array of one dimension")
    if not len(starts) == len(lengths) == len(out):
        found = f"{len(starts)}, {len(lengths)} and {len(out)}"
        raise ValueError(f"starts, lengths and out must be equally long, found {found}")
    outside = np.flatnonzero((starts < 0) | (lengths < 0) | (lengths > n_bytes - np.maximum(starts, 0)))
    if outside.size:
        i = int(outside[0])
        extent = f"extent {i} (start {starts[i]}, length {lengths[i]})"
        raise ValueError(f"{extent} is outside the buffer of {n_bytes} bytes")


def octets_of(data: BytesLike) -> NDArray[np.uint8]:
    """Return the bytes of `data` as `(n,) uint8`, without a copy."""
    view = memoryview(cast("Buffer", data))
    if not view.c_contiguous:
        raise ValueError("data must be C-contiguous")
    if view.nbytes == 0:  # frombuffer refuses it
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(view, dtype=np.uint8)


def _checked(value: int) -> int:
    value = operator.index(value)
    if not 0 <= value < 1 << 32:
        raise ValueError(f"value must be in [0, 2**32), found {value}")
    return value
