"""Images decoded by Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

PART_PIXELS = 2**20
"""As many are converted at once."""


def decode_pixels(image: Image.Image, mode: str) -> NDArray[Any]:
    """Return the pixels of an image in a mode; in large ones by some rows at a time: each step makes a copy."""
    image.load()
    rows = max(1, PART_PIXELS // image.width)
    if image.height <= rows:
        return np.array(_in_mode(image, mode))
    pixel = np.asarray(_in_mode(image.crop((0, 0, 1, 1)), mode))
    found = np.empty((image.height, image.width, *pixel.shape[2:]), pixel.dtype)
    for top in range(0, image.height, rows):
        box = (0, top, image.width, min(top + rows, image.height))
        found[top : top + rows] = np.asarray(_in_mode(image.crop(box), mode))
    return found


def plain_mode(image: Image.Image) -> str:
    """Return the mode that holds every pixel of a PNG, transparency included."""
    transparent = "transparency" in image.info
    if image.mode in ("1", "L"):
        return "LA" if transparent else "L"
    if image.mode in ("P", "RGB"):
        return "RGBA" if transparent else "RGB"
    return image.mode


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    return image if image.mode == mode else image.convert(mode)
