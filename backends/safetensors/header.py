"""The header of a safetensors file: its length, and JSON with dtype, shape and place of each tensor."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import StoredFile

BITS = {
    "BOOL": 8,
    "I8": 8,
    "I16": 16,
    "I32": 32,
    "I64": 64,
    "U8": 8,
    "U16": 16,
    "U32": 32,
    "U64": 64,
    "F16": 16,
    "F32": 32,
    "F64": 64,
    "BF16": 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "C64": 64,
}
"""The bits of a number of the dtypes that NumPy or every framework has. The package gets new dtypes now and then."""
_MAX_BYTES = 100_000_000  # the package reads no longer header

_MAX_DIMS = 32


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor.

    Attributes:
        dtype: The name of its dtype, one of `BITS` or another one.
        shape: Its shape.
        first: The byte of the file at which it begins.
        end: The byte behind it.
    """

    dtype: str
    shape: tuple[int, ...]
    first: int
    end: int


def read_header(file: StoredFile) -> dict[str, StoredTensor]:
    """Return the tensors of a file by their names.

    Raises:
        FormatError: The header is damaged.
        TruncatedError: The file ends in it.
    """
    length = int.from_bytes(file.pread(0, 8), "little")
    if length > min(_MAX_BYTES, max(0, file.size - 8)):
        expected, found = f"at most {min(_MAX_BYTES, file.size)} bytes", f"{length} bytes"
        what = "the header is longer than the file, or than any"
        raise TruncatedError(what, path=file.name, offset_bytes=0, expected=expected, found=found)
    try:
        entries = dict(json.loads(file.pread(8, length)))
        entries.pop("__metadata__", None)
        return {name: _tensor(entry, 8 + length) for name, entry in entries.items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise FormatError("the header is damaged", path=file.name, offset_bytes=8, found=str(error)[:200]) from error


def _tensor(entry: Any, base: int) -> StoredTensor:
    dtype, shape, (first, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if len(shape) > _MAX_DIMS:
        raise ValueError(f"a shape of {len(shape)} dimensions")
    if any(type(number) is not int or not 0 <= number < 2**62 for number in (*shape, first, end)):
        raise ValueError(f"no sizes and offsets: {entry}")
    if type(dtype) is not str or not dtype.isascii() or not dtype.isidentifier():
        raise ValueError(f"no dtype: {dtype!r}")
    if end < first or (dtype in BITS and end - first != math.prod(shape) * BITS[dtype] // 8):
        raise ValueError(f"offsets that do not fit the shape: {entry}")
    return StoredTensor(dtype, shape, base + first, base + end)
