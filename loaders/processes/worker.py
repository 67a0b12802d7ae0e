"""The main function of a worker process: receives tasks and sends batches until the pool stops it or is gone."""

from __future__ import annotations

import mmap
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from dataformats.errors import WorkerError
from dataformats.loaders.prefetcher import BatchTask, BuildBatch
from dataformats.loaders.processes import pickling, protocol
from dataformats.loaders.processes.protocol import WorkerConfig, receive
from dataformats.loaders.processes.remote_error import RemoteError, with_picklable_errors
from dataformats.loaders.processes.serialize import PickleWithBuffers
from dataformats.loaders.processes.shared_slots import SlotWriter
from dataformats.loaders.processes.status import StatusBoard
from dataformats.storage import threads


def main(line: socket.socket, config: WorkerConfig, build: BuildBatch | None) -> None:
    """Build batches until stopped.

    Args:
        line: Brings descriptors, and takes messages.
        config: The worker's configuration.
        build: Builds batches; `None`: it comes over the line, pickled.
    """
    _reset_signals()
    np.random.seed()  # a forked process would draw the same numbers as the others
    line.set_inheritable(False)
    descriptors = _receive_descriptors(line, config.n_descriptors)
    threading.Thread(
        target=_end_with_parent, args=(config.parent, descriptors.pop() if config.has_pidfd else None), daemon=True
    ).start()
    tasks, board, *rest = descriptors
    worker = _Worker(line, socket.socket(fileno=tasks), StatusBoard(config.n_workers, config.n_slots, board), config)
    with suppress(BrokenPipeError, ConnectionResetError):  # the pool was closed, or its process has ended
        worker.run(build, rest)


class _Worker:
    """A worker, in its process.

    Args:
        line: Takes its messages.
        tasks: Where all workers receive their tasks.
        board: The status of all workers.
        config: The worker's configuration.
    """

    def __init__(self, line: socket.socket, tasks: socket.socket, board: StatusBoard, config: WorkerConfig) -> None:
        self._line = line
        self._tasks = tasks
        self._config = config
        self._status = board.statuses[config.worker]
        self._slots = SlotWriter(self._status, config.n_spare)

    def run(self, build: BuildBatch | None, descriptors: Sequence[int]) -> None:
        """Build batches until stopped."""
        try:
            if build is None:
                build = _load_builder(descriptors, self._config)
            _share_cores(self._config.n_workers)
        except BaseException as error:
            self._send_result(protocol.STOP, RemoteError.of(error))
            return
        self._send(protocol.BEGUN, protocol.STOP)
        while (received := self._receive_task()) is not None:
            number, task = received
            self._status.begin(number)
            self._send_result(number, self._result(build, task))
            self._status.end()

    def _receive_task(self) -> tuple[int, BatchTask] | None:
        message, descriptors = receive(self._tasks, protocol.TASK.size + protocol.LARGEST_TASK, 1)
        if not message:
            return None
        (number,) = protocol.TASK.unpack_from(message)
        if descriptors:
            with open(descriptors[0], "rb") as file:
                file.seek(0)
                return number, pickle.load(file)
        return None if number == protocol.STOP else (number, pickle.loads(memoryview(message)[protocol.TASK.size :]))

    def _result(self, build: BuildBatch, task: BatchTask) -> PickleWithBuffers | RemoteError:
        worker = self._config.worker
        try:
            built = with_picklable_errors(build(task, self._status), worker)
        except BaseException as error:  # the caller gets all that its functions raise, including SystemExit
            return RemoteError.of(error)
        try:
            return PickleWithBuffers(built)
        except Exception as error:
            problem = f"built a batch that cannot be pickled: {type(error).__name__}: {error}"
            remedy = "Let transform and collate return arrays, numbers and text, or pass worker_type='thread'"
            try:
                raise WorkerError(f"{problem}. {remedy}", worker=worker) from error
            except WorkerError as unpicklable:
                return RemoteError.of(unpicklable)

    def _send_result(self, number: int, result: PickleWithBuffers | RemoteError) -> None:
        kind = protocol.FAILED if isinstance(result, RemoteError) else protocol.BUILT
        pickled = PickleWithBuffers(result) if isinstance(result, RemoteError) else result
        try:
            slot = self._slots.take(pickled.n_bytes)
        except OSError as error:
            self._send(protocol.NO_MEMORY, number, error.errno or 0, pickled.n_bytes)
            return
        pickled.write(slot.memory)
        descriptors = [] if slot.descriptor is None else [slot.descriptor]
        numbers = (slot.index, pickled.n_bytes, slot.size, len(descriptors), slot.dropped)
        try:
            self._send(kind, number, *numbers, descriptors=descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _send(self, *numbers: int, descriptors: Sequence[int] = ()) -> None:
        message = protocol.MESSAGE.pack(*numbers, *[-1] * (7 - len(numbers)))
        socket.send_fds(self._line, [message], descriptors)


def _receive_descriptors(line: socket.socket, n: int) -> list[int]:
    descriptors: list[int] = []
    while len(descriptors) < n:
        message, more = receive(line, 1, n)
        if not message:
            raise EOFError("the process that started this worker has ended")
        descriptors += more
    return descriptors


def _reset_signals() -> None:
    """Remove handlers that the parent installed for itself, to save a state for example, from a forked worker."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)


def _end_with_parent(parent: int, pidfd: int | None) -> NoReturn:
    """End this process as soon as the parent has ended, even if the main thread is busy."""
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


def _load_builder(descriptors: Sequence[int], config: WorkerConfig) -> BuildBatch:
    pickled, *others = descriptors
    with mmap.mmap(pickled, config.n_bytes, access=mmap.ACCESS_READ) as memory:
        os.close(pickled)
        try:
            return pickling.load_builder(memory, others)
        except Exception as error:
            problem = f"cannot load the pickled source and functions: {type(error).__name__}: {error}"
            raise WorkerError(f"{problem}. Remedies: {pickling.REMEDIES}", worker=config.worker) from error


def _share_cores(n_workers: int) -> None:
    """Limit the threads of this worker to its share of the CPU cores."""
    threads.declare_readers(n_workers, processes=True)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads.processors())
