"""Media in values: which image, sound or video some bytes are, and thumbnails of images.

Bytes are recognized by their first ones. Pillow is imported only to look into an image, and never decodes a large one
whole: a small blob must not be able to claim all memory, or minutes.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.protobuf_wire import fields

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image
    from PIL.ImageFile import ImageFile

_MIN_BYTES, _HEAD_BYTES = 16, 2048
_LEVELS, _PARTS = 6, 10_000
_MEMORY = 2**27  # bytes for a thumbnail
_PIXEL_BYTES = {"WebP": 12}  # WebP's decoder keeps three copies; others have the pixels, and perhaps converted ones
_MAX_PIXEL_BYTES, _BUFFERED_BYTES = 5, 8  # a JPEG in several scans keeps the coefficients of all pixels
_MAX_SCANS = 32  # each takes time for every pixel
_DARK = 64  # arrays whose numbers are all below this, such as masks of classes, are brightened
_LARGE = 64  # pixels on a side, from which on a thumbnail is a JPEG


@dataclass(frozen=True, slots=True)
class Media:
    """A kind of image, sound or video file.

    Attributes:
        name: `JPEG`, `PNG`, `WebP`, `GIF`, `BMP`, `TIFF`, `MP4`, `WebM`, `WAV`, `FLAC`, `OGG`, `MP3` or `M4A`.
        mime: Its MIME type, such as `image/jpeg`.
    """

    name: str
    mime: str

    @property
    def kind(self) -> str:
        """`image`, `audio` or `video`."""
        return self.mime.partition("/")[0]


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The header of an image.

    Attributes:
        name: `JPEG`, `PNG`, `WebP`, `GIF`, `BMP` or `TIFF`.
        width: Pixels in a row.
        height: Rows.
        mode: Pillow's mode, such as `RGB` or `L`.
    """

    name: str
    width: int
    height: int
    mode: str

    def __str__(self) -> str:
        return f"{self.name} image, {self.width} x {self.height}, {self.mode}"


_STARTS = [
    (Media(name, mime), re.compile(start, re.DOTALL))
    for name, mime, start in (
        ("JPEG", "image/jpeg", rb"\xff\xd8\xff"),
        ("PNG", "image/png", rb"\x89PNG\r\n\x1a\n"),
        ("WebP", "image/webp", rb"RIFF....WEBP"),
        ("GIF", "image/gif", rb"GIF8[79]a(?![ -~]{10})"),  # and not a text about it
        ("BMP", "image/bmp", rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0"),
        ("TIFF", "image/tiff", rb"II\*\0.{3}\0|MM\0\*\0"),
        ("M4A", "audio/mp4", rb"\0\0..ftypM4[AB] "),
        ("MP4", "video/mp4", rb"\0\0..ftyp(?!avi|hei|hev|mif1|msf1)[ -~]{4}"),  # and no AVIF or HEIF
        ("WebM", "video/webm", rb"\x1a\x45\xdf\xa3"),
        ("WAV", "audio/wav", rb"RIFF....WAVE"),
        ("FLAC", "audio/flac", rb"fLaC[\0\x80]\0\0\x22"),
        ("OGG", "audio/ogg", rb"OggS\0[\2\6]"),
        ("MP3", "audio/mpeg", rb"ID3[\2-\4].[\0\x10\x20\x40\x60\x80\xc0\xe0][\0-\x7f]{4}"),
    )
]
_MP3 = Media("MP3", "audio/mpeg")
_MP3_FRAME = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb][\x10-\xeb]", re.DOTALL)  # MPEG 1, 2 or 2.5, layer III
_MP3_KBITS = (
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2 and 2.5: ISO/IEC 13818-3
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1: ISO/IEC 11172-3
)
_MP3_HERTZ = (44100, 48000, 32000)


def media_of(blob: bytes | bytearray | memoryview) -> Media | None:
    """Return the kind of a media file, by its first bytes; `None` for other bytes.

    Only the start is looked at: the rest may be damaged, and bytes that only begin like such a file are taken for it.

    Example:
        >>> from dataformats.display.media import media_of
        >>> media_of(b"GIF89a" + bytes(20))
        Media(name='GIF', mime='image/gif')
        >>> media_of(b"GIF89a is the name of a format") is None
        True
    """
    head = bytes(blob[:_HEAD_BYTES])
    if len(head) < _MIN_BYTES:
        return None
    return next((media for media, start in _STARTS if start.match(head)), _MP3 if _is_mp3(head) else None)


