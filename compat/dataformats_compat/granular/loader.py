"""Batches of a source, built ahead in processes, in an order that depends on the step alone.

Example:
    >>> from dataformats_compat import granular
    >>> source = granular.sources.Epochs([{"n": n} for n in range(10)], shuffle=False)
    >>> loader = granular.Loader(source, batch=4, workers=2)
    >>> loader.load({"step": 8})
    >>> loader.spec, loader.save()
    ({'n': (dtype('int64'), ())}, {'step': 8})

Then `batch = next(iter(loader))`, in a script under `if __name__ == "__main__":`, because processes are started.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import SpecError, WorkerError
from dataformats.internals import BatchTask, BuiltBatch, FixedTask, ProcessPrefetcher, Progress, cached_property
from dataformats_compat.granular.sources import convert
from dataformats_compat.granular.utils import ArgumentError

__all__ = ["Loader", "SharedArray"]

ArraySpec = Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]


class Loader:
    """An endless iterator of batches: row `r` of the batch at step `s` is `source(s + shard_id * batch + r)`.

    Args:
        source: A function of the step that returns a dict, or something with `[]`; it is pickled for the workers.
        batch: Rows of a batch.
        prefetch: Batches that are built ahead.
        workers: Processes.
        recycle_after: Ignored: memory is used again as soon as the caller holds no array of a batch.
        shard_id: The number of this loader among several that share the steps.
        num_shards: The number of these loaders.
        mp: A context of `multiprocessing`; `None`: a fork server if there is one, which is faster than `spawn`.

    Attributes:
        consumed: The step of the next batch, over all shards.
    """

    def __init__(
        self,
        source: Any,
        batch: int,
        prefetch: int = 8,
        workers: int = 32,
        recycle_after: int | bool = False,
        shard_id: int = 0,
        num_shards: int = 1,
        mp: Any = None,
    ) -> None:
        if batch < 1 or workers < 1 or prefetch < 0 or not 0 <= shard_id < num_shards:
            raise ArgumentError(
                "expected batch >= 1, workers >= 1, prefetch >= 0 and 0 <= shard_id < num_shards, found "
                f"{batch}, {workers}, {prefetch}, {shard_id} and {num_shards}"
            )
        self.source: Any = convert(source)
        self.batch = batch
        self.prefetch = prefetch
        self.shard_id = shard_id
        self.num_shards = num_shards
        self.consumed: int = 0
        self.started: bool = False
        self._workers = workers
        self._method: str | None = None if mp is None else mp.get_start_method()
        self._prefetcher: ProcessPrefetcher | None = None
        # Enough tasks for all workers: a batch is built in parts if few batches are built ahead.
        self._parts = min(batch, -(-workers // max(1, prefetch)))

    @cached_property
    def spec(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Field to dtype and shape of a row, as `source(0)` returns it."""
        point = {name: np.asarray(value) for name, value in self.source(0).items()}
        return {name: (array.dtype, array.shape) for name, array in point.items()}

    @property
    def step(self) -> int:
        """The first step that was not requested yet."""
        return self.consumed + self.started * self.prefetch * self.batch * self.num_shards

    def __iter__(self) -> Self:
        if not self.started:
            ahead = -(-max(1, self.prefetch) * self._parts // self._workers)
            self._prefetcher = ProcessPrefetcher(
                _Rows(self.source, self.spec),
                self._workers,
                prefetch=ahead,
                start_method=self._method,
                hang_timeout_s=math.inf,
            )
            self._start(self._prefetcher)
            self.started = True
        return self

    def __next__(self) -> dict[str, NDArray[Any]]:
        """Return the next batch: field to an array of shape (batch, ...).

        Raises:
            RuntimeError: The source raised; or a worker ended. The text has the worker's traceback.
        """
        if self._prefetcher is None:
            raise ArgumentError("call iter() first; and a closed loader gives no batches")
        parts = [self._take(self._prefetcher) for _ in range(self._parts)]
        self.consumed += self.batch * self.num_shards
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([p[name] for p in parts], dtype=dtype) for name, (dtype, _) in self.spec.items()}

    def save(self) -> dict[str, int]:
        """Return the state, for `load`: the step of the next batch."""
        return {"step": self.consumed}

    def load(self, d: Mapping[str, int]) -> None:
        """Continue from a state, before or while iterating."""
        self.consumed = d["step"]
        if self._prefetcher is not None:
            self._start(self._prefetcher)

    def close(self) -> None:
        """End the workers; may be called twice. Batches stay valid."""
        prefetcher, self._prefetcher = self._prefetcher, None
        if prefetcher is not None:
            prefetcher.close()

    def _start(self, prefetcher: ProcessPrefetcher) -> None:
        bounds = [self.batch * part // self._parts for part in range(self._parts + 1)]
        stride = self.batch * self.num_shards
        prefetcher.start(_tasks(self.consumed + self.shard_id * self.batch, stride, bounds))

    def _take(self, prefetcher: ProcessPrefetcher) -> dict[str, NDArray[Any]]:
        try:
            rows: dict[str, NDArray[Any]] = prefetcher.take().batch
            return rows
        except WorkerError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise RuntimeError("\n".join([str(error), *getattr(error, "__notes__", ())])) from error


def _tasks(first: int, stride: int, bounds: list[int]) -> Iterator[FixedTask]:
    nothing = np.zeros(0, np.int64)
    while True:
        for start, stop in pairwise(bounds):
            yield FixedTask(np.arange(first + start, first + stop), nothing)
        first += stride


class _Rows:
    """Builds rows in a worker."""

    def __init__(self, source: Callable[[int], Mapping[str, Any]], spec: ArraySpec) -> None:
        self._source = source
        self._spec = spec

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        steps = task.positions.tolist()
        arrays = {name: np.empty((len(steps), *shape), dtype) for name, (dtype, shape) in self._spec.items()}
        for row, step in enumerate(steps):
            progress(step)
            point = self._source(step)
            if point.keys() != arrays.keys():
                fields = f"expected {', '.join(self._spec)}, found {', '.join(point)}"
                raise SpecError(f"step {step} has other fields than step 0: {fields}")
            for name, value in point.items():
                array = np.asarray(value)
                self._check(name, array, step)
                arrays[name][row] = array
        return BuiltBatch(arrays, len(steps), sum(array.nbytes for array in arrays.values()))

    def describe(self, position: int) -> str:
        return f"step {position}"

    def _check(self, name: str, array: NDArray[Any], step: int) -> None:
        """Refuse a value that an array of the first one's type would cut or round."""
        dtype, shape = self._spec[name]
        if array.dtype == dtype and array.shape == shape:
            return
        is_longer = array.dtype.kind in "SU" and array.dtype.itemsize > dtype.itemsize
        if array.shape != shape or is_longer or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise SpecError(
                f"step {step} does not fit in a batch with step 0: expected {dtype} {shape}, found {array.dtype} "
                f"{array.shape}. Give all of them one type and shape, by granular.sources.Transform",
                field=name,
            )


class SharedArray:
    """An array in named shared memory: a pickle of it is the same memory. `Loader` does without it.

    Args:
        shape: The shape of a new array.
        dtype: The dtype of a new array.
        name: The name of existing memory to attach; `None` makes new memory.

    Example:
        >>> from dataformats_compat.granular.loader import SharedArray
        >>> array = SharedArray((2, 3), "int32")
        >>> array.array[1] = 5
        >>> array.result().tolist()
        [[0, 0, 0], [5, 5, 5]]
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, name: str | None = None) -> None:
        size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
        self.shm: SharedMemory = SharedMemory(name, create=name is None, size=size)
        self.arr: Any = np.ndarray(shape, dtype, self.shm.buf)
        weakref.finalize(self.arr, self.shm.close)

    @property
    def array(self) -> NDArray[Any]:
        """The array."""
        found: NDArray[Any] = self.arr
        return found

    def result(self) -> NDArray[Any]:
        """Return the array, for the last use: its memory is freed with it."""
        weakref.finalize(self.arr, _unlink, self.shm)
        found, self.arr = self.array, None
        return found

    def close(self) -> None:
        """Free the memory as soon as no process uses it."""
        self.arr = None
        _unlink(self.shm)

    def __getstate__(self) -> tuple[tuple[int, ...], str, str]:
        return self.arr.shape, self.arr.dtype.str, self.shm.name

    def __setstate__(self, state: tuple[tuple[int, ...], str, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # as the constructor does it


def _unlink(shm: SharedMemory) -> None:
    with suppress(FileNotFoundError):
        shm.unlink()
