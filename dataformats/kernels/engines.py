"""The engines that read many stretches of files at once. They exist in C alone; see `dataformats.storage.engines`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.kernels.dispatch import describe, implementation, kernels

__all__ = ["engine_open", "engine_read", "engine_state"]


def engine_open(name: str) -> Any:
    """Return a new engine, an opaque object that belongs to this process and closes when nobody holds it.

    Args:
        name: `"auto"`, `"uring"`, `"libaio"` or `"threads"`.

    Raises:
        OSError: It does not run here; the message says which call was refused, and why.
        NotImplementedError: The kernels run in Python.
    """
    return _native().engine_open(name)


def engine_state(engine: Any) -> tuple[str, str | None, int]:
    """Return (which engine reads what is not in memory, which call was refused or None, its errno)."""
    return _native().engine_state(engine)  # type: ignore[no-any-return]  # a module


def engine_read(
    engine: Any,
    fds: ArrayLike,
    offsets: ArrayLike,
    lengths: ArrayLike,
    places: ArrayLike,
    buffer: memoryview | bytearray | NDArray[np.uint8],
) -> NDArray[np.int64]:
    """Read stretches of open files into places of a writable buffer; return the bytes that each got, `(n,) int64`.

    A stretch gets fewer bytes than its length only where its file ends. Places may overlap only where the bytes are
    the same. Stretches that follow each other in a file are read by one call to the system.

    Args:
        engine: What `engine_open` returned, or None for one plain read after the other.
        fds: Descriptors.
        offsets: Where in their files.
        lengths: In bytes.
        places: Where in the buffer.
        buffer: Any C-contiguous writable buffer.

    Raises:
        OSError: A read failed; the others were made nevertheless.
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
        raise NotImplementedError(f"engines are in C, and the kernels run in Python ({describe()['why_not_native']})")
    return kernels()
