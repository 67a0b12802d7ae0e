"""Images as JPEG, PNG and WebP files: `image_decoders` decodes them, Pillow encodes them.

Decoded: uint8 `(height, width)` for gray images and `(height, width, channels)` for others, with 2 (gray and alpha),
3 (RGB) or 4 (RGBA) channels; 16-bit gray PNGs are uint16. Palettes become RGB, or RGBA if they have transparency;
bilevel images become 0 and 255; CMYK JPEGs become RGB. EXIF orientation is not applied.

A small blob must not be able to claim all memory, or minutes: pixels are limited, and may not be more than the bytes of
a blob can hold. To decode takes up to 8 bytes of memory a pixel; 10 for a progressive JPEG, 16 for a WebP.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dataformats.batch import Blobs, Column
from dataformats.codecs.image_decoders import jpeg, png, webp_header
from dataformats.codecs.image_decoders.batches import Opened, decode_all
from dataformats.codecs.image_decoders.pillow import decode_pixels, plain_mode
from dataformats.errors import SpecError
from dataformats.interfaces import Codec
from dataformats.kernels.buffers import empty

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Jpg", "Png", "Webp"]

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
_WEBP_QUALITY = 80


class _Image(Codec):
    """A codec of image files."""

    costly = True

    @abstractmethod
    def opened(self, blob: bytes) -> Opened:
        """Return an image whose header was read and checked; no memory was allocated for pixels.

        Raises:
            ValueError: The bytes are not such an image, are damaged or truncated, or it has too many pixels.
        """

    def decode(self, blob: bytes) -> NDArray[Any]:
        return self.opened(blob).decode()

    def decode_batch(self, blobs: Blobs) -> Column:
        return decode_all(map(self.opened, blobs))


class Jpg(_Image):
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

    def opened(self, blob: bytes) -> Opened:
        """Return the image; it is uint8 (h, w) or (h, w, 3)."""
        _already(blob, _JPEG_START, "JPEG")
        shape = jpeg.shape_of(blob)
        if shape is not None:
            self._check(blob, (shape[1], shape[0]))
        return Opened(partial(self._by_pillow, blob), shape, partial(self._fill, blob))

    def _fill(self, blob: bytes, out: NDArray[Any], divisor: int = 1, **fast: bool) -> bool:
        self._check_scans(blob)
        return jpeg.fill(blob, out, divisor, **fast)

    def decode_scaled(
        self, blob: bytes, divisor_of: Callable[[int, int], int]
    ) -> tuple[NDArray[np.uint8], tuple[int, int], int]:
        """Return the image as RGB: see `decode_scaled`."""
        opened = self.opened(blob)
        if opened.shape is not None:
            height, width = opened.shape[:2]
            divisor = divisor_of(height, width)
            out = empty(-(-height // divisor), -(-width // divisor), 3)
            if self._fill(blob, out, divisor):
                return out, (height, width), divisor
        image = self._by_plugin(blob)
        width, height = image.size
        divisor = divisor_of(height, width)
        if divisor > 1:
            image.draft(None, (width // divisor, height // divisor))
        return decode_pixels(image, "RGB"), (height, width), divisor

    def _by_pillow(self, blob: bytes) -> NDArray[Any]:
        image = self._by_plugin(blob)
        return decode_pixels(image, image.mode if image.mode in ("L", "RGB") else "RGB")

    def _by_plugin(self, blob: bytes) -> JpegImageFile:
        self._check_scans(blob)
        image = JpegImageFile(BytesIO(blob))
        self._check(blob, image.size)
        return image

    def _check_scans(self, blob: bytes) -> None:
        if blob.rfind(_JPEG_END) < 0:
            raise ValueError("the JPEG is truncated: no end marker")
        n_scans = jpeg.count_marker(blob, _JPEG_SCAN)
        if n_scans > self.max_scans:
            more = _more("Jpg", "max_scans")
            raise ValueError(f"expected at most {self.max_scans} scans, found {n_scans}. {more}; not with decode=")

    def _check(self, blob: bytes, size: tuple[int, int]) -> None:
        _check_pixels("Jpg", size, self.max_pixels, _JPEG_DENSITY * len(blob))


class Png(_Image):
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
            return _already(value, png.START, "PNG")
        array = _checked(value, (np.dtype(np.uint8), np.dtype(np.uint16)), channels=(2, 3, 4))
        if array.dtype == np.uint16 and array.ndim != 2:
            raise ValueError(f"expected uint16 of shape (h, w), found {array.shape}: color has 8 bits a channel")
        return _saved(array, "PNG")

    def opened(self, blob: bytes) -> Opened:
        """Return the image; it is uint8 (h, w) or (h, w, 2 to 4), or uint16 (h, w)."""
        _already(blob, png.START, "PNG")
        by_pillow, plain = partial(self._by_pillow, blob), png.plain_pixels(blob)
        if plain is None:
            return Opened(by_pillow)
        shape, data = plain
        self._check(blob, (shape[1], shape[0]))
        return Opened(by_pillow, shape, partial(png.fill, data))

    def _by_pillow(self, blob: bytes) -> NDArray[Any]:
        image = PngImageFile(BytesIO(blob))
        self._check(blob, image.size)
        if image.mode.startswith("I"):
            return decode_pixels(image, image.mode).astype(np.uint16, copy=False)
        return decode_pixels(image, plain_mode(image))

    def _check(self, blob: bytes, size: tuple[int, int]) -> None:
        _check_pixels("Png", size, self.max_pixels, _PNG_DENSITY * len(blob))


class Webp(_Image):
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
            webp_header.size_of(value)
            return value
        array = _checked(value, (np.dtype(np.uint8),), channels=(3, 4))
        if array.ndim == 2:
            raise ValueError(f"expected shape (h, w, 3), (h, w, 4), found {array.shape}: WebP has no gray images")
        if self.quality is None:
            return _saved(array, "WEBP", lossless=True, exact=True)
        return _saved(array, "WEBP", quality=self.quality)

    def opened(self, blob: bytes) -> Opened:
        """Return the image; it is uint8 (h, w, 3), or (h, w, 4) if it has transparency."""
        # Pillow's decoder allocates the whole image when it is opened.
        _check_pixels("Webp", webp_header.size_of(blob), self.max_pixels)
        return Opened(partial(self._by_pillow, blob))

    def _by_pillow(self, blob: bytes) -> NDArray[Any]:
        image = WebPImageFile(BytesIO(blob))
        _check_pixels("Webp", image.size, self.max_pixels)
        return decode_pixels(image, "RGBA" if image.mode == "RGBA" else "RGB")


def decode_scaled(
    blob: bytes, divisor_of: Callable[[int, int], int], max_pixels: int | None = None
) -> tuple[NDArray[np.uint8], tuple[int, int], int]:
    """Return any of these images as RGB, perhaps at a scale.

    Args:
        blob: A JPEG, PNG or WebP.
        divisor_of: Returns the divisor that an image of this height and width should have: 1 or one of `DIVISORS`.
        max_pixels: The most pixels that are decoded; `None`: the default of the codec.

    Returns:
        uint8 (h, w, 3), contiguous; height and width of the whole image; and the divisor of height and width, which are
        rounded up; it is 1 unless the image is a JPEG.

    Raises:
        ValueError: The bytes are no such image, are damaged or truncated, or it has too many pixels.
    """
    codec = _codec_of(blob)
    if max_pixels is not None:
        codec = type(codec)(max_pixels=max_pixels)
    if isinstance(codec, Jpg):
        return codec.decode_scaled(blob, divisor_of)
    image = codec.decode(blob)
    return _as_rgb(image), (image.shape[0], image.shape[1]), 1


def _codec_of(blob: bytes) -> Jpg | Png | Webp:
    for start, codec in ((_JPEG_START, JPG), (png.START, PNG), (b"RIFF", WEBP)):
        if blob.startswith(start):
            return codec
    raise ValueError(f"expected the bytes of a JPEG, PNG or WebP, found {blob[:12]!r}")


def _as_rgb(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a decoded image as RGB: gray repeated, without alpha, the upper 8 of 16 bits."""
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    if image.ndim == 2 or image.shape[2] == 2:
        return np.repeat((image if image.ndim == 2 else image[..., 0])[..., None], 3, axis=2)
    return np.ascontiguousarray(image[..., :3])


