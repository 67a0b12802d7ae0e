"""Describe where two values differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.display.differences import find_differences
from dataformats.display.text import array_type
from dataformats.errors import Remedy
from dataformats.inspecting.finding import Finding, shorten_text
from dataformats.spec import Type

_CHARACTERS = 80
_LOSSY = ("jpg", "jpeg", "webp")
_TYPES_REMEDY = Remedy("If that was intended, pass {from_spec} with the new type.", from_spec=...)
_LOSSY_REMEDY = (
    "An image that is encoded again as {codec!r} differs a little: if that was intended, pass {{fields}} without it."
)


def difference(
    expected: Any, found: Any, *, path: str | None, index: int, field: str | None, type_: Type | None
) -> Finding:
    """Return the finding for a value that differs.

    Args:
        expected: The value in the source.
        found: The value in the dataset.
        path: The file of the dataset.
        index: The index of the record in the dataset.
        field: The field; `None` if records are single values.
        type_: The type of the field in the dataset; `None` if stored bytes are compared.
    """
    there, here = _texts(expected, found)
    where = f"record {index}" + (f" of {path!r}" if path else "") + (f", field {field!r}" if field else "")
    remedy = _remedy(expected, found, type_)
    message = f"{where}: expected {there}, found {here}" + (f". {remedy}" if remedy else "")
    return Finding("Difference", shorten_text(message), path, index, None, there, here, remedy, field)


def _texts(expected: Any, found: Any) -> tuple[str, str]:
    if _are(np.ndarray | np.generic, expected, found):
        return _texts_of_arrays(np.asarray(expected), np.asarray(found))
    if _are(bytes, expected, found):
        at = _n_common(*(np.frombuffer(blob, np.uint8) for blob in (expected, found)))
        return _at_byte(expected, at), _at_byte(found, at)
    there, here = _typed(expected), _typed(found)
    letters = (np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) for text in (there, here))
    begin = max(0, _n_common(*letters) - _CHARACTERS // 2)
    return _cut(there, begin), _cut(here, begin)


def _are(kind: Any, *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _typed(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, np.ndarray):
        return _shape(value)
    return f"{type(value).__name__} {value!r}" if isinstance(value, np.generic) else repr(value)


def _shape(array: NDArray[Any]) -> str:
    return array_type(array) if array.ndim else f"{array.dtype} {array}"


def _texts_of_arrays(expected: NDArray[Any], found: NDArray[Any]) -> tuple[str, str]:
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return _shape(expected), _shape(found)
    if not expected.ndim:
        return repr(expected.item()), repr(found.item())
    places = np.flatnonzero(find_differences(expected.reshape(-1), found.reshape(-1)))
    first = tuple(map(int, np.unravel_index(places[0], expected.shape)))
    there, here = expected[first].item(), found[first].item()
    n = f"{len(places)} of {expected.size} values differ{_most(expected, found)}"
    return f"{there!r} at {list(first)} of {_shape(expected)}", f"{here!r} ({n})"


def _most(expected: NDArray[Any], found: NDArray[Any]) -> str:
    """Return the largest difference of small integers, such as pixels."""
    if expected.dtype.kind not in "iu" or expected.dtype.itemsize > 2:
        return ""
    return f", by at most {int(np.abs(expected.astype(np.int32) - found.astype(np.int32)).max())}"


def _n_common(expected: NDArray[Any], found: NDArray[Any]) -> int:
    """Return how many values are equal at the beginning."""
    n = min(len(expected), len(found))
    differs = expected[:n] != found[:n]
    return int(differs.argmax()) if differs.any() else n


def _at_byte(blob: bytes, offset: int) -> str:
    end = f"{blob[offset]:#04x} at byte {offset}" if offset < len(blob) else "no more"
    return f"{len(blob)} bytes, {end}"


def _cut(text: str, begin: int) -> str:
    part = text[begin : begin + _CHARACTERS]
    return f"{'...' if begin else ''}{part}{'...' if begin + _CHARACTERS < len(text) else ''}"


def _remedy(expected: Any, found: Any, type_: Type | None) -> Remedy | None:
    if not _are(np.ndarray | np.generic, expected, found) or type_ is None:
        return None
    if expected.dtype != found.dtype:
        return _TYPES_REMEDY
    if type_.codec in _LOSSY and expected.shape == found.shape:
        return Remedy(_LOSSY_REMEDY.format(codec=type_.codec), fields=...)
    return None
