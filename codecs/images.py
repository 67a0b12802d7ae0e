"""Images as JPEG, PNG and WebP files, by Pillow.

Decoded: uint8 `(height, width)` for gray images and `(height, width, channels)` for others, with 2 (gray and alpha),
3 (RGB) or 4 (RGBA) channels; 16-bit gray PNGs are uint16. Palettes become RGB, or RGBA if they have transparency;
bilevel images become 0 and 255; CMYK JPEGs become RGB. EXIF orientation is not applied.

A small blob must not be able to claim all memory, or minutes: pixels are limited, and may not be more than the bytes of
a blob can hold. To decode takes up to 8 bytes of memory a pixel; 10 for a progressive JPEG, 16 for a WebP.
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
from PIL.WebPImagePlugin import WebPImageFile

from dataformats.errors import SpecError
from dataformats.interfaces import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["JPEG", "JPG", "MAX_PIXELS", "MAX_SCANS", "MAX_WEBP_PIXELS", "PNG", "WEBP", "Jpg", "Png", "Webp"]

MAX_PIXELS = 2**27
"""The default limit of decoded pixels: 400 MB of RGB."""

MAX_WEBP_PIXELS = 2**26
"""The same of WebP, whose decoder takes more memory."""

MAX_SCANS = 32
"""The default limit of the scans of a JPEG: a progressive one has about 10. Each takes time for every pixel."""

_JPEG_START, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
_JPEG_SCAN = b"\xff\xda"  # not within the data of a scan; perhaps in metadata: ITU-T T.81, B.1.1
_JPEG_DENSITY = 8 * 128  # pixels of a byte: a bit or more for each block of 64, which may cover more if not for color
_PNG_DENSITY = 8 * 1032  # DEFLATE makes at most 1032 bytes of one, each of 8 pixels or fewer
_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNK = struct.Struct(">I4s")  # length, type; then the data, and CRC-32 of type and data: PNG 3rd ed., 5.3
_PNG_HEADER = struct.Struct(">IIBB")  # width, height, bit depth, color type: 11.2.1
_GRAY = 0
_RIFF = struct.Struct("<4sI4s")  # "RIFF", bytes from here on less 8, "WEBP": RFC 9649, 2.4
_WEBP_CHUNK = struct.Struct("<4sI")  # type, length; 2.3
_ANIMATED = 0x02
_WEBP_QUALITY = 80
_PART_PIXELS = 2**20  # converted at once


class Jpg(Codec):
    """JPEG.

    Args:
        quality: 1 to 100, for encoding; 75 is Pillow's default.
        max_pixels: The most pixels that are decoded.
        name: The name in specs; Granular 0.5 uses `jpeg`.
        max_scans: The most scans that are decoded.
    """

    def __init__(
        self, quality: int = 75, max_pixels: int = MAX_PIXELS, name: str = "jpg", max_scans: int = MAX_SCANS
    ) -> None:
        self.name = name
        self.quality = quality
        self.max_pixels = max_pixels
        self.max_scans = max_scans

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec with another quality, as in `jpg(90)`."""
        if not args:
            return self
        return Jpg(_quality(self.name, args), self.max_pixels, self.name, self.max_scans)

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
        n_scans = blob.count(_JPEG_SCAN)
        if n_scans > self.max_scans:
            raise ValueError(f"expected at most {self.max_scans} scans, found {n_scans}. {_more('Jpg', 'max_scans')}")
        image = JpegImageFile(BytesIO(blob))
        _check_pixels("Jpg", image.size, self.max_pixels, _JPEG_DENSITY * len(blob))
        return _decoded(image, image.mode if image.mode in ("L", "RGB") else "RGB")


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
            raise ValueError(f"expected uint16 of shape (h, w), found {array.shape}: color has 8 bits a channel")
        return _saved(array, "PNG")

    def decode(self, blob: bytes) -> NDArray[Any]:
        """Return uint8 (h, w) or (h, w, 2 to 4), or uint16 (h, w)."""
        _already(blob, _PNG_START, "PNG")
        _check_chunks(blob)
        image = PngImageFile(BytesIO(blob))
        _check_pixels("Png", image.size, self.max_pixels, _PNG_DENSITY * len(blob))
        if image.mode.startswith("I"):
            return _decoded(image, image.mode).astype(np.uint16, copy=False)
        return _decoded(image, _plain_mode(image))


class Webp(Codec):
    """WebP, still images only.

    Args:
        quality: 1 to 100, for encoding; 80 is Pillow's default. `None` is lossless.
        max_pixels: The most pixels that are decoded.
    """

    name = "webp"

    def __init__(self, quality: int | None = _WEBP_QUALITY, max_pixels: int = MAX_WEBP_PIXELS) -> None:
        self.quality = quality
        self.max_pixels = max_pixels

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec with another quality, as in `webp(90)`, or of `webp(lossless)`."""
        if not args:
            return self
        lossless = tuple(args) == ("lossless",)
        return Webp(None if lossless else _quality(self.name, args, " or 'lossless'"), self.max_pixels)

    def encode(self, value: Any) -> bytes:
        """Return a WebP of a uint8 array, (h, w, 3) or (h, w, 4); the bytes of a WebP are returned unchanged.

        WebP has no gray images, and drops an alpha channel that is 255 everywhere.
        """
        if isinstance(value, bytes):
            _webp_size(value)
            return value
        array = _checked(value, (np.dtype(np.uint8),), channels=(3, 4))
        if array.ndim == 2:
            raise ValueError(f"expected shape (h, w, 3), (h, w, 4), found {array.shape}: WebP has no gray images")
        if self.quality is None:
            return _saved(array, "WEBP", lossless=True, exact=True)
        return _saved(array, "WEBP", quality=self.quality)

    def decode(self, blob: bytes) -> NDArray[Any]:
        """Return uint8 (h, w, 3), or (h, w, 4) if the image has transparency."""
        # Pillow's decoder allocates the whole image when it is opened.
        _check_pixels("Webp", _webp_size(blob), self.max_pixels)
        image = WebPImageFile(BytesIO(blob))
        _check_pixels("Webp", image.size, self.max_pixels)
        return _decoded(image, "RGBA" if image.mode == "RGBA" else "RGB")


def _quality(name: str, args: Sequence[str], or_else: str = "") -> int:
    if len(args) != 1 or not args[0].isdecimal() or len(args[0]) > 3 or not 1 <= int(args[0]) <= 100:
        raise SpecError(f"{name} takes a quality from 1 to 100{or_else}, as {name}(90), found ({','.join(args)})")
    return int(args[0])


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


def _check_pixels(codec: str, size: tuple[int, int], most: int, plausible: int | None = None) -> None:
    # The plug-ins are called directly: Image.open would try other formats, and warn about sizes that are checked here.
    width, height = size
    if width * height > most:
        raise ValueError(f"expected at most {most} pixels, found {width} x {height}. {_more(codec, 'max_pixels')}")
    if plausible is not None and width * height > plausible:
        raise ValueError(f"the image is truncated: expected at most {plausible} pixels, found {width} x {height}")


def _more(codec: str, argument: str) -> str:
    return f"For more, pass codecs= with dataformats.codecs.images.{codec}({argument}=...)"


def _decoded(image: Image.Image, mode: str) -> NDArray[Any]:
    """Return the pixels of an image in a mode; of a large one some rows at a time, because each step makes a copy."""
    image.load()
    rows = max(1, _PART_PIXELS // image.width)
    if image.height <= rows:
        return np.array(_in_mode(image, mode))
    found: NDArray[Any] | None = None
    for top in range(0, image.height, rows):
        part = np.asarray(_in_mode(image.crop((0, top, image.width, min(top + rows, image.height))), mode))
        if found is None:
            found = np.empty((image.height, *part.shape[1:]), part.dtype)
        found[top : top + rows] = part
    assert found is not None  # an image has one row or more
    return found


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    return image if image.mode == mode else image.convert(mode)


def _plain_mode(image: Image.Image) -> str:
    """Return the mode that holds every pixel of a PNG, transparency included."""
    transparent = "transparency" in image.info
    if image.mode in ("1", "L"):
        return "LA" if transparent else "L"
    if image.mode in ("P", "RGB"):
        return "RGBA" if transparent else "RGB"
    return image.mode


def _check_chunks(blob: bytes) -> None:
    """Raise if a PNG is truncated or damaged: Pillow verifies only a few of the checksums."""
    chunks = list(_chunks(blob))
    if chunks[0] != b"IHDR" or chunks[-1] != b"IEND":
        raise ValueError("the PNG is truncated: no IEND chunk")
    depth, color = _PNG_HEADER.unpack_from(blob, len(_PNG_START) + _PNG_CHUNK.size)[2:]
    if depth == 16 and color != _GRAY:
        raise ValueError("expected 8 bits a channel, found 16: Pillow would drop the lower 8. Use codec array.")


def _chunks(blob: bytes) -> Iterator[bytes]:
    memory = memoryview(blob)
    at = len(_PNG_START)
    while at + _PNG_CHUNK.size + 4 <= len(blob):
        length, name = _PNG_CHUNK.unpack_from(blob, at)
        end = at + _PNG_CHUNK.size + length
        if end + 4 > len(blob):
            break
        if zlib.crc32(memory[at + 4 : end]) != int.from_bytes(memory[end : end + 4], "big"):
            raise ValueError(f"the checksum of chunk {name!r} at byte {at} does not match")
        yield name
        if name == b"IEND":
            return
        at = end + 4
    yield b""


def _webp_size(blob: bytes) -> tuple[int, int]:
    """Return the width and height in a WebP's header.

    Raises:
        ValueError: The bytes are not a WebP, are truncated, or are an animation.
    """
    if blob[:4] != b"RIFF" or blob[8:12] != b"WEBP":
        raise ValueError(f"expected the bytes of a WebP, found {bytes(blob[:12])!r}")
    start = _RIFF.size + _WEBP_CHUNK.size
    if len(blob) < max(start + 10, _RIFF.unpack_from(blob)[1] + 8):
        raise ValueError("the WebP is truncated")
    name, data = _WEBP_CHUNK.unpack_from(blob, _RIFF.size)[0], blob[start : start + 10]
    if name == b"VP8 ":  # RFC 6386, 9.1
        return (int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF)
    if name == b"VP8L":  # RFC 9649, 3.4
        sizes = int.from_bytes(data[1:5], "little")
        return ((sizes & 0x3FFF) + 1, (sizes >> 14 & 0x3FFF) + 1)
    if name != b"VP8X":  # RFC 9649, 2.7
        raise ValueError(f"expected an image in the WebP, found chunk {name!r}")
    if data[0] & _ANIMATED:
        raise ValueError("expected a still image, found an animation")
    return (int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1)


JPG = Jpg()
"""JPEG, quality 75."""

JPEG = Jpg(name="jpeg")
"""JPEG under its name in Granular 0.5."""

PNG = Png()
"""PNG."""

WEBP = Webp()
"""WebP, quality 80."""