def _quality(name: str, args: Sequence[str], or_else: str = "") -> int:
    if len(args) != 1 or not args[0].isdecimal() or len(args[0]) > 3 or not 1 <= int(args[0]) <= 100:
        raise SpecError(f"{name} takes a quality from 1 to 100{or_else}, as {name}(90), found ({','.join(args)})")
    return int(args[0])


def _already(blob: bytes, start: bytes, what: str) -> bytes:
    if not blob.startswith(start):
        for other, name, codec in ((_JPEG_START, "JPEG", "jpg"), (png.START, "PNG", "png"), (b"RIFF", "WebP", "webp")):
            if blob.startswith(other):
                raise ValueError(f"expected the bytes of a {what}, found a {name}: its type is {codec}")
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


def _check_pixels(codec: str, size: tuple[int, int], max_pixels: int, plausible: int | None = None) -> None:
    # The plug-ins are called directly: Image.open would try other formats, and warn about sizes that are checked here.
    width, height = size
    if width * height > max_pixels:
        more = f"{_more(codec, 'max_pixels')}, or max_pixels= to an operation in decode="
        raise ValueError(f"expected at most {max_pixels} pixels, found {width} x {height}. {more}")
    if plausible is not None and width * height > plausible:
        raise ValueError(f"the image is truncated: expected at most {plausible} pixels, found {width} x {height}")


def _more(codec: str, argument: str) -> str:
    return f"For more, pass codecs= with dataformats.codecs.images.{codec}({argument}=...)"


JPG = Jpg()
"""JPEG, quality 75."""

JPEG = Jpg(name="jpeg")
"""JPEG under its name in Granular 0.5."""

PNG = Png()
"""PNG."""

WEBP = Webp()
"""WebP, quality 80."""
