"""TFRecord files as iterable datasets of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch.utils.data

from dataformats.interfaces import backends
from dataformats_compat.tfrecord.iterator_utils import shuffle_iterator
from dataformats_compat.tfrecord.reader import Description, Shard, multi_tfrecord_loader, tfrecord_loader

__all__ = ["MultiTFRecordDataset", "TFRecordDataset"]

backends.get("tfrecord")  # imported here, and not in each forked worker


class _Dataset(torch.utils.data.IterableDataset[Any]):
    """The records of files, shuffled and transformed; in a worker, its share of them."""

    shuffle_queue_size: int | None
    transform: Callable[[Any], Any] | None

    def _records(self, shard: Shard) -> Iterator[Any]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            np.random.seed(worker.seed % np.iinfo(np.uint32).max)
        records = self._records(None if worker is None else (worker.id, worker.num_workers))
        if self.shuffle_queue_size:
            records = shuffle_iterator(records, self.shuffle_queue_size)
        return map(self.transform, records) if self.transform else records


class TFRecordDataset(_Dataset):
    """The Examples or SequenceExamples of a file as an iterable dataset.

    The workers of a `DataLoader` share the records, also without an index.

    Args:
        data_path: The file.
        index_path: The index that `tfrecord2idx` made, or `None`.
        description: See `tfrecord_loader`.
        shuffle_queue_size: Number of waiting records that a random one is drawn from; `None`: in order.
        transform: Called with each record, a dict, or a pair of dicts with `sequence_description`.
        sequence_description: See `tfrecord_loader`.
        compression_type: `"gzip"` or `None`.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> dataset = TFRecordDataset("tests/golden/tfrecord/vahidk.tfrecord", None, {"label": "int"})
        >>> next(iter(DataLoader(dataset, batch_size=2)))
        {'label': tensor([[0],
                [1]])}
    """

    def __init__(
        self,
        data_path: str,
        index_path: str | None,
        description: Description = None,
        shuffle_queue_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        sequence_description: Description = None,
        compression_type: str | None = None,
    ) -> None:
        super().__init__()
        self.data_path = data_path
        self.index_path = index_path
        self.description = description
        self.sequence_description = sequence_description
        self.shuffle_queue_size = shuffle_queue_size
        self.transform = transform
        self.compression_type = compression_type

    def _records(self, shard: Shard) -> Iterator[Any]:
        return tfrecord_loader(
            self.data_path,
            self.index_path,
            self.description,
            shard=shard,
            sequence_description=self.sequence_description,
            compression_type=self.compression_type,
        )


class MultiTFRecordDataset(_Dataset):
    """The records of several files as an iterable dataset; each record is taken at random from one of them.

    Args:
        data_pattern: The files: a name in which `{}` stands for each split.
        index_pattern: Their indexes: a name in which `{}` stands for each split, or `None`.
        splits: Split to its weight.
        description: See `TFRecordDataset`.
        shuffle_queue_size: The waiting records.
        transform: Called with each record.
        sequence_description: The feature lists.
        compression_type: The compression.
        infinite: Repeat each file; else the iteration ends when all are exhausted.
    """

    def __init__(
        self,
        data_pattern: str,
        index_pattern: str | None,
        splits: Mapping[str, float],
        description: Description = None,
        shuffle_queue_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        sequence_description: Description = None,
        compression_type: str | None = None,
        infinite: bool = True,
    ) -> None:
        super().__init__()
        self.data_pattern = data_pattern
        self.index_pattern = index_pattern
        self.splits = splits
        self.description = description
        self.sequence_description = sequence_description
        self.shuffle_queue_size = shuffle_queue_size
        self.transform = transform
        self.compression_type = compression_type
        self.infinite = infinite

    def _records(self, shard: Shard) -> Iterator[Any]:
        return multi_tfrecord_loader(
            self.data_pattern,
            self.index_pattern,
            self.splits,
            self.description,
            self.sequence_description,
            self.compression_type,
            self.infinite,
            shard,
        )
