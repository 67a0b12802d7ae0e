"""Best fit: both kernels place each item in the fullest row with room, as a plain search over all rows does."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats import kernels
from dataformats.kernels import reference

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

SUITES = [
    pytest.param(module, id=str(module.__name__.rsplit(".")[-1]))
    for module in (reference, _native)
    if module is not None
]


def rows_by_search(lengths: list[int], row_length: int) -> list[int]:
    """Return the row of each item: of those with room, the one with the least, and of these the one used last."""
    rooms: list[int] = []
    used: list[int] = []
    rows = []
    for time, length in enumerate(lengths):
        fits = [(room, -used[row], row) for row, room in enumerate(rooms) if room >= length]
        row = min(fits)[2] if fits else len(rooms)
        if not fits:
            rooms.append(row_length)
            used.append(0)
        rooms[row] -= length
        used[row] = time
        rows.append(row)
    return rows


def placed(module: Any, lengths: Any, row_length: int) -> list[int]:
    rows = np.empty(len(lengths), np.int64)
    module.best_fit(np.array(lengths, np.int64), row_length, rows)
    return rows.tolist()


@pytest.mark.parametrize("module", SUITES)
@given(st.data())
def test_best_fit_finds_the_fullest_row(module: Any, data: st.DataObject) -> None:
    row_length = data.draw(st.sampled_from([1, 2, 9, 63, 64, 65, 130, 4095, 4096, 4097, 9000, 300_000]))
    lengths = data.draw(st.lists(st.integers(1, row_length) | st.integers(1, min(12, row_length)), max_size=60))
    assert placed(module, lengths, row_length) == rows_by_search(lengths, row_length)


@pytest.mark.parametrize("row_length", [2048, 131_072])
def test_kernels_agree_on_many_items(row_length: int) -> None:
    lengths = np.random.default_rng(0).integers(1, row_length, 5000, endpoint=True)
    for items in (lengths, -np.sort(-lengths)):
        assert placed(reference, items, row_length) == kernels.best_fit(items, row_length).tolist()


@pytest.mark.parametrize("module", SUITES)
def test_best_fit_refuses_wrong_arguments(module: Any) -> None:
    for lengths, number in (([1, 0], 1), ([5], 0), ([-1], 0), ([1, 2, 2**40], 2)):
        with pytest.raises(ValueError, match=rf"length {number} is outside \[1, 4\]"):
            placed(module, lengths, 4)
    with pytest.raises(ValueError, match="lengths and rows must be equally long, found 2 and 3"):
        module.best_fit(np.ones(2, np.int64), 4, np.empty(3, np.int64))
