"""Images: a shuffled epoch of encoded photos, decoded, or cropped and resized at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dataformats
from dataformats.batch import Blobs
from dataformats.codecs.images import JPG
from dataformats.images import RandomResizedCrop
from tests.benchmarks.harness import Case, Data, Side, Target, UnavailableError, Work, peer
from tests.benchmarks.photos import BATCH, GRAY, LARGE, PHOTOS, PROGRESSIVE, SMALL, Photos, blobs, checker, cropped
from tests.benchmarks.pictures import Batch, each_once

TENSORFLOW, TORCHVISION, TURBO = "tf.data", "torchvision, DataLoader, 2 processes", "libjpeg-turbo, 2 threads"
TOLERANCE = 4
SIZE = 224
SHUFFLE_BUFFER = 10_000
Epoch = Callable[[], Iterator[Batch]]
Facts = Callable[[Batch], dict[str, Any]]


# ---- our side


def ours(path: Path, **options: Any) -> Epoch:
    """The loader with its defaults; its threads begin and end with the epoch."""
    loader = dataformats.Loader(dataformats.open(path), BATCH, seed=1, **options)

    def epoch() -> Iterator[Batch]:
        for batch in loader:
            yield Batch(batch["image"], batch["label"])
        loader.close()

    return epoch


# ---- tf.data


def tensorflow(photos: Photos, path: Path, *, crop: bool = False) -> Epoch:
    """A buffer that shuffles all records, then each image decoded, by as many threads as TensorFlow chooses.

    Batches come as views of tensors: `tensor.numpy()` would copy 36 MB a batch, a tenth of the epoch's processor time.
    Other options were not faster: a thread pool of its own, two parallel calls, `deterministic=False`, `map` fused with
    `batch`, parallel batches, other prefetch depths, `INTEGER_FAST` without `fancy_upscaling`, or flips in batches.
    """
    tf = peer("tensorflow")
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    channels = 3 if photos.mode == "RGB" else 1
    decode = tf.io.decode_png if photos.kind == "PNG" else tf.io.decode_jpeg

    def parse(example: Any) -> Any:
        found = tf.io.parse_single_example(example, features)
        image = _tensorflow_crop(tf, found["image"]) if crop else decode(found["image"], channels=channels)
        return image, found["label"]

    records = tf.data.TFRecordDataset(str(path)).shuffle(SHUFFLE_BUFFER, seed=1)
    batches = records.map(parse, tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    return lambda: (Batch(*arrays) for arrays in batches.as_numpy_iterator())


def _tensorflow_crop(tf: Any, blob: Any) -> Any:
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(blob),
        tf.zeros([1, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(blob, window, channels=3)
    image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
    return tf.cast(image, tf.uint8)


# ---- torchvision


def torchvision(photos: Photos, path: Path, *, crop: bool = False) -> Epoch:
    """A DataLoader over the images in memory, each decoded by `torchvision.io.decode_jpeg`."""
    try:
        torch, io, v2 = peer("torch"), peer("torchvision.io"), peer("torchvision.transforms.v2")
    except RuntimeError as error:  # a build for GPUs beside a torch for processors
        raise UnavailableError(f"torchvision does not fit torch: {error}") from error
    stored, labels = blobs(path)
    transform = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()])

    class Images:
        def __len__(self) -> int:
            return len(stored)

        def __getitem__(self, index: int) -> Any:
            image = io.decode_jpeg(torch.frombuffer(bytearray(stored[index]), dtype=torch.uint8))
            return transform(image) if crop else image, int(labels[index])

    loader = peer("torch.utils.data").DataLoader(Images(), BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    return lambda: (Batch(images.permute(0, 2, 3, 1), labels) for images, labels in loader)


# ---- work


def epochs(data: Data, photos: Photos) -> Work:
    """Return the work of decoding each image of a shuffled epoch."""
    path, n = photos.stored(data)
    facts = checker(photos, path, TOLERANCE)
    sides = {
        "dataformats": lambda: side_of(n, ours(path), facts),
        TENSORFLOW: lambda: side_of(n, tensorflow(photos, path), facts),
    }
    if photos.kind == "JPEG":
        sides[TORCHVISION] = lambda: side_of(n, torchvision(photos, path), facts)
    return Work(f"Loader, {n:,} {photos.what} in Examples, a shuffled epoch in batches of {BATCH}", sides)


def crops(data: Data, photos: Photos) -> Work:
    """Return the work of a random resized crop of each image of a shuffled epoch."""
    path, n = photos.stored(data)
    decode = {"image": RandomResizedCrop(SIZE, flip=0.5)}
    return Work(
        f"Loader, {n:,} {photos.what} in Examples, RandomResizedCrop({SIZE}) and flip, batches of {BATCH}",
        {
            "dataformats": lambda: side_of(n, ours(path, decode=decode), cropped),
            TENSORFLOW: lambda: side_of(n, tensorflow(photos, path, crop=True), cropped),
            TORCHVISION: lambda: side_of(n, torchvision(photos, path, crop=True), cropped),
        },
    )


def side_of(n: int, epoch: Epoch, facts: Facts) -> Side:
    """Return a side that reads an epoch of `n` records and checks that each comes once."""
    return Side(lambda: each_once(n, epoch()), facts)


def decoding(data: Data) -> Work:
    """Return the work of decoding batches that are in memory, and nothing else."""
    path, n = PHOTOS.stored(data)
    stored, _ = blobs(path)
    batches = [Blobs.join(stored[first : first + BATCH]) for first in range(0, n, BATCH)]
    return Work(
        f"{n:,} {PHOTOS.what} in memory, decoded in batches of {BATCH}",
        {
            "dataformats": lambda: Side(lambda: map(JPG.decode_batch, batches), lambda images: {"n": len(images)}),
            TURBO: lambda: Side(lambda: map(_turbo, batches), lambda n: {"n": n}),
        },
    )


def _turbo(batch: Blobs) -> int:
    """Decode a batch in two threads, each image into the same memory of its thread; return how many there were."""
    decode = peer("simplejpeg").decode_jpeg
    images = iter(list(batch))

    def work(_: int) -> int:
        memory = bytearray(PHOTOS.height * PHOTOS.width * 3)
        return sum(1 for blob in images if decode(blob, buffer=memory) is not None)

    return sum(_THREADS.map(work, range(2)))


_THREADS = ThreadPoolExecutor(2)


def _case(photos: Photos, *rows: Target) -> Case:
    return Case(f"images-{photos.name}", lambda data: epochs(data, photos), rows)


CASES = (
    _case(PHOTOS, Target(TENSORFLOW, 1.3), Target(TORCHVISION, 3)),
    _case(GRAY, Target(TENSORFLOW), Target(TORCHVISION)),
    _case(PROGRESSIVE, Target(TENSORFLOW), Target(TORCHVISION)),
    _case(LARGE, Target(TENSORFLOW), Target(TORCHVISION)),
    _case(SMALL, Target(TENSORFLOW, 1.3)),
    Case("images-crop", lambda data: crops(data, PHOTOS), (Target(TENSORFLOW, 1.3), Target(TORCHVISION, 2))),
    Case("images-crop-large", lambda data: crops(data, LARGE), (Target(TENSORFLOW), Target(TORCHVISION))),
    Case("images-decoding", decoding, (Target(TURBO, 0.9),)),
)
