"""Memory without a name: processes share it by its descriptor, and it is freed with the last of them."""

from __future__ import annotations

import os
import tempfile

_REMEDY = "Raise the limit, or use smaller batches, a lower prefetch= or fewer workers="


def unnamed_memory(size: int) -> int:
    """Return a descriptor of `size` zero bytes that only processes which receive the descriptor can reach.

    It is closed in executed processes. On systems without such memory it is a temporary file that is already unlinked.

    Raises:
        OSError: No memory, disk space or descriptor is left; says what to do.
    """
    try:
        descriptor = os.memfd_create("dataformats", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else _unlinked_file()
    except OSError as error:
        raise memory_error(error, size) from error
    try:
        _resize(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise memory_error(error, size) from error
    return descriptor


def memory_file(data: bytes) -> int:
    """Return the descriptor of unnamed memory that holds these bytes."""
    descriptor = unnamed_memory(len(data))
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor


def memory_error(error: OSError, size: int) -> OSError:
    """Return an error that says how much memory was needed, and what to do."""
    return OSError(error.errno, f"cannot get {size} bytes of shared memory for a batch: {error.strerror}. {_REMEDY}")


def _unlinked_file() -> int:
    descriptor, path = tempfile.mkstemp(prefix="dataformats-")
    os.unlink(path)
    return descriptor


def _resize(descriptor: int, size: int) -> None:
    if hasattr(os, "memfd_create") or not hasattr(os, "posix_fallocate"):
        os.ftruncate(descriptor, size)
    else:
        os.posix_fallocate(descriptor, 0, size)  # a full disk is an error here; later it would kill the process
