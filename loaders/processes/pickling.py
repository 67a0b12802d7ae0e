"""Handing over: how the object that makes batches gets to the workers."""

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
from dataformats.loaders.prefetch import BuildBatch

__all__ = ["PickledBuilder", "load"]

REMEDIES = (
    "define functions and classes at the top of a module, use worker_type='thread', "
    "or pip install cloudpickle, which pickles lambdas and local functions"
)


class PickledBuilder:
    """A `BuildBatch` as bytes, pickled once for all workers, and the descriptors that go with it.

    Sources in memory (`cache="memory"`) hand their descriptor to processes that multiprocessing starts with them as an
    argument, and know that by asking which process is being started. This is what they are told.

    Raises:
        WorkerError: It cannot be pickled; names what cannot, and says what to do.
    """

    def __init__(self, make: BuildBatch) -> None:
        self.descriptors: list[int] = []
        outer = get_spawning_popen()
        set_spawning_popen(self)  # type: ignore[arg-type]  # what is asked of it is all here
        try:
            self.pickled: bytes = _dumps(make)
        finally:
            set_spawning_popen(outer)

    @staticmethod
    def DupFd(number: int) -> _Descriptor:  # noqa: N802  # multiprocessing's name
        """Return the descriptor for `reduction.DupFd`."""
        return _Descriptor(number)

    def duplicate_for_child(self, descriptor: int) -> int:
        """Take a descriptor along; return its number. Asked by multiprocessing."""
        self.descriptors.append(os.dup(descriptor))  # it may be closed before the last worker has it
        return len(self.descriptors) - 1

    def close(self) -> None:
        """Close the descriptors."""
        while self.descriptors:
            os.close(self.descriptors.pop())


class _Descriptor:
    """A descriptor in a pickle: its number among those that came with it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """Return a descriptor that is the caller's; asked by what was pickled."""
        return os.dup(_received[self._number])


_received: Sequence[int] = ()


def load(pickled: Any, descriptors: Sequence[int]) -> BuildBatch:
    """Return the `BuildBatch` that `PickledBuilder` pickled, in a worker.

    Args:
        pickled: Its bytes.
        descriptors: What came with it; closed afterwards.
    """
    global _received
    _received = descriptors
    try:
        make: BuildBatch = pickle.loads(pickled)
        return make
    finally:
        _received = ()
        for descriptor in descriptors:
            os.close(descriptor)


def _dumps(make: BuildBatch) -> bytes:
    cloudpickle = _cloudpickle()
    # What was typed at a prompt or in a notebook is in no file that a worker could import; pickle would not notice.
    if cloudpickle is not None and not hasattr(sys.modules["__main__"], "__file__"):
        return bytes(cloudpickle.dumps(make, 5))
    try:
        return _plain_dumps(make)
    except Exception as error:  # anything may be raised by what a transform holds
        if cloudpickle is None:
            raise _refusal(error) from error
    try:
        return bytes(cloudpickle.dumps(make, 5))
    except Exception as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> WorkerError:
    what = f"cannot be started, because what it should do cannot be pickled: {type(error).__name__}: {error}"
    return WorkerError(f"{what}. Remedies: {REMEDIES}", worker=0)


def _plain_dumps(make: BuildBatch) -> bytes:
    file = io.BytesIO()
    pickler = reduction.ForkingPickler(file, 5)  # shares what multiprocessing shares: values, locks, connections
    # torch would move the tensors of the caller to shared memory with names, without asking.
    pickler.dispatch_table = {
        kind: reduce for kind, reduce in pickler.dispatch_table.items() if not _is_of_torch(reduce)
    }
    pickler.dump(make)
    return file.getvalue()


def _is_of_torch(reduce: Any) -> bool:
    return str(getattr(reduce, "__module__", "")).partition(".")[0] == "torch"


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle
