"""WorkerPool: the worker processes of a prefetcher, the tasks sent to them, and the batches received."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import multiprocessing.process
import os
import pickle
import select
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
from dataformats.loaders.prefetcher import BatchTask, BuildBatch
from dataformats.loaders.processes import protocol
from dataformats.loaders.processes.anonymous_memory import memory_error, memory_file
from dataformats.loaders.processes.pickling import PickledBuilder
from dataformats.loaders.processes.serialize import load_pickle
from dataformats.loaders.processes.shared_slots import MAX_HELD, SlotReader
from dataformats.loaders.processes.status import StatusBoard, WorkerStatus
from dataformats.loaders.processes.worker_handle import (
    GUARD,
    check_main,
    end_reason,
    exit_code,
    open_pidfd,
    start_worker,
)

_GRACE_S = 1.0  # time for the current batch of a worker when the pool is closed
_PER_MESSAGE = 100  # a message holds at most 253 descriptors
_REMEDY = "Raise the limit (ulimit -n, ulimit -u), or pass fewer workers="


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch, or a remote error, in a slot.

    Attributes:
        worker: The worker that filled the slot.
        number: The task.
        slot: The worker's slot.
        n_bytes: Bytes of content.
    """

    worker: int
    number: int
    slot: int
    n_bytes: int


