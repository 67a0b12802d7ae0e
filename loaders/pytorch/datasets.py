"""The loader for PyTorch: batches as tensors, copies to a device, and data sets for `torch.utils.data`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
import torch.utils.data

from dataformats.batch import RecordBatch
from dataformats.batch.tensors import map_tensors, to_tensors
from dataformats.errors import StateMismatchError
from dataformats.loaders.adapters import as_readable
from dataformats.loaders.collate import plain, stacked
from dataformats.loaders.loader import Loader
from dataformats.loaders.ranks import resolve
from dataformats.storage.threads import declare_readers

__all__ = ["BatchDataset", "DeviceCopier", "RecordDataset", "Records", "collate", "to_torch"]

_LOG = logging.getLogger("dataformats")
_STATE_VERSION = 1


def to_torch(batch: Any) -> Any:
    """Return a batch, or any structure of columns, with tensors in the place of arrays.

    A tensor lies in the memory of its array wherever that is writable and contiguous and in the machine's byte order,
    and is a copy otherwise. A `Ragged` of numbers becomes a jagged nested tensor, one of text or bytes a list; a
    `Nullable` keeps its form, with tensors inside. `positions` and `padding` stay arrays: they are for
    `loader.locate` and the like, and nothing but the columns goes to a device.

    Example:
        >>> import numpy as np
        >>> from dataformats.loaders.pytorch import to_torch
        >>> pixels = np.zeros((2, 3), np.float32)
        >>> batch = to_torch({"image": pixels, "name": ["a", "b"]})
        >>> batch["image"][0, 0] = 7
        >>> batch["name"], float(pixels[0, 0])
        (['a', 'b'], 7.0)
    """
    return to_tensors(batch, share=True)


# ---- to a device


class DeviceCopier:
    """Copies batches to a device beside the computation that uses them.

    On CUDA a batch is put into page-locked memory and copied on a stream of its own, which the caller's stream waits
    for where the batch is first used: so the copy of a batch overlaps with the computation on the one before.
    Elsewhere batches are moved at once.

    Page-locked memory, and memory of the device, comes from torch's own caches: blocks are used again, the first once
    the copy out of them is done, the second once the stream that used the batch has come so far.

    Args:
        device: As `torch.device` takes it.

    Raises:
        ValueError: torch sees no such device.

    Example:
        >>> import torch
        >>> from dataformats.loaders.pytorch import DeviceCopier
        >>> copier = DeviceCopier("cpu")
        >>> [batch["x"].sum().item() for batch in copier.ahead({"x": torch.ones(n)} for n in (2, 3))]
        [2.0, 3.0]
    """

    def __init__(self, device: Any) -> None:
        self.device: torch.device = _present(device)
        self._stream: torch.cuda.Stream | None = None

    def begin(self, batch: Any) -> Copy:
        """Begin to copy a batch of tensors or arrays; may be called ahead of `Copy.wait`, from another thread also."""
        tensors = to_torch(batch)
        if self.device.type != "cuda":
            return Copy(map_tensors(tensors, lambda tensor: tensor.to(self.device)))
        if self._stream is None:  # not sooner: it begins with CUDA, after which a process must not fork
            self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]  # torch has no types for it
        stream = self._stream
        # Whatever a function of the caller's put on a device was made by the caller's stream: that one moves it.
        tensors = map_tensors(tensors, lambda tensor: tensor if tensor.is_cpu else tensor.to(self.device))
        # No wait for the caller's stream: it has nothing to do with memory that this one takes and fills.
        with torch.cuda.stream(stream):
            return Copy(map_tensors(tensors, self._copied), stream.record_event())

    def end(self, begun: Copy) -> Any:
        """Return the batch; the caller's stream waits for the copy."""
        return begun.wait()

    def ahead(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches on the device; the copy of the next one is begun before one is given."""
        waiting: Copy | None = None
        for batch in batches:
            begun = self.begin(batch)
            if waiting is not None:
                yield waiting.wait()
            waiting = begun
        if waiting is not None:
            yield waiting.wait()

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_cpu:
            return tensor
        pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
        return pinned.to(self.device, non_blocking=True)


@dataclass(frozen=True, eq=False)
class Copy:
    """A batch on its way to a device.

    Attributes:
        batch: Its tensors on the device; not to be used before `wait`.
        event: Done when the copy is; `None`: it is done.
    """

    batch: Any
    event: Any = None

    def wait(self) -> Any:
        """Return the batch; the current stream of this thread waits for the copy, the thread itself does not."""
        if self.event is None:
            return self.batch
        return map_tensors(self.batch, self._handed_over)

    def _handed_over(self, tensor: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream(tensor.device)
        assert self.event is not None
        stream.wait_event(self.event)
        # Its memory belongs to the stream of the copies, which must not fill it anew while this one still reads.
        tensor.record_stream(stream)
        return tensor


class Tensors:
    """Batches of tensors in the machine's memory; keeps the promise of `OutputFormat`."""

    def begin(self, batch: Any) -> Any:
        """Return the batch as tensors."""
        return to_torch(batch)

    def end(self, begun: Any) -> Any:
        """Return the batch."""
        return begun


def form_on(device: Any) -> Tensors | DeviceCopier:
    """Return the form of batches on a device; `None`: in the machine's memory."""
    return Tensors() if device is None else DeviceCopier(device)


def _present(device: Any) -> torch.device:
    try:
        named = torch.device(device)
        if named.type == "cuda":  # only counted, because to use it is to begin with CUDA
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if named.index is None:  # a thread has a current device of its own, which is not the caller's
                named = torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_initialized() else 0)
            if (named.index or 0) >= count:
                raise RuntimeError(f"it sees {count} CUDA devices")
        else:
            torch.empty(0, device=named)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise ValueError(
            f"expected a device of torch {torch.__version__}, found device={device!r}: {str(error).splitlines()[0]}; "
            "device=None leaves batches where they are"
        ) from error
    return named


