"""Raise the errors of a library that decodes files as errors of damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dataformats.errors import DataFormatsError, FormatError
from dataformats.interfaces.stored_file import StoredFile


@contextmanager
def damage_of(
    file: StoredFile, errors: type[Exception] | tuple[type[Exception], ...], part: str = "the file"
) -> Iterator[None]:
    """Raise the errors of a library as a `FormatError` of a file.

    Errors of this package stay what they are, and so do errors of the operating system, which have an `errno`.

    Args:
        file: The file that the library reads.
        errors: The errors that the library raises for damaged files.
        part: The part of the file that it reads, for the message, such as `"row group 3"`.

    Raises:
        FormatError: The library raised one of these errors.

    Example:
        >>> import json
        >>> from dataformats.interfaces import LocalFile, damage_of
        >>> file = LocalFile("tests/golden/ffrecord/one.ffr")
        >>> with damage_of(file, ValueError, "the header"):
        ...     json.loads("{")
        Traceback (most recent call last):
        ...
        dataformats.errors.FormatError: 'tests/golden/ffrecord/one.ffr': the header cannot be decoded: Expecting ...
    """
    try:
        yield
    except errors as error:
        if isinstance(error, DataFormatsError) or getattr(error, "errno", None) is not None:
            raise
        raise FormatError(f"{part} cannot be decoded: {error}", path=file.name) from error
