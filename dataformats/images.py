"""Image operations for training: decode images of any size cropped and resized, and no more of them than needed.

Pass them as `decode=` to a `Loader` or to `read`, for a field of type `jpg`, `png`, `webp`, or `bytes` that holds such
images. The geometry is torchvision's. The result is RGB: gray becomes RGB, of 16 bits the upper 8 are kept, an
alpha channel is dropped, and EXIF orientation is not applied.

**Resampling** is bilinear with antialiasing: Pillow's `resize(size, BILINEAR, box)`, along the rows and then along the
columns. For some sizes Pillow 13 goes along the columns first: then values differ by at most one level of 255. A JPEG
is decoded at 1/2, 1/4 or 1/8 of its size if the crop still has at least the pixels of the result.

**Random numbers** depend, in a `Loader`, on its seed and the position of the record in the run alone: two fields with
equal operations get the same crop, and a resumed run gets the crops that an uninterrupted one would. In `read` they
depend on the operation's `seed` and the index that is read.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dataformats.batch import Blobs, Column, StackedList
from dataformats.codecs.image_decoders.jpeg import DIVISORS
from dataformats.codecs.images import MAX_PIXELS, decode_scaled
from dataformats.interfaces import FieldOperation
from dataformats.kernels import resample
from dataformats.kernels.buffers import empty
from dataformats.storage.threads import for_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CenterCrop", "RandomResizedCrop", "Resize"]

_TRIES = 10
_MAX_SIZE = 16_384
_MAX_SIDE = 65_536  # pixels on a side, before and after resizing: more would need gigabytes
_MIN_SCALED = 64  # pixels: below, some scales of a JPEG have the same size

_NUMBER = int | float | np.number

Size = int | tuple[int, int]
"""Height and width in pixels; one number is both."""

Layout = Literal["channels_last", "channels_first"]


class _Geometry(NamedTuple):
    """Which pixels of an image an operation computes, and where it puts them.

    Attributes:
        box: Left, top, right and bottom of the part of the image that is resampled, in pixels.
        size: Width and height of the resampled part.
        part: Left, top, width and height of the resampled pixels that are computed.
        place: Left and top of these pixels in the result, which is 0 elsewhere.
    """

    box: tuple[float, float, float, float]
    size: tuple[int, int]
    part: tuple[int, int, int, int]
    place: tuple[int, int] = (0, 0)


@dataclass(frozen=True, kw_only=True)
class _Operation(FieldOperation):
    """An operation on images."""

    size: Size = field(kw_only=False)
    flip: float = 0.0
    layout: Layout = "channels_last"
    seed: int = 0
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        _sizes(self.size)
        flip: Any = self.flip
        if not isinstance(flip, _NUMBER) or not 0 <= flip <= 1:
            raise ValueError(f"flip: expected a probability from 0 to 1, found {flip!r}")
        if self.layout not in ("channels_last", "channels_first"):
            raise ValueError(f"layout: expected 'channels_last' or 'channels_first', found {self.layout!r}")
        _check_number("seed", self.seed, 0)
        if self.max_pixels is not None:
            _check_number("max_pixels", self.max_pixels, 1)

    def shape(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the result for an image of this size."""
        return _sizes(self.size)

    @abstractmethod
    def geometry(self, height: int, width: int, draw: Callable[[], float]) -> _Geometry:
        """Return the geometry for an image of this size; `draw` returns the next random number in [0, 1)."""

    @property
    def fixed(self) -> bool:
        """True if all results have the same size."""
        return True

    def decode_batch(self, blobs: Blobs, generator: Callable[[int], np.random.Generator]) -> Column:
        """Return uint8 (n, h, w, 3) or (n, 3, h, w); a list of images if the operation does not fix their size."""
        out = empty(len(blobs), *self._shape(self.shape(1, 1))) if self.fixed else None
        found: list[Any] = [None] * len(blobs) if out is None else list(out)

        def decode(row: int) -> None:
            found[row] = self._decode(bytes(blobs.view(row)), lambda: generator(row), found[row])

        for_each(decode, len(blobs))
        if out is None:
            return StackedList(np.stack(found)) if len({image.shape for image in found}) == 1 else found
        return out

    def _decode(
        self, blob: bytes, generator: Callable[[], np.random.Generator], out: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8]:
        def planned(height: int, width: int) -> tuple[_Geometry, bool]:
            draw = generator().random
            return self.geometry(height, width, draw), self.flip > 0 and draw() < self.flip

        def scale(height: int, width: int) -> int:
            return _divisor(height, width, planned(height, width)[0])

        image, (height, width), divisor = decode_scaled(blob, scale, self.max_pixels)
        geometry, flip = planned(height, width)
        self._check_sizes((width, height), geometry.size)
        if out is None:
            out = np.empty(self._shape(self.shape(height, width)), np.uint8)
        left, top, right, bottom = (edge / divisor for edge in geometry.box)
        place = _place(out, geometry, self.layout, flip=flip)
        if place.shape != out.shape:
            out[...] = 0
        part = place if place.flags.c_contiguous else np.empty(place.shape, np.uint8)
        planes = self.layout == "channels_first"
        resample(image, (left, top, right, bottom), geometry.size, geometry.part, part, flip=flip, planes=planes)
        if part is not place:
            place[...] = part
        return out

    def _check_sizes(self, image: tuple[int, int], resized: tuple[int, int]) -> None:
        most = max(MAX_PIXELS, self.max_pixels or 0)
        if max(*image, *resized) > _MAX_SIDE or resized[0] * resized[1] > most:
            raise ValueError(
                f"the image of {image[0]} x {image[1]} would be resized to {resized[0]} x {resized[1]}: "
                f"expected at most {_MAX_SIDE} pixels on a side, and {most} together"
            )

    def _shape(self, size: tuple[int, int]) -> tuple[int, ...]:
        return (3, *size) if self.layout == "channels_first" else (*size, 3)


