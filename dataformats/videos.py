"""Video operations for training: decode clips of videos, and no more of the videos than these need.

Pass them as `decode=` to a `Loader` or to `read`, for a field of type `mp4` or `webm`, or `bytes` that are such videos.
The frames of a known place need no operation: `src[5, {"video": range(32, 48)}]`.

Frames are numbered in the order in which they are shown, and equal the frames of the whole video. Random numbers
depend on the seed and the position, as in `dataformats.images`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs, Column, StackedList
from dataformats.codecs.videos import video_of
from dataformats.integer_arguments import checked_int
from dataformats.interfaces import FieldOperation
from dataformats.storage.threads import for_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RandomClip"]


@dataclass(frozen=True)
class RandomClip(FieldOperation):
    """Frames at equal distances from a random place of each video; every place is equally likely.

    The column is uint8 (n, frames, h, w, 3) if all videos have one size, else a list of (frames, h, w, 3). A video that
    is too short for the clip is taken from its start, and its last frame is repeated.

    Args:
        frames: Frames of a clip.
        stride: The distance of its frames: 1 takes consecutive ones.
        seed: The seed of `read`: random numbers depend on it and the index. A `Loader` has its own seed.
        max_pixels: The most pixels of a clip; `None`: 2^29.

    Example:
        >>> import tempfile
        >>> import dataformats
        >>> import numpy as np
        >>> from dataformats.videos import RandomClip
        >>> path = tempfile.mkdtemp() + "/videos.tfrecord"
        >>> with dataformats.create(path, spec={"video": "mp4"}) as writer:
        ...     writer.extend({"video": np.zeros((n, 48, 64, 3), np.uint8)} for n in (40, 50))
        >>> videos = dataformats.open(path)
        >>> loader = dataformats.Loader(videos, 2, decode={"video": RandomClip(frames=16, stride=2)})
        >>> next(iter(loader))["video"].shape
        (2, 16, 48, 64, 3)
    """

    frames: int
    stride: int = 1
    seed: int = 0
    max_pixels: int | None = None
    name = "RandomClip"

    def __post_init__(self) -> None:
        for name, least in (("frames", 1), ("stride", 1), ("seed", 0)):
            checked_int(name, getattr(self, name), least)
        if self.max_pixels is not None:
            checked_int("max_pixels", self.max_pixels, 1)

    def decode_batch(self, blobs: Blobs, generator: Callable[[int], np.random.Generator]) -> Column:
        """Return uint8 (n, frames, h, w, 3), or a list of (frames, h, w, 3)."""
        found: list[Any] = [None] * len(blobs)

        def decode(row: int) -> None:
            blob = blobs[row]
            found[row] = video_of(blob, self.max_pixels).decode_chosen(blob, lambda n: self.numbers(n, generator(row)))

        for_each(decode, len(blobs))
        return StackedList(np.stack(found)) if len({clip.shape for clip in found}) == 1 else found

    def numbers(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of the frames, int64[frames], for a video of `n` frames."""
        span = (self.frames - 1) * self.stride
        first = int(generator.integers(max(1, n - span)))
        return np.minimum(first + self.stride * np.arange(self.frames), n - 1)
