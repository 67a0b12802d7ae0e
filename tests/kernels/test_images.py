"""Kernels for images: each one undoes PNG's filters and resamples as the reference does."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dataformats.kernels import reference
from dataformats.kernels.images import bilinear, resample
from dataformats.testing.loop_over import loop_over

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

KERNELS = [reference] if _native is None else [reference, _native]
RESAMPLES = [kernel.resample for kernel in KERNELS]
if _native is not None:
    RESAMPLES.append(lambda *arguments: _native.resample(*arguments, True))  # the portable variant


@given(st.data())
def test_unfiltering(data: st.DataObject) -> None:
    channels, width, height = (data.draw(st.integers(1, most)) for most in (4, 7, 5))
    rows = np.frombuffer(data.draw(st.binary(min_size=height * (width * channels + 1), max_size=1000)), np.uint8).copy()
    rows[:: width * channels + 1] %= data.draw(st.sampled_from([1, 2, 3, 4, 5, 6]))
    size = data.draw(st.sampled_from([height * width * channels, width * channels, height]))
    found = []
    for kernel in KERNELS:
        out = np.zeros(size, np.uint8)
        done = kernel.png_unfilter(rows[: height * (width * channels + 1)].tobytes(), width * channels, channels, out)
        found.append((done, out.tolist() if done else None))
    assert all(one == found[0] for one in found)


@loop_over("arguments", [(0, 1), (3, 0), (3, 5), (4, 3), (-3, 3)])
def test_png_unfilter_refuses_wrong_sizes(arguments: tuple[int, int]) -> None:
    for kernel in KERNELS:
        assert kernel.png_unfilter(bytes(8), *arguments, np.zeros(6, np.uint8)) is False


def by_pillow(image: np.ndarray, size: tuple[int, int], box: tuple[float, float, float, float]) -> np.ndarray:
    """Resample along the rows first: Pillow 13 may choose the other order, and round the pixels between differently."""
    (left, top, right, bottom), height = box, image.shape[0]
    narrow = Image.fromarray(image).resize((size[0], height), Image.Resampling.BILINEAR, (left, 0, right, height))
    return np.asarray(narrow.resize(size, Image.Resampling.BILINEAR, (0, top, size[0], bottom)))


SIZES = st.integers(1, 40)


@given(st.data())
def test_resampling_matches_pillow(data: st.DataObject) -> None:
    height, width, rows, columns = (data.draw(SIZES) for _ in range(4))
    image = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 256, (height, width, 3), np.uint8)
    if data.draw(st.booleans()):
        image = np.where(image > 127, np.uint8(255), np.uint8(0))  # sums at their limits
    left, top = data.draw(st.integers(0, 2 * width - 1)) / 2, data.draw(st.integers(0, 2 * height - 1)) / 2
    right = data.draw(st.floats(left, width, exclude_min=True, width=32))
    bottom = data.draw(st.floats(top, height, exclude_min=True, width=32))
    first, above = data.draw(st.integers(0, columns - 1)), data.draw(st.integers(0, rows - 1))
    part = first, above, data.draw(st.integers(1, columns - first)), data.draw(st.integers(1, rows - above))
    flip, planes = data.draw(st.booleans()), data.draw(st.booleans())
    box = (left, top, right, bottom)
    whole = by_pillow(image, (columns, rows), box)
    expected = whole[above : above + part[3], first : first + part[2]][:, :: -1 if flip else 1]
    for one in RESAMPLES:
        out = np.zeros(part[2] * part[3] * 3, np.uint8)
        assert one(image.tobytes(), (height, width), box, (columns, rows), part, flip, planes, out)
        found = out.reshape(3, *expected.shape[:2]).transpose(1, 2, 0) if planes else out.reshape(expected.shape)
        assert np.array_equal(found, expected)


@loop_over("height, width, size", [(375, 500, (224, 224)), (97, 1201, (640, 33)), (3, 2, (9, 300))])
def test_resampling_larger_images(height: int, width: int, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    out = np.zeros((size[1], size[0], 3), np.uint8)
    resample(image, (0, 0, width, height), size, (0, 0, *size), out, flip=False, planes=False)
    assert np.array_equal(out, by_pillow(image, size, (0, 0, width, height)))


@pytest.mark.skipif(_native is None, reason="the reference has no limits")
@loop_over(
    "shape, box, size, part, n_out",
    [
        ((2, 3), (0, 0, 2, 2), (1, 1), (0, 0, 1, 1), 3),
        ((2, 2), (0, 0, 2, 2), (1, 1), (0, 0, 1, 1), 4),
        ((2, 2), (0, 0, 2, 2), (1, 1), (0, 0, 2, 1), 6),
        ((2, 2), (0, 0, 2, 2), (1, 1), (-1, 0, 1, 1), 3),
        ((2, 2), (0, 0, 3, 2), (1, 1), (0, 0, 1, 1), 3),
        ((2, 2), (1, 0, 1, 2), (1, 1), (0, 0, 1, 1), 3),
        ((2, 2), (0, float("nan"), 1, 2), (1, 1), (0, 0, 1, 1), 3),
        ((2, 2), (0, 0, 2, 2), (0, 1), (0, 0, 0, 1), 0),
        ((2, 2), (0, 0, 2, 2), (2**17, 1), (0, 0, 1, 1), 3),
        ((2, 0), (0, 0, 2, 2), (1, 1), (0, 0, 1, 1), 3),
    ],
)
def test_resampling_numbers_out_of_range(shape: Any, box: Any, size: Any, part: Any, n_out: int) -> None:
    assert _native.resample(bytes(12), shape, box, size, part, False, False, np.zeros(n_out, np.uint8)) is False


@given(st.data())
def test_bilinear_kernels_agree(data: st.DataObject) -> None:
    height, width, rows, columns = (data.draw(SIZES) for _ in range(4))
    channels, is_float = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    image = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, height * width * channels, np.uint8)
    stored = (image / np.float32(7)).astype(np.float32) if is_float else image
    found = []
    for kernel in KERNELS:
        out = np.zeros(rows * columns * channels * 4, np.uint8)
        shape, size = (height, width, channels), (rows, columns)
        assert kernel.bilinear(stored.view(np.uint8), shape, size, is_float, out)
        assert not kernel.bilinear(stored.view(np.uint8), shape, size, is_float, out[:-4])
        found.append(out.tobytes())
    assert set(found) == {found[0]}
    if (height, width) == (rows, columns):
        assert np.frombuffer(found[0], np.float32).tolist() == stored.tolist()


@loop_over("shape, size", [((0, 2, 1), (1, 1)), ((2, 2, 1), (0, 1)), ((2, 2, 0), (1, 1)), ((2, -2, 1), (1, 1))])
def test_bilinear_refuses_wrong_sizes(shape: tuple[int, int, int], size: tuple[int, int]) -> None:
    for kernel in KERNELS:
        assert kernel.bilinear(bytes(4), shape, size, False, np.zeros(4, np.uint8)) is False


def test_bilinear_across_an_edge() -> None:
    image = np.array([0, 4, 8, 12], np.uint8).reshape(1, 4, 1)
    assert bilinear(image, 1, 2).ravel().tolist() == [2, 10]
    assert bilinear(image, 2, 8)[1].ravel().tolist() == [0, 1, 3, 5, 7, 9, 11, 12]