@dataclass(frozen=True)
class RandomResizedCrop(_Operation):
    """A random part of each image, resized, as `torchvision.transforms.v2.RandomResizedCrop` chooses it.

    Args:
        size: Height and width of the result; one number is both.
        scale: The part of the image's area, from and to.
        ratio: Width by height of the part, from and to.
        flip: The probability that the result is mirrored, left to right.
        layout: `"channels_last"`: uint8 (n, h, w, 3), or `"channels_first"`: uint8 (n, 3, h, w).
        seed: The seed of `read`: random numbers depend on it and the index. A `Loader` has its own seed.
        max_pixels: The most pixels of an image that is decoded; `None`: 2^27, and 2^26 of a WebP.

    Example:
        >>> import dataformats
        >>> from dataformats.images import RandomResizedCrop
        >>> photos = dataformats.open("tests/golden/real/photos.tfrecord")
        >>> loader = dataformats.Loader(photos, 4, decode={"image": RandomResizedCrop(224, flip=0.5)})
        >>> next(iter(loader))["image"].shape
        (4, 224, 224, 3)
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    name = "RandomResizedCrop"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_bounds("scale", self.scale)
        _check_bounds("ratio", self.ratio)

    def geometry(self, height: int, width: int, draw: Callable[[], float]) -> _Geometry:
        left, top, crop_width, crop_height = self._crop(height, width, draw)
        rows, columns = _sizes(self.size)
        box = (left, top, left + crop_width, top + crop_height)
        return _Geometry(box, (columns, rows), (0, 0, columns, rows))

    def _crop(self, height: int, width: int, draw: Callable[[], float]) -> tuple[int, int, int, int]:
        """Return left, top, width and height of the part."""
        low, high = (math.log(bound) for bound in self.ratio)
        for _ in range(_TRIES):
            area = height * width * (self.scale[0] + (self.scale[1] - self.scale[0]) * draw())
            ratio = math.exp(low + (high - low) * draw())
            crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < crop_width <= width and 0 < crop_height <= height:
                top = int(draw() * (height - crop_height + 1))
                return int(draw() * (width - crop_width + 1)), top, crop_width, crop_height
        crop_width, crop_height = width, height  # no try fits: the largest part of a permitted ratio, in the center
        if width / height < self.ratio[0]:
            crop_height = max(1, round(width / self.ratio[0]))
        elif width / height > self.ratio[1]:
            crop_width = max(1, round(height * self.ratio[1]))
        return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


@dataclass(frozen=True)
class CenterCrop(_Operation):
    """The center of each image, resized first if `resize` is given, as torchvision's `Resize` and `CenterCrop` do.

    Args:
        size: Height and width of the result; one number is both. Outside of a smaller image, the result is 0.
        resize: The shorter side of the resized image, or its height and width; `None`: the image is not resized.
        flip: The probability that the result is mirrored, left to right.
        layout: `"channels_last"`: uint8 (n, h, w, 3), or `"channels_first"`: uint8 (n, 3, h, w).
        seed: See `RandomResizedCrop`.
        max_pixels: See `RandomResizedCrop`.

    Example:
        >>> import dataformats
        >>> from dataformats.images import CenterCrop
        >>> photos = dataformats.open("tests/golden/real/photos.tfrecord")
        >>> photos.read([0, 1], decode={"image": CenterCrop(224, resize=256)})["image"].shape
        (2, 224, 224, 3)
    """

    resize: Size | None = None
    name = "CenterCrop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize is not None:
            _sizes(self.resize, "resize")

    def geometry(self, height: int, width: int, draw: Callable[[], float]) -> _Geometry:
        rows, columns = (height, width) if self.resize is None else _resized(height, width, self.resize)
        top, part_rows, below = _centered(rows, _sizes(self.size)[0])
        left, part_columns, beside = _centered(columns, _sizes(self.size)[1])
        part = (left, top, part_columns, part_rows)
        return _Geometry((0, 0, width, height), (columns, rows), part, (beside, below))


@dataclass(frozen=True)
class Resize(_Operation):
    """Each image resized, as `torchvision.transforms.v2.Resize` does.

    Args:
        size: The shorter side of the result, or its height and width. With one number, images of different ratios
            get different sizes: the column is a list.
        flip: The probability that the result is mirrored, left to right.
        layout: `"channels_last"`: uint8 (n, h, w, 3), or `"channels_first"`: uint8 (n, 3, h, w).
        seed: See `RandomResizedCrop`.
        max_pixels: See `RandomResizedCrop`.

    Example:
        >>> import dataformats
        >>> from dataformats.images import Resize
        >>> photos = dataformats.open("tests/golden/real/photos.tfrecord")
        >>> photos.read([0, 1], decode={"image": Resize((64, 96), layout="channels_first")})["image"].shape
        (2, 3, 64, 96)
    """

    name = "Resize"

    @property
    def fixed(self) -> bool:
        return not isinstance(self.size, int)

    def shape(self, height: int, width: int) -> tuple[int, int]:
        return _resized(height, width, self.size)

    def geometry(self, height: int, width: int, draw: Callable[[], float]) -> _Geometry:
        rows, columns = _resized(height, width, self.size)
        return _Geometry((0, 0, width, height), (columns, rows), (0, 0, columns, rows))


def _check_number(name: str, found: Any, minimum: int) -> None:
    if not isinstance(found, int) or isinstance(found, bool) or found < minimum:
        raise ValueError(f"{name}: expected a whole number of at least {minimum}, found {found!r}")


def _check_bounds(name: str, found: Any) -> None:
    valid = isinstance(found, tuple | list) and len(found) == 2 and all(isinstance(bound, _NUMBER) for bound in found)
    if not valid or not 0 < found[0] <= found[1] < math.inf:
        raise ValueError(f"{name}: expected two positive numbers in order, found {found!r}")


def _sizes(size: Any, name: str = "size") -> tuple[int, int]:
    """Return height and width."""
    found = (size, size) if isinstance(size, int) else size
    valid = isinstance(found, tuple | list) and len(found) == 2 and not any(isinstance(one, bool) for one in found)
    if not valid or not all(isinstance(one, int) and 1 <= one <= _MAX_SIZE for one in found):
        raise ValueError(f"{name}: expected one whole number or (height, width), 1 to {_MAX_SIZE}, found {size!r}")
    return found[0], found[1]


def _resized(height: int, width: int, size: Size) -> tuple[int, int]:
    """Return height and width of a resized image; a single number is the shorter side."""
    if not isinstance(size, int):
        return _sizes(size)
    return (size, int(size * width / height)) if height <= width else (int(size * height / width), size)


def _centered(length: int, wanted: int) -> tuple[int, int, int]:
    """Return where the center of a length begins, its length, and where it is put in a result of the wanted length."""
    if wanted > length:
        return 0, length, (wanted - length) // 2
    return round((length - wanted) / 2), wanted, 0


def _divisor(height: int, width: int, geometry: _Geometry) -> int:
    """Return the largest divisor at which the box has at least as many pixels as its resized form."""
    if min(height, width) < _MIN_SCALED:
        return 1
    left, top, right, bottom = geometry.box
    most = min((right - left) / geometry.size[0], (bottom - top) / geometry.size[1])
    return next((divisor for divisor in DIVISORS if divisor <= most), 1)


def _place(out: NDArray[np.uint8], geometry: _Geometry, layout: Layout, *, flip: bool) -> NDArray[np.uint8]:
    """Return the view of a result that the part fills."""
    (left, top), (_, _, width, height) = geometry.place, geometry.part
    pixels = out.transpose(1, 2, 0) if layout == "channels_first" else out
    left = pixels.shape[1] - left - width if flip else left
    place = pixels[top : top + height, left : left + width]
    return place.transpose(2, 0, 1) if layout == "channels_first" else place