def media_within(value: Any) -> list[bytes]:
    r"""Return the media files inside a document: in lists, mappings, and protobuf messages of unknown types.

    The first 10,000 parts of each of six levels are looked at, level by level. Media themselves have none inside.

    Example:
        >>> from dataformats.display.media import media_within
        >>> gif = b"GIF89a" + bytes(20)
        >>> media_within({"name": "a", "frames": [{"file": gif}]}) == media_within(b"\x0a\x1a" + gif) == [gif]
        True
    """
    found, level = [], _parts(value)
    for _ in range(_LEVELS):
        found += [part for part in level if isinstance(part, bytes) and media_of(part)]
        level = [*islice(chain.from_iterable(map(_parts, level)), _PARTS)]
    return found


def _parts(value: Any) -> list[Any]:
    if isinstance(value, bytes) and media_of(value) is None:
        with suppress(ValueError):
            return [part for _, _, part in islice(fields(value), _PARTS)]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [*islice(inside, _PARTS)]


def _is_mp3(head: bytes) -> bool:
    """Return True for a frame of MPEG audio, layer III, that is followed by another like it."""
    if not _MP3_FRAME.match(head):
        return False
    version, rate = head[1] >> 3 & 3, head[2] >> 2 & 3  # version 3 is MPEG 1, 2 is MPEG 2, 0 is MPEG 2.5
    if rate == 3:
        return False
    bits = _MP3_KBITS[version == 3][head[2] >> 4] * 1000
    hertz = _MP3_HERTZ[rate] >> {3: 0, 2: 1, 0: 2}[version]
    end = (144 if version == 3 else 72) * bits // hertz + (head[2] >> 1 & 1)
    following = head[end : end + 3]
    return len(following) == 3 and following[:2] == head[:2] and following[2] & 0x0C == head[2] & 0x0C


def as_image(array: Any) -> NDArray[np.uint8] | None:
    """Return an array that is shaped like an image as uint8 `(h, w)`, `(h, w, 3)` or `(h, w, 4)`; `None` otherwise.

    Accepted are uint8 arrays `(h, w)`, `(h, w, 1 or 3 or 4)` and `(1 or 3, h, w)` of at least 2 x 2 pixels. The result
    is a view.

    Example:
        >>> import numpy as np
        >>> from dataformats.display.media import as_image
        >>> as_image(np.zeros((3, 8, 9), np.uint8)).shape
        (8, 9, 3)
        >>> as_image(np.zeros((8, 9))) is None
        True
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim not in (2, 3):
        return None
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4):
        if array.shape[0] not in (1, 3):
            return None
        array = np.moveaxis(array, 0, 2)
    pixels: NDArray[np.uint8] = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    return pixels if min(pixels.shape[:2]) >= 2 else None


def image_facts(blob: bytes | bytearray | memoryview) -> ImageFacts:
    """Return format, size and mode of an image, from its header; no pixel is decoded.

    Raises:
        ValueError: The bytes are no JPEG, PNG, WebP, GIF, BMP or TIFF, or the header is damaged.

    Example:
        >>> import dataformats
        >>> from dataformats.display.media import image_facts
        >>> photos = dataformats.open("tests/golden/real/photos.tfrecord", spec={"image": "bytes"})
        >>> print(image_facts(photos[0]["image"]))
        JPEG image, 320 x 320, RGB
    """
    name, image = open_image(blob)
    return ImageFacts(name, image.width, image.height, image.mode)


def media_text(blob: bytes | bytearray | memoryview) -> str:
    """Return the facts of an image as text, or a text such as `MP4 video`; `""` for other bytes."""
    media = media_of(blob)
    if media is None or media.kind != "image":
        return "" if media is None else f"{media.name} {media.kind}"
    try:
        return str(image_facts(blob))
    except ValueError as error:
        return str(error)


def thumbnail(value: Any, size: int = 128) -> bytes:
    """Return a small picture of an image: a JPEG, or a PNG if it has transparency or few pixels.

    It takes at most 128 MiB of memory. It shows the first picture of an animation; EXIF orientation is not applied. An
    array of small numbers, such as a mask of classes, is brightened.

    Args:
        value: The bytes of a JPEG, PNG, WebP, GIF, BMP or TIFF, or an array that `as_image` accepts.
        size: The longer side has at most as many pixels. A smaller image keeps its size.

    Raises:
        ValueError: The value is no image, is damaged, or takes too much memory or time.

    Example:
        >>> import numpy as np
        >>> from dataformats.display.media import image_facts, thumbnail
        >>> print(image_facts(thumbnail(np.zeros((600, 400, 3), np.uint8))))
        JPEG image, 85 x 128, RGB
    """
    if isinstance(value, np.ndarray):
        pixels = as_image(value)
        if pixels is None:
            raise ValueError(f"expected an array shaped like an image, found {value.dtype}{list(value.shape)}")
        pixels = _strided(pixels, size)
        top = int(pixels.max())
        bright = pixels * np.uint8(255 // top) if 0 < top < _DARK else pixels
        return _saved(_reduced(_of_array(bright, size), size))
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueError(f"expected bytes or an array, found {type(value).__name__}")
    name, image = open_image(value)
    try:
        _limit(name, image, value, size)
        return _saved(_reduced(_plain(image, size), size))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises errors of many types for damaged images
        raise ValueError(f"{name} image that cannot be decoded ({error})") from error


def open_image(blob: bytes | bytearray | memoryview) -> tuple[str, ImageFile]:
    """Return the name of an image's format, and the image with only its header read; `ValueError` for other bytes."""
    media = media_of(blob)
    if media is None or media.kind != "image":
        raise ValueError(f"expected a JPEG, PNG, WebP, GIF, BMP or TIFF, found {bytes(blob[:12])!r}")
    from PIL import Image

    plugin = media.name if media.name == "WebP" else media.name.capitalize()
    importlib.import_module(f"PIL.{plugin}ImagePlugin")
    try:
        # `Image.open` would refuse large images: only their pixels take memory, and _limit checks those.
        image: Any = Image.OPEN[media.name.upper()][0](BytesIO(blob), "")
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises errors of many types for damaged images
        raise ValueError(f"{media.name} image that cannot be opened ({error})") from error
    return media.name, image


