"""Chunks of HDF5 datasets: decompressed with ISA-L, twice as fast as HDF5, or read where they lie without filters."""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile
from dataformats.storage.compressed.decompressor import WBITS, fast_library

_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("object", "<u4")])  # HDF5 File Format, IV.A.2.d
_DEFLATE, _SHUFFLE = 1, 2  # codes of filters
_LEAST_BYTES = 2**13  # HDF5 decompresses shorter chunks faster
_OUTSIDE = 2**62  # a byte that no file has


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a dataset, if each has whole rows, and no filters but gzip, or shuffle and gzip.

    Attributes:
        dataset: The `h5py.Dataset`.
        file: Its file.
        shape: The shape of a chunk; of the dataset, if it has no chunks.
        is_single: True if the dataset has no chunks.
        row: The dtype of a row as stored, with its dims; values of any length have references.
        filters: The codes of the filters.
    """

    dataset: Any
    file: StoredFile
    shape: tuple[int, ...]
    is_single: bool
    row: np.dtype[Any]
    filters: tuple[int, ...]

    @classmethod
    def of(cls, dataset: Any, file: StoredFile) -> Self | None:
        """Return the chunks of a dataset; `None` if only h5py can read them."""
        library, plan, dtype = importlib.import_module("h5py"), dataset.id.get_create_plist(), dataset.dtype
        filters = tuple(plan.get_filter(number)[0] for number in range(plan.get_nfilters()))
        shape, dims = dataset.chunks or dataset.shape, dataset.shape[1:]
        if filters not in ((), (_DEFLATE,), (_SHUFFLE, _DEFLATE)) or shape[1:] != dims or 0 in dataset.shape:
            return None
        is_reference = dtype.kind == "O" and not dims
        if not is_reference and not dataset.id.get_type().equal(library.h5t.py_create(dtype, logical=True)):
            return None
        row = _REFERENCE if is_reference else np.dtype((dtype, dims))
        return None if row.hasobject else cls(dataset, file, shape, dataset.chunks is None, row, filters)

    @property
    def n_bytes(self) -> int:
        """The bytes of a chunk that is decompressed."""
        return self.shape[0] * self.row.itemsize

    @property
    def is_deflated(self) -> bool:
        """True if `read` is faster than HDF5."""
        return bool(self.filters) and self.row is not _REFERENCE and self.n_bytes >= _LEAST_BYTES

    def is_in_place(self) -> bool:
        """True if the file has all rows without filters, and to find them costs few requests."""
        n_bytes, stored = self.n_bytes * -(-len(self.dataset) // self.shape[0]), self.dataset.id
        if self.is_single:
            is_found = (stored.get_offset() or _OUTSIDE) + n_bytes <= self.file.size
        else:
            is_found = self.file.local is not None and not self.dataset.file.userblock_size
        # Chunks that are not stored have only the fill value.
        return is_found and not self.filters and stored.get_storage_size() == n_bytes <= self.file.size

    def places(self) -> NDArray[np.int64]:
        """Return the byte of each chunk without filters, int64[n_chunks]; a byte behind any file if it is unknown."""
        found, size = array("Q"), self.shape[0]  # without a Python object for each
        self.dataset.id.chunk_iter(lambda one: found.extend((one.chunk_offset[0], one.byte_offset, one.size)))
        row, place, n_bytes = np.frombuffer(found, np.uint64).reshape(-1, 3).T
        is_sound = (row < len(self.dataset)) & (row % size == 0) & (n_bytes == self.n_bytes)
        number = row[is_sound].astype(np.int64) // size
        places = np.full(-(-len(self.dataset) // size), _OUTSIDE)
        places[number] = np.minimum(place[is_sound], _OUTSIDE)
        places[np.bincount(number, minlength=len(places)) != 1] = _OUTSIDE
        return places

    def read(self, first: int, end: int) -> NDArray[Any] | None:
        """Return the rows `[first, end)`; `None` if h5py must read them: it knows fill values, and reports damage."""
        out = np.empty(end - first, self.row)
        for begin, stop, rows in self._parts(first, end):
            if rows is None:
                return None
            out[begin - first : stop - first] = rows
        return out

    def check_references(self, first: int, end: int) -> None:
        """Raise a `FormatError` if a value of the rows `[first, end)` would be longer than the file.

        HDF5 allocates what references state. Does nothing if the rows are no references.
        """
        if self.row is not _REFERENCE:
            return
        library, kind = importlib.import_module("h5py"), self.dataset.id.get_type()
        item_bytes = kind.get_super().get_size() if isinstance(kind, library.h5t.TypeVlenID) else 1
        lengths = np.zeros(end - first, np.uint32)
        for begin, stop, rows in self._parts(first, end):
            if rows is not None:
                lengths[begin - first : stop - first] = rows["length"]
        n_bytes = int(lengths.max()) * item_bytes
        if n_bytes > self.file.size:
            what = f"the reference of row {first + int(lengths.argmax())} is damaged"
            expected = f"<= {self.file.size} bytes, as the file has"
            raise FormatError(what, path=self.file.name, expected=expected, found=f"{n_bytes} bytes")

    def _parts(self, first: int, end: int) -> Iterator[tuple[int, int, NDArray[Any] | None]]:
        """Yield each part of `[first, end)` in a chunk, with its rows; `None`: only h5py can read them."""
        size, lock = self.shape[0], importlib.import_module("h5py._objects").phil
        for start in range(first // size * size, end, size):
            begin, stop = max(first, start), min(end, start + size)
            stored = self._stored(begin, stop) if self.is_single else self._chunk(start, lock)
            rows = None if stored is None else np.frombuffer(stored, self.row)
            yield begin, stop, rows if rows is None or self.is_single else rows[begin - start : stop - start]

    def _stored(self, first: int, end: int) -> bytes | None:
        """Return the bytes of rows of a dataset without chunks."""
        step, place = self.row.itemsize, self.dataset.id.get_offset()
        if place is None or place + end * step > self.file.size:
            return None
        return self.file.pread(place + first * step, (end - first) * step)

    def _chunk(self, start: int, lock: Any) -> bytes | None:
        """Return the bytes of the chunk that begins with a row; the search takes the logarithm of all chunks."""
        try:
            with lock:  # this call alone takes no lock itself
                skipped, content = self.dataset.id.read_direct_chunk((start, *(0,) * len(self.shape[1:])))
        except (OSError, RuntimeError, ValueError, KeyError):
            return None
        filters = [code for place, code in enumerate(self.filters) if not skipped >> place & 1]
        content = self._decompressed(content) if _DEFLATE in filters else content
        if len(content) != self.n_bytes:
            return None
        if _SHUFFLE in filters:
            n_items = self.shape[0] * int(np.prod(self.shape[1:]))
            content = np.frombuffer(content, np.uint8).reshape(-1, n_items).T.tobytes()
        return content  # type: ignore[no-any-return]

    def _decompressed(self, stored: bytes) -> bytes:
        """Return the bytes of a chunk; none if it is damaged."""
        library = fast_library("isal.isal_zlib")
        state = library.decompressobj(WBITS["zlib"])
        try:
            content = state.decompress(stored, self.n_bytes + 1)
        except library.error:
            return b""
        return content if state.eof else b""
