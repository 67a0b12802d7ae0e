"""Values as responses: thumbnails, and whole values of types that a browser shows without running anything."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dataformats.display.json_values import as_json
from dataformats.display.media import as_image, media_of, thumbnail

__all__ = ["as_download", "as_thumbnail"]

_DARK = 64  # images whose pixels are all below this, such as masks of classes, are brightened


def as_thumbnail(value: Any, size: int) -> tuple[bytes, str]:
    """Return a small picture of an image and its MIME type.

    Raises:
        ValueError: The value is no image, or cannot be decoded.
    """
    if isinstance(value, np.ndarray):
        pixels = as_image(value)
        top = 0 if pixels is None or not pixels.size else int(pixels.max())
        if 0 < top < _DARK:
            value = value * np.uint8(255 // top)
    picture = thumbnail(value, size)
    return picture, "image/png" if picture.startswith(b"\x89PNG") else "image/jpeg"


def as_download(value: Any) -> tuple[bytes, str, str]:
    """Return a whole value as bytes, their MIME type and the suffix of a file: media, or else bytes without a type."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        blob = bytes(value)
        media = media_of(blob)
        return (blob, "application/octet-stream", "bin") if media is None else (blob, media.mime, media.name.lower())
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), "application/octet-stream", "txt"
    return json.dumps(as_json(value)).encode(), "application/octet-stream", "json"
