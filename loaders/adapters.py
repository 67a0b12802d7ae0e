"""Sources for the loader from any sequence with `len` and `[]`: a list, an array, a Grain source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import RecordBatch
from dataformats.interfaces.record_source import OnCorrupt, RecordSource
from dataformats.interfaces.source_facts import Origin
from dataformats.reading.scan import as_indices, as_numbers
from dataformats.reading.views import batch_of
from dataformats.spec import VALUE

_FIXED_RECORDS = 64


class Readable(Protocol):
    """The part of a source that the loader uses. Thread-safe; must pickle for worker processes."""

    @property
    def fingerprint(self) -> str:
        """A digest that differs for other records."""
        ...

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        """Return the fingerprint that the source had with its first `n` records alone, or `None` if unknown."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any:
        """Return one record."""
        ...

    def read(self, indices: NDArray[np.int64], *, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        """Return these records, in this order."""
        ...

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        """Return file and index of each of these records: see `RecordSource.origins`."""
        ...


def as_readable(data: Any) -> Readable:
    """Return a source itself, or a sequence as a source.

    Raises:
        TypeError: `data` is neither.
    """
    if isinstance(data, RecordSource):
        return data
    if isinstance(data, (str, bytes)):
        raise TypeError(f"expected a source or a sequence of records, found {data!r}. Open files with dataformats.open")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__") or isinstance(data, Mapping):
        raise TypeError(f"expected a source or a sequence of records, found {type(data).__name__}")
    return _Items(data)


class _Items:
    """The items of a sequence, as records."""

    def __init__(self, items: Any) -> None:
        self._items = items

    @property
    def fingerprint(self) -> str:
        """A digest of the number of items, and of 64 of them at fixed indices, as far as they are plain values."""
        return self.fingerprint_of_first(len(self))

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str:
        """Return the fingerprint of the first `n` items alone."""
        state = hashlib.blake2b(str(n).encode(), digest_size=16)
        if isinstance(self._items, np.ndarray):
            state.update(repr((self._items.dtype.str, (n, *self._items.shape[1:]))).encode())
        for index in sorted({place * n // _FIXED_RECORDS for place in range(_FIXED_RECORDS)} if n else ()):
            _digest(state.update, self._items[index])
        return state.hexdigest()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        return self.read(np.array([index]))[0]

    def read(self, indices: NDArray[np.int64], *, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        """Return these items. An item that raises does so with any `on_corrupt`."""
        numbers = as_indices(indices, len(self))
        if isinstance(self._items, np.ndarray):
            return RecordBatch({VALUE: self._items[numbers]}, numbers, single=True)
        several = getattr(self._items, "__getitems__", None)
        wanted = numbers.tolist()
        return batch_of(several(wanted) if several else [self._items[index] for index in wanted], numbers, {})

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        """Return the indices: items have no files."""
        return [Origin("", index) for index in as_numbers(indices).tolist()]


def _digest(update: Callable[[bytes], None], value: Any) -> None:
    """Digest a value, so that equal ones agree in any process; only the type of an unknown value counts."""
    update(type(value).__name__.encode() + b"\0")
    if isinstance(value, np.ndarray) and value.dtype != object:
        update(repr((value.dtype.str, value.shape)).encode() + value.tobytes())
    elif isinstance(value, (bytes, bytearray)):
        update(len(value).to_bytes(8, "little") + value)
    elif isinstance(value, (str, int, float, complex, bool, np.generic, type(None))):
        update(repr(value).encode(errors="surrogatepass") + b"\0")
    elif isinstance(value, Mapping):
        update(len(value).to_bytes(8, "little"))
        for name in sorted(value, key=repr):
            _digest(update, name)
            _digest(update, value[name])
    elif isinstance(value, Sequence):
        update(len(value).to_bytes(8, "little"))
        for item in value:
            _digest(update, item)
