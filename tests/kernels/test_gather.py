"""Gathering extents: each kernel copies the bytes of plain slicing, or names the extent that is outside."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataformats.kernels import gather_from, reference
from dataformats.testing.loop_over import loop_over

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

KERNELS = [reference] if _native is None else [reference, _native]


_EXTENTS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-2, 32), st.integers(-2, 32)), max_size=6)


@given(st.lists(st.binary(max_size=30), max_size=3), _EXTENTS)
@example([b"abc"], [(0, 2, 2)])  # it begins inside, and is no longer than the buffer
def test_gathering(buffers: list[bytes], extents: list[tuple[int, int, int]]) -> None:
    numbers, starts, lengths = (np.array([extent[i] for extent in extents], np.int64) for i in range(3))
    fits = [
        0 <= number < len(buffers) and start >= 0 and length >= 0 and start + length <= len(buffers[number])
        for number, start, length in extents
    ]
    if all(fits):
        joined, offsets = gather_from(buffers, numbers, starts, lengths)
        assert joined.tobytes() == b"".join(buffers[number][start : start + n] for number, start, n in extents)
        assert offsets.tolist() == [0, *np.cumsum(lengths).tolist()]
        return
    for kernel in KERNELS:
        assert kernel.gather(buffers, numbers, starts, lengths, np.zeros(1000, np.uint8)) == fits.index(False)
    with pytest.raises(ValueError, match="outside the buffer"):
        gather_from(buffers, numbers, starts, lengths)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gather_refuses_wrong_arguments(kernel: Any) -> None:
    one, two, out = np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(0, np.uint8)
    for arrays in ((two, one, one), (one, two, one), (one, one, two)):
        with pytest.raises(ValueError, match="equally long, found"):
            kernel.gather([b"abc"], *arrays, out)
    with pytest.raises(TypeError):
        kernel.gather([b"abc", "text"], one, one, one, out)
    assert kernel.gather([b"abc"], one, one, one + 2, np.zeros(1, np.uint8)) == 0  # more than `out` holds
    assert kernel.gather([b"abc"], one, one, one + 1, np.zeros(2, np.uint8)) == 1  # less


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(0, 3))
def test_bytes_objects(items: list[bytes], n_long: int) -> None:
    """Long ones are copied without the GIL."""
    items += [bytes([n]) * 40_000 for n in range(n_long)]
    for kernel in KERNELS:
        out = np.zeros(sum(map(len, items)), np.uint8)
        kernel.join_frames(b"", items, b"", out)
        assert out.tobytes() == b"".join(items)
        starts = np.cumsum([0, *map(len, items)])
        assert kernel.bytes_list(out, starts[:-1], np.diff(starts)) == items


@loop_over("kernel", KERNELS)
@loop_over("start, length", [(-1, 1), (0, -1), (4, 0), (1, 3), (1, 2**63 - 1)])
def test_bytes_outside_the_buffer(kernel: Any, start: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"extent 1 .* is outside the buffer"):
        kernel.bytes_list(b"abc", np.array([0, start]), np.array([3, length]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_frames_are_joined(kernel: Any) -> None:
    out = np.zeros(12, np.uint8)
    kernel.join_frames(np.frombuffer(b"(<", np.uint8), [b"abc", b"d"], memoryview(b"1)2>"), out[:10])
    assert out.tobytes() == b"(abc1)<d2>\0\0"
    for heads, items, feet, n in (
        (b"", [b"abc"], b"", 2),
        (b"", [b"abc"], b"", 4),
        (b"(", [b"abc"], b"", 3),
        (b"", [b"abc"], b")", 3),
        (b"(((", [b"ab", b"c"], b"", 6),
        (b"(", [b"a", b"bc", b""], b"1)2", 7),
        (b"(", [], b"", 1),
    ):
        with pytest.raises(ValueError, match="as many bytes as all frames"):
            kernel.join_frames(heads, items, feet, np.zeros(n, np.uint8))
    with pytest.raises(TypeError):
        kernel.join_frames(b"", [b"abc", "d"], b"", np.zeros(4, np.uint8))
    with pytest.raises(ValueError, match="equally long"):
        kernel.bytes_list(b"abc", np.zeros(2, np.int64), np.zeros(1, np.int64))
