"""Decompresses chunks of HDF5 datasets with ISA-L: twice as fast as HDF5, and in threads."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dataformats.storage.compressed.decompressor import WBITS, fast_library


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
