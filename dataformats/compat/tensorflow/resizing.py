"""`tf.image.resize`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.compat.tensorflow.errors import InvalidArgumentError
from dataformats.compat.tensorflow.tensor import as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ResizeMethod", "resize"]


class ResizeMethod:
    """The methods of `resize`."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"


_NUMBERED = {0: "bilinear", 1: "nearest", 2: "bicubic", 3: "area"}  # of TensorFlow 1


def resize(
    images: Any,
    size: Sequence[int],
    method: Any = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: Any = None,
) -> Any:
    """Return images resized, as TensorFlow 2 does it: pixels are squares, and edges repeat.

    Args:
        images: (height, width, channels), or a batch of them.
        size: Height and width of the result.
        method: `"bilinear"`, `"nearest"` or `"bicubic"`.
        preserve_aspect_ratio: `size` is the most that height and width become.
        antialias: Smooth an image that becomes smaller.
        name: Ignored.

    Returns:
        float32; of `"nearest"`, the dtype of the images.

    Raises:
        InvalidArgumentError: The images have another shape, or no pixels.
        ValueError: No such method.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> tf.image.resize([[[0.0], [4.0]]], [1, 4]).numpy().ravel().tolist()
        [0.0, 1.0, 3.0, 4.0]
    """
    pixels = np.asarray(images)
    chosen = _NUMBERED.get(method, method) if isinstance(method, int) else method
    if chosen not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"method: expected 'bilinear', 'nearest' or 'bicubic', found {method!r}")
    if pixels.ndim not in (3, 4) or not pixels.size:
        raise InvalidArgumentError(f"expected images of shape (height, width, channels), found {pixels.shape}")
    height, width = pixels.shape[-3:-1]
    rows, columns = (int(one) for one in size)
    if preserve_aspect_ratio:
        scale = min(rows / height, columns / width)
        rows, columns = round(scale * height), round(scale * width)
    if rows < 1 or columns < 1:
        raise InvalidArgumentError(f"size: expected positive sizes, found {[rows, columns]}")
    if pixels.ndim == 4:
        return as_tensor(np.stack([_resized(one, rows, columns, chosen, antialias) for one in pixels]))
    return as_tensor(_resized(pixels, rows, columns, chosen, antialias))


def _resized(pixels: NDArray[Any], rows: int, columns: int, method: str, antialias: bool) -> NDArray[Any]:
    height, width = pixels.shape[:2]
    if method == "nearest":
        return pixels[_nearest(height, rows)[:, None], _nearest(width, columns)]
    if (height, width) == (rows, columns):
        return pixels.astype(np.float32)
    if antialias or method == "bicubic":
        kernel, support = _KERNELS[method]
        across = _weighted(pixels, 1, *_taps(width, columns, kernel, support, antialias))
        return _weighted(across, 0, *_taps(height, rows, kernel, support, antialias))
    return _bilinear(pixels, rows, columns)


def _nearest(length: int, wanted: int) -> NDArray[np.int64]:
    places = np.floor((np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * np.float32(length / wanted))
    at: NDArray[np.int64] = np.minimum(places.astype(np.int64), length - 1)
    return at


def _bilinear(pixels: NDArray[Any], rows: int, columns: int) -> NDArray[np.float32]:
    """Interpolate across, then down, in float32: the order of operations is TensorFlow's."""
    height, width, channels = pixels.shape
    upper, lower, down = _between(height, rows)
    left, right, across = _between(width, columns)
    if 2 * rows < height:
        pixels, upper, lower = pixels[np.concatenate([upper, lower])], np.arange(rows), np.arange(rows, 2 * rows)
    # Rows of numbers, not of pixels: numpy's loops over three channels take four times as long.
    lines = np.ascontiguousarray(pixels).reshape(-1, width * channels)
    first, second = (_numbers(lines, at, channels) for at in (left, right))
    wide = _blend(first, second, np.repeat(across, channels))
    return _blend(wide[upper], wide[lower], down[:, None]).reshape(rows, columns, channels)


def _numbers(lines: NDArray[Any], at: NDArray[np.int64], channels: int) -> NDArray[np.float32]:
    """Return these pixels of all rows."""
    places = (at[:, None] * channels + np.arange(channels)).reshape(-1)
    return lines.take(places, axis=1, mode="clip").astype(np.float32)


def _blend(first: NDArray[np.float32], second: NDArray[np.float32], part: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return `first + (second - first) * part`, in the memory of `second`."""
    second -= first
    second *= part
    second += first
    return second


def _between(length: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return the two neighbors of each place, and its distance from the first."""
    scale = np.float32(length / wanted)
    places = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    floor = np.floor(places)
    first = np.maximum(floor.astype(np.int64), 0)
    second = np.minimum(np.ceil(places).astype(np.int64), length - 1)
    return first, np.maximum(second, 0), (places - floor).astype(np.float32)


# ---- other kernels


def _triangle(x: NDArray[Any]) -> NDArray[Any]:
    weights: NDArray[Any] = np.maximum(0.0, 1.0 - np.abs(x))
    return weights


def _cubic(x: NDArray[Any]) -> NDArray[Any]:
    """Return Keys' kernel with a = -0.5."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


_KERNELS: dict[str, tuple[Callable[[NDArray[Any]], NDArray[Any]], float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic, 2.0),
}


def _taps(
    length: int, wanted: int, kernel: Callable[[NDArray[Any]], NDArray[Any]], support: float, antialias: bool
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the pixels that each place needs, and their weights, (wanted, taps)."""
    scale = length / wanted
    stretch = max(scale, 1.0) if antialias else 1.0
    centers = (np.arange(wanted) + 0.5) * scale
    n = math.ceil(support * stretch) * 2 + 1
    first = np.floor(centers - support * stretch).astype(np.int64)
    at = first[:, None] + np.arange(n + 1)
    weights = kernel((at + 0.5 - centers[:, None]) / stretch) * ((at >= 0) & (at < length))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.clip(at, 0, length - 1), weights.astype(np.float32)


def _weighted(
    pixels: NDArray[Any], axis: int, at: NDArray[np.int64], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    shape = (-1, 1, 1) if axis == 0 else (-1, 1)
    total: Any = 0
    for tap in range(at.shape[1]):
        total = total + pixels.take(at[:, tap], axis=axis) * weights[:, tap].reshape(shape)
    result: NDArray[np.float32] = total
    return result
