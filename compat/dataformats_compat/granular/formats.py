"""Encoders and decoders by type: blobs equal the original's byte for byte, and every function pickles.

Example:
    >>> from dataformats_compat.granular import decoders, encoders
    >>> encoders["int"](97), decoders["int"](b"a")
    (b'a', 97)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from io import BytesIO
from itertools import pairwise
from operator import methodcaller
from types import FunctionType
from typing import Any, Literal, cast

import msgpack
import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.codecs.videos import Video
from dataformats.interfaces import Codec, codecs
from dataformats.internals import JPG, MP4, PNG, WEBM
from dataformats_compat.granular.utils import ArgumentError

__all__ = [
    "CODECS", "decode_array", "decode_image", "decode_int", "decode_tree", "decode_video", "decoders", "encode_array",
    "encode_image", "encode_int", "encode_tree", "encode_video", "encoders",
]  # fmt: skip

_ARRAY, _INT = codecs.get("array"), codecs.get("int")
_ARRAY_MARK = "_"  # the first of four items that are an array in a tree
_MAX_INT_BYTES = 16


def encode_int(
    value: int, size: int | None = None, signed: bool = True, endian: Literal["little", "big"] = "little"
) -> bytes:
    """Return the bytes of an integer: `size` bytes, or as few as fit.

    The original cannot encode negative ones, 128 to 255, and others whose top bit is set; it decodes their bytes.

    Raises:
        OverflowError: It does not fit in `size` bytes.
    """
    if size is None and signed and endian == "little":
        return _INT.encode(value)
    if size is None:
        size = max(1, -(-(value.bit_length() + signed) // 8))
    return int(value).to_bytes(size, endian, signed=signed)


def decode_int(
    buffer: bytes, size: int | None = None, signed: bool = True, endian: Literal["little", "big"] = "little"
) -> int:
    """Return the integer of these bytes.

    Raises:
        ArgumentError: There are not `size` of them, or more than 16.
    """
    if (size is not None and len(buffer) != size) or len(buffer) > _MAX_INT_BYTES:
        raise ArgumentError(f"expected {size or f'at most {_MAX_INT_BYTES}'} bytes, found {len(buffer)}")
    return int.from_bytes(buffer, endian, signed=signed)


def encode_array(value: NDArray[Any]) -> bytes:
    """Return the bytes of an array, whatever its memory layout."""
    if value.dtype.kind in "biufc":
        return _ARRAY.encode(value)
    return cast("bytes", msgpack.packb((value.dtype.str, value.shape, np.ascontiguousarray(value).data)))


def decode_array(buffer: bytes) -> NDArray[Any]:
    """Return the array, which is read-only."""
    dtype, shape, data = msgpack.unpackb(buffer)
    return np.frombuffer(data, dtype).reshape(shape)


def encode_tree(value: Any) -> bytes:
    """Return the bytes of nested lists and mappings with arrays in them; tuples come back as lists."""
    return cast("bytes", msgpack.packb(value, default=_array_parts))


def decode_tree(buffer: bytes) -> Any:
    """Return the tree; its arrays are read-only."""
    return msgpack.unpackb(buffer, list_hook=_array_or_list)


def _array_parts(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected mappings, lists, arrays, numbers, text or bytes, found {type(value).__name__}")
    return _ARRAY_MARK, value.dtype.str, value.shape, np.ascontiguousarray(value).data


def _array_or_list(parts: list[Any]) -> Any:
    if len(parts) == 4 and isinstance(parts[0], str) and parts[0] == _ARRAY_MARK:
        return np.frombuffer(parts[3], parts[1]).reshape(parts[2])
    return parts


def encode_image(value: NDArray[Any], quality: int = 100, format: str = "jpg") -> bytes:
    """Return an image file of an array, as Pillow writes it; `quality` is ignored, as in the original."""
    from PIL import Image

    stream = BytesIO()
    Image.fromarray(value).save(stream, "JPEG" if format.lower() == "jpg" else format.upper())
    return stream.getvalue()


def decode_image(buffer: bytes, *args: Any) -> NDArray[Any]:
    """Return the pixels of an image file as Pillow gives them: uint8 (h, w) or (h, w, channels)."""
    for codec, start in ((JPG, b"\xff\xd8\xff"), (PNG, b"\x89PNG")):
        if buffer.startswith(start):
            opened = codec.opened(buffer)
            if opened.shape is not None:
                return opened.decode()
    from PIL import Image

    return np.asarray(Image.open(BytesIO(buffer)))


def encode_video(array: NDArray[Any], fps: float = 20, format: str | None = None, codec: str = "h264") -> bytes:
    """Return a video of uint8 (n, h, w, 3): MP4, or WebM if `codec` is `"vp9"`. Needs the extra `video`."""
    video = WEBM if "webm" in (format, "webm" if codec == "vp9" else None) else MP4
    rate = Fraction(fps).limit_denominator(10**6)
    return (video if rate == video.fps else Video(video.container, rate)).encode(array)


def decode_video(buffer: bytes, *args: Any) -> NDArray[np.uint8]:
    """Return the frames of an MP4 or WebM, uint8 (n, h, w, 3). Needs the extra `video`."""
    return (MP4 if buffer[4:8] == b"ftyp" else WEBM).decode(buffer)


def _as_is(value: bytes) -> bytes:
    return value


CODECS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "bytes": (_as_is, _as_is),
    "utf8": (methodcaller("encode"), methodcaller("decode")),
    "msgpack": (msgpack.packb, msgpack.unpackb),
    "int": (encode_int, decode_int),
    "i64": (partial(encode_int, size=8, signed=True), partial(decode_int, size=8, signed=True)),
    "u64": (partial(encode_int, size=8, signed=False), partial(decode_int, size=8, signed=False)),
    "array": (encode_array, decode_array),
    "tree": (encode_tree, decode_tree),
    "jpg": (partial(encode_image, format="jpg"), decode_image),
    "png": (partial(encode_image, format="png"), decode_image),
    "mp4": (partial(encode_video, codec="h264"), decode_video),
    "webm": (partial(encode_video, codec="vp9"), decode_video),
}
"""Type to its encoder and its decoder."""

encoders: dict[str, Callable[..., Any]] = {name: encode for name, (encode, _) in CODECS.items()}
"""Type to the function from a value to bytes."""

decoders: dict[str, Callable[..., Any]] = {name: decode for name, (_, decode) in CODECS.items()}
"""Type to the function from bytes to a value."""

_BATCH_CODECS: dict[Callable[[bytes], Any], Codec] = {decode_array: _ARRAY, decode_int: _INT}


def decode_all(decode: Callable[[bytes], Any], data: bytes, limits: Sequence[int]) -> list[Any]:
    """Return the values of several blobs that lie back to back.

    Args:
        decode: Decodes one; some of the functions of `decoders` are done for all at once.
        data: The blobs.
        limits: n + 1 offsets in `data`: where each begins and ends.
    """
    codec = _BATCH_CODECS.get(decode) if isinstance(decode, FunctionType) else None
    if codec is not None and len(limits) > 1:
        try:
            ends = np.array(limits, np.int64)
            lengths = ends[1:] - ends[:-1]
            return list(codec.decode_batch(Blobs.back_to_back(np.frombuffer(data, np.uint8), lengths)))
        except Exception:  # a value that the codec refuses, or a damaged one: `decode` raises its error
            pass
    return [decode(data[start:stop]) for start, stop in pairwise(limits)]
