"""`File`: items of named arrays."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from dataformats import DatasetWriter, Spec
from dataformats.errors import CorruptRecordError, SpecError, UnknownNameError
from dataformats.internals import OutputSchema, WriteOptions, arguments_of, writer
from dataformats_compat.syrah._hl.serialization import deserialize_array, serialize_array

__all__ = ["ArrayNamesError", "File", "UnknownArrayError"]


class UnknownArrayError(UnknownNameError, KeyError):
    """The items of a file have no array of this name."""


class ArrayNamesError(SpecError, KeyError):
    """An item has other arrays than the items before it."""


class File:
    """A file of items: each has the same named arrays, of any lengths.

    In mode `"w"`, the file appears at `close`. In mode `"r"`, it is thread-safe, picklable, and usable in a forked
    process.

    Args:
        file_path: The file.
        mode: `"r"` to read it, `"w"` to write a new one, which replaces an existing one.

    Raises:
        FileNotFoundError: There is no such file to read.
        FormatError: It is damaged, or no Syrah file; it is a `ValueError`.
        ValueError: There is no such mode.

    Example:
        >>> from dataformats_compat.syrah import File
        >>> with File("tests/golden/syrah/base.syr", "r") as syr:
        ...     syr.num_items(), syr.get_array(2, "id")
        (6, array([2], dtype=int32))
    """

    def __init__(self, file_path: str | os.PathLike[str], mode: str) -> None:
        self._items: _StoredItems | _NewItems | None = None
        self._closed = True
        self.open(file_path, mode)

    def open(self, file_path: str | os.PathLike[str], mode: str) -> None:
        """Close this file and open a file. Processes that were forked may call it, but need not.

        The same file, if it has not changed, keeps its tables in memory, which forked processes share.
        """
        if mode not in ("r", "w"):
            raise ValueError(f"expected the mode 'r' or 'w', found {mode!r}")
        self.close()
        if mode == "w":
            self._items = _NewItems(file_path)
        elif not (isinstance(self._items, _StoredItems) and self._items.version == _version_of(file_path)):
            self._items = _StoredItems(file_path)
        self._file_path, self._mode, self._closed = file_path, mode, False

    def close(self) -> None:
        """Close the file; in mode `"w"`, complete it first.

        Raises:
            ValueError: No item was added, so the arrays have no names.
        """
        if not self._closed:
            self._closed = True
            assert self._items is not None
            self._items.close()

    def add_item(self, item: Mapping[str, NDArray[Any]]) -> None:
        """Append an item.

        Args:
            item: Name to array, of any shape; the file stores the values alone. Strings are joined. Each item has the
                names and dtypes of the first.

        Raises:
            ArrayNamesError: It has other arrays than the items before; it is a `KeyError`.
            OSError: The file is closed, or open for reading.
            TypeError: The format has no such dtype.
            ValueError: A value is no `ndarray`, or a dtype differs from the earlier items.
        """
        items = self._items
        if self._closed or not isinstance(items, _NewItems):
            raise self._wrong_state("w")
        items.append(item)

    def get_item(self, index: SupportsIndex) -> dict[str, NDArray[Any]]:
        """Return an item: name to array, of one dimension and writable; text is an array of one string.

        Raises:
            FormatError: The item is damaged.
            IndexError: There is no such item.
            OSError: The file is closed, or open for writing.
        """
        items = self._stored
        return dict(zip(items.dtypes, items.arrays(index, items.names), strict=True))

    def get_array(self, index: SupportsIndex, array_name: str, dtype: str | None = None) -> NDArray[Any]:
        """Return one array of an item.

        Args:
            index: The number of the item.
            array_name: The name of the array.
            dtype: Read the bytes as another dtype.

        Raises:
            TypeError: The format has no such `dtype`.
            UnknownArrayError: There is no array of this name; it is a `KeyError`. Further errors as of `get_item`.
        """
        items = self._stored
        if dtype:
            return deserialize_array(items.blobs(index, (array_name,))[0], dtype)
        return items.arrays(index, (array_name,))[0]

    def get_arrays(self, index: SupportsIndex, names: tuple[str, ...]) -> tuple[NDArray[Any], ...]:
        """Return some arrays of an item, read together: not in the original."""
        return tuple(self._stored.arrays(index, names))

    def read_arrays(self, indices: Sequence[int], names: tuple[str, ...]) -> list[tuple[NDArray[Any], ...]]:
        """Return some arrays of several items, read together: not in the original."""
        return self._stored.rows(indices, names)

    def num_items(self) -> int:
        """Return the number of items."""
        assert self._items is not None
        return len(self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or self.num_items():
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._mode != "r":
            raise TypeError(f"cannot pickle {os.fspath(self._file_path)!r}, which is open for writing")
        return File, (self._file_path, self._mode)

    @property
    def _metadata(self) -> SimpleNamespace:
        """The names of the arrays: the original has no public way to list them, so code uses this one."""
        assert self._items is not None
        return SimpleNamespace(metadata={name: {"dtype": dtype} for name, dtype in self._items.dtypes.items()})

    @property
    def _stored(self) -> _StoredItems:
        items = self._items
        if self._closed or not isinstance(items, _StoredItems):
            raise self._wrong_state("r")
        return items

    def _wrong_state(self, mode: str) -> OSError:
        found = "it is closed" if self._closed else f"expected mode {mode!r}, found {self._mode!r}"
        return OSError(f"cannot {'read' if mode == 'r' else 'add'} an item of {os.fspath(self._file_path)!r}: {found}")


class _StoredItems:
    """The items of a file.

    Attributes:
        version: Identifies the file, and that it is unchanged.
        dtypes: Array name to the dtype in the file.
        names: The names of the arrays.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.version = _version_of(path)
        self._blobs = arguments_of([path], format="syrah", max_record_bytes=_NO_LIMIT).open_blobs()
        stored = self._blobs.reader.stored_spec
        self.dtypes: dict[str, str] = {name: kind.codec for name, kind in (stored or {}).items()}
        self.names = tuple(self.dtypes)
        self._source = self._blobs.with_spec({name: _type_of(dtype) for name, dtype in self.dtypes.items()})

    def __len__(self) -> int:
        return len(self._source)

    def arrays(self, index: SupportsIndex, names: tuple[str, ...]) -> list[NDArray[Any]]:
        """Return some arrays of an item."""
        blobs = self.blobs(index, names)
        return [self._array(blob, name, index) for blob, name in zip(blobs, names, strict=True)]

    def _array(self, blob: Any, name: str, index: SupportsIndex) -> NDArray[Any]:
        try:
            return deserialize_array(blob, self.dtypes[name])
        except (TypeError, ValueError) as error:  # the name of the dtype, or the bytes
            what = f"array {name!r} is not of its dtype: {error}"
            raise CorruptRecordError(what, path=self.version[0], index=operator.index(index)) from error

    def rows(self, indices: Sequence[int], names: tuple[str, ...]) -> list[tuple[NDArray[Any], ...]]:
        """Return some arrays of several items, read together."""
        self._check_names(names)
        batch = self._source.read(indices, names)
        texts = {name: [np.array([text]) for text in batch[name]] for name in names if self.dtypes[name] == "str"}
        return list(zip(*(texts.get(name) or batch[name] for name in names), strict=True))

    def blobs(self, index: SupportsIndex, names: tuple[str, ...]) -> list[Any]:
        """Return the bytes of some arrays of an item."""
        self._check_names(names)
        number = operator.index(index)
        if not 0 <= number < len(self._source):
            raise IndexError(f"item {number} is out of range for {len(self._source)} items of {self.version[0]!r}")
        return self._blobs.stored_record(number, names)

    def close(self) -> None:
        self._source.close()

    def _check_names(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self.dtypes:
                raise UnknownArrayError("array", name=name, known=self.dtypes)


class _NewItems:
    """The items of a new file, which begins with the first of them.

    Attributes:
        dtypes: Array name to the dtype in the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._writer: DatasetWriter | None = None
        self._n = 0
        self.dtypes: dict[str, str] = {}

    def __len__(self) -> int:
        return self._n

    def append(self, item: Mapping[str, NDArray[Any]]) -> None:
        """Append an item."""
        for name, array in item.items():
            if type(name) is not str or type(array) is not np.ndarray:
                raise ValueError(f"expected names and numpy arrays, found {name!r}: {type(array).__name__}")
        stored = {name: serialize_array(array) for name, array in item.items()}
        dtypes = {name: dtype for name, (_, dtype) in stored.items()}
        if self._writer is None:
            self._writer = _begin(self._path, dtypes)
            self.dtypes = dtypes
        self._check(dtypes)
        self._writer.append({name: [blob] for name, (blob, _) in stored.items()})
        self._n += 1

    def close(self) -> None:
        if self._writer is None:
            raise ValueError(f"cannot complete {os.fspath(self._path)!r}: expected an item, which names the arrays")
        self._writer.close()

    def _check(self, dtypes: Mapping[str, str]) -> None:
        if dtypes == self.dtypes:
            return
        path = os.fspath(self._path)
        if dtypes.keys() != self.dtypes.keys():
            what = f"expected the arrays {', '.join(self.dtypes)}, found {', '.join(dtypes)}"
            raise ArrayNamesError(what, index=self._n, path=path)
        name = next(name for name, dtype in dtypes.items() if dtype != self.dtypes[name])
        what = f"expected {self.dtypes[name]}, as in the items before, found {dtypes[name]}"
        raise SpecError(what, field=name, index=self._n, path=path)


_NO_LIMIT = 2**62  # no array is longer than its file


def _type_of(dtype: str) -> str:
    return "utf8" if dtype == "str" else f"{dtype}[]"


def _begin(path: str | os.PathLike[str], dtypes: Mapping[str, str]) -> DatasetWriter:
    spec = Spec({name: _type_of(dtype) for name, dtype in dtypes.items()})
    schema = OutputSchema("syrah", None, spec, {})
    schema.needs_sidecar = False  # it would hold nothing that the file does not
    return writer(path, schema, lambda blobs: blobs, WriteOptions(overwrite=True))


def _version_of(path: str | os.PathLike[str]) -> tuple[str, int, int, int]:
    about = os.stat(path)
    return os.fspath(path), about.st_ino, about.st_size, about.st_mtime_ns
