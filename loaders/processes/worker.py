"""What runs in a worker process: tasks come in, batches go out in slots, until the feed says stop or is gone."""

from __future__ import annotations

import array
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from dataformats.errors import WorkerError
from dataformats.loaders.prefetch import BatchTask, BuildBatch
from dataformats.loaders.processes import pickling as handing
from dataformats.loaders.processes.remote_error import RemoteError, portable
from dataformats.loaders.processes.serialize import PickleWithBuffers
from dataformats.loaders.processes.shared_slots import SlotWriter
from dataformats.loaders.processes.status import StatusBoard
from dataformats.storage import threads

__all__ = [
    "BEGUN",
    "FAILED",
    "LARGEST_TASK",
    "MADE",
    "MESSAGE",
    "NO_MEMORY",
    "STOP",
    "TASK",
    "WorkerConfig",
    "main",
    "receive",
]

TASK = struct.Struct("<q")
"""What a task begins with: its number, or `STOP`. Its pickle follows, or a descriptor of that where it is large."""

MESSAGE = struct.Struct("<7q")
"""What a worker sends: one of the four below; task; slot; bytes in it; bytes of it; 1 where a descriptor of it comes
along; a slot that is given up, or -1. Of `NO_MEMORY`: the error's number in place of the slot, bytes asked for."""

BEGUN, MADE, FAILED, NO_MEMORY = range(4)
STOP = -1
LARGEST_TASK = 2**15 if sys.platform == "linux" else 2**10
"""Bytes that go through the socket: on Linux it takes some 200 KB in all, elsewhere 2 KB in one message."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker needs to know before it can understand anything else. Pickles small.

    Attributes:
        worker: Its number.
        n_workers: How many there are.
        n_slots: Slots that each may have.
        n_kept: Slots that may lie unused.
        parent: The process that takes the batches.
        n_bytes: Bytes of the pickled `BuildBatch`; 0 under fork, where it is handed over as it is.
        n_descriptors: Descriptors that come over the line: tasks, board, then if there are any the pickled builder,
            what goes with it, and the parent's pidfd.
        has_pidfd: The last one is the parent's pidfd.
    """

    worker: int
    n_workers: int
    n_slots: int
    n_kept: int
    parent: int
    n_bytes: int
    n_descriptors: int
    has_pidfd: bool


def main(line: socket.socket, terms: WorkerConfig, make: BuildBatch | None) -> None:
    """Make batches until told to stop.

    Args:
        line: Where descriptors come from and messages go to.
        terms: What was agreed.
        make: What makes batches; `None`: it comes over the line, pickled.
    """
    _leave_signals_to_the_parent()
    line.set_inheritable(False)
    descriptors = _receive_descriptors(line, terms.n_descriptors)
    threading.Thread(
        target=_end_with_parent, args=(terms.parent, descriptors.pop() if terms.has_pidfd else None), daemon=True
    ).start()
    tasks, board, *rest = descriptors
    worker = _Worker(line, socket.socket(fileno=tasks), StatusBoard(terms.n_workers, terms.n_slots, board), terms)
    with suppress(BrokenPipeError, ConnectionResetError):  # the feed was closed, or its process has ended
        worker.run(make, rest)


