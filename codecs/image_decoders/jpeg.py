"""JPEGs by libjpeg-turbo (simplejpeg), straight into an array.

Pillow decodes unusual files (CMYK, a header with faults), and judges damaged ones: libjpeg-turbo would fill the rest of
a truncated image with gray. If it has any complaint, its pixels are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import simplejpeg as _turbo
except ImportError:  # no wheel for this platform
    _turbo = None

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIVISORS = (8, 4, 2)
"""The scales of decoding that are faster than decoding the whole image. Pillow has the same."""

_MAX_COUNTED_BYTES = 2**12  # `bytes.count` takes 4 us for them, two arrays 5 us for any less
_NEVER = 9.0  # above every scale of libjpeg-turbo: without it, an image of one pixel is decoded at an eighth
_CHANNELS: dict[str, tuple[int, ...]] = {"Gray": (), "YCbCr": (3,), "RGB": (3,)}


def count_marker(blob: bytes, marker: bytes) -> int:
    """Return how often two bytes occur: `blob.count(marker)`, which takes up to eight times as long in large blobs."""
    if len(blob) < _MAX_COUNTED_BYTES:
        return blob.count(marker)
    number = int.from_bytes(marker, "little")
    shifted = (np.frombuffer(part, "<u2", len(part) // 2) for part in (blob, blob[1:]))
    return sum(int(np.count_nonzero(pairs == number)) for pairs in shifted)


def is_available() -> bool:
    """Return True if libjpeg-turbo decodes JPEGs here."""
    return _turbo is not None


def shape_of(blob: bytes) -> tuple[int, ...] | None:
    """Return (h, w), or (h, w, 3); `None` if Pillow must decode the image. Allocates nothing for pixels."""
    if _turbo is None:
        return None
    try:
        height, width, color, _ = _turbo.decode_jpeg_header(blob)
    except (ValueError, KeyError):  # a header with faults, or a subsampling without a name, as 4:4:1
        return None
    channels = _CHANNELS.get(color)
    return None if channels is None else (int(height), int(width), *channels)


def fill(
    blob: bytes, out: NDArray[Any], divisor: int = 1, *, fast_dct: bool = False, fast_upsample: bool = False
) -> bool:
    """Decode into `out`; return False, with anything in it, if Pillow must decode the image.

    Args:
        blob: A JPEG that `shape_of` accepts.
        out: uint8 (h, w) or (h, w, 3), contiguous; the sizes of a scaled image are rounded up.
        divisor: 1, or one of `DIVISORS`: the scale is `1 / divisor`.
        fast_dct: Use the less accurate inverse transform, as TensorFlow does.
        fast_upsample: Repeat color pixels, instead of interpolating between them.
    """
    assert _turbo is not None  # or `shape_of` accepts nothing
    height, width = out.shape[:2]
    least = {"min_height": height, "min_width": width, "min_factor": _NEVER if divisor == 1 else divisor}
    try:
        found = _turbo.decode_jpeg(
            blob,
            "GRAY" if out.ndim == 2 else "RGB",
            fast_dct,
            fast_upsample,
            **least,
            buffer=out.reshape(-1),
        )
    except ValueError:
        return False
    return bool(found.shape[:2] == (height, width))
