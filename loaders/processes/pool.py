"""Crew: the worker processes of a feed, what they are sent, and what comes back."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import multiprocessing.process
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from dataformats.errors import WorkerError
from dataformats.fork_hooks import after_fork
from dataformats.loaders.prefetch import BatchTask, BuildBatch
from dataformats.loaders.processes import worker as work
from dataformats.loaders.processes.pickling import PickledBuilder
from dataformats.loaders.processes.serialize import unpack
from dataformats.loaders.processes.shared_memory import anonymous, explained
from dataformats.loaders.processes.shared_slots import MOST_HELD, SlotReader
from dataformats.loaders.processes.status import StatusBoard, WorkerStatus

__all__ = ["Arrival", "WorkerPool"]

_GRACE_S = 1.0  # for what a worker is about when the feed is closed
_PER_MESSAGE = 100  # a message takes 253 descriptors
_FEWER = "Raise the limit (ulimit -n, ulimit -u), or ask for fewer with workers="
_GUARD = "A script that starts processes must have its own work under `if __name__ == '__main__':`"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch, or the report of an error, that lies in a slot.

    Attributes:
        worker: Who made it.
        failed: It is a report.
        number: The task.
        slot: The worker's slot.
        n_bytes: Its bytes there.
    """

    worker: int
    failed: bool
    number: int
    slot: int
    n_bytes: int


