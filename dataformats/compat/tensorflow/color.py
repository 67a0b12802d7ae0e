"""The colors of images: conversions and random changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.compat.tensorflow import random
from dataformats.compat.tensorflow.dtypes import numpy_dtype
from dataformats.compat.tensorflow.errors import InvalidArgumentError
from dataformats.compat.tensorflow.tensor import as_tensor

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "convert_image_dtype",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_hue",
    "random_saturation",
    "rgb_to_grayscale",
    "rgb_to_hsv",
]

_GRAY = np.array([0.2989, 0.5870, 0.1140], np.float32)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: Any = None) -> Any:
    """Return an image of another dtype, scaled: floats are from 0 to 1, integers use their whole range.

    Args:
        image: The pixels.
        dtype: The dtype of the result.
        saturate: Limit values to the range of the result, instead of wrapping around.
        name: Ignored.
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
        mean = pixels.mean(axis=(-3, -2), keepdims=True)
        return (pixels - mean) * pixels.dtype.type(contrast_factor) + mean

    return _in_float(images, changed)


def adjust_saturation(image: Any, saturation_factor: float, name: Any = None) -> Any:
    """Return an RGB image whose saturation is multiplied."""

    def changed(pixels: Any) -> Any:
        hsv = np.array(rgb_to_hsv(pixels))
        hsv[..., 1] = np.clip(hsv[..., 1] * saturation_factor, 0, 1)
        return np.asarray(hsv_to_rgb(hsv))

    return _in_float(image, changed)


def adjust_hue(image: Any, delta: float, name: Any = None) -> Any:
    """Return an RGB image whose hue is rotated; 1 is a full turn."""

    def changed(pixels: Any) -> Any:
        hsv = np.array(rgb_to_hsv(pixels))
        hsv[..., 0] = (hsv[..., 0] + delta) % 1
        return np.asarray(hsv_to_rgb(hsv))

    return _in_float(image, changed)


def rgb_to_hsv(images: Any, name: Any = None) -> Any:
    """Return hue, saturation and value of RGB from 0 to 1."""
    pixels = np.asarray(images)
    red, green, blue = np.moveaxis(pixels, -1, 0)
    value, low = pixels.max(axis=-1), pixels.min(axis=-1)
    span = value - low
    safe = np.where(span > 0, span, 1)
    hue = np.where(
        value == red,
        (green - blue) / safe,
        np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = np.where(span > 0, hue / 6 % 1, 0)
    saturation = np.where(value > 0, span / np.where(value > 0, value, 1), 0)
    return as_tensor(np.stack([hue, saturation, value], axis=-1).astype(pixels.dtype))


def hsv_to_rgb(images: Any, name: Any = None) -> Any:
    """Return RGB from 0 to 1 of hue, saturation and value."""
    pixels = np.asarray(images)
    hue, saturation, value = pixels[..., :1], pixels[..., 1:2], pixels[..., 2:]
    offsets = np.array([0, 4, 2], pixels.dtype)  # red, green and blue are maximal a third of a turn apart
    ramp = np.clip(np.abs((hue * 6 + offsets) % 6 - 3) - 1, 0, 1)
    return as_tensor((value * (1 - saturation * (1 - ramp))).astype(pixels.dtype))


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
