"""Decode and encode image files with TensorFlow's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.codecs import images
from dataformats.internals import empty
from dataformats_compat.tensorflow.dtypes import numpy_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import array_of, as_tensor, tensor_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "decode_and_crop_jpeg", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png",
    "extract_jpeg_shape", "is_jpeg",
]  # fmt: skip

_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG"
_LUMA = np.array([9797, 19234, 3737], np.uint32)  # libpng's weights, in units of 2^-15


def decode_jpeg(
    contents: bytes,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: Any = None,
) -> Any:
    """Return the pixels of a JPEG, or of a PNG.

    Args:
        contents: The bytes of the file.
        channels: 0 as in the file, 1 gray, 3 RGB.
        ratio: 1, 2, 4 or 8: the sizes are divided by it, rounded up.
        fancy_upscaling: Interpolate between color pixels.
        try_recover_truncated: Accepted; truncated images are refused.
        dct_method: `"INTEGER_ACCURATE"`, or the faster `"INTEGER_FAST"`, TensorFlow's default.

    Returns:
        uint8 (height, width, channels).

    Raises:
        InvalidArgumentError: The bytes are no such image, or are damaged.

    Example:
        >>> import numpy as np
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.decode_jpeg(tf.io.encode_jpeg(np.zeros([4, 6, 3], np.uint8))).shape
        (4, 6, 3)
    """
    if ratio not in (1, 2, 4, 8):
        raise InvalidArgumentError(f"ratio: expected 1, 2, 4 or 8, found {ratio}")
    fast = {"fast_dct": dct_method != "INTEGER_ACCURATE", "fast_upsample": not fancy_upscaling}
    return as_tensor(_as_dtype(_decoded(contents, channels, (0, 1, 3, 4), ratio, fast), "uint8"))


def decode_png(contents: bytes, channels: int = 0, dtype: Any = "uint8", name: Any = None) -> Any:
    """Return the pixels of a PNG, or of a JPEG.

    Args:
        contents: The bytes of the file.
        channels: 0 as in the file, 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA.
        dtype: `tf.uint8` or `tf.uint16`.

    Returns:
        (height, width, channels) of that dtype.

    Raises:
        InvalidArgumentError: The bytes are no such image, or are damaged.
    """
    return as_tensor(_as_dtype(_decoded(contents, channels, (0, 1, 2, 3, 4)), dtype, contents.startswith(_JPEG)))


def decode_image(
    contents: bytes, channels: int | None = None, dtype: Any = "uint8", name: Any = None, expand_animations: bool = True
) -> Any:
    """Return the pixels of a JPEG or PNG.

    Args:
        contents: The bytes of the file.
        channels: 0 or `None` as in the file, 1 gray, 3 RGB, 4 RGBA.
        dtype: `tf.uint8`, `tf.uint16`, or `tf.float32`: from 0 to 1.
        expand_animations: Accepted: there are no animations.

    Returns:
        (height, width, channels) of that dtype.

    Raises:
        InvalidArgumentError: The bytes are no such image, or are damaged.
    """
    pixels = _decoded(contents, channels or 0, (0, 1, 3, 4))
    if numpy_dtype(dtype).kind == "f":
        return as_tensor((pixels * np.float32(1 / np.iinfo(pixels.dtype).max)).astype(numpy_dtype(dtype)))
    return as_tensor(_as_dtype(pixels, dtype, contents.startswith(_JPEG)))


def decode_and_crop_jpeg(contents: bytes, crop_window: Any, *args: Any, **named: Any) -> Any:
    """Return a part of the pixels of a JPEG.

    Args:
        contents: The bytes of the file.
        crop_window: Top, left, height and width, in the pixels of the reduced image.
        args: The other arguments of `decode_jpeg`.
        named: The other arguments of `decode_jpeg`.

    Raises:
        InvalidArgumentError: The window is not within the image, or the bytes are no such image.
    """
    _check_start(contents, (_JPEG,))
    return crop_to_bounding_box(decode_jpeg(contents, *args, **named), *crop_window)


def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Any:
    """Return a part of an image.

    Raises:
        InvalidArgumentError: It is not within the image.
    """
    pixels = np.asarray(image)
    height, width = pixels.shape[-3:-1]
    top, left, rows, columns = int(offset_height), int(offset_width), int(target_height), int(target_width)
    if min(top, left) < 0 or min(rows, columns) < 1 or top + rows > height or left + columns > width:
        found = [top, left, rows, columns]
        raise InvalidArgumentError(f"expected a part of {height} x {width} pixels, found {found}")
    return as_tensor(pixels[..., top : top + rows, left : left + columns, :])


def extract_jpeg_shape(contents: bytes, output_type: Any = "int32", name: Any = None) -> Any:
    """Return height, width and channels of a JPEG, from its header.

    Raises:
        InvalidArgumentError: The bytes are no JPEG.
    """
    _check_start(contents, (_JPEG,))
    try:
        shape = images.JPG.opened(contents).shape
    except ValueError as error:
        raise InvalidArgumentError(f"the image of {len(contents)} bytes does not decode: {error}") from error
    if shape is None:
        shape = _decoded(contents, 0, (0,)).shape
    return as_tensor(np.array((*shape, 1)[:3], numpy_dtype(output_type)))


def is_jpeg(contents: Any, name: Any = None) -> Any:
    """Return bool: which strings begin as a JPEG."""
    texts = array_of(contents)
    return tensor_of(np.array([one.startswith(_JPEG) for one in texts.ravel().tolist()], bool).reshape(texts.shape))


def encode_jpeg(image: Any, format: str = "", quality: int = 95, name: Any = None, **ignored: Any) -> Any:
    """Return the JPEG of pixels, a string.

    Args:
        image: uint8 (height, width, 1 or 3).
        format: Accepted: the channels say it.
        quality: 1 to 100.
        ignored: TensorFlow's other options are accepted, without effect.

    Raises:
        InvalidArgumentError: The pixels have another shape or dtype.
    """
    return _written(images.Jpg(quality), image)


def encode_png(image: Any, compression: int = -1, name: Any = None) -> Any:
    """Return the PNG of pixels, a string.

    Args:
        image: uint8 (height, width, 1 to 4), or uint16 (height, width, 1).

    Raises:
        InvalidArgumentError: The pixels have another shape or dtype.
    """
    return _written(images.PNG, image)


def _written(codec: Any, image: Any) -> Any:
    pixels = np.asarray(image)
    if pixels.ndim != 3:
        raise InvalidArgumentError(f"expected an image of shape (height, width, channels), found {pixels.shape}")
    try:
        return as_tensor(codec.encode(pixels[..., 0] if pixels.shape[2] == 1 else pixels))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from error


def _check_start(contents: Any, starts: tuple[bytes, ...]) -> None:
    if not isinstance(contents, bytes) or not contents.startswith(starts):
        start = contents[:8] if isinstance(contents, bytes) else type(contents).__name__
        raise InvalidArgumentError(f"expected the bytes of a JPEG or PNG, found {start!r}")


def _decoded(
    contents: bytes,
    channels: int,
    allowed: tuple[int, ...],
    ratio: int = 1,
    fast: Mapping[str, bool] = MappingProxyType({"fast_dct": True}),
) -> NDArray[Any]:
    """Return (height, width, channels)."""
    _check_start(contents, (_JPEG, _PNG))
    is_jpeg_file = contents.startswith(_JPEG)
    if channels not in allowed or (is_jpeg_file and channels not in (0, 1, 3)):
        raise InvalidArgumentError(
            f"channels: expected one of {allowed[:3] if is_jpeg_file else allowed}, found {channels}"
        )
    try:
        pixels = _of_jpeg(contents, channels, ratio, fast) if is_jpeg_file else images.PNG.decode(contents)
    except (ValueError, OSError, SyntaxError) as error:
        raise InvalidArgumentError(f"the image of {len(contents)} bytes does not decode: {error}") from error
    return _channels(pixels, channels)


def _of_jpeg(contents: bytes, channels: int, ratio: int, fast: Mapping[str, bool]) -> NDArray[Any]:
    """Return (h, w) or (h, w, 3)."""
    opened = images.JPG.opened(contents)
    if opened.shape is not None:
        height, width = (-(-size // ratio) for size in opened.shape[:2])
        is_gray = channels == 1 or (channels == 0 and len(opened.shape) == 2)
        out = empty(height, width, *(() if is_gray else (3,)))
        if opened.fill(out, ratio, **fast):
            return out
    if ratio > 1:
        return images.decode_scaled(contents, lambda height, width: ratio)[0]
    return opened.by_pillow()


def _channels(pixels: NDArray[Any], channels: int) -> NDArray[Any]:
    """Return (height, width, channels)."""
    found = pixels[..., None] if pixels.ndim == 2 else pixels
    have = found.shape[2]
    if channels in (0, have):
        return found
    color = found[..., : have - (have in (2, 4))]
    if channels >= 3 and color.shape[2] == 1:
        color = np.repeat(color, 3, axis=2)
    elif channels <= 2 and color.shape[2] == 3:
        color = (color @ _LUMA >> 15).astype(pixels.dtype)[..., None]
    if channels in (1, 3):
        return color
    full = np.iinfo(pixels.dtype).max
    alpha = found[..., -1:] if have in (2, 4) else np.full_like(color[..., :1], full)
    return np.concatenate([color, alpha], axis=2)


def _as_dtype(pixels: NDArray[Any], dtype: Any, shifted: bool = False) -> NDArray[Any]:
    """Return pixels of 8 or 16 bits; `shifted`: 255 becomes 0xff00 instead of 0xffff."""
    kind = numpy_dtype(dtype)
    if kind.name not in ("uint8", "uint16"):
        raise InvalidArgumentError(f"dtype: expected tf.uint8 or tf.uint16, found {dtype!r}")
    if pixels.dtype == kind:
        return pixels
    if kind == np.uint8:
        return (pixels >> 8).astype(np.uint8)
    return pixels.astype(np.uint16) * np.uint16(256 if shifted else 257)
