"""Decode the images of a batch on all processors, each into its place if their shapes agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dataformats.batch import StackedList
from dataformats.kernels.buffers import empty
from dataformats.storage.threads import for_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_STACKED = 2**30  # bytes: large images need no block together


class Opened(NamedTuple):
    """An image whose header was read and checked.

    Attributes:
        by_pillow: Returns the decoded array.
        shape: The shape of that array, uint8; `None` if only Pillow can decode the image.
        fill: Decodes into a contiguous array of that shape; False if Pillow must decode the image. The function for a
            JPEG also takes the other arguments of `jpeg.fill`.
    """

    by_pillow: Callable[[], NDArray[Any]]
    shape: tuple[int, ...] | None = None
    fill: Callable[..., bool] = lambda _: False

    def decode(self, buffer: NDArray[np.uint8] | None = None) -> NDArray[Any]:
        """Return the decoded array: `buffer`, a contiguous one of that shape, unless Pillow decodes the image."""
        if self.shape is None:
            return self.by_pillow()
        out = empty(*self.shape) if buffer is None else buffer
        return out if self.fill(out) else self.by_pillow()


def decode_all(images: Iterable[Opened]) -> list[NDArray[Any]]:
    """Return the decoded arrays; as rows of one array if their shapes agree."""
    opened = list(images)
    block = _block(opened)
    places: list[Any] = [None] * len(opened) if block is None else list(block)
    found = list(places)

    def decode(row: int) -> None:
        found[row] = opened[row].decode(places[row])

    for_each(decode, len(opened))
    if block is None or any((pixels.shape, pixels.dtype) != (block.shape[1:], block.dtype) for pixels in found):
        return found
    for place, pixels in zip(places, found, strict=True):
        if pixels is not place:  # it is Pillow's
            place[...] = pixels
    return StackedList(block)


def _block(opened: Sequence[Opened]) -> NDArray[np.uint8] | None:
    """Return an array with a row for each image; `None` if their shapes differ or are not known."""
    shape = opened[0].shape if opened else None
    if shape is None or any(image.shape != shape for image in opened):
        return None
    return empty(len(opened), *shape) if len(opened) * math.prod(shape) <= _MAX_STACKED else None
