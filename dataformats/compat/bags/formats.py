r"""Encoders and decoders by type; the arguments of a type, which are texts, follow the value.

Example:
    >>> from dataformats.compat.bags import decoders, encoders
    >>> encoders["int"](200), encoders["int"](200, "4"), decoders["int"](bytes([200]))
    (b'\xc8', b'\xc8\x00\x00\x00', 200)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import NDArray

from dataformats.compat.granular.formats import decode_image, decode_video, encode_image, encode_video
from dataformats.compat.granular.formats import decoders as granular_decoders
from dataformats.compat.granular.formats import encoders as granular_encoders
from dataformats.compat.granular.utils import ArgumentError

__all__ = [
    "array_decode", "array_encode", "decoders", "encoders", "image_decode", "image_encode", "int_decode",
    "int_encode", "mp4_decode", "mp4_encode",
]  # fmt: skip


def int_encode(value: int, size: Any = None, endian: Literal["little", "big"] = "little") -> bytes:
    """Return the bytes of an unsigned integer: `size` bytes, or as few as fit, which are none for 0.

    Raises:
        OverflowError: It is negative, or does not fit.
    """
    return value.to_bytes(-(-value.bit_length() // 8) if size is None else int(size), endian)


def int_decode(buffer: bytes, size: Any = None, endian: Literal["little", "big"] = "little") -> int:
    """Return the unsigned integer of these bytes."""
    return int.from_bytes(buffer, endian)


def array_encode(value: NDArray[Any], dtype: str, *shape: str) -> bytes:
    """Return the data of an array of this dtype and shape.

    Raises:
        ArgumentError: It has another dtype or shape.
    """
    if value.dtype != np.dtype(dtype) or value.shape != tuple(map(int, shape)):
        raise ArgumentError(f"expected {dtype} ({', '.join(shape)}), found {value.dtype} {value.shape}")
    return value.tobytes()


def array_decode(buffer: bytes, dtype: str, *shape: str) -> NDArray[Any]:
    """Return the array, which is read-only."""
    return np.frombuffer(buffer, dtype).reshape(tuple(map(int, shape)))


def image_encode(value: NDArray[Any], quality: Any = None, format: str = "jpeg") -> bytes:
    """Return an image file of an array, as Pillow writes it; `quality` is ignored, as in the original."""
    return encode_image(value, format=format)


def image_decode(buffer: bytes, *args: Any) -> NDArray[Any]:
    """Return the pixels of an image file as Pillow gives them: uint8 (h, w) or (h, w, channels)."""
    return decode_image(buffer)


def mp4_encode(array: NDArray[Any], fps: Any = 15) -> bytes:
    """Return an MP4 of uint8 (n, h, w, 3), in H.264. Needs the extra `video`."""
    return encode_video(array, float(fps))


def mp4_decode(buffer: bytes, *args: Any) -> NDArray[np.uint8]:
    """Return the frames of an MP4, uint8 (n, h, w, 3). Needs the extra `video`."""
    return decode_video(buffer)


encoders: dict[str, Callable[..., Any]] = {
    "bytes": granular_encoders["bytes"],
    "utf8": granular_encoders["utf8"],
    "msgpack": msgpack.packb,
    "int": int_encode,
    "array": array_encode,
    "jpeg": partial(image_encode, format="jpeg"),
    "png": partial(image_encode, format="png"),
    "mp4": mp4_encode,
}
"""Type to the function from a value to bytes."""

decoders: dict[str, Callable[..., Any]] = {
    "bytes": granular_decoders["bytes"],
    "utf8": granular_decoders["utf8"],
    "msgpack": msgpack.unpackb,
    "int": int_decode,
    "array": array_decode,
    "jpeg": image_decode,
    "png": image_decode,
    "mp4": mp4_decode,
}
"""Type to the function from bytes to a value."""
