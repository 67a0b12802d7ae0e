"""Memory without a name, which processes share by its descriptor and which is gone with the last of them."""

from __future__ import annotations

import os
import tempfile

__all__ = ["anonymous"]

_REMEDY = "raise the limit, or make batches smaller, prefetch= lower or workers= fewer"


def anonymous(size: int) -> int:
    """Return a descriptor of `size` bytes of zeroes that only processes which are handed it can reach.

    It is closed in processes that are executed. Where the operating system has no such memory it is a temporary file
    whose name is removed at once.

    Raises:
        OSError: No memory, room on the disk or descriptor is left for it; says what to do.
    """
    try:
        descriptor = os.memfd_create("dataformats", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else _unlinked()
    except OSError as error:
        raise explained(error, size) from error
    try:
        _enlarge(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise explained(error, size) from error
    return descriptor


def explained(error: OSError, size: int) -> OSError:
    """Return an error that says what was asked for and what helps."""
    return OSError(error.errno, f"{error.strerror}: no {size} bytes of shared memory for a batch; {_REMEDY}")


def _unlinked() -> int:
    descriptor, path = tempfile.mkstemp(prefix="dataformats-")
    os.unlink(path)
    return descriptor


def _enlarge(descriptor: int, size: int) -> None:
    if hasattr(os, "memfd_create") or not hasattr(os, "posix_fallocate"):
        os.ftruncate(descriptor, size)
    else:
        os.posix_fallocate(descriptor, 0, size)  # a full disk is an error here, and the end of the process later
