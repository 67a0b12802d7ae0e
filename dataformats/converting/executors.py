"""Run tasks in an executor, a bounded number at a time."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

import numpy as np

from dataformats.errors import DataFormatsError, WorkerError
from dataformats.fork_hooks import cached_property
from dataformats.fork_server import preload
from dataformats.storage.threads import N_THREADS, declare_readers

Task = TypeVar("Task")
Result = TypeVar("Result")

_UNKNOWN_WORKERS = 16
_REMEDY = (
    "If the workers ran out of memory, use fewer; if none ever started, put the code of the script under "
    "`if __name__ == '__main__':`. A conversion continues with resume=True"
)


class SentOnce:
    """A dataclass that many tasks have in common: a process that receives it with each of them unpickles it once."""

    def check_pickles(self) -> None:
        """Raise `TypeError` if no other process can receive it, such as one of a lambda; or the source's own error."""
        try:
            _ = self._pickled
        except (DataFormatsError, OSError):  # a source looks at its files
            raise
        except Exception as error:
            raise TypeError(f"cannot send the source or a function to worker processes: {error}") from error

    @cached_property
    def _pickled(self) -> bytes:
        # Ray sends functions of a script itself by value: its workers do not import the script.
        pickler = sys.modules.get("ray.cloudpickle") or pickle
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]  # a dataclass
        data: bytes = pickler.dumps((type(self), values))
        return data

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._pickled,)


class _NotReceived:
    """Stands for an object that failed to unpickle: its use in a task raises the error, which would end the worker."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


def _received(data: bytes) -> Any:
    try:
        return _unpickled(data)
    except Exception as error:
        return _NotReceived(error)


@functools.lru_cache(4)
def _unpickled(data: bytes) -> Any:
    kind, values = pickle.loads(data)
    return kind(**values)


def results(
    run: Callable[[Task], Result], tasks: Iterable[Task], executor: Executor | None, *, in_order: bool
) -> Iterator[Result]:
    """Yield the results of tasks; a few tasks run at a time.

    If a task raises, its error is raised; without `in_order`, the results of the tasks that are running are yielded
    before.

    Args:
        run: The function of a task.
        tasks: The tasks.
        executor: Runs them; `None` runs each when its result is needed.
        in_order: Yield results in the order of the tasks.

    Raises:
        WorkerError: A process of the executor died.
    """
    if executor is None:
        yield from map(run, tasks)
        return
    waiting, pending = iter(tasks), dict[Future[Result], Task]()
    ahead = 2 * (getattr(executor, "_max_workers", None) or _UNKNOWN_WORKERS)
    try:
        while True:
            for task in itertools.islice(waiting, ahead - len(pending)):
                pending[executor.submit(run, task)] = task
            if not pending:
                return
            awaited = [next(iter(pending))] if in_order else [*pending]
            done, _ = wait(awaited, return_when=FIRST_COMPLETED)
            failed = any(future.exception() for future in done)
            if failed and not in_order:
                yield from _rest(pending)
            for future in done:
                del pending[future]
                yield future.result()
    except BrokenExecutor as error:
        raise WorkerError(f"a worker process ended before its task did. {_REMEDY}") from error
    finally:
        for future in pending:  # those that run are not waited for: an interrupt would take as long as a shard
            future.cancel()


def _rest(pending: dict[Future[Result], Task]) -> Iterator[Result]:
    """Yield the results of the tasks that run or are done, without those behind the first error; then raise it."""
    rest = [future for future in pending if not future.cancel()]
    wait(rest)
    failed = [future for future in rest if future.exception()]
    yield from (future.result() for future in rest if future not in failed)
    failed[0].result()


@contextmanager
def chosen_executor(executor: Executor | None, workers: int) -> Iterator[Executor | None]:
    """Yield the executor, or a pool of `workers` processes, or `None` for neither.

    Raises:
        ValueError: Both are given.
    """
    if executor is not None and workers:
        raise ValueError("pass executor= or workers=, not both")
    with nullcontext(executor) if executor is not None else worker_pool(workers) as chosen:
        yield chosen


@contextmanager
def worker_pool(workers: int) -> Iterator[Executor | None]:
    """Yield a pool of `workers` processes, each for one processor; `None` for 0. An interrupt ends them at once."""
    if not workers:
        yield None
        return
    pool = ProcessPoolExecutor(workers, mp_context=_context(), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _context() -> BaseContext:
    """Return the way to start workers: never by a fork of this process, which would copy locks that threads hold.

    A fork server imports modules once, for all workers, and stays for the next conversion.
    """
    if sys.platform == "linux":
        from multiprocessing import forkserver  # Windows has none

        context = multiprocessing.get_context("forkserver")
        preload()
        # It may belong to the process from which this one was forked, and TMPDIR may be too long for its socket.
        with contextlib.suppress(OSError):
            forkserver.ensure_running()
            return context
    return multiprocessing.get_context("spawn")


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too, which ends its workers
    np.random.seed()  # `map` may draw from it; NumPy 1 makes its state in the fork server, for all workers
    declare_readers(N_THREADS, processes=True)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    """End this process when its parent has ended, even by a signal; else it would wait for tasks forever."""
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