def _limit(name: str, image: ImageFile, blob: bytes | bytearray | memoryview, size: int) -> None:
    """Let a JPEG be decoded at a scale near `size`, and refuse an image that takes too much memory or time."""
    if name == "JPEG":
        scans = _scans(image, blob)
        if scans > _MAX_SCANS:
            raise ValueError(f"expected at most {_MAX_SCANS} scans, found {scans}")
        if scans > 1:
            _check_memory(image, _BUFFERED_BYTES)
        image.draft(None, (2 * size, 2 * size))
    _check_memory(image, _PIXEL_BYTES.get(name, _MAX_PIXEL_BYTES))


def _scans(image: Any, blob: bytes | bytearray | memoryview) -> int:
    """Return the number of scans of a JPEG, without the thumbnails in its metadata."""
    start = b"\xff\xda"
    within: int = sum(data.count(start) for _, data in image.applist)
    return bytes(blob).count(start) - within


def _check_memory(image: ImageFile, pixel_bytes: int) -> None:
    if image.width * image.height * pixel_bytes > _MEMORY:
        raise ValueError(f"{image.width} x {image.height} pixels take too much memory for a thumbnail")


def _plain(image: Image.Image, size: int) -> Image.Image:
    """Return the pixels in a mode that can be resized."""
    image.load()
    if image.mode.startswith("I"):  # 16 bits
        return _of_array((_strided(np.asarray(image), size) >> 8).astype(np.uint8), size)
    if image.mode in ("L", "RGB", "RGBA", "CMYK") and "transparency" not in image.info:
        return image  # `convert` would copy it
    transparent = "transparency" in image.info or image.mode in ("LA", "PA")
    return image.convert("RGBA" if transparent else "L" if image.mode == "1" else "RGB")


def _of_array(pixels: NDArray[np.uint8], size: int) -> Image.Image:
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(_strided(pixels, size)))


def _strided(pixels: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a view of every n-th pixel that is still a few times as large as the thumbnail."""
    step = max(1, max(pixels.shape[:2]) // (4 * size))
    return pixels[::step, ::step]


def _reduced(image: Image.Image, size: int) -> Image.Image:
    image.thumbnail((size, size))
    return image.convert("RGB") if image.mode == "CMYK" else image


def _saved(image: Image.Image) -> bytes:
    stream = BytesIO()
    if image.mode == "RGBA" or max(image.size) < _LARGE:
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=80)
    return stream.getvalue()
