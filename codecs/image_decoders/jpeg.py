"""JPEGs by libjpeg-turbo (simplejpeg), straight into an array.

Pillow decodes what is unusual (CMYK, a header with faults), and judges what is damaged: libjpeg-turbo would fill the
rest of a truncated image with gray. If it has any complaint, its pixels are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

try:
    import simplejpeg as _turbo
except ImportError:  # no wheel for this platform
    _turbo = None

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DIVISORS", "JpegHeader", "count_marker", "fill", "header_of", "is_available"]

DIVISORS = (8, 4, 2)
"""The scales of decoding that are faster than decoding the whole image. Pillow has the same."""

_NEVER = 9.0  # above every scale of libjpeg-turbo: without it, an image of one pixel is decoded at an eighth
_COLORS = ("Gray", "YCbCr", "RGB")


def count_marker(blob: bytes, marker: bytes) -> int:
    """Return how often two bytes occur: `blob.count(marker)`, which takes four times as long."""
    number = int.from_bytes(marker, "little")
    shifted = (np.frombuffer(part, "<u2", len(part) // 2) for part in (blob, blob[1:]))
    return sum(int(np.count_nonzero(pairs == number)) for pairs in shifted)


class JpegHeader(NamedTuple):
    """The header of a JPEG.

    Attributes:
        height: In pixels.
        width: In pixels.
        is_gray: True if it has one channel, False if it has three.
    """

    height: int
    width: int
    is_gray: bool


def is_available() -> bool:
    """Return True if libjpeg-turbo decodes JPEGs here."""
    return _turbo is not None


def header_of(blob: bytes) -> JpegHeader | None:
    """Return the header; `None` if Pillow must decode the image. Allocates nothing for pixels."""
    if _turbo is None:
        return None
    try:
        height, width, color, _ = _turbo.decode_jpeg_header(blob)
    except ValueError:
        return None
    return JpegHeader(int(height), int(width), color == "Gray") if color in _COLORS else None


def fill(blob: bytes, out: NDArray[Any], divisor: int = 1) -> bool:
    """Decode into `out`; return False, with anything in it, if Pillow must decode the image.

    Args:
        blob: A JPEG that `header_of` accepts.
        out: uint8 (h, w) or (h, w, 3), contiguous; of an image at a scale, its sizes are rounded up.
        divisor: 1, or one of `DIVISORS`: the scale is `1 / divisor`.
    """
    assert _turbo is not None  # or `header_of` accepts nothing
    color, (height, width) = ("GRAY" if out.ndim == 2 else "RGB"), out.shape[:2]
    factor = _NEVER if divisor == 1 else divisor
    try:
        found = _turbo.decode_jpeg(
            blob, color, min_height=height, min_width=width, min_factor=factor, buffer=out.reshape(-1)
        )
    except ValueError:
        return False
    return bool(found.shape[:2] == (height, width))
