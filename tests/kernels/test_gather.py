"""Gathering extents: each kernel copies the bytes of plain slicing, or names the extent that is outside."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.kernels import gather, reference

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

KERNELS = [reference] if _native is None else [reference, _native]


@given(st.binary(max_size=30), st.lists(st.tuples(st.integers(-2, 32), st.integers(-2, 32)), max_size=6))
def test_gathering(data: bytes, extents: list[tuple[int, int]]) -> None:
    starts, lengths = (np.array([extent[i] for extent in extents], np.int64) for i in (0, 1))
    fits = [start >= 0 and length >= 0 and start + length <= len(data) for start, length in extents]
    if all(fits):
        joined, offsets = gather(data, starts, lengths)
        assert joined.tobytes() == b"".join(data[start : start + length] for start, length in extents)
        assert offsets.tolist() == [0, *np.cumsum(lengths).tolist()]
        return
    for kernel in KERNELS:
        assert kernel.gather(data, starts, lengths, np.zeros(1000, np.uint8)) == fits.index(False)
    with pytest.raises(ValueError, match="outside the buffer"):
        gather(data, starts, lengths)


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(0, 3))
def test_bytes_objects(items: list[bytes], n_long: int) -> None:
    """Long ones are copied without the GIL."""
    items += [bytes([n]) * 40_000 for n in range(n_long)]
    for kernel in KERNELS:
        out = np.zeros(sum(map(len, items)), np.uint8)
        kernel.join_bytes(items, out)
        assert out.tobytes() == b"".join(items)
        starts = np.cumsum([0, *map(len, items)])
        assert kernel.bytes_list(out, starts[:-1], np.diff(starts)) == items


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1), (4, 0), (1, 3), (1, 2**63 - 1)])
def test_bytes_outside_the_buffer(kernel: Any, start: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"extent 1 .* is outside the buffer"):
        kernel.bytes_list(b"abc", np.array([0, start]), np.array([3, length]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_join_bytes_refuses_wrong_sizes(kernel: Any) -> None:
    for n in (2, 4):
        with pytest.raises(ValueError, match="as many bytes as all items"):
            kernel.join_bytes([b"abc"], np.zeros(n, np.uint8))
    with pytest.raises(TypeError):
        kernel.join_bytes([b"abc", "d"], np.zeros(4, np.uint8))
    with pytest.raises(ValueError, match="equally long"):
        kernel.bytes_list(b"abc", np.zeros(2, np.int64), np.zeros(1, np.int64))
