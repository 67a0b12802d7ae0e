"""LMDB databases, read by py-lmdb. A record is a key and its value, in the order of the keys."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column, Ragged, concat_columns, take_column
from dataformats.columns.numbers import is_run, offsets_of
from dataformats.errors import FormatError, SpecError
from dataformats.fork_hooks import after_fork, cached_property
from dataformats.interfaces import Backend, ReaderOptions, RowTable, SniffResult, StoredFile
from dataformats.kernels.gather import gather_from
from dataformats.optional_imports import import_extra
from dataformats.spec import Spec

_MAGIC = b"\xde\xc0\xef\xbe"  # MDB_MAGIC in lmdb's mdb.c, behind the header of a page
_MAGIC_OFFSET = 16
_KEYS = 2**16  # that are joined at once
_DATABASE_BYTES, _SOME_KEYS, _MOST_NAMES = 48, 64, 8  # MDB_db; keys that may name databases; databases to name


class _Databases:
    """The open databases of this process by path: LMDB opens a database once in a process."""

    def __init__(self) -> None:
        self._opened: WeakValueDictionary[str, _Database] = WeakValueDictionary()
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    def get(self, file: StoredFile) -> _Database:
        if file.local is None:
            what = f"LMDB reads files of the local disk, found {file.name!r}"
            raise SpecError(what, remedy="Copy the database to the local disk.")
        path = os.path.realpath(file.local)
        with self._lock:
            found = self._opened.get(path)
            if found is None or found.identity != file.identity:
                found = self._opened[path] = _Database(file, path)
            return found


class _Database:
    """A database that is open to read. Usable after a fork: without locks it has no state of a process."""

    def __init__(self, file: StoredFile, path: str) -> None:
        self.file = file
        self.identity = file.identity
        library = import_extra("lmdb", "LMDB", "lmdb")
        self.errors = library.Error
        with self.damage():
            self.env = library.open(
                path, subdir=False, readonly=True, lock=False, create=False, readahead=False, max_dbs=_MOST_NAMES
            )
            needed = (self.env.info()["last_pgno"] + 1) * self.env.stat()["psize"]
            self.n = int(self.env.stat()["entries"])
        if needed > file.size:  # LMDB would end the process at the first page behind the end
            raise FormatError("the database is truncated", path=file.name, expected=f"{needed} bytes", found=file.size)
        if not 0 <= self.n <= file.size:
            raise FormatError("the number of records is wrong", path=file.name, offset_bytes=0, found=self.n)
        with self.damage():
            self._check_unnamed()

    def _check_unnamed(self) -> None:
        """Raise `SpecError` if the values are named databases, structs of LMDB, instead of records."""
        found = list[str]()
        with self.env.begin() as transaction:
            for key, value in itertools.islice(transaction.cursor(), _SOME_KEYS):
                if len(value) == _DATABASE_BYTES and len(found) < _MOST_NAMES:
                    with suppress(self.errors):  # else it is a value of as many bytes
                        self.env.open_db(key, txn=transaction, create=False)
                        found.append(key.decode("utf-8", "backslashreplace"))
        if found:
            what = f"{self.file.name!r} holds named databases, which are not read: {', '.join(found)}"
            raise SpecError(what, remedy=f"Copy one to a file of its own: mdb_dump -n -s {found[0]} | mdb_load -n.")

    @contextmanager
    def damage(self) -> Iterator[None]:
        """Raise the errors of LMDB as a `FormatError`."""
        try:
            yield
        except self.errors as error:
            if "already open" in str(error):
                what = f"{self.file.name!r} is open in this process, and LMDB opens a database once"
                raise SpecError(what, remedy="Close the other `lmdb.Environment`.") from error
            raise FormatError(f"LMDB cannot read it: {error}", path=self.file.name) from error

    @cached_property
    def keys(self) -> Ragged:
        """The column of all keys. One pass over the database."""
        parts, lengths = list[bytes](), list[NDArray[np.int64]]()
        with self.damage(), self.env.begin() as transaction:
            self._snapshot_of_keys = transaction.id()
            if self.env.open_db(None, txn=transaction).flags(transaction)["dupsort"]:
                raise SpecError(f"{self.file.name!r} has several values for a key")
            keys = transaction.cursor().iternext(keys=True, values=False)
            while chunk := list(itertools.islice(keys, _KEYS)):
                parts.append(b"".join(chunk))
                lengths.append(np.array([len(key) for key in chunk], np.int64))
        offsets = offsets_of(np.concatenate([np.zeros(0, np.int64), *lengths]))
        if len(offsets) - 1 != self.n:
            what, found = "the number of keys is wrong", len(offsets) - 1
            raise FormatError(what, path=self.file.name, expected=self.n, found=found)
        return Ragged(np.frombuffer(b"".join(parts), np.uint8), offsets, "bytes")

    def values_of(self, keys: Sequence[bytes], *, neighbors: bool) -> Ragged:
        """Return the column of the values of keys, copied once, out of LMDB's pages.

        Args:
            keys: Some keys.
            neighbors: When the keys were scanned, no other ones lay between these.
        """
        found = list[Any]()
        with self.damage(), self.env.begin(buffers=True) as transaction:
            if neighbors and transaction.id() == self._snapshot_of_keys:  # no program has written since
                cursor = transaction.cursor()
                if cursor.set_key(keys[0]):
                    found = list(itertools.islice(cursor.iternext(keys=False), len(keys)))
            if len(found) != len(keys):
                found = list(map(transaction.get, keys))
            if None in found:
                what = f"the key {keys[found.index(None)]!r} has no value"
                raise FormatError(what, path=self.file.name)
            lengths = np.fromiter(map(len, found), np.int64, len(found))
            values, offsets = gather_from(found, np.arange(len(found)), np.zeros(len(found), np.int64), lengths)
            return Ragged(values, offsets, "bytes")


_DATABASES = _Databases()


class LmdbTable(RowTable):
    """The records of LMDB databases: `key` and `value`, both bytes. The first read scans the keys.

    Args:
        files: The data file of each database.
    """

    spec = Spec({"key": "bytes", "value": "bytes"})

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files: Sequence[StoredFile] = files
        self._databases = [_DATABASES.get(file) for file in files]
        self.counts: NDArray[np.int64] = np.array([database.n for database in self._databases], np.int64)
        self.decoded_bytes: int = sum(file.size for file in files)

    def read(self, records: NDArray[np.int64], fields: Sequence[str]) -> Mapping[str, Column]:
        if len(self._databases) == 1:
            return _columns(self._databases[0], records, fields)
        starts = offsets_of(self.counts)
        owner = np.searchsorted(starts, records, side="right") - 1
        order = np.argsort(owner, kind="stable")
        numbers = np.unique(owner).tolist() or [0]
        parts = [_columns(self._databases[one], records[owner == one] - starts[one], fields) for one in numbers]
        rows = np.argsort(order, kind="stable")
        return {name: take_column(concat_columns([part[name] for part in parts]), rows) for name in fields}


def _columns(database: _Database, records: NDArray[np.int64], fields: Sequence[str]) -> dict[str, Column]:
    keys, neighbors = database.keys.take(records), len(records) > 1 and is_run(records)
    return {name: database.values_of(list(keys), neighbors=neighbors) if name == "value" else keys for name in fields}


class LmdbBackend(Backend):
    """LMDB: a folder with `data.mdb`, or one file."""

    name = "lmdb"
    suffixes: tuple[str, ...] = (".lmdb", ".mdb")
    has_checked_header = True
    key_field = "key"

    def matches_name(self, name: str) -> bool:
        return name.endswith(self.suffixes) and name != "lock.mdb"

    def sniff(self, file: StoredFile) -> SniffResult:
        return SniffResult.of_magic(file, _MAGIC, _MAGIC_OFFSET)

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> LmdbTable:
        return LmdbTable(files)


BACKEND = LmdbBackend()