class WorkerPool:
    """Worker processes, and the sockets to them. It has no thread: whoever waits for a batch does its work.

    All workers take their tasks from one socket, so the next task goes to whoever is free, and a worker that dies takes
    nothing with it but the task in its hand. Each has a socket of its own for what it sends.

    Args:
        make: What makes batches.
        n_workers: Processes.
        n_under_way: Batches that may be under way at once, over all workers.
        n_kept: Slots of a worker that may lie unused.
        method: How processes are started.

    Attributes:
        rows: The numbers of each worker.

    Raises:
        WorkerError: `make` cannot be pickled, or the processes cannot be started.
        OSError: No memory, process or descriptor is left.
    """

    def __init__(self, make: BuildBatch, n_workers: int, n_under_way: int, n_kept: int, method: str) -> None:
        self._process = os.getpid()
        self._workers: list[BaseProcess] = []
        self._lines: list[socket.socket] = []
        self._pidfds: list[int] = []
        self._begun: set[int] = set()
        self._poll = select.poll()
        self._watched: dict[int, tuple[bool, int]] = {}  # descriptor: whether it tells of a death, worker
        kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
        self._tasks, self._taken = socket.socketpair(socket.AF_UNIX, kind)
        self._tasks.setblocking(False)
        after_fork(self, "_leave")
        self._windows: list[SlotReader] = []
        try:
            self.statuses: list[WorkerStatus] = self._launch(make, n_workers, n_under_way, n_kept, method)
        except OSError as error:
            self.end()
            raise OSError(error.errno, f"{error.strerror}: {n_workers} workers cannot be started. {_FEWER}") from error
        except BaseException:
            self.end()
            raise

    def _launch(
        self, make: BuildBatch, n_workers: int, n_under_way: int, n_kept: int, method: str
    ) -> list[WorkerStatus]:
        """Start the workers, and close here what is meant for them alone."""
        n_slots = n_under_way + n_workers + MOST_HELD + n_kept + 2
        with ExitStack() as closing:
            board = StatusBoard(n_workers, n_slots)
            closing.callback(board.close_descriptor)
            held: set[object] = set()
            self._windows = [SlotReader(row, held) for row in board.statuses]
            shared, n_bytes = [self._taken.fileno(), board.descriptor], 0
            if method != "fork":
                _check_main(method)
                handed = closing.enter_context(contextlib.closing(PickledBuilder(make)))
                shared += [_in_memory(handed.pickled), *handed.descriptors]
                closing.callback(os.close, shared[2])
                n_bytes = len(handed.pickled)
            parent = _pidfd(os.getpid())
            if parent is not None:
                closing.callback(os.close, parent)
                shared.append(parent)
            common = (n_workers, n_slots, n_kept, self._process, n_bytes, len(shared), parent is not None)
            for number in range(n_workers):
                self._start(method, work.WorkerConfig(number, *common), shared, make if method == "fork" else None)
            return board.statuses

    def _start(self, method: str, terms: work.WorkerConfig, shared: list[int], make: BuildBatch | None) -> None:
        line, its_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lines.append(line)
        with its_line:
            for first in range(0, len(shared), _PER_MESSAGE):
                socket.send_fds(line, [b"."], shared[first : first + _PER_MESSAGE])
            line.setblocking(False)
            process = _process(method, terms, its_line, make)
        self._workers.append(process)
        self._watch(line.fileno(), False, terms.worker)
        pidfd = _pidfd(process.pid)
        self._pidfds += [] if pidfd is None else [pidfd]
        self._watch(process.sentinel if pidfd is None else pidfd, True, terms.worker)

    def _watch(self, descriptor: int, is_death: bool, worker: int) -> None:
        self._watched[descriptor] = (is_death, worker)
        self._poll.register(descriptor, select.POLLIN)

    @property
    def is_mine(self) -> bool:
        """True in the process that started the workers, False in one that was forked from it."""
        return os.getpid() == self._process

    def give(self, number: int, task: BatchTask) -> bool:
        """Send a task to whoever is free first; return False where the workers have enough to do as it is.

        Raises:
            OSError: A large task finds no memory.
        """
        pickled = pickle.dumps(task, 5)
        head = work.TASK.pack(number)
        try:
            if len(pickled) <= work.LARGEST_TASK:
                self._tasks.send(head + pickled)
            else:
                descriptor = _in_memory(pickled)
                try:
                    socket.send_fds(self._tasks, [head], [descriptor])
                finally:
                    os.close(descriptor)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                return False
            raise
        return True

    def withdraw(self) -> None:
        """Take back all tasks that no worker has begun."""
        with suppress(BlockingIOError):
            while True:
                _, descriptors = work.receive(self._taken, work.TASK.size, 1, socket.MSG_DONTWAIT)
                for descriptor in descriptors:
                    os.close(descriptor)

    def wait(self, timeout_s: float, about: Callable[[int], str | None]) -> list[Arrival]:
        """Return what has arrived, waiting for something to happen.

        Args:
            timeout_s: How long.
            about: Says what a worker is about.

        Raises:
            WorkerError: A worker has ended.
        """
        arrivals: list[Arrival] = []
        ended: list[int] = []
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            is_death, worker = self._watched[descriptor]
            if is_death:
                ended.append(worker)
            else:
                arrivals += self._received(worker)
        for worker in ended:
            while more := self._received(worker):
                arrivals += more
        for arrival in arrivals:
            if arrival.number == work.STOP:  # it could not begin
                raise self.opened(arrival).error(arrival.worker)
        if ended:
            raise WorkerError(self._last_words(ended[0]), worker=ended[0], reading=about(ended[0]))
        return arrivals

    def _received(self, worker: int) -> list[Arrival]:
        """Return what one message of a worker brings, if there is one."""
        line = self._lines[worker]
        try:
            message, descriptors = work.receive(line, work.MESSAGE.size, 1)
        except (BlockingIOError, ConnectionResetError):
            return []
        if not message:
            with suppress(KeyError):
                self._poll.unregister(line.fileno())  # its end stays readable, and its death is told otherwise
            return []
        kind, number, slot, n_bytes, size, is_new, dropped = work.MESSAGE.unpack(message)
        if kind == work.BEGUN:
            self._begun.add(worker)
            return []
        if kind == work.NO_MEMORY:
            raise explained(OSError(slot, os.strerror(slot)), n_bytes)
        if is_new == 1 and not descriptors:
            raise OSError("a batch came without its memory: this process has no descriptor left (ulimit -n)")
        self._windows[worker].drop(dropped)
        for descriptor in descriptors:
            self._windows[worker].add(slot, size, descriptor)
        return [Arrival(worker, kind == work.FAILED, number, slot, n_bytes)]

    def opened(self, arrival: Arrival) -> Any:
        """Return what has arrived; its arrays are views of the slot."""
        return unpack(self._windows[arrival.worker].look(arrival.slot, arrival.n_bytes))

    def forget(self, arrival: Arrival) -> None:
        """Say that nobody wants what has arrived."""
        self._windows[arrival.worker].free(arrival.slot)

    def _last_words(self, worker: int) -> str:
        """Return why a worker has ended."""
        what = _last_words(_exit_code(self._workers[worker]))
        if worker in self._begun:
            return what
        return f"{what} before it had begun; what it printed says why. {_GUARD}"

    def end(self) -> None:
        """End all workers: let them finish what they are about for a second, then kill them. May be called twice."""
        if not self.is_mine or self._tasks.fileno() < 0:
            return
        try:
            self.withdraw()
            with suppress(BlockingIOError):
                for _ in self._workers:
                    self._tasks.send(work.TASK.pack(work.STOP))
            self._wait_for_ends(_GRACE_S)
        finally:
            for process in self._workers:
                process.kill()
            self._wait_for_ends(_GRACE_S)
            self._close()

    def _wait_for_ends(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        poll = select.poll()
        left = [descriptor for descriptor, (is_death, _) in self._watched.items() if is_death]
        for descriptor in left:
            poll.register(descriptor, select.POLLIN)
        n_left = len(left)
        while n_left and (left_s := until - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left_s * 1000):
                poll.unregister(descriptor)
                n_left -= 1

    def _close(self) -> None:
        for process in self._workers:
            if _exit_code(process) is not None:
                process.close()
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        self._watched = {}
        for line in (self._tasks, self._taken, *self._lines):
            line.close()
        while self._pidfds:
            os.close(self._pidfds.pop())

    def _leave(self) -> None:
        """In a forked child: let go of the workers, which are the parent's."""
        self._close_descriptors()
        for windows in self._windows:
            windows.close()
        # At its exit multiprocessing would end them, as it takes them for children of the child.
        children: set[BaseProcess] = getattr(multiprocessing.process, "_children", set())
        children.difference_update(self._workers)


def _process(method: str, terms: work.WorkerConfig, its_line: socket.socket, make: BuildBatch | None) -> BaseProcess:
    """Start a worker.

    Raises:
        WorkerError: The process that forks workers could not be started.
    """
    context: Any = multiprocessing.get_context(method)
    name = f"dataformats-worker-{terms.worker}"
    process: BaseProcess = context.Process(target=work.main, args=(its_line, terms, make), name=name, daemon=True)
    try:
        process.start()
    except (EOFError, ConnectionError) as error:
        what = f"could not be started; what the fork server printed says why. {_GUARD}"
        raise WorkerError(what, worker=terms.worker) from error
    return process


def _check_main(method: str) -> None:
    """Raise where the program is one that cannot be read again, as multiprocessing does in each worker.

    Raises:
        WorkerError: It was read from standard input.
    """
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is not None and getattr(main, "__spec__", None) is None and not os.path.exists(path):
        what = f"cannot be started: {method} reads the program again, and {path!r} is no file"
        raise WorkerError(f"{what}. Remedies: put it in a file; worker_type='thread'; start_method='fork'", worker=0)


def _in_memory(data: bytes) -> int:
    descriptor = anonymous(len(data))
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor


def _pidfd(process: int | None) -> int | None:
    """Return a descriptor that tells at once when a process ends; `None` where there is no such thing.

    The sentinel of multiprocessing tells only when all processes that inherited it have ended.
    """
    if process is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(process)
    except OSError:  # an old kernel, or a sandbox without it
        return None


def _exit_code(process: BaseProcess) -> int | None:
    code = process.exitcode
    if code is None:  # the fork server tells a moment after the death
        process.join(1)
        code = process.exitcode
    return code


def _last_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"killed by signal {-code}"
    reason = ", which the operating system sends when memory runs out" if name == "SIGKILL" else ""
    return f"killed by signal {-code} ({name}{reason})"
