"""The records of a source as a map-style dataset for PyTorch's `DataLoader`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch.utils.data

from dataformats.batch import RecordBatch
from dataformats.errors import StateMismatchError
from dataformats.fork_hooks import cached_property
from dataformats.loaders.adapters import as_readable
from dataformats.loaders.collate import stack_columns, stack_records
from dataformats.loaders.processes.pickling import by_value
from dataformats.loaders.pytorch.device import to_torch
from dataformats.storage.threads import declare_readers

_STATE_VERSION = 1


class Records(Sequence[Any]):
    """Records that were read together: a sequence, and their columns for callers that need no single record.

    Attributes:
        batch: The records as columns.
    """

    def __init__(self, batch: RecordBatch) -> None:
        self.batch = batch

    @cached_property
    def _rows(self) -> list[Any]:
        return list(self.batch)

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)  # default_collate iterates once per field


class _Transformed(list[Any]):
    """Records that a transform returned, and the batch that they were before."""

    def __init__(self, records: Iterable[Any], batch: RecordBatch) -> None:
        super().__init__(records)
        self.batch = batch


class RecordDataset(torch.utils.data.Dataset[Any]):
    """The records of a source as a map-style dataset for `torch.utils.data.DataLoader`.

    All records of a batch are read together (`__getitems__`). With `collate_fn=collate` and no `transform`, no single
    record is created; `default_collate` works too if records stack.

    The DataLoader and its sampler choose the order and keep the position: for an order that resumes exactly with any
    number of workers and ranks use `dataformats.Loader`.

    Args:
        source: A `RecordSource`, or any sequence.
        transform: `transform(record)`; PyTorch seeds the random numbers of each worker.

    Example:
        >>> import dataformats
        >>> from dataformats.loaders.pytorch import RecordDataset, collate
        >>> from torch.utils.data import DataLoader
        >>> spec = {"image": "uint8[8,8]", "label": "int64"}
        >>> digits = RecordDataset(dataformats.open("tests/golden/real/digits-*.tfrecord", spec=spec))
        >>> batch = next(iter(DataLoader(digits, batch_size=32, collate_fn=collate)))
        >>> batch["image"].shape, batch["label"].dtype
        (torch.Size([32, 8, 8]), torch.int64)
    """

    def __init__(self, source: Any, transform: Callable[[Any], Any] | None = None) -> None:
        self._source = as_readable(source)
        self._transform = transform

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range: expected one in [{-len(self)}, {len(self)})")
        dataloader_worker()
        record = self._source[index % len(self)]
        return record if self._transform is None else self._transform(record)

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """Return the records at `indices`, in `[0, len)`, read together."""
        dataloader_worker()
        batch = self._source.read(np.asarray(indices, np.int64))
        return Records(batch) if self._transform is None else _Transformed(map(self._transform, batch), batch)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_transform": by_value(self._transform)}

    def state_dict(self) -> dict[str, Any]:
        """Return what identifies these records; torchdata's `StatefulDataLoader` stores it with its own state."""
        return {"version": _STATE_VERSION, "records": len(self), "fingerprint": self._source.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Check that a state belongs to the same records.

        Raises:
            StateMismatchError: It does not.
        """
        mine = self.state_dict()
        for name, value in mine.items():
            known = state.get(name)
            if known != value:
                raise StateMismatchError(name, expected=known, found=value, remedy="Open the same data")


def collate(records: Sequence[Any]) -> dict[str, Any]:
    """Return a batch of tensors: the `collate_fn` for a `RecordDataset`.

    The data keep their dtypes (`default_collate` makes float64 of a float32 scalar), `[]` becomes a jagged tensor, and
    a field that a record lacks is missing in a `Nullable`.

    Raises:
        SpecError: Values of a field without a declared shape do not stack.
    """
    if isinstance(records, Records):
        columns: dict[str, Any] = to_torch(stack_columns(records.batch.columns, records.batch.indices))
        return columns
    before = records.batch if isinstance(records, _Transformed) else None
    like, indices = (None, None) if before is None else (before.columns, before.indices)
    batch: dict[str, Any] = to_torch(stack_records(records, indices, like))
    return batch


def dataloader_worker() -> tuple[int, int]:
    """Return the number of this DataLoader worker and how many there are; divides the CPU cores among them."""
    info = torch.utils.data.get_worker_info()
    if info is None:
        return 0, 1
    declare_readers(info.num_workers, processes=True)
    return info.id, info.num_workers
