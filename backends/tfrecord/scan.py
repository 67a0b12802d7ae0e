"""Finds the records of a whole TFRecord file."""

from __future__ import annotations

from collections.abc import Callable

from dataformats.backends.framed import scan as framed
from dataformats.backends.tfrecord.layout import FRAMING
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["scan"]


def scan(file: StoredFile, progress: Callable[[int], None] | None = None) -> framed.Frames:
    """Return the frames of a file; lengths are checked, data are not.

    Args:
        file: The file, decompressed.
        progress: Called with the bytes gone through since the last call.
    """
    return framed.scan(FRAMING, file, progress)
