"""Datasets that take lists of indices and return lists of samples."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch.utils.data
from numpy.typing import NDArray

from dataformats.internals import dataloader_worker
from dataformats_compat.ffrecord.fileio import FileReader

__all__ = ["ConcatDataset", "Dataset", "ReaderRegistry", "Subset"]


class ReaderRegistry:
    """An object that knows the `FileReader` objects among its attributes."""

    def ffreaders(self) -> list[FileReader]:
        """Return the readers among the attributes, then the readers of each `ReaderRegistry` among them."""
        values = list(vars(self).values())
        below = [value.ffreaders() for value in values if isinstance(value, ReaderRegistry)]
        return [*(value for value in values if isinstance(value, FileReader)), *itertools.chain.from_iterable(below)]


class Dataset(torch.utils.data.Dataset[Any], ReaderRegistry):
    """A dataset that is read a batch at a time: `dataset[[3, 0, 6]]` is a list of three samples.

    A subclass defines `process`, or `__getitem__` and `__len__`.

    Args:
        fnames: A file, a folder or a list of files, as for `FileReader`.
        check_data: Check the CRCs of headers and records.

    Attributes:
        fnames: The files or the folder.
        reader: Reads the records.

    Example:
        >>> import pickle
        >>> import dataformats_compat.ffrecord.torch
        >>> class Numbers(dataformats_compat.ffrecord.torch.Dataset):
        ...     def process(self, indices, data):
        ...         return [pickle.loads(record) for record in data]
        >>> Numbers("tests/golden/ffrecord/pickled_ints.ffr")[[7, 3]]
        [7, 3]
    """

    def __init__(self, fnames: Any, check_data: bool = True) -> None:
        self.fnames = fnames
        self.reader: FileReader = FileReader(fnames, check_data)

    def __len__(self) -> int:
        return self.reader.n

    def __getitem__(self, indices: Any) -> Any:
        """Return the samples at a list or tuple of indices."""
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"expected a list of indices, found {type(indices).__name__}")
        return self.process(indices, self.reader.read(indices))

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """Return the samples at a list of indices: torch's DataLoader asks for whole batches by this name."""
        dataloader_worker()
        return self[indices]

    def process(self, indices: Sequence[int], data: Sequence[Any]) -> Any:
        """Return the samples of a batch: a subclass defines it.

        Args:
            indices: The number of each record.
            data: The records, each uint8[length].
        """
        raise NotImplementedError(f"{type(self).__name__} must define process(indices, data)")

    def __add__(self, other: Any) -> ConcatDataset:  # type: ignore[override]  # the original's has the same lists
        return ConcatDataset([self, other])


class Subset(Dataset):
    """The samples of a dataset at some indices.

    Args:
        dataset: The dataset.
        indices: The index in it of each sample.
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int] | NDArray[np.integer[Any]]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, indices: Any) -> Any:
        return self.dataset[[self.indices[index] for index in indices]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Several datasets, one after the other. Negative indices count from the end.

    Args:
        datasets: The datasets, at least one.

    Attributes:
        datasets: The datasets, in order.
        cumulative_sizes: The number of samples up to the end of each.

    Raises:
        AssertionError: `datasets` is empty, or one is no `Dataset`.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets: list[Dataset] = list(datasets)
        if not self.datasets or not all(isinstance(dataset, Dataset) for dataset in self.datasets):
            raise AssertionError(f"expected at least one ffrecord.torch.Dataset, and no others, found {self.datasets}")
        self.cumulative_sizes: list[int] = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the sums of the lengths of the first, the first two, ... elements."""
        return list(itertools.accumulate(map(len, sequence)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, indices: Any) -> Any:
        """Return the samples at a list of indices; each dataset is read once."""
        wanted: dict[int, list[tuple[int, int]]] = {}
        for position, index in enumerate(indices):
            number, local = self._place(index)
            wanted.setdefault(number, []).append((position, local))
        samples: list[Any] = [None] * len(indices)
        for number, places in sorted(wanted.items()):
            found = self.datasets[number][[local for _, local in places]]
            for (position, _), sample in zip(places, found, strict=True):
                samples[position] = sample
        return samples

    def _place(self, index: int) -> tuple[int, int]:
        """Return the number of a dataset and the index in it."""
        n = len(self)
        if index < -n:
            raise ValueError(f"index {index} is out of range for {n} samples")
        if index >= n:
            raise IndexError(f"index {index} is out of range for {n} samples")
        index = index + n if index < 0 else index
        number = bisect.bisect_right(self.cumulative_sizes, index)
        return number, index - (self.cumulative_sizes[number - 1] if number else 0)
