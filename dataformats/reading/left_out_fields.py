"""Report the fields of files that a source lacks, because they cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from dataformats.errors import FormatError
from dataformats.interfaces import Reader
from dataformats.interfaces.table import Table


class LeftOutFieldError(FormatError):
    """A field of the files cannot be read, not even as bytes: `open` warns, and `verify` has a finding."""


def left_out_fields(reader: Reader | Table) -> Iterator[LeftOutFieldError]:
    """Yield an error for each field that a source of the reader lacks."""
    for name, error in reader.left_out.items():
        what = f"the field {name!r} is left out: {getattr(error, 'what', error)}"
        yield LeftOutFieldError(what, path=reader.files[0].name, remedy=getattr(error, "remedy", None))
