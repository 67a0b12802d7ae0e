r"""Encoders and decoders by type; the arguments of a type, which are texts, follow the value.

Example:
    >>> from dataformats_compat.bags import decoders, encoders
    >>> encoders["int"](200), encoders["int"](200, "4"), decoders["int"](bytes([200]))
    (b'\xc8', b'\xc8\x00\x00\x00', 200)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataformats_compat.granular.formats import CODECS, decode_image, decode_video, encode_image, encode_video
from dataformats_compat.granular.utils import ArgumentError

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


image_encode: Callable[..., bytes] = partial(encode_image, format="jpeg")
"""Returns an image file of an array, as Pillow writes it; the quality is ignored, as in the original."""

image_decode = decode_image
mp4_decode = decode_video


def mp4_encode(array: NDArray[Any], fps: Any = 15) -> bytes:
    """Return an MP4 of uint8 (n, h, w, 3), in H.264. Needs the extra `video`."""
    return encode_video(array, float(fps))


_CODECS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{name: CODECS[name] for name in ("bytes", "utf8", "msgpack")},
    "int": (int_encode, int_decode),
    "array": (array_encode, array_decode),
    "jpeg": (image_encode, image_decode),
    "png": (partial(encode_image, format="png"), image_decode),
    "mp4": (mp4_encode, mp4_decode),
}

encoders: dict[str, Callable[..., Any]] = {name: encode for name, (encode, _) in _CODECS.items()}
"""Type to the function from a value to bytes."""

decoders: dict[str, Callable[..., Any]] = {name: decode for name, (_, decode) in _CODECS.items()}
"""Type to the function from bytes to a value."""
