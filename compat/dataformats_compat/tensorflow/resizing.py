"""`tf.image.resize`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.internals import bilinear
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ResizeMethod", "resize", "resize_from_corners"]


class ResizeMethod:
    """The methods of `resize`."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"


_NUMBERED = {0: "bilinear", 1: "nearest", 2: "bicubic", 3: "area"}  # numbers of TensorFlow 1


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

    Returns:
        float32, or for `"nearest"` the dtype of the images.

    Raises:
        InvalidArgumentError: The images have another shape, or no pixels.
        ValueError: No such method.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.image.resize([[[0.0], [4.0]]], [1, 4]).numpy().ravel().tolist()
        [0.0, 1.0, 3.0, 4.0]
    """
    chosen = _method(method, ("bilinear", "nearest", "bicubic"))
    pixels, rows, columns = _target(images, size, preserve_aspect_ratio)
    if pixels.ndim == 4:
        return as_tensor(np.stack([_resized(one, rows, columns, chosen, antialias) for one in pixels]))
    return as_tensor(_resized(pixels, rows, columns, chosen, antialias))


def resize_from_corners(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: Any = None,
) -> Any:
    """Return images resized, as TensorFlow 1 does it: pixels are points, counted from the corner.

    Raises:
        InvalidArgumentError: The images have another shape, or no pixels.
        ValueError: No such method.
    """
    chosen = _method(method, ("bilinear", "nearest"))
    pixels, rows, columns = _target(images, size, preserve_aspect_ratio)
    axes = ((-3, pixels.shape[-3], rows), (-2, pixels.shape[-2], columns))
    places = {axis: _from_corner(length, wanted, align_corners) for axis, length, wanted in axes}
    if chosen == "nearest":
        for axis, length, _ in axes:
            at = np.floor(places[axis] + np.float32(0.5)) if align_corners else np.floor(places[axis])
            pixels = pixels.take(np.minimum(at.astype(np.int64), length - 1), axis=axis)
        return as_tensor(pixels)
    pixels = pixels.astype(np.float32)
    for axis, length, wanted in reversed(axes):  # across first, as TensorFlow
        low = np.floor(places[axis]).astype(np.int64)
        near, far = pixels.take(low, axis=axis), pixels.take(np.minimum(low + 1, length - 1), axis=axis)
        weights = (places[axis] - low.astype(np.float32)).reshape(wanted, *[1] * (-1 - axis))
        pixels = near + (far - near) * weights
    return as_tensor(pixels)


def _from_corner(length: int, wanted: int, align_corners: bool) -> NDArray[np.float32]:
    aligned = align_corners and wanted > 1
    scale = np.float32(length - 1) / np.float32(wanted - 1) if aligned else np.float32(length) / np.float32(wanted)
    places: NDArray[np.float32] = np.arange(wanted, dtype=np.float32) * scale
    return places


def _method(method: Any, known: tuple[str, ...]) -> str:
    chosen: str = _NUMBERED.get(method, str(method)) if isinstance(method, int) else method
    if chosen not in known:
        raise ValueError(f"method: expected one of {', '.join(map(repr, known))}, found {method!r}")
    return chosen


def _target(images: Any, size: Any, preserve_aspect_ratio: bool) -> tuple[NDArray[Any], int, int]:
    """Return the pixels, and the height and width that they get."""
    pixels = np.asarray(images)
    if pixels.ndim not in (3, 4) or not pixels.size:
        raise InvalidArgumentError(f"expected images of shape (height, width, channels), found {pixels.shape}")
    height, width = pixels.shape[-3:-1]
    rows, columns = (int(one) for one in size)
    if preserve_aspect_ratio:
        scale = min(rows / height, columns / width)
        rows, columns = round(scale * height), round(scale * width)
    if rows < 1 or columns < 1:
        raise InvalidArgumentError(f"size: expected positive sizes, found {[rows, columns]}")
    return pixels, rows, columns


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
    exact = pixels if pixels.dtype in (np.uint8, np.float32) else pixels.astype(np.float32)
    return bilinear(np.ascontiguousarray(exact), rows, columns)


def _nearest(length: int, wanted: int) -> NDArray[np.int64]:
    places = np.floor((np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * np.float32(length / wanted))
    at: NDArray[np.int64] = np.minimum(places.astype(np.int64), length - 1)
    return at


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
