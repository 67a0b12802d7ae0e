"""Engines that read many extents of files at once. They exist only in C; see `dataformats.storage.native.engines`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.kernels.dispatch import describe, implementation, kernels


def engine_open(name: str) -> Any:
    """Return a new engine, an opaque object that belongs to this process and closes when it is garbage.

    Args:
        name: `"auto"`, `"uring"`, `"libaio"` or `"threads"`.

    Raises:
        OSError: The engine does not run here; the message names the system call that was refused, and why.
        NotImplementedError: The kernels run in Python.
    """
    return _native().engine_open(name)


def engine_state(engine: Any) -> tuple[str, str | None, int]:
    """Return (the engine that reads cold files, the system call that was refused or None, its errno)."""
    return _native().engine_state(engine)  # type: ignore[no-any-return]  # a module


def engine_read(
    engine: Any,
    fds: ArrayLike,
    offsets: ArrayLike,
    lengths: ArrayLike,
    places: ArrayLike,
    buffer: memoryview | bytearray | NDArray[np.uint8],
) -> NDArray[np.int64]:
    """Read extents of open files into places of a writable buffer; return the bytes read for each, `(n,) int64`.

    An extent gets fewer bytes than its length only if its file ends. Places may overlap only if the bytes are the same.
    Extents that follow each other in a file are read by one system call.

    Args:
        engine: The engine that `engine_open` returned, or None for one plain read after the other.
        fds: Descriptors.
        offsets: Offsets in the files.
        lengths: Lengths in bytes.
        places: Offsets in the buffer.
        buffer: Any C-contiguous writable buffer.

    Raises:
        OSError: A read failed; all others were done.
        ValueError: A place is outside the buffer, or the arrays are not equally long.
        NotImplementedError: The kernels run in Python.
    """
    files = np.ascontiguousarray(fds, np.int32)
    done = np.empty(len(files), np.int64)
    numbers = (np.ascontiguousarray(each, np.int64) for each in (offsets, lengths, places))
    _native().engine_read(engine, files, *numbers, buffer, done)
    return done


def _native() -> Any:
    if implementation() != "native":
        raise NotImplementedError(
            f"engines need the compiled kernels, but the kernels run in Python ({describe()['why_not_native']})"
        )
    return kernels()
