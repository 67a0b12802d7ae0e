"""The header of an `.npy` file, as `numpy.lib.format` specifies it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import StoredFile

MAGIC = npy_format.MAGIC_PREFIX
_MAX_BYTES = 12 + 10_000  # NumPy reads no longer header
_READ = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """The header of an array in C order.

    Attributes:
        dtype: Its dtype.
        shape: Its shape.
        first: The byte at which the first element begins.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    first: int


def read_header(file: StoredFile) -> ArrayHeader:
    """Read the header of a file.

    Raises:
        FormatError: It is damaged, of another version, or of an array in Fortran order or of objects.
        TruncatedError: The file ends in it.
    """
    data = file.pread(0, _MAX_BYTES)
    try:
        version = npy_format.read_magic(io.BytesIO(data))
        if version not in _READ:
            found = f"version {version[0]}.{version[1]}"
            raise FormatError("unknown version", path=file.name, offset_bytes=6, expected="1.0 or 2.0", found=found)
        head = io.BytesIO(data)
        head.seek(len(MAGIC) + 2)
        shape, is_fortran, dtype = _READ[version](head)
    except FormatError:
        raise
    except Exception as error:  # NumPy evaluates a text, which raises errors of many kinds
        kind = TruncatedError if file.size < _MAX_BYTES and "EOF" in str(error) else FormatError
        raise kind("the header is damaged", path=file.name, offset_bytes=0, found=str(error)[:200]) from error
    if is_fortran and len(shape) > 1:
        what, remedy = "the array is in Fortran order", "Save it as numpy.ascontiguousarray(array)"
        raise FormatError(what, path=file.name, offset_bytes=0, expected="C order", remedy=remedy)
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise FormatError("the shape is damaged", path=file.name, offset_bytes=0, found=shape)
    return ArrayHeader(dtype, shape, head.tell())
