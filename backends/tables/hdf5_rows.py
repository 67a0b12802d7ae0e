"""Rows of HDF5 datasets without filters, read where they lie in the file, without h5py and its lock."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.rows.reader import FixedRows, RowsReader
from dataformats.backends.tables.hdf5_fields import Hdf5Field
from dataformats.interfaces import Extents, StoredFile

__all__ = ["Hdf5Rows", "StoredRows", "stored_rows_of"]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a field in one file.

    Attributes:
        rows: Their type and size; `first` is the byte of a row at which the field begins.
        chunk_rows: Rows of a chunk.
        chunks: int64[n_chunks], the byte at which each chunk begins.
    """

    rows: FixedRows
    chunk_rows: int
    chunks: NDArray[np.int64]


class Hdf5Rows(RowsReader):
    """The rows of HDF5 files whose fields all have stored rows.

    Args:
        files: The files; all have the same fields.
        fields: For each file, field to rows.
    """

    def __init__(self, files: Sequence[StoredFile], fields: Sequence[Mapping[str, StoredRows]]) -> None:
        super().__init__(files, [{name: field.rows for name, field in of_file.items()} for of_file in fields])
        self._chunks = {name: [of_file[name].chunks for of_file in fields] for name in fields[0]}
        self._chunk_rows = {name: np.array([of_file[name].chunk_rows for of_file in fields]) for name in fields[0]}

    def _extents(self, name: str, file: NDArray[np.int32], local: NDArray[np.int64]) -> Extents:
        places, chunks = self._places[name][file], self._chunks[name]
        chunk, row = np.divmod(local, self._chunk_rows[name][file])
        starts = np.cumsum([0, *map(len, chunks)])
        first = (chunks[0] if len(chunks) == 1 else np.concatenate(chunks))[starts[file] + chunk]
        lengths = np.full(len(local), self._row_bytes[name], np.int64)
        return Extents(file, first + places[:, 0] + row * places[:, 1], lengths)


def stored_rows_of(field: Hdf5Field, file: StoredFile) -> StoredRows | None:
    """Return where the rows of a field lie, or `None` if h5py must decode them."""
    dataset, dtype, first = field.dataset, field.dataset.dtype, 0
    dims = dataset.shape[1:]
    kind = importlib.import_module("h5py").h5t.py_create(dtype, logical=True)
    if not dataset.id.get_type().equal(kind) or (field.members and dims) or field.type.dtype is None:
        return None  # h5py would convert the values
    for member in field.members:
        dtype, place = dtype.fields[member][:2]
        first += place
    if not field.type.fixed or not field.row_bytes or dtype.base != dtype.base.newbyteorder("<"):
        return None
    step = dataset.dtype.itemsize * math.prod(dims)
    chunks = _chunks_of(dataset, step, file)
    if chunks is None:
        return None
    chunk_rows = dataset.chunks[0] if dataset.chunks else len(dataset)
    return StoredRows(FixedRows(field.type, field.row_bytes, first, step, len(dataset)), chunk_rows, chunks)


def _chunks_of(dataset: Any, row_bytes: int, file: StoredFile) -> NDArray[np.int64] | None:
    """Return the byte at which each chunk begins; `None` if one is missing, or has filters or a part of a row.

    A dataset without chunks is one chunk. The chunks of a file behind a URL would cost many requests.
    """
    if dataset.file.userblock_size or dataset.id.get_create_plist().get_nfilters():
        return None
    if dataset.chunks is None:
        offset, size = dataset.id.get_offset(), dataset.id.get_storage_size()
        return None if offset is None or not 0 < size == len(dataset) * row_bytes else np.array([offset])
    if dataset.chunks[1:] != dataset.shape[1:] or file.local is None:
        return None
    found: list[tuple[int, int]] = []
    dataset.id.chunk_iter(lambda chunk: found.append((chunk.chunk_offset[0], chunk.byte_offset)))
    rows, offsets = np.array(sorted(found), np.int64).reshape(-1, 2).T
    n_chunks = -(-len(dataset) // dataset.chunks[0])
    is_whole = len(rows) == n_chunks > 0 and (np.diff(rows) == dataset.chunks[0]).all()
    return np.ascontiguousarray(offsets) if is_whole else None
