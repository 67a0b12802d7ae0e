"""Reads rows of HDF5 datasets that need no decoding where they lie in the file, without h5py and its lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.rows.reader import FixedRows, RowsReader
from dataformats.backends.tables.hdf5_fields import Hdf5Field
from dataformats.interfaces import Extents, StoredFile


class Hdf5Rows(RowsReader):
    """The rows of HDF5 files.

    Args:
        files: The files.
        fields: For each file, the rows of each field, and the rows of a chunk; 0: the dataset has no chunks.
        places: Returns the byte of each chunk of a field of a file.
        packing: The metadata.
    """

    def __init__(
        self,
        files: Sequence[StoredFile],
        fields: Sequence[Mapping[str, tuple[FixedRows, int]]],
        places: Callable[[int, str], NDArray[np.int64]],
        packing: dict[str, str],
    ) -> None:
        super().__init__(files, [{name: rows for name, (rows, _) in of_file.items()} for of_file in fields])
        self._sizes = {name: np.array([of_file[name][1] for of_file in fields]) for name in fields[0]}
        self._bytes, self._packing = places, packing

    def metadata(self) -> dict[str, str]:
        return self._packing

    def range_of(self, field: str, first: int, n: int) -> tuple[int, int, int] | None:
        found = super().range_of(field, first, n)
        size = 0 if found is None else self._sizes[field][found[0]]
        if found is None or not size:
            return found
        file, at = found[0], first - self._firsts[found[0]]
        if at // size < (at + n - 1) // size:
            return None
        return file, int(self._extents(field, np.array([file], np.int32), np.array([at])).offset[0]), found[2]

    def _extents(self, name: str, file: NDArray[np.int32], local: NDArray[np.int64]) -> Extents:
        extents = super()._extents(name, file, local)
        for number in np.unique(file[self._sizes[name][file] > 0]).tolist():
            mine, size, step = file == number, self._sizes[name][number], self._places[name][number, 1]
            chunk = local[mine] // size
            extents.offset[mine] += self._bytes(number, name)[chunk] - chunk * size * step
        return extents


def stored_rows(field: Hdf5Field) -> tuple[FixedRows, int] | None:
    """Return the rows of a field and of a chunk, see `Hdf5Rows`; `None` if h5py must decode them.

    If the dataset has chunks, the first byte is counted from each of them.
    """
    dtype, first, dims = field.dataset.dtype, 0, field.dataset.shape[1:]
    for member in field.members:
        dtype, place = dtype.fields[member][:2]
        first += place
    has_rows = field.type.dtype is not None and field.type.fixed and field.row_bytes and not (field.members and dims)
    if not has_rows or dtype.base != dtype.base.newbyteorder("<") or not (field.chunks and field.chunks.is_in_place()):
        return None
    first += field.dataset.id.get_offset() or 0
    rows = FixedRows(field.type, field.row_bytes, first, field.chunks.row.itemsize, len(field.dataset))
    return rows, (field.dataset.chunks or (0,))[0]
