"""The hot loops: checksums, in C where it was compiled, else in Python and numpy, with the same answers.

Which of the two runs is chosen when this module is imported, by the environment variable
`DATAFORMATS_KERNELS`: `auto` (the default) takes C if it is there, `native` insists on it, `reference` takes
Python. Functions here are thread-safe; the C ones let other threads run while they work on large buffers.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.kernels import reference
from dataformats.kernels.masking import mask

if TYPE_CHECKING:
    from dataformats.kernels.reference import BytesLike

__all__ = [
    "crc32",
    "crc32_extents",
    "crc32c",
    "crc32c_extents",
    "describe",
    "implementation",
    "mask",
    "masked_crc32c",
]

CHOICES = ("auto", "native", "reference")
REMEDY = (
    "install a C compiler and then dataformats again, from source "
    "(`pip install --force-reinstall --no-cache-dir --no-binary dataformats dataformats`), "
    "or set DATAFORMATS_KERNELS=reference to go without and keep this quiet"
)


@dataclass(frozen=True, slots=True)
class _Choice:
    requested: str
    kernels: Any  # the module: `_native` or `reference`, which have the same functions
    native: ModuleType | None
    why_not_native: str | None


def crc32c(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, any C-contiguous buffer.

    `value` is the CRC of the bytes that came before, if `data` goes on from them.

    Raises:
        ValueError: `data` is not C-contiguous, or `value` is not in [0, 2**32).
    """
    return _kernels().crc32c(data, value)  # type: ignore[no-any-return]  # see _Choice.kernels


def crc32(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32 of zlib of `data`, any C-contiguous buffer.

    `value` is the CRC of the bytes that came before, if `data` goes on from them.

    Raises:
        ValueError: `data` is not C-contiguous, or `value` is not in [0, 2**32).
    """
    return _kernels().crc32(data, value)  # type: ignore[no-any-return]  # see _Choice.kernels


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
    _kernels().crc32c_extents(buffer, starts, lengths, out)
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
    _kernels().crc32_extents(buffer, starts, lengths, out)
    return out


def masked_crc32c(data: BytesLike) -> int:
    """Return the masked CRC-32C of `data`, as TFRecord stores it."""
    return mask(crc32c(data))


def implementation() -> str:
    """Return `"native"` (C) or `"reference"` (Python and numpy): the kernels that run."""
    return "reference" if _choice.kernels is reference else "native"


def describe() -> dict[str, Any]:
    """Return which kernels run and why, for bug reports.

    `implementation`; `requested`, what `DATAFORMATS_KERNELS` said; `variants`, the one chosen for each
    checksum; `available`, all that run on this machine, fastest first; `why_not_native`, None where C runs.
    """
    available: dict[str, list[str]] = {} if _choice.native is None else _choice.native.variants()
    return {
        "implementation": implementation(),
        "requested": _choice.requested,
        "variants": {name: names[0] for name, names in available.items()},
        "available": available,
        "why_not_native": _choice.why_not_native,
    }


def _choose(requested: str) -> _Choice:
    if requested not in CHOICES:
        raise ValueError(f"DATAFORMATS_KERNELS must be one of {', '.join(CHOICES)}, found {requested!r}")
    if requested == "reference":
        return _Choice(requested, reference, None, "DATAFORMATS_KERNELS=reference")
    try:
        # Not `from dataformats.kernels import _native`, whose error would speak of a circular import.
        native = importlib.import_module("dataformats.kernels._native")
    except ImportError as error:
        if requested == "native":
            message = f"DATAFORMATS_KERNELS=native, but the compiled kernels are missing: {REMEDY}"
            raise ImportError(message) from error
        return _Choice(requested, reference, None, f"the compiled kernels could not be imported: {error}")
    return _Choice(requested, native, native, None)


@functools.cache
def _kernels() -> Any:
    """Return the module with the kernels; the first call warns if it is the slow one by default."""
    if _choice.requested == "auto" and _choice.native is None:
        message = f"dataformats runs on its slower reference kernels ({_choice.why_not_native}): {REMEDY}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return _choice.kernels


def _int64(name: str, numbers: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(numbers)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, found {array.dtype}")
    return np.require(array, dtype=np.int64, requirements=["C", "A"])


_choice = _choose(os.environ.get("DATAFORMATS_KERNELS", "auto"))
