"""Where records lie and where their blobs go: the kernels, their twins, and plain Python."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats import kernels
from dataformats.kernels import reference

MODULES: list[Any] = [reference]
if kernels.implementation() == "native":
    MODULES.append(importlib.import_module("dataformats.kernels._native"))
INT64 = st.integers(-(2**63), 2**63 - 1)


def int64(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize("module", MODULES)
@given(data=st.data())
def test_locate(module: Any, data: Any) -> None:
    counts = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    n = sum(counts)
    starts = int64([sum(counts[:k]) for k in range(len(counts) + 1)])
    offset, length = (int64(data.draw(st.lists(INT64, min_size=n, max_size=n))) for _ in range(2))
    stored = data.draw(st.sampled_from([None, np.arange(n, dtype=np.uint32)]))
    indices = int64(data.draw(st.lists(st.integers(-2, n + 1), max_size=9)))
    k = len(indices)
    out = np.empty(k, np.int32), np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k, np.uint32)
    failed = module.locate(starts, offset, length, stored, indices, *out[:3], None if stored is None else out[3])
    wrong = [at for at, index in enumerate(indices.tolist()) if not 0 <= index < n]
    assert failed == (wrong[0] if wrong else -1)
    if wrong:
        return
    files = [number for number, count in enumerate(counts) for _ in range(count)]
    assert out[0].tolist() == [files[index] for index in indices]
    assert out[1].tolist() == offset[indices].tolist()
    assert out[2].tolist() == length[indices].tolist()
    assert stored is None or out[3].tolist() == stored[indices].tolist()


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("starts", [[], [0], [1, 3], [0, 2], [0, 4], [3, 0]])
def test_locate_wants_an_index_that_fits(module: Any, starts: list[int]) -> None:
    three, out = int64([0, 0, 0]), np.empty(1, np.int64)
    with pytest.raises(ValueError, match="starts must rise from 0 to the number of records"):
        module.locate(int64(starts), three, three, None, int64([0]), np.empty(1, np.int32), out, out, None)


def test_front() -> None:
    found = kernels.locate(int64([0, 1, 3]), int64([5, 6, 7]), int64([1, 2, 3]), None, int64([2, 0]))
    assert [None if part is None else part.tolist() for part in found] == [[1, 0], [7, 5], [3, 1], None]
    with pytest.raises(IndexError, match=r"record 3 is outside \[0, 3\)"):
        kernels.locate(int64([0, 1, 3]), int64([5, 6, 7]), int64([1, 2, 3]), None, int64([0, 3]))
    where = np.array([0, 1], np.int32), int64([0, 12]), int64([4, 5])
    offsets = kernels.places(int64([4, 17]), *where, (0, 0), 100)
    assert offsets is not None
    assert offsets.tolist() == [0, 4, 9]
    assert kernels.places(int64([4, 17]), *where, (0, 1), 100) is None


@pytest.mark.parametrize("module", MODULES)
@given(data=st.data())
def test_places(module: Any, data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(0, 2**62), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(st.integers(-1, len(sizes)), INT64 | SMALL, INT64 | SMALL), max_size=6))
    head, tail, most = data.draw(st.sampled_from([(0, 0, 2**62), (12, 4, 50), (0, 8, 0)]))
    file, offset, length = ([row[column] for row in rows] for column in range(3))
    place = np.empty(len(rows) + 1, np.int64)
    arguments = (np.array(file, np.int32), int64(offset), int64(length), head, tail, most, place)
    total = module.places(int64(sizes), *arguments)
    fits = all(
        0 <= number < len(sizes) and 0 <= n <= most and at >= head and at + n + tail <= sizes[number]
        for number, at, n in rows
    )
    if fits and sum(length) < 2**63:
        assert total == sum(length)
        assert place.tolist() == [sum(length[:k]) for k in range(len(rows) + 1)]
    else:
        assert total == -1


SMALL = st.integers(0, 40)
