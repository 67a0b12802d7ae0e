"""One number as decimal text: `7`, `-0.5`, `NaN`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column
from dataformats.columns.exact_cast import DTYPES, to_exact_array
from dataformats.errors import SpecError
from dataformats.interfaces import Codec
from dataformats.spec import Type

_WORDS = {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}  # as JavaScript and Python's json write them
_MAX_BYTES = 64  # a longer text is decoded by itself
_REFUSED = "float128"


class _Decimal(Codec):
    """Digits as Python reads them by `int` and `float`; bools are 0 and 1.

    Args:
        name: The number type.
    """

    name = "decimal"

    def __init__(self, name: str) -> None:
        self._kind = Type(name)
        self._dtype = DTYPES[name]

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec of `decimal`, which is int64, or of `decimal(float32)`."""
        if not args:
            return self
        if len(args) > 1 or args[0] not in DTYPES or args[0] == _REFUSED:
            raise SpecError(f"decimal takes one number type, as decimal(float32), found ({','.join(args)})")
        return _Decimal(args[0])

    def encode(self, value: Any) -> bytes:
        """Return the digits of a number, which must fit by the rules of `to_exact_array`."""
        return self._text(to_exact_array(self._kind, value)[()])

    def decode(self, blob: bytes) -> Any:
        """Return the number: `int`, `float` or `bool`."""
        return self._numbers([bytes(blob)])[0].item()

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return an ndarray (B,) of the number type."""
        return self._numbers_at_once(blobs) if self._dtype.kind == "i" else self._numbers(map(bytes, blobs))

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the digits of an array of the number type."""
        if not isinstance(values, np.ndarray) or values.dtype != self._dtype or values.ndim != 1:
            return None
        return Blobs.join([self._text(value) for value in values])

    def _text(self, number: Any) -> bytes:
        if self._dtype.kind != "f":
            return b"%d" % number
        text = str(float(number))  # the digits of a float16 alone are another number to who reads them as a double
        return _WORDS.get(text) or text.encode()

    def _numbers(self, texts: Any) -> NDArray[Any]:
        if self._dtype.kind == "f":
            with np.errstate(over="ignore"):
                return np.array([float(text) for text in texts], np.float64).astype(self._dtype)
        return to_exact_array(Type(self._kind.codec, dims=(None,)), [self._integer(text) for text in texts])

    def _integer(self, text: bytes) -> int:
        number = int(text) if len(text) <= _MAX_BYTES else int(text.strip())
        if self._dtype.kind == "b":
            if number not in (0, 1):
                raise ValueError(f"expected 0 or 1, found {number}")
            return bool(number)
        return number

    def _numbers_at_once(self, blobs: Blobs) -> NDArray[Any]:
        """Return the integers of many texts: numpy parses them as `int` does, if they are short, and ASCII."""
        values, offsets = blobs.contiguous()
        width = int(blobs.lengths.max(initial=0))
        if not 0 < width <= _MAX_BYTES or values.min() == 0 or values.max() > 127:
            return self._numbers(map(bytes, blobs))
        rows = np.zeros((len(blobs), width), np.uint8)
        rows[np.arange(width) < np.diff(offsets)[:, None]] = values
        numbers = rows.view(f"S{width}")[:, 0].astype(np.int64)
        return to_exact_array(Type(self._kind.codec, dims=(None,)), numbers)


DECIMAL = _Decimal("int64")
"""A number as decimal text; int64 without an argument."""
