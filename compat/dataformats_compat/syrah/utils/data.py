"""Datasets for torch whose samples are arrays of items."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from dataformats_compat.syrah._hl.files import File

try:
    import torch.utils.data
except ModuleNotFoundError as error:
    what = "syrah.utils.data needs torch. Run pip install 'dataformats[torch]'"
    raise ModuleNotFoundError(what, name=error.name) from error

from dataformats.internals import dataloader_worker

__all__ = ["SyrahConcatDataset", "SyrahDataset"]


class SyrahDataset(torch.utils.data.Dataset[Any]):
    """The items of a file as a map-style dataset; a sample is a tuple of arrays.

    Args:
        file_path: The file.
        keys: The names of the arrays, in the order of the tuple.
        process_funcs: Name to a function of its array.

    Attributes:
        file_path: The file.
        keys: The names of the arrays.
        process_funcs: Name to a function of its array.
        syr: The open file.
        len: The number of items.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from dataformats_compat.syrah.utils.data import SyrahDataset
        >>> dataset = SyrahDataset("tests/golden/syrah/base.syr", ["id"], {"id": lambda array: 10 * array})
        >>> loader = DataLoader(dataset, batch_size=4, worker_init_fn=dataset.worker_init_fn)
        >>> [ids.flatten().tolist() for ids, in loader]
        [[0, 10, 20, 30], [40, 50]]
    """

    def __init__(
        self,
        file_path: str | os.PathLike[str],
        keys: Sequence[str],
        process_funcs: Mapping[str, Callable[[NDArray[Any]], Any]] | None = None,
    ) -> None:
        self.file_path = file_path
        self.keys = keys
        self.process_funcs = process_funcs or {}
        self.syr: File = File(file_path, "r")
        self.len: int = self.syr.num_items()

    def worker_init_fn(self, worker_id: int = -1) -> None:
        """Open the file again, in any process. torch's DataLoader accepts this method, but does not need it."""
        self.syr.open(self.file_path, "r")
        self.len = self.syr.num_items()

    def __getitem__(self, item: int) -> tuple[Any, ...]:
        """Return the arrays of an item, processed."""
        names = tuple(self.keys)
        arrays = self.syr.get_arrays(item, names)
        return self._processed(names, arrays) if self.process_funcs else arrays

    def __getitems__(self, items: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the samples of a batch, read together: torch's DataLoader asks for them by this name."""
        if type(self).__getitem__ is not SyrahDataset.__getitem__:
            return [self[item] for item in items]
        dataloader_worker()
        names = tuple(self.keys)
        rows = self.syr.read_arrays(items, names)
        return [self._processed(names, row) for row in rows] if self.process_funcs else rows

    def __len__(self) -> int:
        return self.len

    def _processed(self, names: Sequence[str], arrays: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
        pairs = zip(names, arrays, strict=True)
        return tuple(
            [self.process_funcs[name](array) if name in self.process_funcs else array for name, array in pairs]
        )


class SyrahConcatDataset(torch.utils.data.ConcatDataset[Any]):
    """Several datasets, one after the other.

    Args:
        datasets: Each a `SyrahDataset`.
    """

    def __init__(self, datasets: Sequence[SyrahDataset]) -> None:
        super().__init__(datasets)

    def worker_init_fn(self, worker_id: int = -1) -> None:
        """Open the files again: see `SyrahDataset.worker_init_fn`."""
        for dataset in self.datasets:
            assert isinstance(dataset, SyrahDataset)
            dataset.worker_init_fn(worker_id)
