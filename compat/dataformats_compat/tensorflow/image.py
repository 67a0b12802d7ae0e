"""`tf.image`: decode, crop, flip and resize images; (height, width, channels), or a batch of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats_compat.tensorflow import color, image_files, random
from dataformats_compat.tensorflow.color import *  # noqa: F403
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.image_files import *  # noqa: F403
from dataformats_compat.tensorflow.image_files import crop_to_bounding_box
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.resizing import ResizeMethod, resize
from dataformats_compat.tensorflow.tensor import as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ResizeMethod", "central_crop", "crop_to_bounding_box", "flip_left_right", "flip_up_down", "pad_to_bounding_box",
    "random_crop", "random_flip_left_right", "random_flip_up_down", "resize", "resize_with_crop_or_pad", "rot90",
    "sample_distorted_bounding_box", "transpose", *color.__all__, *image_files.__all__,
]  # fmt: skip

__getattr__: Any = missing_from(__name__)


def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Any:
    """Return an image with zeros around it.

    Raises:
        InvalidArgumentError: It does not fit into the target.
    """
    pixels = np.asarray(image)
    height, width = pixels.shape[-3:-1]
    top, left, rows, columns = int(offset_height), int(offset_width), int(target_height), int(target_width)
    if min(top, left) < 0 or top + height > rows or left + width > columns:
        raise InvalidArgumentError(
            f"expected a target of at least {top + height} x {left + width}, found {rows} x {columns}"
        )
    padded = np.zeros((*pixels.shape[:-3], rows, columns, pixels.shape[-1]), pixels.dtype)
    padded[..., top : top + height, left : left + width, :] = pixels
    return as_tensor(padded)


def resize_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Any:
    """Return the center of an image, with zeros around it where it is smaller."""
    pixels = np.asarray(image)
    height, width = pixels.shape[-3:-1]
    rows, columns = int(target_height), int(target_width)
    cropped = crop_to_bounding_box(
        pixels, max((height - rows) // 2, 0), max((width - columns) // 2, 0), min(rows, height), min(columns, width)
    )
    return pad_to_bounding_box(cropped, max((rows - height) // 2, 0), max((columns - width) // 2, 0), rows, columns)


def central_crop(image: Any, central_fraction: float) -> Any:
    """Return the center of an image: a part of its height and of its width.

    Raises:
        ValueError: The fraction is not in (0, 1].
    """
    if not 0 < central_fraction <= 1:
        raise ValueError(f"central_fraction: expected a number in (0, 1], found {central_fraction}")
    pixels = np.asarray(image)
    height, width = pixels.shape[-3:-1]
    top, left = (int((size - size * float(central_fraction)) / 2) for size in (height, width))
    return as_tensor(pixels[..., top : height - top, left : width - left, :])


def flip_left_right(image: Any) -> Any:
    """Return an image mirrored, left to right."""
    pixels = np.asarray(image)
    # A copy: what comes next would go through a view of it three numbers at a time.
    return as_tensor(pixels.take(np.arange(pixels.shape[-2] - 1, -1, -1), axis=-2, mode="clip"))


def flip_up_down(image: Any) -> Any:
    """Return an image mirrored, top to bottom."""
    return as_tensor(np.asarray(image)[..., ::-1, :, :])


def transpose(image: Any, name: Any = None) -> Any:
    """Return an image with rows and columns exchanged."""
    return as_tensor(np.swapaxes(np.asarray(image), -3, -2))


def rot90(image: Any, k: int = 1, name: Any = None) -> Any:
    """Return an image rotated counter-clockwise, `k` times by 90 degrees."""
    return as_tensor(np.rot90(np.asarray(image), k, (-3, -2)))


def random_flip_left_right(image: Any, seed: Any = None) -> Any:
    """Return an image, or each of a batch, mirrored left to right with probability 1/2."""
    return _flipped(image, flip_left_right)


def random_flip_up_down(image: Any, seed: Any = None) -> Any:
    """Return an image, or each of a batch, mirrored top to bottom with probability 1/2."""
    return _flipped(image, flip_up_down)


def _flipped(image: Any, flip: Any) -> Any:
    pixels = np.asarray(image)
    if pixels.ndim == 4:
        return as_tensor(np.stack([_flipped(one, flip) for one in pixels]) if len(pixels) else pixels)
    return flip(pixels) if random.generator().random() < 0.5 else as_tensor(pixels)


def random_crop(value: Any, size: Sequence[int], seed: Any = None, name: Any = None) -> Any:
    """Return a random part of an array, in this shape.

    Raises:
        InvalidArgumentError: The array is smaller.
    """
    array, sizes = np.asarray(value), [int(one) for one in size]
    sizes = [full if one == -1 else one for one, full in zip(sizes, array.shape, strict=True)]
    if any(one > full for one, full in zip(sizes, array.shape, strict=True)):
        raise InvalidArgumentError(f"size: expected at most {array.shape}, found {sizes}")
    starts = [int(random.generator().integers(full - one + 1)) for one, full in zip(sizes, array.shape, strict=True)]
    return as_tensor(array[tuple(slice(at, at + one) for at, one in zip(starts, sizes, strict=True))])


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any = 0,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: Any = None,
) -> tuple[Any, Any, Any]:
    """Return a random part of an image that contains enough of some object.

    Args:
        image_size: Height, width and channels.
        bounding_boxes: float32 (1, n, 4): top, left, bottom and right of each object, from 0 to 1.
        seed: Ignored: use `tf.random.set_seed`.
        min_object_covered: The part must cover this fraction of an object.
        aspect_ratio_range: Width by height, from and to; `None`: 0.75 and 1.33.
        area_range: Smallest and largest fraction of the image's area; `None`: 0.05 and 1.
        max_attempts: Number of attempts after which the whole image is returned; `None`: 100.
        use_image_if_no_bounding_boxes: If there is no object, the whole image is one.

    Returns:
        Begin (top, left, 0), size (height, width, -1), and the box, float32 (1, 1, 4).

    Raises:
        InvalidArgumentError: There is no object.
    """
    height, width = (int(size) for size in np.asarray(image_size)[:2])
    boxes = np.asarray(bounding_boxes, np.float64).reshape(-1, 4)
    if not len(boxes):
        if not use_image_if_no_bounding_boxes:
            raise InvalidArgumentError(
                "found no bounding boxes", remedy="Pass use_image_if_no_bounding_boxes=True to take the whole image"
            )
        boxes = np.array([[0.0, 0.0, 1.0, 1.0]])
    objects = boxes * [height, width, height, width]
    window = (0, 0, height, width)
    for _ in range(100 if max_attempts is None else max_attempts):
        tried = _window(height, width, aspect_ratio_range or (0.75, 1.33), area_range or (0.05, 1.0))
        if tried is not None and _covers(tried, objects, min_object_covered):
            window = tried
            break
    top, left, rows, columns = window
    box = np.array([top / height, left / width, (top + rows) / height, (left + columns) / width], np.float32)
    begin, size = np.array([top, left, 0], np.int32), np.array([rows, columns, -1], np.int32)
    return as_tensor(begin), as_tensor(size), as_tensor(box.reshape(1, 1, 4))


def _window(
    height: int, width: int, ratios: Sequence[float], areas: Sequence[float]
) -> tuple[int, int, int, int] | None:
    """Return top, left, height and width of a random part; `None` if the drawn ratio permits none."""
    ratio = random.generator().uniform(float(ratios[0]), float(ratios[1]))
    fewest = math.ceil(math.sqrt(areas[0] * height * width / ratio))
    most = min(math.floor(math.sqrt(areas[1] * height * width / ratio)), height, math.floor(width / ratio))
    if most < max(1, fewest):
        return None
    rows = int(random.generator().integers(max(1, fewest), most + 1))
    columns = min(max(1, round(rows * ratio)), width)
    draw_at = random.generator().integers
    return int(draw_at(height - rows + 1)), int(draw_at(width - columns + 1)), rows, columns


def _covers(window: tuple[int, int, int, int], objects: NDArray[Any], least: float) -> bool:
    top, left, rows, columns = window
    tops, lefts, bottoms, rights = objects.T
    inside = np.clip(np.minimum(bottoms, top + rows) - np.maximum(tops, top), 0, None) * np.clip(
        np.minimum(rights, left + columns) - np.maximum(lefts, left), 0, None
    )
    areas = (bottoms - tops) * (rights - lefts)
    return bool(((areas > 0) & (inside >= least * areas)).any())
