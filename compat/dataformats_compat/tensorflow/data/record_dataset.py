"""`tf.data.TFRecordDataset`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from dataformats import open
from dataformats_compat.tensorflow.data.constants import parallelism
from dataformats_compat.tensorflow.data.dataset import Dataset

if TYPE_CHECKING:
    from dataformats.internals import BlobSource

__all__ = ["TFRecordDataset", "records_of"]


class TFRecordDataset(Dataset):
    """The records of TFRecord files, as bytes. Checksums are verified.

    Args:
        filenames: A path or several, or a dataset of paths.
        compression_type: `"GZIP"`, `"ZLIB"`, or `""` or `None`: as the file itself says.
        buffer_size: Accepted; files are read ahead.
        num_parallel_reads: How many files take turns, one record each; `None`: one file after the other.

    Raises:
        FileNotFoundError: There is no such file; raised in iteration.
        FormatError: A file is damaged; raised in iteration, after all records before the damage.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> records = tf.data.TFRecordDataset("tests/golden/real/photos.tfrecord")
        >>> features = {"width": tf.io.FixedLenFeature([], tf.int64)}
        >>> batches = records.batch(4).map(lambda batch: tf.io.parse_example(batch, features))
        >>> next(batches.as_numpy_iterator())["width"].shape
        (4,)
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: Any = None,
    ) -> None:
        files = filenames
        if not isinstance(filenames, Dataset):
            names = [filenames] if isinstance(filenames, str | bytes | os.PathLike) else filenames
            files = Dataset.from_tensor_slices([os.fspath(one) for one in names])
        compression = (compression_type or "auto").lower()
        cycle = parallelism(num_parallel_reads, "num_parallel_reads")

        def opened(path: Any) -> Dataset:
            return Dataset(lambda: records_of(path, compression))

        super().__init__(files.interleave(opened, cycle, 1)._make)


def records_of(path: Any, compression: str) -> Iterator[bytes]:
    """Return the records of a file, in order.

    Args:
        path: Its path.
        compression: `"gzip"`, `"zlib"`, `"none"`, or `"auto"`: as its first bytes say.
    """
    name = os.fsdecode(path) if isinstance(path, bytes) else path
    source = open([name], format="tfrecord", payload="bytes", compression=compression)
    return (record for stored in cast("BlobSource", source).scan_stored() for record in stored.blobs)
