"""Base class of readers whose records have fields, each one blob, and whose files hold no table of them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, SpecError
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.indexing.file_index import FileIndex
from dataformats.indexing.index_cache import IndexCache
from dataformats.indexing.lookup import RecordsByFile, split_by_file
from dataformats.interfaces import Check, Extents, Located, Reader, ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import NUMBER_TYPES, Spec, Type
from dataformats.storage.threads import threads_for

_LOG = logging.getLogger("dataformats")
_ROW = "record"  # a column of zeros, which takes no space: a file may have records and no fields


@dataclass(frozen=True, slots=True)
class FieldsIndex:
    """Where the fields of the records of one file lie.

    Attributes:
        n_records: How many records there are.
        fields: Field to its extents, one for each record; the length is -1 if the record lacks the field.
        metadata: Further metadata of the file, as JSON, kept with the index.

    Example:
        >>> import numpy as np
        >>> from dataformats.interfaces import FieldsIndex
        >>> from dataformats.indexing.indexed_reader import FileIndex
        >>> index = FieldsIndex(2, {"text": FileIndex(np.array([8, 0]), np.array([5, -1]))})
        >>> index.fields["text"].length.tolist()
        [5, -1]
    """

    n_records: int
    fields: Mapping[str, FileIndex] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class IndexedFieldsReader(Reader):
    """A reader of files whose records have fields, each one blob: implement `build_index`.

    An index that takes a pass over its file is kept in the index cache, as TFRecord's is, unless it has problems. In
    memory it takes 16 bytes for each record and field. A field that a record lacks is of an optional type.

    Args:
        files: The files, in reading order.
        options: The options of `open`.
        kind: The kind of index, such as `"mine-1"`; an index of another kind is built anew. `None` keeps no index,
            because the files have a table.

    Attributes:
        head: Bytes before each blob that are read with it, for `check`.
        tail: Bytes behind each blob that are read with it, for `check`.
    """

    head: int = 0
    tail: int = 0

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, kind: str | None = None) -> None:
        self.files: Sequence[StoredFile] = list(files)
        self.options: ReaderOptions = options
        self._kind = kind
        self._cache = IndexCache(options.index)
        with threads_for(len(self.files), local=all(file.local is not None for file in self.files)) as threads:
            self._indexes = list(threads.map(self._load, self.files))
        self._counts = np.array([index.n_records for index in self._indexes], np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])
        names = dict.fromkeys(name for index in self._indexes for name in index.fields)
        self._lacking = frozenset(name for name in names if any(_lacks(index, name) for index in self._indexes))
        self.spec: Spec | None = Spec({name: self.type_of(name) for name in names})

    @abstractmethod
    def build_index(self, file: StoredFile) -> FieldsIndex:
        """Return the index of one file; called from several threads.

        If the rest of the file cannot be read, it is one more record, and every field of it has the problem.
        """

    @property
    def check(self) -> Check | None:
        """Verifies the blobs; `None` if they have no checksums or the caller turned verification off."""
        return None

    def type_of(self, field: str) -> Type:
        """Return the type of a field if no spec is declared: by default `bytes`, optional if a record lacks it."""
        return Type("bytes", optional=field in self._lacking)

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        where = split_by_file(self._starts, indices)
        return {name: self._located(name, where) for name in fields}

    def digest(self, update: Callable[[bytes], None]) -> None:
        for index in self._indexes:
            update(index.n_records.to_bytes(8, "little"))
            for name, extents in index.fields.items():
                update(name.encode())
                update(extents.digest.encode())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if each of its values is one blob.

        Raises:
            SpecError: Its values are sequences of blobs.
        """
        if declared.dims and declared.codec not in NUMBER_TYPES:
            raise SpecError(f"expected a type of one blob a record, found {declared}", field=field)
        return declared

    def present_fields(self, index: int) -> dict[str, bool | range]:
        """Return the fields that a record has."""
        where = split_by_file(self._starts, np.array([index], np.int64))
        found = {name: self._located(name, where) for name in self.spec or ()}
        return {name: True for name, located in found.items() if len(located.extents)}

    def _load(self, file: StoredFile) -> FieldsIndex:
        """Return the index of a file: the one that is kept, if it is of this very file, or a new one."""
        if self._kind is None:
            return self.build_index(file)
        kept = self._cache.load(file.stored, self._kind)
        if kept is not None and kept.exact:
            try:
                columns = kept.rows(0, len(kept)).columns
                fields = [str(name) for name in kept.metadata["fields"]]
                extents = {name: _extents(columns, at) for at, name in enumerate(fields)}
                return FieldsIndex(len(kept), extents, dict(kept.metadata["metadata"]))
            except (BrokenBlockError, LookupError, TypeError, ValueError) as error:
                _LOG.warning("ignored the index of %s: %s", file.name, error)
        index = self.build_index(file)
        if not any(extents.problems for extents in index.fields.values()):
            metadata = {"fields": list(index.fields), "metadata": dict(index.metadata)}
            self._cache.save(file.stored, self._kind, _columns(index), metadata)
        return index

    def _located(self, name: str, where: RecordsByFile) -> Located:
        n = len(where.local)
        offset, length = np.zeros(n, np.int64), np.full(n, -1, np.int64)
        stored: NDArray[np.uint32] | None = None
        problems: dict[int, FormatError] = {}
        for number, here in where.groups.items():
            extents = self._indexes[number].fields.get(name)
            if extents is None:
                continue
            records = where.local[here]
            offset[here], length[here] = extents.offset[records], extents.length[records]
            if extents.stored is not None:
                stored = np.zeros(n, np.uint32) if stored is None else stored
                stored[here] = extents.stored[records]
            if extents.problems:
                places = zip(np.arange(n)[here].tolist(), records.tolist(), strict=True)
                problems |= {place: extents.problems[record] for place, record in places if record in extents.problems}
        around = (self.head, self.tail, stored, self.check)
        if name not in self._lacking:
            return Located(Extents(where.file, offset, length, *around, problems))
        return _present(Extents(where.file, offset, length, *around, problems))


def _present(extents: Extents) -> Located:
    """Return the extents of the records that have the field, and 1 or 0 for each record."""
    there = extents.length >= 0
    new_place = np.cumsum(there) - 1
    stored = None if extents.stored is None else extents.stored[there]
    problems = {int(new_place[place]): error for place, error in extents.problems.items() if there[place]}
    where = (extents.file[there], extents.offset[there], extents.length[there])
    present = Extents(*where, extents.head, extents.tail, stored, extents.check, problems)
    return Located(present, there.astype(np.int64))


def _lacks(index: FieldsIndex, name: str) -> bool:
    extents = index.fields.get(name)
    return bool(index.n_records) if extents is None else bool((extents.length < 0).any())


def _columns(index: FieldsIndex) -> dict[str, NDArray[np.int64]]:
    """Return the columns of an index to keep: integers from 0 on, so lengths are one more."""
    columns = {_ROW: np.zeros(index.n_records, np.int64)}
    for at, extents in enumerate(index.fields.values()):
        columns |= {f"{at}.offset": extents.offset, f"{at}.length": extents.length + 1}
        if extents.stored is not None:
            columns[f"{at}.stored"] = extents.stored.astype(np.int64)
    return columns


def _extents(columns: Mapping[str, NDArray[np.int64]], number: int) -> FileIndex:
    stored = columns.get(f"{number}.stored")
    offset, length = columns[f"{number}.offset"].astype(np.int64), columns[f"{number}.length"].astype(np.int64) - 1
    return FileIndex(offset, length, None if stored is None else stored.astype(np.uint32))
