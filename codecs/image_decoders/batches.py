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

__all__ = ["Opened", "decode_all", "decode_one"]

_MOST_STACKED = 2**30  # bytes: large images need no block together


class Opened(NamedTuple):
    """An image whose header was read and checked.

    Attributes:
        by_pillow: Returns the decoded array.
        shape: Of that array, uint8; `None` if only Pillow can decode the image.
        fill: Decodes into a contiguous array of that shape; False if Pillow must decode the image.
    """

    by_pillow: Callable[[], NDArray[Any]]
    shape: tuple[int, ...] | None = None
    fill: Callable[[NDArray[Any]], bool] | None = None


def decode_one(image: Opened, place: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the decoded array.

    Args:
        image: The image.
        place: uint8 of the image's shape, contiguous: returned with the pixels, unless they have another shape.
    """
    if image.shape is None or image.fill is None:
        return image.by_pillow()
    out = empty(math.prod(image.shape)).reshape(image.shape) if place is None else place
    if image.fill(out):
        return out
    found = image.by_pillow()
    if place is None or (found.shape, found.dtype) != (place.shape, place.dtype):
        return found
    place[...] = found
    return place


def decode_all(images: Iterable[Opened]) -> list[NDArray[Any]]:
    """Return the decoded arrays; as rows of one array if their shapes agree."""
    opened = list(images)
    block = _block(opened)
    places: Sequence[Any] = [None] * len(opened) if block is None else list(block)
    found: list[Any] = list(places)

    def decode(row: int) -> None:
        found[row] = decode_one(opened[row], places[row])

    for_each(decode, len(opened))
    if block is None or any(array is not place for array, place in zip(found, places, strict=True)):
        return found
    return StackedList(block)


def _block(opened: Sequence[Opened]) -> NDArray[np.uint8] | None:
    """Return an array with a row for each image; `None` if their shapes differ or are not known."""
    shape = opened[0].shape if opened else None
    if shape is None or any(image.shape != shape for image in opened):
        return None
    n_bytes = len(opened) * math.prod(shape)
    return empty(n_bytes).reshape(len(opened), *shape) if n_bytes <= _MOST_STACKED else None
