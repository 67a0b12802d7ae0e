"""Granular's integers: as few bytes as fit, a fixed number of bytes, or eight.

The bytes of an `int` do not tell if it is signed: Granular up to 0.17.0 wrote unsigned integers, later versions
write signed ones. So the type tells it: `int` is signed, `int(unsigned)` is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dataformats.batch import Blobs, Column
from dataformats.columns.exact_cast import to_exact_array
from dataformats.columns.numbers import NumberColumn
from dataformats.errors import SpecError
from dataformats.interfaces import Codec
from dataformats.spec import Type

MAX_BYTES = 16
"""The most bytes of an `int` without a size: Granular's limit."""

MAX_SIZE = 1024
"""The largest size of an `int(size)`."""

_WORD = 8  # bytes of numpy's widest integers
_UNUSED = 8 * np.arange(_WORD, -1, -1, dtype=np.uint64)  # unused bits of a word that holds 0 to 8 bytes
_MIN_MAGNITUDES = {  # the least magnitude that needs 1 to 8 bytes
    False: np.array([1, *(2 ** (8 * size) for size in range(1, _WORD))], np.uint64),
    True: np.array([0, *(2 ** (8 * size - 1) for size in range(1, _WORD))], np.uint64),
}
_SIZE = re.compile(r"[1-9]\d{0,3}")


class Int(Codec):
    """Little-endian, as few bytes as fit.

    Args:
        signed: True: two's complement, with one byte more if a non-negative number would set the top bit, and at
            least one byte. False: unsigned; 0 has no bytes.
    """

    name = "int"
    portable = False  # a bag of generation 1 has the same bytes for 200 as generation 3 for -56

    def __init__(self, signed: bool = True) -> None:
        self.signed = signed
        self._word: np.dtype[Any] = np.dtype(np.int64 if signed else np.uint64)

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec of `int`, `int(unsigned)`, `int(8)` or `int(3,big)`."""
        if not args:
            return self
        if tuple(args) == ("unsigned",):
            return Int(signed=False)
        size, order = args[0], args[1] if len(args) > 1 else "little"
        if len(args) > 2 or order not in ("little", "big") or not _SIZE.fullmatch(size) or int(size) > MAX_SIZE:
            raise SpecError(
                f"int takes nothing, 'unsigned', or a size from 1 to {MAX_SIZE} and 'little' or 'big', as int(8) or "
                f"int(3,big), found ({','.join(args)})"
            )
        return SizedInt(int(size), "big" if order == "big" else "little")

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a Python or numpy integer. Bools raise."""
        number = _integer(value)
        if number < 0 and not self.signed:
            raise ValueError(f"expected an integer from 0 up for int(unsigned), found {number}")
        # Two's complement has a sign bit besides the bits of n, or of -n - 1 if n is negative.
        bits = (number if number >= 0 else ~number).bit_length() + self.signed
        size = -(-bits // 8)
        if size > MAX_BYTES:
            raise ValueError(f"expected an integer of at most {MAX_BYTES} bytes, found {size}")
        return number.to_bytes(size, "little", signed=self.signed)

    def decode(self, blob: bytes) -> int:
        """Return the integer. It may have more bytes than it needs; no bytes are 0."""
        if len(blob) > MAX_BYTES:
            raise ValueError(f"expected at most {MAX_BYTES} bytes, found {len(blob)}")
        return int.from_bytes(blob, "little", signed=self.signed)

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return a list of `int`: whether all fit in 64 bits depends on the data, and columns only on the spec."""
        try:
            unused = _UNUSED[blobs.lengths]
        except IndexError:  # one is longer than a word
            return [self.decode(blob) for blob in blobs]
        values, offsets = blobs.contiguous()
        # A word from each byte on: the bytes of a blob, and the bytes behind it, which the left shift pushes out. The
        # right shift fills in the sign.
        words = np.ndarray(len(values) + 1, "<u8", values.tobytes() + bytes(_WORD), strides=1)[offsets[:-1]]
        numbers = (words << unused).view(self._word) >> unused.view(self._word)
        found: list[int] = numbers.tolist()
        return found

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the bytes of a list of `int` of at most 64 bits."""
        if not isinstance(values, list) or set(map(type, values)) != {int}:
            return None
        words = np.array(values, self._word.newbyteorder("<"))
        magnitudes = (words ^ (words >> 63) if self.signed else words).astype(np.uint64)
        lengths = np.searchsorted(_MIN_MAGNITUDES[self.signed], magnitudes, side="right")
        return Blobs(words.view(np.uint8), _WORD * np.arange(len(words)), lengths)


class SizedInt(Codec):
    """Unsigned, in a fixed number of bytes, as in Granular 0.5.

    Args:
        size: Bytes, 1 to `MAX_SIZE`.
        order: Byte order.
    """

    name = "int"

    def __init__(self, size: int, order: Literal["little", "big"] = "little") -> None:
        self.size = size
        self.blob_bytes: int | None = size
        self.order: Literal["little", "big"] = order

    def encode(self, value: Any) -> bytes:
        """Return the bytes of an integer in `[0, 256 ** size)`."""
        number = _integer(value)
        if number < 0 or number.bit_length() > 8 * self.size:
            raise ValueError(f"expected an integer from 0 to 2^{8 * self.size} - 1, found {_shown(number)}")
        return number.to_bytes(self.size, self.order)

    def decode(self, blob: bytes) -> int:
        """Return the integer."""
        if len(blob) != self.size:
            raise ValueError(f"expected {self.size} bytes, found {len(blob)}")
        return int.from_bytes(blob, self.order)


class _Word(Codec):
    """Eight bytes, little-endian: Granular's name for the number type of the same range."""

    blob_bytes: int | None = _WORD

    def __init__(self, name: str, number: str) -> None:
        self.name = name
        self._numbers = NumberColumn(Type(number))

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a Python or numpy integer, or of an integer array of shape ()."""
        return to_exact_array(self._numbers.kind, value).tobytes()

    def decode(self, blob: bytes) -> Any:
        """Return an `int`."""
        return self._numbers.column(Blobs.join([blob]))[0].item()

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return int64 or uint64 (B,)."""
        return self._numbers.column(blobs)

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the bytes of numbers of the same range, or of a list of `int`."""
        return self._numbers.blobs(values)


def _integer(value: Any) -> int:
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iu":
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"expected an integer, found {type(value).__name__}")
    return int(value)


def _shown(number: int) -> str:
    # Python does not print integers of more than 4300 digits.
    return str(number) if number.bit_length() <= 256 else f"one of {number.bit_length()} bits"


INT = Int()
"""Signed, as few bytes as fit."""

I64 = _Word("i64", "int64")
"""Signed, eight bytes."""

U64 = _Word("u64", "uint64")
"""Unsigned, eight bytes."""
