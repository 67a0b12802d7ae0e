"""Free the room of a range of a file, which then reads as zeros."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

_KEEP_SIZE_AND_PUNCH_HOLE = 3


def free_ranges(descriptor: int, ranges: list[tuple[int, int]]) -> bool:
    """Free the room of ranges of a file, (offset, length) each; return False if the file is as large as before."""
    punch = _system_call()
    if punch is None:
        return False
    n_blocks = os.fstat(descriptor).st_blocks
    for offset, length in ranges:
        punch(descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(length))
    return os.fstat(descriptor).st_blocks < n_blocks


@functools.cache
def _system_call() -> Any:
    try:
        return ctypes.CDLL(None).fallocate64
    except (AttributeError, OSError, TypeError):  # another system than Linux
        return None
