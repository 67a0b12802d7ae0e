"""Pickle the builder for worker processes, with the descriptors of its memory."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen, set_spawning_popen
from typing import Any

from dataformats.errors import WorkerError
from dataformats.loaders.prefetcher import BuildBatch

REMEDIES = (
    "define functions and classes at the top of a module, pass worker_type='thread', "
    "or pip install cloudpickle, which pickles lambdas and local functions"
)


class PickledBuilder:
    """A builder as bytes, pickled once for all workers, and the descriptors that belong to it.

    Sources in memory (`cache="memory"`) pass their descriptor to processes that multiprocessing starts, and detect
    this by asking it which process is being started. While pickling, this object answers in place of that process.

    Attributes:
        data: The pickle.
        descriptors: Its descriptors, duplicated.

    Raises:
        WorkerError: The builder cannot be pickled; says which part, and what to do.
    """

    def __init__(self, build: BuildBatch) -> None:
        self.descriptors: list[int] = []
        outer = get_spawning_popen()
        set_spawning_popen(self)  # type: ignore[arg-type]  # this class has all methods that pickling calls
        try:
            self.data: bytes = _dumps(build)
        finally:
            set_spawning_popen(outer)

    @staticmethod
    def DupFd(number: int) -> _Descriptor:  # noqa: N802  # multiprocessing's name
        """Return the object that stands for a descriptor in the pickle. Called by multiprocessing."""
        return _Descriptor(number)

    def duplicate_for_child(self, descriptor: int) -> int:
        """Add a descriptor and return its number. Called by multiprocessing."""
        self.descriptors.append(os.dup(descriptor))  # the original may be closed before the last worker has it
        return len(self.descriptors) - 1

    def close(self) -> None:
        """Close the descriptors."""
        while self.descriptors:
            os.close(self.descriptors.pop())


class _Descriptor:
    """A descriptor in a pickle: its number among those sent with the pickle."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """Return a new descriptor; called by the unpickled object."""
        return os.dup(_received[self._number])


_received: Sequence[int] = ()


def load_builder(data: Any, descriptors: Sequence[int]) -> BuildBatch:
    """Return the builder of a `PickledBuilder`, in a worker.

    Args:
        data: The pickle.
        descriptors: Its descriptors; closed afterwards.
    """
    global _received
    _received = descriptors
    try:
        build: BuildBatch = pickle.loads(data)
        return build
    finally:
        _received = ()
        for descriptor in descriptors:
            os.close(descriptor)


def _dumps(build: BuildBatch) -> bytes:
    cloudpickle = _cloudpickle()
    # Functions typed at a prompt or in a notebook are in no file that a worker could import; pickle does not notice.
    if cloudpickle is not None and not hasattr(sys.modules["__main__"], "__file__"):
        return bytes(cloudpickle.dumps(build, 5))
    try:
        return _plain_dumps(build)
    except Exception as error:  # objects in a transform may raise anything
        if cloudpickle is None:
            raise _pickle_error(error) from error
    try:
        return bytes(cloudpickle.dumps(build, 5))
    except Exception as error:
        raise _pickle_error(error) from error


def by_value(function: Any) -> Any:
    """Return an object that unpickles as `function`: `function` itself, or one that cloudpickle pickles.

    For objects that others pickle, such as a dataset for a `DataLoader` that spawns its workers.
    """
    try:
        reduction.ForkingPickler.dumps(function)
    except Exception as error:  # objects in a function may raise anything
        return _ByValue(function, error)
    return function


class _ByValue:
    """A function that pickle refuses; a copy of a dataset has it too, so it can be called."""

    def __init__(self, function: Any, error: Exception) -> None:
        self.__wrapped__ = function  # inspect.signature follows it
        self._error = error

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.__wrapped__(*args, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        cloudpickle = _cloudpickle()
        if cloudpickle is None:
            raise _pickle_error(self._error) from self._error
        return pickle.loads, (bytes(cloudpickle.dumps(self.__wrapped__, 5)),)


def _pickle_error(error: Exception) -> WorkerError:
    problem = f"cannot be started: the source or a function cannot be pickled: {type(error).__name__}: {error}"
    return WorkerError(f"{problem}. Remedies: {REMEDIES}", worker=0)


def _plain_dumps(build: BuildBatch) -> bytes:
    file = io.BytesIO()
    pickler = reduction.ForkingPickler(file, 5)  # also pickles what multiprocessing shares: values, locks, connections
    # torch's reducers would move the caller's tensors to named shared memory.
    pickler.dispatch_table = {
        kind: reduce for kind, reduce in pickler.dispatch_table.items() if not _is_torch_function(reduce)
    }
    pickler.dump(build)
    return file.getvalue()


def _is_torch_function(reduce: Any) -> bool:
    return str(getattr(reduce, "__module__", "")).partition(".")[0] == "torch"


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle
