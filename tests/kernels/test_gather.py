"""Gathering extents: each kernel copies what plain slicing gives, or names the extent that is outside."""

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
