"""Locks on files and folders: they end with the process that has them."""

from __future__ import annotations

import errno
import functools
import logging
import os
import time
from pathlib import Path

from dataformats.fork_hooks import after_fork
from dataformats.storage.descriptors import open_patiently

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOG = logging.getLogger("dataformats")
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a link beside data from elsewhere may name any file of this machine
_PATIENCE_S = 10.0
_UNSUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EBADF}


class FileLock:
    """A lock on a file or folder (`flock`), exclusive unless it is `shared`, until `release` or the end of the process.

    Every other lock on it is refused, also in the same process. A forked child does not have the lock of its parent.

    Args:
        path: The file or folder. Links are followed.
        create: Create an empty file if it is missing, and open it for reading and writing. A link is refused.
        shared: Refuse only exclusive locks; wait some seconds for the end of one.

    Attributes:
        path: The file or folder.
        descriptor: The descriptor of the open file; -1 after `release`.
        is_shared: True for a shared lock.
        is_exclusive: False if the file system has no locks: then nothing is refused.

    Raises:
        BlockingIOError: Another `FileLock` has it.
        FileNotFoundError: It is missing, and `create` is not given.
    """

    descriptor: int = -1

    def __init__(self, path: Path, *, create: bool = False, shared: bool = False) -> None:
        self.path = path
        self.is_shared: bool = shared
        self.is_exclusive: bool = True
        flags = os.O_CLOEXEC | (os.O_RDWR | os.O_CREAT | NO_LINK if create else os.O_RDONLY)
        while True:
            self.descriptor = open_patiently(lambda: os.open(path, flags, 0o666))
            after_fork(self, "_close")
            try:
                self._lock()
            except BlockingIOError:
                self._close()
                raise
            except BaseException:
                if create and not os.fstat(self.descriptor).st_size:
                    path.unlink(missing_ok=True)
                self._close()
                raise
            if self.is_current:
                return
            self.release()  # another process renamed or deleted it before it was locked

    @property
    def is_current(self) -> bool:
        """True if the path still names the locked file or folder."""
        try:
            return self.descriptor >= 0 and os.path.samestat(os.fstat(self.descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def share(self) -> None:
        """Make the lock shared.

        Raises:
            BlockingIOError: Another process got an exclusive one in between.
        """
        self.is_shared = True
        self._lock()

    def release(self) -> None:
        """Unlock and close the file; a second call is a no-op."""
        if self.descriptor < 0:
            return
        try:
            if self.is_exclusive and fcntl is not None:
                # A child that is forked at this moment has the descriptor, too: to close it alone would not unlock it.
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        finally:
            self._close()

    def _lock(self) -> None:
        if fcntl is None:
            self.is_exclusive = False
            _report_unsupported("it has no flock")
            return
        kind = fcntl.LOCK_SH if self.is_shared else fcntl.LOCK_EX
        deadline = time.monotonic() + (_PATIENCE_S if self.is_shared else 0.0)
        while True:
            try:
                fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise BlockingIOError(f"{str(self.path)!r} is locked") from None
                time.sleep(0.02)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self.is_exclusive = False
                _report_unsupported(str(error))
                return

    def _close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


@functools.cache
def _report_unsupported(error: str) -> None:
    _LOG.warning("the system cannot lock files (%s): two writers of one name are not refused", error)