class WorkerPool:
    """Worker processes, and the sockets to them. It has no thread: the process that waits for a batch does its work.

    All workers take their tasks from one socket, so the next task goes to a free worker, and a worker that dies loses
    no task but its current one. Each worker has a socket for its messages.

    Args:
        build: Builds batches.
        n_workers: Number of processes.
        n_under_way: Batches that may be under way at once, over all workers.
        n_spare: Slots of a worker that may be unused.
        method: How processes are started.

    Attributes:
        statuses: The status of each worker.

    Raises:
        WorkerError: `build` cannot be pickled, or the processes cannot be started.
        OSError: No memory, process or descriptor is left.
    """

    def __init__(self, build: BuildBatch, n_workers: int, n_under_way: int, n_spare: int, method: str) -> None:
        self._owner = os.getpid()
        self._workers: list[BaseProcess] = []
        self._lines: list[socket.socket] = []  # one per worker
        self._pidfds: list[int] = []
        self._begun: set[int] = set()
        self._poll = select.poll()
        self._watched: dict[int, tuple[bool, int]] = {}  # descriptor: (whether it reports a death, worker)
        kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
        self._task_sender, self._task_receiver = socket.socketpair(socket.AF_UNIX, kind)
        self._task_sender.setblocking(False)
        self._readers: list[SlotReader] = []
        after_fork(self, "_release")
        try:
            self.statuses: list[WorkerStatus] = self._launch(build, n_workers, n_under_way, n_spare, method)
        except OSError as error:
            self.close()
            if error.errno is None:  # the fork server has a socket in the folder for temporary files
                raise OSError(f"cannot start {n_workers} workers: {error}. Set TMPDIR to a shorter path") from error
            raise OSError(error.errno, f"cannot start {n_workers} workers: {error.strerror}. {_REMEDY}") from error
        except BaseException:
            self.close()
            raise

    def _launch(
        self, build: BuildBatch, n_workers: int, n_under_way: int, n_spare: int, method: str
    ) -> list[WorkerStatus]:
        """Start the workers, and close the descriptors that only they need."""
        n_slots = n_under_way + n_workers + MAX_HELD + n_spare + 2
        with ExitStack() as closing:
            board = StatusBoard(n_workers, n_slots)
            closing.callback(board.close_descriptor)
            held: set[object] = set()
            self._readers = [SlotReader(status, held) for status in board.statuses]
            shared, n_bytes = [self._task_receiver.fileno(), board.descriptor], 0
            if method != "fork":
                check_main(method)
                pickled = closing.enter_context(contextlib.closing(PickledBuilder(build)))
                shared += [memory_file(pickled.data), *pickled.descriptors]
                closing.callback(os.close, shared[2])
                n_bytes = len(pickled.data)
            parent = open_pidfd(os.getpid())
            if parent is not None:
                closing.callback(os.close, parent)
                shared.append(parent)
            common = (n_workers, n_slots, n_spare, self._owner, n_bytes, len(shared), parent is not None)
            for number in range(n_workers):
                config = protocol.WorkerConfig(number, *common)
                self._start(method, config, shared, build if method == "fork" else None)
            return board.statuses

    def _start(self, method: str, config: protocol.WorkerConfig, shared: list[int], build: BuildBatch | None) -> None:
        line, its_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lines.append(line)
        with its_line:
            for first in range(0, len(shared), _PER_MESSAGE):
                socket.send_fds(line, [b"."], shared[first : first + _PER_MESSAGE])
            line.setblocking(False)
            process = start_worker(method, config, its_line, build)
        self._workers.append(process)
        self._watch(line.fileno(), False, config.worker)
        pidfd = open_pidfd(process.pid)
        self._pidfds += [] if pidfd is None else [pidfd]
        self._watch(process.sentinel if pidfd is None else pidfd, True, config.worker)

    def _watch(self, descriptor: int, is_death: bool, worker: int) -> None:
        self._watched[descriptor] = (is_death, worker)
        self._poll.register(descriptor, select.POLLIN)

    @property
    def is_owner(self) -> bool:
        """True in the process that started the workers, False in one that was forked from it."""
        return os.getpid() == self._owner

    @property
    def processes(self) -> list[int]:
        """The id of each worker's process."""
        return [process.pid or 0 for process in self._workers]

    # ---- tasks and batches

    def send_task(self, number: int, task: BatchTask) -> bool:
        """Send a task to the first free worker; return False if the workers have enough tasks.

        Raises:
            OSError: No memory is left for a large task.
        """
        pickled = pickle.dumps(task, 5)
        header = protocol.TASK.pack(number)
        try:
            if len(pickled) <= protocol.LARGEST_TASK:
                self._task_sender.send(header + pickled)
            else:
                descriptor = memory_file(pickled)
                try:
                    socket.send_fds(self._task_sender, [header], [descriptor])
                finally:
                    os.close(descriptor)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                return False
            raise
        return True

    def recall_tasks(self) -> None:
        """Take back all tasks that no worker has begun."""
        with suppress(BlockingIOError):
            while True:
                _, descriptors = protocol.receive(self._task_receiver, protocol.TASK.size, 1, socket.MSG_DONTWAIT)
                for descriptor in descriptors:
                    os.close(descriptor)

    def wait(self, timeout_s: float, describe: Callable[[int], str | None]) -> list[Arrival]:
        """Return the arrivals, after waiting for an event.

        Args:
            timeout_s: How long to wait.
            describe: Returns what a worker is working on, for errors.

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
                arrivals += self._receive(worker)
        for worker in ended:
            while more := self._receive(worker):
                arrivals += more
        for arrival in arrivals:
            if arrival.number == protocol.STOP:  # the worker could not begin
                raise self.load(arrival).exception(arrival.worker)
        if ended:
            raise WorkerError(self._end_reason(ended[0]), worker=ended[0], reading=describe(ended[0]))
        return arrivals

    def _receive(self, worker: int) -> list[Arrival]:
        """Return the content of one message of a worker, if there is one."""
        line = self._lines[worker]
        try:
            message, descriptors = protocol.receive(line, protocol.MESSAGE.size, 1)
        except (BlockingIOError, ConnectionResetError):
            return []
        if not message:
            with suppress(KeyError):
                self._poll.unregister(line.fileno())  # it stays readable; the pidfd reports the death
            return []
        kind, number, slot, n_bytes, size, is_new, dropped = protocol.MESSAGE.unpack(message)
        if kind == protocol.BEGUN:
            self._begun.add(worker)
            return []
        if kind == protocol.NO_MEMORY:
            raise memory_error(OSError(slot, os.strerror(slot)), n_bytes)
        if is_new == 1 and not descriptors:
            raise OSError(
                "cannot receive a batch: this process has no file descriptor left. Raise the limit (ulimit -n)"
            )
        self._readers[worker].drop(dropped)
        for descriptor in descriptors:
            self._readers[worker].add(slot, size, descriptor)
        return [Arrival(worker, number, slot, n_bytes)]

    def load(self, arrival: Arrival) -> Any:
        """Return the content of a slot; its arrays are views of the slot."""
        return load_pickle(self._readers[arrival.worker].view(arrival.slot, arrival.n_bytes))

    def discard(self, arrival: Arrival) -> None:
        """Free a slot whose content is not needed."""
        self._readers[arrival.worker].free(arrival.slot)

    def _end_reason(self, worker: int) -> str:
        reason = end_reason(exit_code(self._workers[worker]))
        if worker in self._begun:
            return reason
        return f"{reason} before it had begun: see its output. {GUARD}"

    # ---- the end

    def close(self) -> None:
        """End all workers: give them a second for their current batch, then kill them. May be called twice."""
        if not self.is_owner or self._task_sender.fileno() < 0:
            return
        try:
            self.recall_tasks()
            with suppress(BlockingIOError):
                for _ in self._workers:
                    self._task_sender.send(protocol.TASK.pack(protocol.STOP))
            self._wait_for_ends(_GRACE_S)
        finally:
            for process in self._workers:
                process.kill()
            self._wait_for_ends(_GRACE_S)
            for process in self._workers:
                if exit_code(process) is not None:
                    process.close()
            self._close_descriptors()

    def _wait_for_ends(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        poll = select.poll()
        alive = [descriptor for descriptor, (is_death, _) in self._watched.items() if is_death]
        for descriptor in alive:
            poll.register(descriptor, select.POLLIN)
        n_alive = len(alive)
        while n_alive and (left_s := until - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left_s * 1000):
                poll.unregister(descriptor)
                n_alive -= 1

    def _close_descriptors(self) -> None:
        self._watched = {}
        for line in (self._task_sender, self._task_receiver, *self._lines):
            line.close()
        while self._pidfds:
            os.close(self._pidfds.pop())

    def _release(self) -> None:
        """In a forked child: release the workers, which belong to the parent."""
        self._close_descriptors()
        for reader in self._readers:
            reader.close()
        # multiprocessing would end them at exit, because it takes them for children of this process.
        children: set[BaseProcess] = getattr(multiprocessing.process, "_children", set())
        children.difference_update(self._workers)
