"""Find the values of fields in JSON objects: numbers, text, lists of integers. These kernels exist only in C."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.buffers import empty
from dataformats.kernels.dispatch import implementation, kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


class JsonKind(IntEnum):
    """The value of a field in a record."""

    ABSENT = 0
    NULL = 1
    BOOL = 2
    INTEGER = 3
    FLOAT = 4
    """A number with a fraction or an exponent."""
    TEXT = 5
    """Text without escapes."""
    ESCAPED = 6
    """Text with escapes."""
    NESTED = 7
    """A list or an object."""


class JsonValues(NamedTuple):
    """The values of one field in n records.

    Attributes:
        kinds: uint8[n], a `JsonKind` each.
        begins: int64[n], the first byte of each value in the buffer; of text, behind the quote.
        lengths: int64[n], its bytes; of text, without the quotes.
        numbers: int64[n], of `BOOL` and `INTEGER`.
    """

    kinds: NDArray[np.uint8]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    numbers: NDArray[np.int64]


def find_json_fields(
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    names: tuple[bytes, ...],
    *,
    only_names: bool,
) -> list[JsonValues] | None:
    """Return where the fields lie in each record `buffer[starts[i] : starts[i] + lengths[i]]`.

    Args:
        buffer: Any C-contiguous buffer.
        starts: int64[n].
        lengths: int64[n].
        names: The keys of the fields, in UTF-8.
        only_names: An object with another key is not simple.

    Returns:
        The values of each field; the last of equal keys counts. `None` if the kernels run in Python, or if a record is
        not simple: no object of JSON in UTF-8, a key with an escape, lone surrogates, an integer of more than 18
        digits, `NaN`, more than 32 levels of nesting.
    """
    if implementation() != "native":
        return None
    n, n_names = len(starts), len(names)
    kinds, numbers = np.empty(n_names * n, np.uint8), [np.empty(n_names * n, np.int64) for _ in range(3)]
    columns = [np.ascontiguousarray(column, np.int64) for column in (starts, lengths)]
    if kernels().json_find(buffer, *columns, names, only_names, kinds, *numbers) >= 0:
        return None
    parts: list[Any] = [kinds.reshape(n_names, n), *(one.reshape(n_names, n) for one in numbers)]
    return [JsonValues(*(part[name] for part in parts)) for name in range(n_names)]


def unescape_json(
    buffer: BytesLike, begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts that `find_json_fields` found, back to back in UTF-8, and their lengths int64[n].

    Raises:
        ValueError: There is no such text.
    """
    begins, lengths = np.ascontiguousarray(begins, np.int64), np.ascontiguousarray(lengths, np.int64)
    out, written = empty(max(0, int(lengths.sum()))), np.empty(len(begins), np.int64)
    n_bytes = kernels().json_unescape(buffer, begins, lengths, out, written)
    if n_bytes < 0:
        raise ValueError("a text is outside the buffer, or has an invalid escape")
    return out[:n_bytes], written


def read_json_integers(
    buffer: BytesLike, begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the integers of lists that `find_json_fields` found, int64[sum], and the number of each list, int64[n].

    `None` if a list has something else, or an integer of more than 18 digits.
    """
    begins, lengths = np.ascontiguousarray(begins, np.int64), np.ascontiguousarray(lengths, np.int64)
    out, written = np.empty(max(0, int(lengths.sum()) // 2), np.int64), np.empty(len(begins), np.int64)
    n = kernels().json_integers(buffer, begins, lengths, out, written)
    return None if n < 0 else (out[:n].copy(), written)
