"""The batches of a `Loader` as an iterable dataset for PyTorch's `DataLoader`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import torch
import torch.utils.data

from dataformats.errors import StateMismatchError
from dataformats.fork_hooks import cached_property
from dataformats.loaders.epochs import Grown
from dataformats.loaders.loader import Loader
from dataformats.loaders.processes.pickling import by_value
from dataformats.loaders.pytorch.map_dataset import dataloader_worker
from dataformats.loaders.ranks import processes_of_accelerate, resolve

_LOG = logging.getLogger("dataformats")
_STATE_VERSION = 1

_REFUSED = {"workers", "worker_type", "prefetch", "prefetch_bytes", "start_method", "hang_timeout_s", "device"}


class BatchDataset(torch.utils.data.IterableDataset[Any]):
    """The batches of a `dataformats.Loader` as an iterable dataset, built by the workers of a `DataLoader`.

    Use it with `DataLoader(dataset, batch_size=None, num_workers=...)`. Worker k of n builds every n-th batch from the
    k-th on, and the DataLoader asks them in turn: batches arrive exactly as from the Loader itself, with any number of
    workers.

    An iteration is one epoch. The next iteration repeats it until `set_epoch` is called, because worker processes
    cannot report how far they came.

    `state_after(batches)` is the state after the training loop received this many batches of an iteration. It is a
    state of `Loader`, for any number of workers, ranks and records per batch. The state that torchdata's
    `StatefulDataLoader` stores for each worker resumes only with the same number of workers.

    Args:
        source: See `Loader`.
        batch_size: Records per rank and batch. With `rank="auto"` the rank is found at first use, as in `Loader`.
        to: `"torch"`, so that batches leave a worker through shared memory, or `"numpy"`.
        **options: Keyword arguments of `Loader`, except those about workers and devices.

    Raises:
        TypeError: An option is not accepted here.

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
                f"BatchDataset takes no {refused[0]}=: its workers are the DataLoader's (num_workers, "
                "prefetch_factor), and batches go to a device in the training process"
            )
        if options.get("rank", 0) != "auto":
            options |= _resolved(options)
        self._make = partial(Loader, source, batch_size, to=to, workers=0, **options)
        self._loader = self._make()  # stays at the position where an iteration begins
        self._is_shuffled = bool(options.get("shuffle", True))
        # Shared by processes: the number of calls of `set_epoch`, its last argument, and the epoch begun last.
        self._calls, self._epoch, self._begun = _shared_int(0), _shared_int(0), _shared_int(-1)
        self._calls_seen = 0

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch, or the rest of it if the dataset was resumed inside it.

        Raises:
            ValueError: Accelerate calls it to divide the batches of one rank again, which would leave out the rest.
        """
        self._check_division(processes_of_accelerate(self))
        self._loader.set_epoch(epoch)
        self._epoch[0] = epoch
        self._calls += 1
        self._calls_seen = int(self._calls)

    def __iter__(self) -> _WorkerBatches:
        if self._calls_seen != int(self._calls):  # a worker process is reused for another epoch
            self._loader.set_epoch(int(self._epoch))
            self._calls_seen = int(self._calls)
        worker, workers = dataloader_worker()
        if worker == 0:
            self._record_beginning()
        return _WorkerBatches(self._copy(), worker, workers)

    def state_after(self, batches: int) -> dict[str, Any]:
        """Return the state after this many batches of this iteration were used on each rank."""
        loader = self._copy()
        loader.advance(batches)
        return loader.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return the state in which the next iteration begins."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, grown: Grown | None = None) -> None:
        """Make the next iteration continue from the state of `state_after`, `state_dict`, or a `Loader`.

        Args:
            state: The state.
            grown: See `Loader.load_state_dict`.

        Raises:
            StateMismatchError: It is damaged, or its data, seed or shuffle differ.
        """
        self._loader.load_state_dict(state, grown=grown)

    def _check_division(self, processes: int) -> None:
        if processes > 1 and self._rank["world_size"] > 1:
            raise ValueError(
                "this BatchDataset has only the batches of rank {rank} of {world_size}, and Accelerate divides them "
                "again, among {processes} processes: records would be left out. Iterate the DataLoader itself, without "
                "accelerator.prepare".format(**self._rank, processes=processes)
            )

    @cached_property
    def _rank(self) -> dict[str, Any]:
        return _resolved(self._make.keywords)

    def _copy(self) -> Loader:
        loader = self._make(**self._rank)
        loader.load_state_dict(self._loader.state_dict())
        return loader

    def _record_beginning(self) -> None:
        epoch = self._loader.epoch
        if self._is_shuffled and epoch == int(self._begun):
            _LOG.warning("epoch %d is iterated again, in the same order: call set_epoch before each epoch", epoch)
        self._begun[0] = epoch

    def __getstate__(self) -> dict[str, Any]:
        options = {name: by_value(value) if callable(value) else value for name, value in self._make.keywords.items()}
        # The pickle has the rank, because the process that unpickles may know neither process group nor launcher.
        make = partial(self._make.func, *self._make.args, **options | self._rank)
        return {**self.__dict__, "_make": make, "_loader": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._loader = self._make()
        self._loader.load_state_dict(state["_loader"])


class _WorkerBatches(Iterator[Any]):
    """Every n-th batch of the rest of an epoch, from the k-th on.

    Args:
        loader: A loader for this iterator alone, at the first batch of that rest.
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
                    f"{name} of a BatchDataset's state", expected=state.get(name), found=mine, remedy=_REMEDY
                )
        self._loader.load_state_dict(state["loader"])
        self._epoch = state["epoch"]
        self._batches = iter(self._loader)


_REMEDY = (
    "A StatefulDataLoader resumes only with the same num_workers; to resume with another number, save "
    "BatchDataset.state_after(batches), or use dataformats.Loader"
)


def _resolved(options: Mapping[str, Any]) -> dict[str, Any]:
    rank, world_size = resolve(options.get("rank", 0), options.get("world_size", 1))
    return {"rank": rank, "world_size": world_size}


def _shared_int(number: int) -> torch.Tensor:
    """Return a number in shared memory, for all processes that receive it."""
    tensor = torch.tensor([number])
    tensor.share_memory_()  # type: ignore[no-untyped-call]  # torch has no types for it
    return tensor
