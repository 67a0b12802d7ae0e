"""Images as JPEG and PNG files, by Pillow.

Decoded: uint8 `(height, width)` for grey and `(height, width, channels)` for the rest, channels being 2 (grey
and alpha), 3 (RGB) or 4 (RGBA); 16-bit grey PNGs are uint16. Palettes become RGB, or RGBA where they have
transparency; bilevel images become 0 and 255; CMYK JPEGs become RGB. EXIF orientation is not applied.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from dataformats.errors import SpecError
from dataformats.interfaces import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["JPG", "MAX_PIXELS", "PNG", "Jpg", "Png"]

MAX_PIXELS = 2**28
"""The most pixels that are decoded, so that a small blob cannot ask for all memory."""

_JPEG_START, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNK = struct.Struct(">I4s")  # length, type; then the data, and CRC-32 of type and data: PNG 3rd ed., 5.3
_PNG_HEADER = struct.Struct(">IIBB")  # width, height, bit depth, colour type: 11.2.1
_GREY = 0


class Jpg(Codec):
    """JPEG.

    Args:
        quality: 1 to 100, for encoding; 75 is Pillow's own choice.
        max_pixels: The most pixels that are decoded.
    """

    name = "jpg"

    def __init__(self, quality: int = 75, max_pixels: int = MAX_PIXELS) -> None:
        self.quality = quality
        self.max_pixels = max_pixels

    def configured(self, args: Sequence[str]) -> Codec:
        """Return the codec with another quality, as in `jpg(90)`."""
        if not args:
            return self
        if len(args) != 1 or not args[0].isdigit() or not 1 <= int(args[0]) <= 100:
            raise SpecError(f"jpg takes a quality from 1 to 100, as jpg(90), found ({','.join(args)})")
        return Jpg(int(args[0]), self.max_pixels)

    def encode(self, value: Any) -> bytes:
        """Return a JPEG of a uint8 array, (h, w) or (h, w, 3); the bytes of a JPEG are returned unchanged."""
        if isinstance(value, bytes):
            return _already(value, _JPEG_START, "JPEG")
        array = _checked(value, (np.dtype(np.uint8),), channels=(3,))
        return _saved(array, "JPEG", quality=self.quality)

    def decode(self, blob: bytes) -> NDArray[Any]:
        """Return uint8 (h, w) or (h, w, 3)."""
        _already(blob, _JPEG_START, "JPEG")
        if blob.rfind(_JPEG_END) < 0:
            raise ValueError("the JPEG is truncated: no end marker")
        image = _within(JpegImageFile(BytesIO(blob)), self.max_pixels)
        return np.array(image if image.mode in ("L", "RGB") else image.convert("RGB"))


class Png(Codec):
    """PNG, with the checksum of every chunk verified.

    Args:
        max_pixels: The most pixels that are decoded.
    """

    name = "png"

    def __init__(self, max_pixels: int = MAX_PIXELS) -> None:
        self.max_pixels = max_pixels

    def encode(self, value: Any) -> bytes:
        """Return a PNG of a uint8 array, (h, w) or (h, w, 2 to 4), or a uint16 array (h, w).

        The bytes of a PNG are returned unchanged.
        """
        if isinstance(value, bytes):
            return _already(value, _PNG_START, "PNG")
        array = _checked(value, (np.dtype(np.uint8), np.dtype(np.uint16)), channels=(2, 3, 4))
        if array.dtype == np.uint16 and array.ndim != 2:
            raise ValueError(f"expected uint16 of shape (h, w), found {array.shape}: colour has 8 bits here")
        return _saved(array, "PNG")

    def decode(self, blob: bytes) -> NDArray[Any]:
        """Return uint8 (h, w) or (h, w, 2 to 4), or uint16 (h, w)."""
        _already(blob, _PNG_START, "PNG")
        _check_chunks(blob)
        image = _within(PngImageFile(BytesIO(blob)), self.max_pixels)
        if image.mode.startswith("I"):
            return np.array(image).astype(np.uint16)
        return np.array(image.convert(_plain_mode(image)))


def _already(blob: bytes, start: bytes, what: str) -> bytes:
    if not blob.startswith(start):
        raise ValueError(f"expected the bytes of a {what}, found {bytes(blob[:8])!r}")
    return blob


def _checked(value: Any, dtypes: tuple[np.dtype[Any], ...], channels: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") not in dtypes:
        raise TypeError(f"expected an array of {' or '.join(map(str, dtypes))}, found {array.dtype}")
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in channels):
        allowed = ", ".join(f"(h, w, {count})" for count in channels)
        raise ValueError(f"expected shape (h, w), {allowed}, found {array.shape}")
    if 0 in array.shape:
        raise ValueError(f"expected at least one pixel, found shape {array.shape}")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _saved(array: NDArray[Any], kind: str, **options: Any) -> bytes:
    stream = BytesIO()
    Image.fromarray(array).save(stream, kind, **options)
    return stream.getvalue()


def _within(image: Image.Image, max_pixels: int) -> Image.Image:
    # The plug-ins are called directly: Image.open would try other formats, and warn of what is checked here.
    if image.width * image.height > max_pixels:
        raise ValueError(f"expected at most {max_pixels} pixels, found {image.width} x {image.height}")
    image.load()
    return image


def _plain_mode(image: Image.Image) -> str:
    """Return the mode that holds every pixel of a PNG, transparency included."""
    transparent = "transparency" in image.info
    if image.mode in ("1", "L"):
        return "LA" if transparent else "L"
    if image.mode in ("P", "RGB"):
        return "RGBA" if transparent else "RGB"
    return image.mode


def _check_chunks(blob: bytes) -> None:
    """Raise where a PNG is cut or damaged: Pillow itself looks at few of the checksums."""
    chunks = list(_chunks(blob))
    if chunks[0] != b"IHDR" or chunks[-1] != b"IEND":
        raise ValueError("the PNG is truncated: no IEND chunk")
    depth, colour = _PNG_HEADER.unpack_from(blob, len(_PNG_START) + _PNG_CHUNK.size)[2:]
    if depth == 16 and colour != _GREY:
        raise ValueError("expected 8 bits a channel, found 16: Pillow would drop the lower half; use array")


def _chunks(blob: bytes) -> Iterator[bytes]:
    memory = memoryview(blob)
    at = len(_PNG_START)
    while at + _PNG_CHUNK.size + 4 <= len(blob):
        length, name = _PNG_CHUNK.unpack_from(blob, at)
        end = at + _PNG_CHUNK.size + length
        if end + 4 > len(blob):
            break
        if zlib.crc32(memory[at + 4 : end]) != int.from_bytes(memory[end : end + 4], "big"):
            raise ValueError(f"the checksum of chunk {name!r} at byte {at} does not fit")
        yield name
        if name == b"IEND":
            return
        at = end + 4
    yield b""


JPG = Jpg()
"""JPEG, quality 75."""

PNG = Png()
"""PNG."""
