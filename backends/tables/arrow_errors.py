"""Raise errors of pyarrow as errors of damaged files."""

from __future__ import annotations

from contextlib import AbstractContextManager

from dataformats.batch.to_arrow import pyarrow
from dataformats.interfaces import StoredFile, damage_of


def damage_of_arrow(file: StoredFile, part: str = "the file") -> AbstractContextManager[None]:
    """Raise the errors of pyarrow as a `FormatError` of this file.

    Args:
        file: The file that is read.
        part: The part of it, for the message, such as `"row group 3"`.
    """
    return damage_of(file, (pyarrow().ArrowException, OSError, ValueError, KeyError), part)