class _Worker:
    """A worker in its process.

    Args:
        line: Where its messages go.
        tasks: Where all workers get their tasks from.
        board: The numbers of all.
        terms: What was agreed.
    """

    def __init__(self, line: socket.socket, tasks: socket.socket, board: StatusBoard, terms: WorkerConfig) -> None:
        self._line = line
        self._tasks = tasks
        self._terms = terms
        self._row = board.statuses[terms.worker]
        self._slots = SlotWriter(self._row, terms.n_kept)

    def run(self, make: BuildBatch | None, descriptors: Sequence[int]) -> None:
        """Make batches until told to stop."""
        try:
            if make is None:
                make = _load(descriptors, self._terms)
            _share_processors(self._terms.n_workers)
        except BaseException as error:
            self._send_packed(FAILED, STOP, PickleWithBuffers(RemoteError.of(error)))
            return
        self._send(BEGUN, STOP)
        while (given := self._next_task()) is not None:
            number, task = given
            self._row.begin(number)
            self._answer(number, self._made(make, task))
            self._row.end()

    def _next_task(self) -> tuple[int, BatchTask] | None:
        message, descriptors = receive(self._tasks, TASK.size + LARGEST_TASK, 1)
        if not message:
            return None
        (number,) = TASK.unpack_from(message)
        if descriptors:
            with open(descriptors[0], "rb") as file:
                file.seek(0)
                return number, pickle.load(file)
        return None if number == STOP else (number, pickle.loads(memoryview(message)[TASK.size :]))

    def _made(self, make: BuildBatch, task: BatchTask) -> PickleWithBuffers | RemoteError:
        try:
            made = portable(make(task, self._row), self._terms.worker)
        except BaseException as error:  # whatever the caller's functions raise is for the caller, SystemExit as well
            return RemoteError.of(error)
        try:
            return PickleWithBuffers(made)
        except Exception as error:
            what = f"made a batch that cannot be pickled: {type(error).__name__}: {error}"
            remedy = "let transform and collate return arrays, numbers and text, or use worker_type='thread'"
            try:
                raise WorkerError(f"{what}; {remedy}", worker=self._terms.worker) from error
            except WorkerError as told:
                return RemoteError.of(told)

    def _answer(self, number: int, result: PickleWithBuffers | RemoteError) -> None:
        if isinstance(result, PickleWithBuffers):
            self._send_packed(MADE, number, result)
        else:
            self._send_packed(FAILED, number, PickleWithBuffers(result))

    def _send_packed(self, kind: int, number: int, packed: PickleWithBuffers) -> None:
        try:
            slot = self._slots.take(packed.n_bytes)
        except OSError as error:
            self._send(NO_MEMORY, number, error.errno or 0, packed.n_bytes)
            return
        packed.write(slot.memory)
        descriptors = [] if slot.descriptor is None else [slot.descriptor]
        numbers = (slot.index, packed.n_bytes, slot.size, len(descriptors), slot.dropped)
        try:
            self._send(kind, number, *numbers, descriptors=descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _send(self, *numbers: int, descriptors: Sequence[int] = ()) -> None:
        message = MESSAGE.pack(*numbers, *[-1] * (7 - len(numbers)))
        socket.send_fds(self._line, [message], descriptors)


def receive(line: socket.socket, size: int, n_descriptors: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """Return a message and the descriptors that came with it, which no executed process inherits."""
    descriptors = array.array("i")  # socket.recv_fds does not heed its flags
    message, others, _, _ = line.recvmsg(size, socket.CMSG_LEN(n_descriptors * descriptors.itemsize), flags)
    for level, kind, data in others:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return message, descriptors.tolist()


def _receive_descriptors(line: socket.socket, n: int) -> list[int]:
    descriptors: list[int] = []
    while len(descriptors) < n:
        message, more = receive(line, 1, n)
        if not message:
            raise EOFError("the process that started this worker has ended")
        descriptors += more
    return descriptors


def _leave_signals_to_the_parent() -> None:
    """Keep handlers that the parent installed for itself, to save a state say, from running in a forked worker too."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)


def _end_with_parent(parent: int, pidfd: int | None) -> NoReturn:
    """End this process as soon as the parent has ended, whatever the main thread is doing."""
    if pidfd is not None:
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        ended.poll()
    else:
        with suppress(ProcessLookupError):
            while True:
                os.kill(parent, 0)
                time.sleep(0.5)
    os._exit(1)


def _load(descriptors: Sequence[int], terms: WorkerConfig) -> BuildBatch:
    pickled, *others = descriptors
    with mmap.mmap(pickled, terms.n_bytes, access=mmap.ACCESS_READ) as memory:
        os.close(pickled)
        try:
            return handing.load(memory, others)
        except Exception as error:
            what = f"cannot load what it was sent: {type(error).__name__}: {error}"
            raise WorkerError(f"{what}. Remedies: {handing.REMEDIES}", worker=terms.worker) from error


def _share_processors(n_workers: int) -> None:
    """Let this worker start as many threads as there are processors for it."""
    threads.declare_readers(n_workers)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads.processors())
