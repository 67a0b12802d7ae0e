"""Raise errors of pyarrow as errors of damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dataformats.batch.to_arrow import pyarrow
from dataformats.errors import DataFormatsError, FormatError
from dataformats.interfaces import StoredFile


@contextmanager
def damage_of(file: StoredFile, part: str = "the file") -> Iterator[None]:
    """Raise the errors of pyarrow as a `FormatError` of this file.

    Args:
        file: The file that is read.
        part: The part of it, for the message, such as `"row group 3"`.
    """
    try:
        yield
    except (pyarrow().ArrowException, OSError, ValueError, KeyError) as error:
        if isinstance(error, DataFormatsError) or getattr(error, "errno", None) is not None:
            raise
        raise FormatError(f"{part} cannot be decoded: {error}", path=file.name) from error
