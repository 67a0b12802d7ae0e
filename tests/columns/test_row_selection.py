"""take_rows: rows of several columns are those that taking from the joined columns gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.batch import Nullable, Ragged, concat_columns, take_column, take_rows
from dataformats.testing.loop_over import loop_over


def _ragged(lengths: list[int], values: Any = None, **options: Any) -> Ragged:
    offsets = np.append(0, np.cumsum(lengths))
    return Ragged(np.arange(offsets[-1]) if values is None else values, offsets, **options)


_TEXT = _ragged([2, 0, 3], np.frombuffer(b"abcde", np.uint8), item_kind="utf8")
_COLUMNS: dict[str, list[Any]] = {
    "numbers": [np.arange(3.0), np.arange(10.0, 15)],
    "images": [np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.ones((4, 3, 4), np.uint8)],
    "no bytes": [np.zeros((2, 0)), np.zeros((3, 0))],
    "strided": [np.arange(6)[::2], np.arange(3)],
    "other dtypes": [np.arange(3, dtype=np.int32), np.arange(3.5)],
    "times": [np.arange(3).astype("datetime64[s]"), np.arange(4).astype("datetime64[s]")],
    "text": [_TEXT, _TEXT],
    "a part of a column": [Ragged(np.arange(9), np.array([2, 4, 7])), _ragged([1, 2])],
    "pairs": [_ragged([1, 2], np.arange(6).reshape(3, 2)), _ragged([2], np.ones((2, 2), np.int64))],
    "lists of text": [Ragged(_TEXT, np.array([0, 1, 3])), Ragged(_TEXT, np.array([0, 0, 2]))],
    "some missing": [_ragged([1, 0], present=np.array([True, False])), _ragged([2, 1])],
    "nullable": [Nullable(np.arange(2), np.array([True, False])), Nullable(np.arange(3), np.ones(3, bool))],
    "lists": [["a", None], [b"c", 4, "e"]],
}


@loop_over("columns", _COLUMNS.values())
def test_rows_are_taken_from_their_columns(columns: list[Any]) -> None:
    rng = np.random.default_rng(1)
    begins = np.cumsum([0, *map(len, columns[:-1])])
    for n in (0, 1, 40):
        owners = rng.integers(len(columns), size=n)
        rows = rng.integers([len(columns[owner]) for owner in owners.tolist()], dtype=np.int64)
        _assert_same(take_rows(columns, owners, rows), take_column(concat_columns(columns), begins[owners] + rows))


def _assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, list):
        assert found == expected
    else:
        _assert_same(found.values, expected.values)
        np.testing.assert_array_equal(found.present, expected.present)
    if isinstance(expected, Ragged):
        assert found.item_kind == expected.item_kind
        np.testing.assert_array_equal(found.offsets, expected.offsets)
