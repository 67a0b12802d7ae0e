"""Compiles the shim, describes the faults that it injects, and controls it in a process that has it."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_SOURCE = Path(__file__).with_name("shim.c")
_KEPT: list[object] = []  # arrays that the shim looks into


class Action(IntEnum):
    """The actions of `shim.c`, by their numbers there."""

    NOTHING = 0
    FAIL = 1
    FULL = 2
    SHORT = 3
    TEAR = 4
    KILL_BEFORE = 5
    KILL_AFTER = 6


_WRITES = ("write", "copy")
_NEEDS_ROOM = (*_WRITES, "create", "ftruncate", "mkdir", "rename", "link", "symlink", "fallocate")


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: an action at the operation of this number; `error` is its errno."""

    at: int
    action: Action
    error: int = 0

    @property
    def kills(self) -> bool:
        return self.action in (Action.TEAR, Action.KILL_BEFORE, Action.KILL_AFTER)

    @property
    def fails(self) -> bool:
        return self.action in (Action.FAIL, Action.FULL)

    def __str__(self) -> str:
        return f"{self.at}:{self.action.name}" + (f":{errno.errorcode[self.error]}" if self.error else "")

    @classmethod
    def parse(cls, text: str) -> Fault:
        at, action, *error = text.split(":")
        return cls(int(at), Action[action], getattr(errno, error[0]) if error else 0)


@dataclass(frozen=True)
class Operation:
    """One file operation: its kind, and the path that it is for."""

    kind: str
    path: str


def parse_log(text: str) -> list[Operation]:
    return [Operation(*line.split(" ", 1)) for line in text.splitlines()]


def faults_of(operations: Sequence[Operation]) -> Iterator[Fault]:
    """Yield every fault that these operations can meet."""
    for at, operation in enumerate(operations, 1):
        yield Fault(at, Action.KILL_BEFORE)
        yield Fault(at, Action.FAIL, errno.EIO)
        yield Fault(at, Action.FAIL, errno.EINTR)
        if operation.kind in _NEEDS_ROOM:
            yield Fault(at, Action.FAIL, errno.ENOSPC)
            yield Fault(at, Action.FULL, errno.ENOSPC)
        if operation.kind in _WRITES:
            yield Fault(at, Action.SHORT)
            yield Fault(at, Action.TEAR)
    yield Fault(len(operations), Action.KILL_AFTER)


def why_not() -> str | None:
    """Return why faults cannot be injected here; `None` if they can."""
    if sys.platform != "linux":
        return "the shim replaces functions of Linux"
    return None if _compiler() else "there is no C compiler"


def build(folder: Path) -> Path:
    """Return the compiled shim."""
    shim = folder / "shim.so"
    compiler = _compiler()
    assert compiler is not None
    subprocess.run([compiler, "-std=c11", "-O1", "-shared", "-fPIC", _SOURCE, "-o", shim, "-ldl"], check=True)
    return shim


def control(prefix: Path | None, fault: Fault | None = None, log: int = -1) -> None:
    """Count the operations under `prefix` from now on, and let one meet a fault; `None` ends that."""
    chosen = fault or Fault(0, Action.NOTHING)
    name = b"" if prefix is None else os.fsencode(prefix)
    ctypes.CDLL(None).faults_arm(name, ctypes.c_long(chosen.at), int(chosen.action), chosen.error, log)


def record(prefix: Path | None, descriptor: int = -1) -> None:
    """Record the operations under `prefix` from now on, in a file that is open for appending; `None` ends that."""
    ctypes.CDLL(None).faults_record(b"" if prefix is None else os.fsencode(prefix), descriptor)


def note(text: str) -> None:
    """Put a remark between the operations of a record."""
    ctypes.CDLL(None).faults_note(text.encode())


def report_inodes(inodes: Mapping[int, int], device: int, added: int) -> None:
    """Let this process see other inodes than the file system has.

    Args:
        inodes: Maps the inode of a file to the inode that is seen.
        device: The number of the file system.
        added: The number added to all its other inodes.
    """
    flat = [number for pair in sorted(inodes.items()) for number in pair]
    pairs = (ctypes.c_uint64 * len(flat))(*flat)
    _KEPT.append(pairs)
    n, numbers = ctypes.c_long(len(inodes)), (ctypes.c_uint64(device), ctypes.c_uint64(added))
    ctypes.CDLL(None).faults_inodes(pairs, n, *numbers)


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