# ---- map-style


class Records(Sequence[Any]):
    """Some records that were read at once: a sequence of them, and their columns for who needs no single record.

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
        return iter(self._rows)  # default_collate goes through them once a field


class RecordDataset(torch.utils.data.Dataset[Any]):
    """The records of a source as a map-style data set for `torch.utils.data.DataLoader`.

    All records of a batch are read at once (`__getitems__`). With `collate_fn=collate` and no `transform` no single
    record is made at all; `default_collate` works on it too where records stack.

    Order and position are the DataLoader's and its sampler's: for an order that continues exactly on any number of
    workers and ranks use `dataformats.Loader`.

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
            raise IndexError(f"record {index} is outside [{-len(self)}, {len(self)})")
        return self.__getitems__([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """Return the records at `indices`, in `[0, len)`, read at once."""
        _worker()
        batch = self._source.read(np.asarray(indices, np.int64))
        return Records(batch) if self._transform is None else [self._transform(record) for record in batch]

    def state_dict(self) -> dict[str, Any]:
        """Return what tells these records from others; torchdata's `StatefulDataLoader` keeps it with its own state."""
        return {"version": _STATE_VERSION, "records": len(self), "fingerprint": self._source.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Check that a state was taken of the same records.

        Raises:
            StateMismatchError: It was not.
        """
        mine = self.state_dict()
        for name, value in mine.items():
            if state.get(name) != value:
                raise StateMismatchError(name, expected=state.get(name), found=value, remedy="open the same data")


def collate(records: Sequence[Any]) -> dict[str, Any]:
    """Return a batch of tensors: the `collate_fn` for a `RecordDataset`.

    Dtypes are those of the data (`default_collate` makes float64 of a float32 scalar), `[]` becomes a jagged tensor,
    and a field that a record lacks is a gap in a `Nullable`.

    Raises:
        SpecError: Values of a field that has no declared shape do not stack.
    """
    if isinstance(records, Records):
        columns: dict[str, Any] = to_torch(plain(records.batch.columns, records.batch.indices))
        return columns
    made: dict[str, Any] = to_torch(stacked(records))
    return made


# ---- iterable


class BatchDataset(torch.utils.data.IterableDataset[Any]):
    """The batches of a `dataformats.Loader` as an iterable data set, made by the workers of a `DataLoader`.

    Use it with `DataLoader(dataset, batch_size=None, num_workers=...)`. Worker k of n makes every n-th batch from the
    k-th on, and the DataLoader asks them in turn: batches arrive exactly as the Loader itself would give them, whatever
    the number of workers.

    An iteration is one epoch, and the next one is the same again until `set_epoch` is called: worker processes cannot
    tell how far they came.

    `state_after(batches)` is the state when the training loop has had so many batches of an iteration. It is a state of
    `Loader`, for any number of workers, ranks and records a batch. What torchdata's `StatefulDataLoader` keeps of each
    worker needs the same number of workers again.

    Args:
        source: As `Loader` takes it.
        batch_size: Records a rank and batch.
        to: `"torch"`, so that batches leave a worker by way of shared memory, or `"numpy"`.
        **options: Keyword arguments of `Loader`, but those about workers and devices.

    Raises:
        TypeError: An option is of no use here.

    Example:
        >>> import dataformats
        >>> from dataformats.loaders.pytorch import BatchDataset
        >>> from torch.utils.data import DataLoader
        >>> spec = {"image": "uint8[8,8]", "label": "int64"}
        >>> digits = BatchDataset(dataformats.open("tests/golden/real/digits-*.tfrecord", spec=spec), 64, seed=1)
        >>> for epoch in range(2):
        ...     digits.set_epoch(epoch)
        ...     batches = [batch["label"] for batch in DataLoader(digits, batch_size=None)]
        >>> len(batches), len(batches[-1])
        (29, 5)
        >>> digits.state_after(10)["position"] == 1797 + 10 * 64
        True
    """

    def __init__(
        self, source: Any, batch_size: int, *, to: Literal["numpy", "torch"] = "torch", **options: Any
    ) -> None:
        if refused := sorted(_REFUSED & options.keys()):
            raise TypeError(
                f"a BatchDataset takes no {refused[0]}=: its workers are the DataLoader's (num_workers, "
                "prefetch_factor), and batches go to a device in the training process"
            )
        # Here, because workers know neither process group nor launcher.
        rank, world_size = resolve(options.pop("rank", 0), options.pop("world_size", 1))
        self._make = partial(Loader, source, batch_size, to=to, workers=0, rank=rank, world_size=world_size, **options)
        self._loader = self._make()  # stands where an iteration begins
        self._is_shuffled = bool(options.get("shuffle", True))
        # What passes between processes: the last call of `set_epoch`, and the epoch that was begun last.
        self._calls, self._epoch, self._begun = _shared(0), _shared(0), _shared(-1)
        self._heard = 0

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch; where the data set was resumed inside it, the rest of it."""
        self._loader.set_epoch(epoch)
        self._epoch[0] = epoch
        self._calls += 1
        self._heard = int(self._calls)

    def __iter__(self) -> _WorkerBatches:
        if self._heard != int(self._calls):  # in a worker that outlived the epoch before
            self._loader.set_epoch(int(self._epoch))
            self._heard = int(self._calls)
        worker, workers = _worker()
        if worker == 0:
            self._note_beginning()
        return _WorkerBatches(self._copy(), worker, workers)

    def state_after(self, batches: int) -> dict[str, Any]:
        """Return the state when so many batches of this iteration have been used, on each rank."""
        loader = self._copy()
        loader.advance(batches)
        return loader.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return the state in which the next iteration begins."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on from a state of `state_after`, of `state_dict`, or of a `Loader`.

        Raises:
            StateMismatchError: It is of other data, another seed or shuffle, or damaged.
        """
        self._loader.load_state_dict(state)

    def _copy(self) -> Loader:
        loader = self._make()
        loader.load_state_dict(self._loader.state_dict())
        return loader

    def _note_beginning(self) -> None:
        epoch = self._loader.epoch
        if self._is_shuffled and epoch == int(self._begun):
            _LOG.warning("epoch %d is iterated again, in the same order: call set_epoch before each epoch", epoch)
        self._begun[0] = epoch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._loader = self._make()
        self._loader.load_state_dict(state["_loader"])


_REFUSED = {"workers", "worker_type", "prefetch", "prefetch_bytes", "start_method", "hang_timeout_s", "device"}


def _worker() -> tuple[int, int]:
    """Return which of how many workers of a DataLoader this is, and share the processors with the others."""
    info = torch.utils.data.get_worker_info()
    if info is None:
        return 0, 1
    declare_readers(info.num_workers)
    return info.id, info.num_workers


def _shared(number: int) -> torch.Tensor:
    """Return a number that all processes see which are given it."""
    tensor = torch.tensor([number])
    tensor.share_memory_()  # type: ignore[no-untyped-call]  # torch has no types for it
    return tensor


class _WorkerBatches(Iterator[Any]):
    """Every n-th batch of the rest of an epoch, from the k-th on.

    Args:
        loader: Its own, and at the first batch that there is.
        worker: k.
        workers: n.
    """

    def __init__(self, loader: Loader, worker: int, workers: int) -> None:
        self._loader, self._worker, self._workers = loader, worker, workers
        self._epoch = loader.epoch
        self._batches = iter(loader)
        loader.advance(worker)

    def __next__(self) -> Any:
        if self._loader.epoch != self._epoch:
            raise StopIteration
        batch = next(self._batches)
        if self._loader.epoch == self._epoch:
            self._loader.advance(self._workers - 1)
        return batch

    def state_dict(self) -> dict[str, Any]:
        return {
            "version": _STATE_VERSION,
            "worker": self._worker,
            "workers": self._workers,
            "epoch": self._epoch,
            "loader": self._loader.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, mine in (("version", _STATE_VERSION), ("workers", self._workers), ("worker", self._worker)):
            if state.get(name) != mine:
                raise StateMismatchError(
                    f"{name} of a BatchDataset's state", expected=state.get(name), found=mine, remedy=_ELASTIC
                )
        self._loader.load_state_dict(state["loader"])
        self._epoch = state["epoch"]
        self._batches = iter(self._loader)


_ELASTIC = (
    "a StatefulDataLoader resumes with the same num_workers; to resume with others keep "
    "BatchDataset.state_after(batches), or use dataformats.Loader"
)
