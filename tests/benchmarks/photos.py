"""The data of the image benchmarks: JPEGs and PNGs that compress like photos, with a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import dataformats
from dataformats.fork_hooks import cached_property
from tests.benchmarks.harness import Data
from tests.benchmarks.ours import write
from tests.benchmarks.pictures import Batch

BATCH = 64
_SCENES = 4
_ROUGHNESS = 1.25  # the x of the spectrum 1/f^x: photos have about 1.1 to 1.3


@dataclass(frozen=True)
class Photos:
    """A dataset of images.

    Attributes:
        name: Part of the names of files and cases.
        what: Description in the table.
        full: Number of images.
        height: Height in pixels.
        width: Width in pixels.
        kind: The format's name in Pillow.
        mode: `"RGB"` or `"L"`.
        options: Options of Pillow's encoder.
    """

    name: str
    what: str
    full: int
    height: int = 375
    width: int = 500
    kind: str = "JPEG"
    mode: str = "RGB"
    options: tuple[tuple[str, Any], ...] = (("quality", 72),)

    def stored(self, data: Data) -> tuple[Path, int]:
        """Return a TFRecord of Examples with the images and their numbers as labels, and how many there are."""
        n = data.count(self.full, least=8)
        spec = {"image": "png" if self.kind == "PNG" else "jpg", "label": "int64"}
        name = f"photos-{self.name}-{n}.tfrecord"
        return data.made(name, lambda path: write(path, self._records(n), "tfrecord", spec=spec)), n

    def _records(self, n: int) -> Iterator[dict[str, Any]]:
        return ({"image": self._encoded(number), "label": number} for number in range(n))

    def _encoded(self, number: int) -> bytes:
        stream = BytesIO()
        Image.fromarray(self.pixels(number)).save(stream, self.kind, **dict(self.options))
        return stream.getvalue()

    def pixels(self, number: int) -> NDArray[np.uint8]:
        """Return an image before it is encoded: a window of a scene, perhaps mirrored, brighter or darker."""
        rng = np.random.default_rng(number)
        scene = self._scenes[number % _SCENES]
        top, left = (int(rng.integers(0, size // 2)) for size in (self.height, self.width))
        window = scene[top : top + self.height, left : left + self.width][:, :: int(rng.choice((-1, 1)))]
        pixels = np.clip(window * rng.uniform(0.8, 1.2), 0, 255).astype(np.uint8)
        return np.ascontiguousarray(pixels if self.mode == "RGB" else pixels[..., 1])

    @cached_property
    def _scenes(self) -> list[NDArray[np.float32]]:
        return [_scene(3 * self.height // 2, 3 * self.width // 2, number) for number in range(_SCENES)]


def _scene(height: int, width: int, seed: int) -> NDArray[np.float32]:
    """Return float32 (h, w, 3): noise with the spectrum of photos, mostly gray, with objects that have edges."""
    rng = np.random.default_rng(seed)
    distance = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    distance[0, 0] = 1
    planes = []
    for _ in range(4):
        spectrum = np.fft.rfft2(rng.standard_normal((height, width))) / distance**_ROUGHNESS
        plane = np.fft.irfft2(spectrum, (height, width))
        planes.append(plane / plane.std())
    pixels = np.stack([128 + 42 * planes[0] + 14 * plane for plane in planes[1:]], axis=-1)
    y, x = np.ogrid[:height, :width]
    for _ in range(30):
        center, size = rng.uniform(0, 1, 2) * (height, width), rng.uniform(0.02, 0.15, 2) * height
        first, last = np.maximum(center - size, 0).astype(int), (center + size).astype(int) + 1
        rows, columns = slice(first[0], last[0]), slice(first[1], last[1])
        inside = ((y[rows] - center[0]) / size[0]) ** 2 + ((x[:, columns] - center[1]) / size[1]) ** 2 < 1
        window = pixels[rows, columns]
        window[inside] = 0.6 * window[inside] + rng.uniform(0, 100, 3)
    return pixels.astype(np.float32)


PHOTOS = Photos("rgb", "JPEGs of 500 × 375", 3000)
GRAY = Photos("gray", "gray JPEGs of 500 × 375", 1500, mode="L")
PROGRESSIVE = Photos(
    "progressive", "progressive JPEGs of 500 × 375", 1000, options=(("quality", 72), ("progressive", True))
)
LARGE = Photos("large", "JPEGs of 1600 × 1200", 300, 1200, 1600)
SMALL = Photos("png", "PNGs of 64 × 64", 12_000, 64, 64, "PNG", options=())


def blobs(path: Path) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the encoded images, in memory, and their labels."""
    source = dataformats.open(path, spec={"image": "bytes", "label": "int64"})
    batch = source.read(range(len(source)))
    return list(batch["image"]), np.asarray(batch["label"])


def checker(photos: Photos, path: Path, tolerance: int) -> Callable[[Batch], dict[str, Any]]:
    """Return a function of a batch that returns facts that must be equal on all sides.

    The facts are the number of records, and if some of the images equal Pillow's, up to `tolerance`: the
    versions of libjpeg-turbo in the programs differ.
    """
    stored, _ = blobs(path)

    def facts(batch: Batch) -> dict[str, Any]:
        labels, images = np.asarray(batch.labels), np.asarray(batch.images)
        right = True
        for row in (0, len(labels) - 1):
            expected = np.asarray(Image.open(BytesIO(stored[labels[row]])))
            found = images[row].reshape(expected.shape).astype(int)
            right &= bool(np.abs(found - expected).max() <= tolerance)
        return {"records": len(labels), "right": right}

    return facts


def cropped(batch: Batch) -> dict[str, Any]:
    """Return facts of a batch of random crops, whose pixels differ on every side."""
    images = np.asarray(batch.images)
    return {"records": len(np.asarray(batch.labels)), "size": images.shape[1:], "dtype": str(images.dtype)}
