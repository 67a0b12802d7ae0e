"""Reads rows of HDF5 datasets that need no decoding where they lie in the file, without h5py and its lock."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.rows.reader import FixedRows, RowsReader
from dataformats.backends.tables.hdf5_chunks import chunk_places
from dataformats.backends.tables.hdf5_fields import Hdf5Field
from dataformats.interfaces import Extents, StoredFile

StoredRows = tuple[FixedRows, int, NDArray[np.int64]]
"""Rows one behind another, the rows of a chunk, and int64[n_chunks], how far behind that the rows of each chunk lie."""


class Hdf5Rows(RowsReader):
    """The rows of HDF5 files: for each file, the rows of each field."""

    def __init__(self, files: Sequence[StoredFile], fields: Sequence[Mapping[str, StoredRows]]) -> None:
        super().__init__(files, [{name: field[0] for name, field in of_file.items()} for of_file in fields])
        self.packing: dict[str, str] = {}
        self._chunks: dict[str, tuple[NDArray[np.int64], ...]] = {}
        for name in fields[0]:
            _, chunk_rows, shifts = zip(*(of_file[name] for of_file in fields), strict=True)
            starts, moved = np.cumsum([0, *map(len, shifts)]), np.concatenate(shifts)
            if moved.any():
                self._chunks[name] = np.array(chunk_rows), starts, moved

    def metadata(self) -> dict[str, str]:
        return self.packing

    def range_of(self, field: str, first: int, n: int) -> tuple[int, int, int] | None:
        return None if field in self._chunks else super().range_of(field, first, n)

    def _extents(self, name: str, file: NDArray[np.int32], local: NDArray[np.int64]) -> Extents:
        extents = super()._extents(name, file, local)
        if name in self._chunks:
            chunk_rows, starts, shifts = self._chunks[name]
            extents.offset[:] += shifts[starts[file] + local // chunk_rows[file]]
        return extents


def stored_rows(field: Hdf5Field, file: StoredFile) -> StoredRows | None:
    """Return where the rows of a field lie; `None` if h5py must decode them, or chunks would cost many requests."""
    dataset, dtype, first, dims = field.dataset, field.dataset.dtype, 0, field.dataset.shape[1:]
    kind = importlib.import_module("h5py").h5t.py_create(dtype, logical=True)
    is_plain = dataset.id.get_type().equal(kind)
    for member in field.members:
        dtype, place = dtype.fields[member][:2]
        first += place
    has_rows = field.type.dtype is not None and field.type.fixed and field.row_bytes and not (field.members and dims)
    if not (is_plain and has_rows) or dtype.base != dtype.base.newbyteorder("<"):
        return None
    step, chunk_rows = dataset.dtype.itemsize * math.prod(dims), (dataset.chunks or dataset.shape)[0]
    places = chunk_places(dataset, file, step)
    if places is None:
        return None
    shifts = places - np.arange(len(places)) * chunk_rows * step
    rows = FixedRows(field.type, field.row_bytes, first + int(shifts[0]), step, len(dataset))
    return rows, chunk_rows, shifts - shifts[0]
