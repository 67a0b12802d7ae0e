"""The pixels of images: the filters of PNG, and resampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import reference
from dataformats.kernels.buffers import empty
from dataformats.kernels.dispatch import implementation, kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


def unfilters_pngs() -> bool:
    """Return True if the kernel is faster than Pillow: the one in C is."""
    return implementation() == "native"


def png_unfilter(rows: BytesLike, row_bytes: int, channels: int, out: NDArray[np.uint8]) -> bool:
    """Undo the filters of a PNG's rows: see `reference.images.png_unfilter`."""
    return bool(kernels().png_unfilter(rows, row_bytes, channels, out))


def resample(
    image: NDArray[np.uint8],
    box: tuple[float, float, float, float],
    size: tuple[int, int],
    part: tuple[int, int, int, int],
    out: NDArray[np.uint8],
    *,
    flip: bool,
    planes: bool,
) -> None:
    """Resample a box of an image by Pillow's `BILINEAR`, with antialiasing: see `reference.images.resample`.

    Args:
        image: uint8 (h, w, 3), contiguous.
        box: Left, top, right and bottom, in pixels, within the image; rounded to float32.
        size: Width and height that the box gets.
        part: Left, top, width and height of the part of it that is computed.
        out: uint8 (height, width, 3) of the part, contiguous; with `planes`, (3, height, width).
        flip: Mirror the part, left to right.
        planes: See `out`.
    """
    arguments = (image.reshape(-1), (image.shape[0], image.shape[1]), box, size, part, flip, planes, out.reshape(-1))
    if not kernels().resample(*arguments):
        reference.resample(*arguments)


def bilinear(image: NDArray[np.uint8] | NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Resize an image without antialiasing, as TensorFlow does: see `reference.images.bilinear`.

    Args:
        image: uint8 or float32 (h, w, channels), contiguous, at least one pixel.
        rows: Height of the result.
        columns: Its width.
    """
    height, width, channels = image.shape
    out = empty(rows * columns * channels * 4)
    octets, is_float = image.reshape(-1).view(np.uint8), image.dtype == np.float32
    arguments = (octets, (height, width, channels), (rows, columns), is_float, out)
    if not kernels().bilinear(*arguments):
        reference.bilinear(*arguments)
    return out.view(np.float32).reshape(rows, columns, channels)
