"""The kernels for images in plain Python and by Pillow: the specification of the C kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


def png_unfilter(rows: BytesLike, row_bytes: int, channels: int, out: NDArray[np.uint8], /) -> bool:
    """Undo the filters of a PNG's rows: PNG 3rd edition, 9.2.

    Args:
        rows: Each row: a filter, and `row_bytes` filtered bytes.
        row_bytes: A multiple of `channels`, at least 1.
        channels: Bytes of a pixel, 1 to 4.
        out: uint8[n * row_bytes], for the pixels of n rows.

    Returns:
        False if a filter is unknown, or the sizes do not fit; `out` is then unspecified.
    """
    data = memoryview(cast("Any", rows)).cast("B")
    if not 1 <= channels <= 4 or row_bytes < 1 or row_bytes % channels or len(out) % row_bytes:
        return False
    if len(data) - len(out) != len(out) // row_bytes:
        return False
    above = bytearray(row_bytes)
    for number in range(len(out) // row_bytes):
        row = data[number * (row_bytes + 1) :][: row_bytes + 1]
        if row[0] > 4:
            return False
        above = _unfiltered(row[0], row[1:], above, channels)
        out[number * row_bytes :][:row_bytes] = np.frombuffer(above, np.uint8)
    return True


def _unfiltered(kind: int, row: memoryview, above: bytearray, channels: int) -> bytearray:
    found = bytearray(len(row))
    for at, value in enumerate(row):
        left = found[at - channels] if at >= channels else 0
        corner = above[at - channels] if at >= channels else 0
        up = above[at]
        found[at] = (value + (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]) % 256
    return found


def _paeth(left: int, up: int, corner: int) -> int:
    """Return the neighbor that is nearest to their sum, less the corner: 9.4."""
    near = left + up - corner
    return min((left, up, corner), key=lambda one: abs(near - one))  # the first of equal ones


def resample(
    image: BytesLike,
    shape: tuple[int, int],
    box: tuple[float, float, float, float],
    size: tuple[int, int],
    part: tuple[int, int, int, int],
    flip: bool,
    planes: bool,
    out: NDArray[np.uint8],
    /,
) -> bool:
    """Resample a box of an RGB image by Pillow's `BILINEAR`, with antialiasing: along the rows, then along the columns.

    Args:
        image: RGB pixels, row after row.
        shape: Their height and width.
        box: Left, top, right and bottom, in pixels, within the image.
        size: Width and height that the box gets.
        part: Left, top, width and height of the part of it that is computed.
        flip: Mirror the part, left to right.
        planes: Store one channel after the other, instead of one pixel after the other.
        out: uint8[width * height * 3] of the part.

    Returns:
        True; the C kernel returns False for sizes above its limits.
    """
    from PIL import Image  # no image is decoded without it

    pixels = np.frombuffer(cast("bytes", image), np.uint8).reshape(*shape, 3)
    left, top, width, height = part
    # There are two steps because some versions of Pillow choose the order of the axes by their costs.
    narrow = Image.fromarray(pixels).resize(
        (size[0], shape[0]), Image.Resampling.BILINEAR, (box[0], 0, box[2], shape[0])
    )
    whole = np.asarray(narrow.resize(size, Image.Resampling.BILINEAR, (0, box[1], size[0], box[3])))
    found = whole[top : top + height, left : left + width][:, :: -1 if flip else 1]
    out[:] = (found.transpose(2, 0, 1) if planes else found).reshape(-1)
    return True


def bilinear(
    image: BytesLike,
    shape: tuple[int, int, int],
    size: tuple[int, int],
    is_float: bool,
    out: NDArray[np.uint8],
    /,
) -> bool:
    """Resize an image by bilinear interpolation without antialiasing, as TensorFlow's `tf.image.resize` does.

    In float32, across and then down; pixels are squares, and edges repeat.

    Args:
        image: height * width * channels numbers, uint8 or float32.
        shape: Height, width and channels.
        size: Height and width of the result.
        is_float: The numbers are float32.
        out: Takes the result, float32.

    Returns:
        False if the sizes do not fit.
    """
    (height, width, channels), (rows, columns) = shape, size
    numbers = np.frombuffer(cast("Any", image), np.float32 if is_float else np.uint8)
    if min(*shape, *size) < 1 or numbers.size != height * width * channels or len(out) != rows * columns * channels * 4:
        return False
    upper, lower, down = _neighbors(height, rows)
    left, right, across = _neighbors(width, columns)
    # Rows of numbers, not of pixels: numpy's loops over three channels take four times as long.
    lines = numbers.reshape(height, width * channels)
    places = [(at[:, None] * channels + np.arange(channels)).reshape(-1) for at in (left, right)]
    first, second = (lines.take(at, axis=1).astype(np.float32) for at in places)
    wide = first + (second - first) * np.repeat(across, channels)
    result = wide[upper] + (wide[lower] - wide[upper]) * down[:, None]
    out[:] = result.reshape(-1).view(np.uint8)
    return True


def _neighbors(length: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return the two neighbors of each place, and its distance from the first."""
    places = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * np.float32(length / wanted) - np.float32(0.5)
    below = np.floor(places)
    second = np.clip(np.ceil(places).astype(np.int64), 0, length - 1)
    return np.maximum(below.astype(np.int64), 0), second, places - below
