"""Messages between the worker pool and its workers, and how they are received."""

from __future__ import annotations

import array
import os
import socket
import struct
import sys
from dataclasses import dataclass

TASK = struct.Struct("<q")
"""Header of a task: its number, or `STOP`. The pickled task follows, or a descriptor of it if it is large."""

MESSAGE = struct.Struct("<7q")
"""A message of a worker: its kind (below); task; slot; bytes of content; bytes of the slot; 1 if a descriptor of the
slot is attached; a slot that the worker gave up, or -1. `NO_MEMORY` has errno in place of the slot, and the bytes
needed."""

BEGUN, BUILT, FAILED, NO_MEMORY = range(4)
STOP = -1
LARGEST_TASK = 2**15 if sys.platform == "linux" else 2**10
"""Bytes of a task that go through the socket, which holds about 200 KB on Linux, elsewhere 2 KB per message."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The facts that a worker needs before it can receive anything. Pickles small.

    Attributes:
        worker: Its number.
        n_workers: Number of workers.
        n_slots: Slots that each worker may have.
        n_spare: Slots of a worker that may be unused.
        parent: The process that takes the batches.
        n_bytes: Bytes of the pickled builder; 0 under fork, which passes the builder itself.
        n_descriptors: Number of descriptors sent to the worker: tasks, status board; unless forked the pickled builder
            and its descriptors; the parent's pidfd.
        has_pidfd: True if the last one is the parent's pidfd.
    """

    worker: int
    n_workers: int
    n_slots: int
    n_spare: int
    parent: int
    n_bytes: int
    n_descriptors: int
    has_pidfd: bool


def receive(line: socket.socket, size: int, n_descriptors: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """Return a message and its descriptors, which are closed in executed processes."""
    descriptors = array.array("i")  # socket.recv_fds ignores its flags
    message, ancillary, _, _ = line.recvmsg(size, socket.CMSG_LEN(n_descriptors * descriptors.itemsize), flags)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return message, descriptors.tolist()
