"""Arrays whose first axis is the records: which ones are fields, their blocks, and their text and bytes as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Ragged
from dataformats.columns.numbers import offsets_of
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.interfaces import StoredFile
from dataformats.spec import Type

_BLOCK_BYTES = 2**16  # smaller chunks are read together: a call costs as much as copying 64 KiB
_BLOCK_CHUNKS = 64  # to decode them takes far longer than a call
_MAX_BLOCKS = 2**20
_SMALL_BYTES, _MAX_RATIO = 2**28, 100


def names_of(fields: str | Sequence[str] | None) -> list[str] | None:
    """Return the names that the option `fields` has: a list, or names with commas."""
    return fields if fields is None else fields.split(",") if isinstance(fields, str) else list(fields)


def is_in(name: str, group: str) -> bool:
    """True if an array is the one that is named, or lies in that group."""
    return name == group or name.startswith(f"{group}/")


def check_names(names: Sequence[str] | None, found: Iterable[str], file: StoredFile) -> None:
    """Raise `SpecError` if a file lacks an array that the user named."""
    for name in names or ():
        if not any(is_in(one, name) for one in found):
            raise SpecError(f"{file.name!r} has no such array: {', '.join(found) or 'none'}", field=name)


def left_out(
    failed: Mapping[str, DataFormatsError], names: Sequence[str] | None, found: Collection[str]
) -> dict[str, DataFormatsError]:
    """Return why arrays are left out. Raises the first error if it is of a named array, or there are no others."""
    for name, error in failed.items():
        if not found or name in (names or ()):
            raise error
    return dict(failed)


def same_length(lengths: Mapping[str, int], file: StoredFile) -> int:
    """Return the length that all arrays have.

    Raises:
        SpecError: There are no arrays, or they have several lengths.
    """
    if not lengths:
        raise SpecError(f"{file.name!r} has no array of rows")
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name}: {n}" for name, n in list(lengths.items())[:20])
        remedy = f"Choose arrays or groups of one length with fields=, such as fields={[next(iter(lengths))]!r}."
        raise SpecError(f"the arrays of {file.name!r} have several lengths: {found}", remedy=remedy)
    return next(iter(lengths.values()))


def rows_of_block(chunk_rows: int, n: int, row_bytes: int) -> int:
    """Return the rows of a block: a multiple of the longest chunk; of 0 rows, if there are no chunks."""
    chunk = max(1, chunk_rows)
    wanted = min(_BLOCK_BYTES // max(1, row_bytes), _BLOCK_CHUNKS * chunk_rows or n)
    wanted = max(wanted, -(-n // _MAX_BLOCKS), 1)
    return chunk * -(-wanted // chunk)


def check_block(rows: int, row_bytes: int, n_stored: int, max_bytes: int, file: StoredFile) -> None:
    """Raise `FormatError` if a block needs much more memory than the file has bytes."""
    most = min(max_bytes, max(_SMALL_BYTES, _MAX_RATIO * n_stored))
    if rows * row_bytes > most:
        what = f"a block of {rows} records is too long"
        raise FormatError(what, path=file.name, expected=f"<= {most} bytes", found=rows * row_bytes)


def bytes_of(value: object) -> bytes:
    """Return the bytes of a text, of bytes, or of an array."""
    if isinstance(value, bytes):
        return bytes(value)
    return value.encode() if isinstance(value, str) else np.asarray(value).tobytes()


def blob_column(values: NDArray[Any], type_: Type) -> Ragged:
    """Return the column of texts, of bytes, or of the little-endian bytes of values of an opaque type."""
    if not values.dtype.hasobject:
        values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    joined = Blobs.join([bytes_of(value) for value in values])
    return Ragged(joined.buffer, offsets_of(joined.lengths), "utf8" if type_.codec == "utf8" else "bytes")


def packing(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return what `info` says of fields whose numbers are packed, by the conventions of netCDF.

    Args:
        attributes: Field to its attributes.
    """
    names = ("scale_factor", "add_offset", "_FillValue")
    found = {name: {one: of_field[one] for one in names if one in of_field} for name, of_field in attributes.items()}
    return {
        f"field {name} is packed": ", ".join(f"{one} {value}" for one, value in how.items()) + ": read as stored"
        for name, how in found.items()
        if len(how.keys() - {"_FillValue"})
    }
