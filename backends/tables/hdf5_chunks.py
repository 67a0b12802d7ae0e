"""Chunks of HDF5 datasets: decompressed with ISA-L, twice as fast as HDF5, or read where they lie without filters."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile
from dataformats.storage.compressed.decompressor import WBITS, fast_library

_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("object", "<u4")])  # HDF5 File Format, IV.A.2.d


def chunk_places(dataset: Any, file: StoredFile, step: int) -> NDArray[np.int64] | None:
    """Return the byte at which each chunk of a dataset without filters lies, or the only part of one without chunks.

    Args:
        dataset: The `h5py.Dataset`.
        file: Its file.
        step: The bytes of a row.

    Returns:
        `None` if some chunks are not stored, do not hold whole rows, or would cost many requests.
    """
    n_chunks, found = -(-len(dataset) // (dataset.chunks or dataset.shape)[0]) if len(dataset) else 0, dict[int, int]()
    if dataset.id.get_create_plist().get_nfilters():
        return None
    if dataset.chunks is None and dataset.id.get_storage_size() == len(dataset) * step:
        found = {} if dataset.id.get_offset() is None else {0: dataset.id.get_offset()}
    elif dataset.chunks and dataset.chunks[1:] == dataset.shape[1:] and file.local and not dataset.file.userblock_size:
        size, stored = dataset.chunks[0], list[Any]()
        dataset.id.chunk_iter(stored.append)
        found = {one.chunk_offset[0] // size: one.byte_offset for one in stored if one.size == size * step}
    if not found or len(found) != n_chunks or max(found) >= n_chunks:
        return None  # some chunks have only the fill value
    return np.array([found[chunk] for chunk in range(n_chunks)], np.int64)


@dataclass(frozen=True, slots=True)
class References:
    """The references of a dataset, without filters, whose values have any length: HDF5 allocates what they state.

    Attributes:
        dataset: The `h5py.Dataset`.
        file: Its file.
        places: The byte of each chunk.
        item_bytes: The bytes of an item of a value.
    """

    dataset: Any
    file: StoredFile
    places: NDArray[np.int64]
    item_bytes: int

    @classmethod
    def of(cls, dataset: Any, file: StoredFile, items: Any) -> Self | None:
        """Return the references of a dataset; `None` if its values are not such, or if they cannot be found."""
        places = chunk_places(dataset, file, _REFERENCE.itemsize) if len(dataset.shape) == 1 else None
        return None if places is None else cls(dataset, file, places, getattr(items, "itemsize", 1))

    def check(self, first: int, end: int) -> None:
        """Raise a `FormatError` if a value of the rows `[first, end)` would be longer than the file."""
        size = (self.dataset.chunks or self.dataset.shape)[0]
        for chunk in range(first // size, -(-end // size)):
            begin, stop = max(first, chunk * size), min(end, (chunk + 1) * size)
            place = int(self.places[chunk]) + (begin - chunk * size) * _REFERENCE.itemsize
            stored = self.file.pread(place, (stop - begin) * _REFERENCE.itemsize)
            lengths = np.frombuffer(stored, _REFERENCE, len(stored) // _REFERENCE.itemsize)["length"].astype(np.int64)
            if lengths.max(initial=0) * self.item_bytes > self.file.size:
                row, found = int(lengths.argmax()), f"{lengths.max() * self.item_bytes} bytes"
                what, at = f"the reference of row {begin + row} is damaged", place + row * _REFERENCE.itemsize
                expected = f"<= {self.file.size} bytes, as the file has"
                raise FormatError(what, path=self.file.name, offset_bytes=at, expected=expected, found=found)


@dataclass(frozen=True, slots=True)
class DeflatedChunks:
    """The chunks of a dataset of plain numbers with the filters gzip, or shuffle and gzip; each has whole rows.

    Attributes:
        dataset: The `h5py.Dataset`.
        is_shuffled: True if the bytes of the numbers are shuffled.
    """

    dataset: Any
    is_shuffled: bool

    @classmethod
    def of(cls, dataset: Any) -> Self | None:
        """Return the chunks of a dataset; `None` if only h5py can decode them."""
        library = importlib.import_module("h5py")
        plan = dataset.id.get_create_plist()
        filters = [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]
        is_known = filters in ([library.h5z.FILTER_DEFLATE], [library.h5z.FILTER_SHUFFLE, library.h5z.FILTER_DEFLATE])
        if not is_known or dataset.dtype.kind not in "iuf" or dataset.chunks[1:] != dataset.shape[1:]:
            return None
        kind = library.h5t.py_create(dataset.dtype, logical=True)
        return cls(dataset, len(filters) > 1) if dataset.id.get_type().equal(kind) else None

    def read(self, first: int, end: int) -> NDArray[Any] | None:
        """Return the rows `[first, end)`; `None` if h5py must read them: it knows fill values, and reports damage."""
        size, rest = self.dataset.chunks[0], self.dataset.shape[1:]
        out = np.empty((end - first, *rest), self.dataset.dtype)
        for start in range(first // size * size, end, size):
            rows = self._chunk(start, size)
            if rows is None:
                return None
            begin, stop = max(first, start), min(end, start + size)
            out[begin - first : stop - first] = rows[begin - start : stop - start]
        return out

    def _chunk(self, start: int, size: int) -> NDArray[Any] | None:
        dataset, library = self.dataset, fast_library("isal.isal_zlib")
        n_bytes = size * dataset.dtype.itemsize * int(np.prod(dataset.shape[1:]))
        try:
            with importlib.import_module("h5py._objects").phil:  # this call alone takes no lock itself
                skipped, stored = dataset.id.read_direct_chunk((start, *(0 for _ in dataset.shape[1:])))
            state = library.decompressobj(WBITS["zlib"])
            content = state.decompress(stored, n_bytes + 1)
        except (OSError, RuntimeError, ValueError, KeyError, library.error):
            return None
        if skipped or not state.eof or len(content) != n_bytes:
            return None
        if self.is_shuffled:
            content = np.frombuffer(content, np.uint8).reshape(dataset.dtype.itemsize, -1).T.tobytes()
        return np.frombuffer(content, dataset.dtype).reshape(size, *dataset.shape[1:])
