"""Other loaders, each with its fastest settings: one epoch of pictures, shuffled as well as the loader can."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.ffrecord import Records
from tests.benchmarks.harness import Data, peer
from tests.benchmarks.ours import write
from tests.benchmarks.pictures import BATCH, SHAPE, SIZE, Batch, count, parsed, raw
from tests.benchmarks.syrah import metadata_of

Epoch = Callable[[], Iterator[Batch]]
Peer = Callable[[Data, Path], Epoch]
"""Given the data and the file of the case, returns a function that starts an epoch; may raise `UnavailableError`."""
Peers = Mapping[str, Peer]

WORKERS = 2
SHUFFLE_BUFFER = 10_000
GRAIN_THREADS, GRAIN_AHEAD = 2, 8


# ---- torch's DataLoader over the record reads of the original programs


def ffrecord(data: Data, path: Path) -> Epoch:
    """Lists of records by one `pread` and one CRC32 each, from a file of raw pictures, by processes."""
    torch = peer("torch")

    def make(path: Path, blobs: Iterator[bytes]) -> None:
        write(path, blobs, "ffrecord", payload="bytes", records=count(data))

    class Pictures:
        def __init__(self) -> None:
            self.records = Records(raw(data, "ffr", make))

        def __len__(self) -> int:
            return count(data)

        def __getitems__(self, indices: list[int]) -> Any:
            batch = parsed([self.records.read(index) for index in indices])
            return torch.from_numpy(batch.images), torch.from_numpy(batch.labels)

    return _dataloader(Pictures(), collate_fn=_as_it_is)


def syrah(data: Data, path: Path) -> Epoch:
    """Items one by one, each array by seek, read and `frombuffer`, stacked by the DataLoader; by processes."""
    torch = peer("torch")
    tables = [
        (np.frombuffer(table["offset"], "<i8").tolist(), np.frombuffer(table["size"], "<i8").tolist(), table["dtype"])
        for _, table in sorted(metadata_of(path).items())
    ]

    class Items:
        def __init__(self) -> None:
            self.file: Any = None

        def __len__(self) -> int:
            return count(data)

        def __getitem__(self, index: int) -> Any:
            self.file = self.file or path.open("rb")
            found = []
            for offsets, sizes, dtype in tables:
                self.file.seek(offsets[index])
                found.append(torch.from_numpy(np.frombuffer(bytearray(self.file.read(sizes[index])), dtype)))
            return found

    epoch = _dataloader(Items())
    return lambda: (Batch(images.view(-1, *SHAPE), labels[:, 0]) for images, labels in epoch())


def _dataloader(dataset: Any, **options: Any) -> Epoch:
    data = peer("torch.utils.data")
    loader = data.DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True, **options)
    return lambda: (Batch(*batch) for batch in loader)


def _as_it_is(batch: Any) -> Any:
    return batch


# ---- loaders of frameworks


def tensorflow(data: Data, path: Path) -> Epoch:
    """tf.data: a buffer that shuffles records, then whole batches parsed, with as many threads as it chooses."""
    tf = peer("tensorflow")
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(examples: Any) -> Any:
        found = tf.io.parse_example(examples, features)
        return tf.reshape(tf.io.decode_raw(found["image"], tf.uint8, fixed_length=SIZE), (-1, *SHAPE)), found["label"]

    records = tf.data.TFRecordDataset(str(path)).shuffle(SHUFFLE_BUFFER, seed=1)
    batches = records.batch(BATCH).map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return lambda: (Batch(*arrays) for arrays in batches.as_numpy_iterator())


def grain(data: Data, path: Path) -> Epoch:
    """Grain on its own format, tuned: whole batches of numbers are read by threads, seven times as fast as records."""
    python, sources = peer("grain.python"), peer("grain.sources")
    writer_of = peer("array_record.python.array_record_module").ArrayRecordWriter

    def make(path: Path, blobs: Iterator[bytes]) -> None:
        partial = path.with_suffix(".partial")
        writer = writer_of(str(partial), "group_size:1")
        for blob in blobs:
            writer.write(blob)
        writer.close()
        partial.rename(path)

    source = sources.ArrayRecordDataSource(str(raw(data, "array_record", make)))
    options = python.ReadOptions(num_threads=GRAIN_THREADS, prefetch_buffer_size=GRAIN_AHEAD)
    numbers = python.MapDataset.range(count(data)).shuffle(seed=1).batch(BATCH)
    batches = numbers.map(lambda indices: parsed(source.__getitems__(indices.tolist())))
    return lambda: iter(batches.to_iter_dataset(options))


def granular(data: Data, path: Path) -> Epoch:
    """Records one by one, in a permuted order, stacked."""
    original = peer("granular")
    reader = original.DatasetReader(path, original.decoders)
    rng = np.random.default_rng(1)

    def epoch() -> Iterator[Batch]:
        order = rng.permutation(len(reader)).tolist()
        for begin in range(0, len(order), BATCH):
            points = [reader[index] for index in order[begin : begin + BATCH]]
            yield Batch(np.stack([point["image"] for point in points]), np.array([point["label"] for point in points]))

    return epoch


def tfrecord(data: Data, path: Path) -> Epoch:
    """The package's loop and shuffle; checksums are not verified."""
    loader = peer("tfrecord.reader").tfrecord_loader
    shuffle = peer("tfrecord.iterator_utils").shuffle_iterator

    def epoch() -> Iterator[Batch]:
        records = shuffle(loader(str(path), None, {"image": "byte", "label": "int"}), SHUFFLE_BUFFER)
        while together := list(islice(records, BATCH)):
            images = np.frombuffer(b"".join(record["image"] for record in together), np.uint8)
            yield Batch(images.reshape(-1, *SHAPE), np.concatenate([record["label"] for record in together]))

    return epoch


def webdataset(data: Data, path: Path) -> Epoch:
    """A tar file, shuffled by a buffer; by one process, since one shard cannot be shared."""
    library = peer("webdataset")
    tar = raw(data, "tar", write_tar)
    samples = library.WebDataset(str(tar), shardshuffle=False).shuffle(SHUFFLE_BUFFER).to_tuple("bin")
    return lambda: (parsed([blob for (blob,) in batch]) for batch in samples.batched(BATCH, collation_fn=list))


def write_tar(path: Path, blobs: Iterator[bytes]) -> None:
    """Write a tar file with one sample for each blob, complete or not at all."""
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for number, blob in enumerate(blobs):
            member = tarfile.TarInfo(f"{number:08}.bin")
            member.size = len(blob)
            tar.addfile(member, io.BytesIO(blob))
    partial.rename(path)
