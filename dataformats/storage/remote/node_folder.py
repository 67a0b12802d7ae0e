"""Folders in shared memory for the processes of one user on a node: deleted when the last of them ends."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.storage.file_lock import FileLock

_MEMORY = Path("/dev/shm")  # not predictable for others: a folder of theirs is refused
_LOCK = "users"
_TRIES = 10
_COUNT_BYTES = 16
LOCAL_SIZES = (
    "LOCAL_WORLD_SIZE",  # torchrun
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "JSM_NAMESPACE_LOCAL_SIZE",
    "SLURM_STEP_TASKS_PER_NODE",  # such as 4 or 4(x2) or 4,3
)
"""Variables of launchers with the number of processes on this node."""

_JOBS = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID")


def local_job() -> str | None:
    """Return text that only the ranks of this job have; `None` if no launcher says that several run on this node."""
    sizes = [os.environ[name] for name in LOCAL_SIZES if name in os.environ]
    if not sizes or sizes[0] == "1":
        return None
    return repr([os.environ.get(name) for name in _JOBS])


class NodeFolder:
    """A folder in shared memory that processes of this user enter by its name; no other user can.

    The last process that ends deletes it. If that one is killed, the next one that enters any such folder does.

    Args:
        name: Names the folder; of any length.
        n_bytes: The memory that must be free if the folder is new.

    Attributes:
        path: The folder.
        counts: int64[2], which all processes add to; a concurrent addition may be lost.

    Raises:
        OSError: There is no such memory, it is too small, or another user has made a folder of that name.
    """

    def __init__(self, name: str, n_bytes: int) -> None:
        if not _MEMORY.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the system has no such shared memory", str(_MEMORY))
        prefix = f"dataformats-{os.geteuid()}-"
        self.path: Path = _MEMORY / (prefix + hashlib.blake2b(name.encode(), digest_size=16).hexdigest())
        for leftover in _MEMORY.glob(f"{prefix}*"):
            if leftover != self.path:
                _delete_unused(leftover)
        lock = self._enter(n_bytes)
        # Negative: when a program ends, its worker processes end first.
        self._leave = Finalize(self, _leave, (lock,), exitpriority=-100)
        self.counts: NDArray[np.int64] = _counts(self.path / "counts")

    def _enter(self, n_bytes: int) -> FileLock:
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # its last user deleted it meanwhile
                self._make(n_bytes)
                return FileLock(self.path / _LOCK, create=True, shared=True)
        raise TimeoutError(f"{str(self.path)!r} is deleted again and again")

    def _make(self, n_bytes: int) -> None:
        if not self.path.exists():
            room = os.statvfs(_MEMORY)
            if room.f_bavail * room.f_frsize < n_bytes:
                raise OSError(errno.ENOSPC, f"expected {n_bytes} free bytes of shared memory", str(_MEMORY))
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
        if not _is_private(self.path):
            raise PermissionError(errno.EACCES, "the folder is of another user, or open to others", str(self.path))


def _is_private(path: Path) -> bool:
    info = path.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077


def _counts(path: Path) -> NDArray[np.int64]:
    with path.open("ab") as file:
        if not file.tell():
            file.write(bytes(_COUNT_BYTES))  # full memory is an error here; later it would kill the process
    return np.memmap(path, np.int64, "r+", shape=_COUNT_BYTES // 8)


def _leave(lock: Any) -> None:
    lock.release()
    _delete_unused(lock.path.parent)


def _delete_unused(path: Path) -> None:
    """Delete a folder that no process uses."""
    with suppress(OSError):
        if not _is_private(path):
            return
        lock = FileLock(path / _LOCK, create=True)
        try:
            for entry in os.scandir(path):
                if entry.name != _LOCK:
                    os.unlink(entry.path)
            os.unlink(path / _LOCK)  # last: until then, all who enter wait
            os.rmdir(path)
        finally:
            lock.release()
