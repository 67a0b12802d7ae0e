"""Compare two columns item by item, exactly: types, dtypes, shapes and bits."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch.column_types import Nullable, Ragged, StackedList, items_of, take_column
from dataformats.spec import is_short_float

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMPARABLE = frozenset({bytes, str, int, bool, type(None)})  # `==` alone is exact


def find_differences(expected: Any, found: Any) -> NDArray[np.bool_]:
    """Return bool[n]: True for each item in which two columns of `n` items differ.

    Numbers are compared bit by bit: a NaN is the same as a NaN of the same bits, and 0.0 is not -0.0.

    Args:
        expected: A column of any type.
        found: Another one; its type may differ.
    """
    if isinstance(expected, StackedList) and isinstance(found, StackedList):
        expected, found = expected.stacked, found.stacked
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray) and expected.dtype.kind in "biuf":
        return _differing_arrays(expected, found)
    if isinstance(expected, Nullable) and isinstance(found, Nullable):
        in_values = find_differences(expected.values, found.values) & expected.present
        return in_values | (expected.present ^ found.present)
    if isinstance(expected, Ragged) and isinstance(found, Ragged) and expected.item_kind == found.item_kind:
        return _differing_ragged(expected, found)
    both_lists = isinstance(expected, list) and isinstance(found, list)
    pairs = zip(*((expected, found) if both_lists else (items_of(expected), items_of(found))), strict=True)
    return np.fromiter((not is_same(there, here) for there, here in pairs), np.bool_, len(expected))


def is_same(expected: Any, found: Any) -> bool:
    """Return True if two values have the same type, dtype, shape and bits, also inside lists and dicts."""
    if type(expected) in _COMPARABLE:
        return type(found) is type(expected) and bool(expected == found)
    if isinstance(expected, np.ndarray | np.generic) and isinstance(found, np.ndarray | np.generic):
        if expected.dtype != found.dtype or expected.shape != found.shape:
            return False
        if expected.dtype.kind not in "biuf" and not is_short_float(expected.dtype):
            return bool(np.all(expected == found))
        return not _unequal(np.asarray(expected), np.asarray(found)).any()
    if type(expected) is not type(found):
        return False
    if isinstance(expected, float):
        return struct.pack("d", expected) == struct.pack("d", found)
    if isinstance(expected, Mapping):
        return expected.keys() == found.keys() and all(is_same(expected[key], found[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(expected) == len(found) and all(map(is_same, expected, found))
    return bool(expected == found)


def _differing_arrays(expected: NDArray[Any], found: NDArray[Any]) -> NDArray[np.bool_]:
    n = len(expected)
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return np.ones(n, np.bool_)
    unequal = _unequal(expected, found)
    if not unequal.any():
        return np.zeros(n, np.bool_)
    differs: NDArray[np.bool_] = np.logical_or.reduce(unequal.reshape(n, -1), axis=1)
    return differs


def _unequal(expected: NDArray[Any], found: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare the numbers of two arrays of one dtype and shape bit by bit."""
    width = expected.dtype.itemsize
    if width <= 8:
        differs: NDArray[np.bool_] = expected.view(f"u{width}") != found.view(f"u{width}")
    else:  # some bits of a float128 may be padding
        differs = (expected != found) | (np.signbit(expected) ^ np.signbit(found))
        differs &= ~(np.isnan(expected) & np.isnan(found))
    return differs


def _differing_ragged(expected: Ragged, found: Ragged) -> NDArray[np.bool_]:
    differs: NDArray[np.bool_] = expected.lengths != found.lengths
    if expected.present is not None or found.present is not None:
        differs |= _present(expected) ^ _present(found)
    if differs.any():
        same = np.flatnonzero(~differs)
        differs[same] = _differing_ragged(expected.take(same), found.take(same)) if len(same) else False
        return differs
    of_values = find_differences(_values(expected), _values(found))
    if of_values.any():
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(of_values)])
        ends = expected.offsets - expected.offsets[0]
        differs = before[ends[1:]] != before[ends[:-1]]
    return differs


def _present(column: Ragged) -> NDArray[np.bool_]:
    return np.ones(len(column), np.bool_) if column.present is None else column.present


def _values(column: Ragged) -> Any:
    first, stop = int(column.offsets[0]), int(column.offsets[-1])
    whole = first == 0 and stop == len(column.values)
    return column.values if whole else take_column(column.values, np.arange(first, stop))
