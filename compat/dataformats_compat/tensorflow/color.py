"""The colors of images: conversions and random changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats_compat.tensorflow import random
from dataformats_compat.tensorflow.dtypes import numpy_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import Tensor, array_of, as_tensor

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "convert_image_dtype",
    "grayscale_to_rgb", "hsv_to_rgb", "per_image_standardization", "random_brightness", "random_contrast",
    "random_hue", "random_saturation", "rgb_to_grayscale", "rgb_to_hsv",
]  # fmt: skip

_GRAY = np.array([0.2989, 0.5870, 0.1140], np.float32)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: Any = None) -> Any:
    """Return an image of another dtype, scaled: floats are from 0 to 1, integers use their whole range.

    Args:
        image: The pixels.
        dtype: The dtype of the result.
        saturate: Limit values to the range of the result, instead of wrapping around.
    """
    pixels, kind = np.asarray(image), numpy_dtype(dtype)
    have = pixels.dtype
    if have == kind:
        return as_tensor(pixels)
    if have.kind in "iu" and kind.kind in "iu":
        most, wanted = int(np.iinfo(have).max), int(np.iinfo(kind).max)
        if most > wanted:
            return as_tensor((pixels // ((most + 1) // (wanted + 1))).astype(kind))
        return as_tensor(pixels.astype(kind) * kind.type((wanted + 1) // (most + 1)))
    if kind.kind == "f":
        if have.kind == "f":
            return as_tensor(pixels.astype(kind))
        return as_tensor(pixels.astype(kind) * kind.type(1.0 / np.iinfo(have).max))
    scaled = pixels * have.type(np.iinfo(kind).max + 0.5)
    if saturate:
        scaled = np.clip(scaled, np.iinfo(kind).min, np.iinfo(kind).max)
    with np.errstate(invalid="ignore"):  # out of range: documented by `saturate`
        return as_tensor(scaled.astype(kind))


def _in_float(image: Any, change: Any) -> Any:
    """Apply `change` to the pixels as float32, and return them in the dtype of the image."""
    pixels = np.asarray(image)
    floats = np.asarray(convert_image_dtype(pixels, "float32" if pixels.dtype.kind in "iu" else pixels.dtype))
    return convert_image_dtype(change(floats), pixels.dtype, saturate=True)


def per_image_standardization(image: Any) -> Any:
    """Return images as float32, each with mean 0 and variance 1."""
    pixels = np.asarray(image).astype(np.float32)
    axes = (-3, -2, -1)
    count = pixels.shape[-1] * pixels.shape[-2] * pixels.shape[-3]
    deviation = np.maximum(pixels.std(axis=axes, keepdims=True), np.float32(1 / np.sqrt(count)))
    return as_tensor((pixels - pixels.mean(axis=axes, keepdims=True)) / deviation)


def rgb_to_grayscale(images: Any, name: Any = None) -> Any:
    """Return the luma of RGB images: (..., 1)."""
    return _in_float(images, lambda pixels: (pixels @ _GRAY.astype(pixels.dtype))[..., None])


def grayscale_to_rgb(images: Any, name: Any = None) -> Any:
    """Return gray images as RGB."""
    return as_tensor(np.repeat(np.asarray(images), 3, axis=-1))


def adjust_brightness(image: Any, delta: float) -> Any:
    """Return an image with a number added; integers are scaled to the range from 0 to 1 for it."""
    return _in_float(image, lambda pixels: pixels + pixels.dtype.type(delta))


def adjust_contrast(images: Any, contrast_factor: float) -> Any:
    """Return images whose distance from the mean of each channel is multiplied."""

    def changed(pixels: Any) -> Any:
        *batch, height, width, channels = pixels.shape
        lines = pixels.reshape(*batch, height, width * channels)  # one dimension less: numpy is slow at three numbers
        sums = lines.sum(axis=-2).reshape(*batch, width, channels).sum(axis=-2, dtype=np.float64)
        mean = (sums / (height * width)).astype(pixels.dtype)[..., None, :]
        mean = np.broadcast_to(mean, (*batch, width, channels)).reshape(*batch, 1, width * channels)
        distances = lines - mean
        distances *= pixels.dtype.type(contrast_factor)
        distances += mean
        return distances.reshape(pixels.shape)

    return _in_float(images, changed)


def adjust_saturation(image: Any, saturation_factor: float, name: Any = None) -> Any:
    """Return an RGB image whose saturation is multiplied."""

    def changed(pixels: Any) -> Any:
        hue, saturation, value = _hsv_planes(pixels)
        saturation *= pixels.dtype.type(saturation_factor)
        return _rgb(hue, np.clip(saturation, 0, 1, out=saturation), value)

    return _in_float(image, changed)


def adjust_hue(image: Any, delta: float, name: Any = None) -> Any:
    """Return an RGB image whose hue is rotated; 1 is a full turn.

    Raises:
        ValueError: `delta` is not in [-1, 1].
    """
    if not -1 <= delta <= 1:
        raise ValueError(f"delta: expected a number in [-1, 1], found {delta}")

    def changed(pixels: Any) -> Any:
        hue, saturation, value = _hsv_planes(pixels)
        hue += pixels.dtype.type(delta)
        hue -= np.floor(hue)
        return _rgb(hue, saturation, value)

    return _in_float(image, changed)


def rgb_to_hsv(images: Any, name: Any = None) -> Any:
    """Return hue, saturation and value, from 0 to 1, of RGB from 0 to 1; of an array of integers as float32.

    Raises:
        InvalidArgumentError: The images are a tensor of integers.
    """
    return as_tensor(np.stack(_hsv_planes(_floats(images)), axis=-1))


def hsv_to_rgb(images: Any, name: Any = None) -> Any:
    """Return RGB from 0 to 1 of hue, saturation and value from 0 to 1; of an array of integers as float32.

    Raises:
        InvalidArgumentError: The images are a tensor of integers.
    """
    return as_tensor(_rgb(*_planes(_floats(images))))


def _floats(images: Any) -> Any:
    pixels = array_of(images)
    if pixels.dtype.kind == "f":
        return pixels
    if isinstance(images, Tensor):
        raise InvalidArgumentError(
            f"expected images of floats, found {images.dtype!r}", remedy="Use tf.image.convert_image_dtype"
        )
    return pixels.astype(np.float32)


# ---- planes: channels in separate arrays, where numpy is several times faster than in pixels of three numbers


def _planes(pixels: Any) -> list[Any]:
    if pixels.shape[-1] != 3:
        raise InvalidArgumentError(f"expected images of 3 channels, found the shape {pixels.shape}")
    return [np.ascontiguousarray(pixels[..., channel]) for channel in range(3)]


def _hsv_planes(pixels: Any) -> tuple[Any, Any, Any]:
    red, green, blue = _planes(pixels)
    number = pixels.dtype.type
    value = np.maximum(red, green)
    np.maximum(value, blue, out=value)
    span, scale, hue = np.minimum(red, green), np.empty_like(value), red - green
    np.minimum(span, blue, out=span)
    np.subtract(value, span, out=span)
    is_green, is_red = green == value, red == value
    with np.errstate(all="ignore"):
        np.divide(number(1 / 6), span, out=scale)
        hue *= scale
        hue += number(4 / 6)
        np.subtract(green, blue, out=green)
        green *= scale
        np.subtract(blue, red, out=blue)
        blue *= scale
        blue += number(2 / 6)
        saturation = np.divide(span, value, out=red)
    np.copyto(hue, blue, where=is_green)
    np.copyto(hue, green, where=is_red)
    np.copyto(saturation, 0, where=~(value > 0))
    hue += hue < 0
    np.copyto(hue, 0, where=~(span > 0))
    return hue, saturation, value


def _rgb(hue: Any, saturation: Any, value: Any) -> Any:
    number = hue.dtype.type
    hue *= number(6)
    rest, plane = number(1) - saturation, np.empty_like(hue)
    pixels = np.empty((*hue.shape, 3), hue.dtype)
    for channel, center in enumerate((3, 2, 4)):
        np.subtract(hue, number(center), out=plane)
        np.abs(plane, out=plane)
        np.subtract(*((plane, number(1)) if not channel else (number(2), plane)), out=plane)
        np.maximum(plane, number(0), out=plane)
        np.minimum(plane, number(1), out=plane)
        plane *= saturation
        plane += rest
        np.multiply(plane, value, out=pixels[..., channel])
    return pixels


def random_brightness(image: Any, max_delta: float, seed: Any = None) -> Any:
    """Return `adjust_brightness` by a random number from `-max_delta` to `max_delta`."""
    return adjust_brightness(image, _draw("max_delta", -max_delta, max_delta))


def random_contrast(image: Any, lower: float, upper: float, seed: Any = None) -> Any:
    """Return `adjust_contrast` by a random factor."""
    return adjust_contrast(image, _draw("lower, upper", lower, upper))


def random_saturation(image: Any, lower: float, upper: float, seed: Any = None) -> Any:
    """Return `adjust_saturation` by a random factor."""
    return adjust_saturation(image, _draw("lower, upper", lower, upper))


def random_hue(image: Any, max_delta: float, seed: Any = None) -> Any:
    """Return `adjust_hue` by a random number from `-max_delta` to `max_delta`."""
    return adjust_hue(image, _draw("max_delta", -max_delta, max_delta))


def _draw(name: str, low: float, high: float) -> float:
    if low > high:
        raise InvalidArgumentError(f"{name}: expected a range, found {low} to {high}")
    return float(random.generator().uniform(low, high))
