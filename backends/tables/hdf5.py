"""HDF5 (`.h5`, `.hdf5`), decoded by h5py. A field is a dataset; a block is some chunks along the first axis."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tables.arrays_of_rows import check_block, names_of, packing, rows_of_block
from dataformats.backends.tables.hdf5_fields import Hdf5Field, fields_of
from dataformats.backends.tables.hdf5_rows import Hdf5Rows, stored_rows
from dataformats.batch import Column
from dataformats.errors import DataFormatsError, FormatError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.files_table import FileBlock, FilesTable
from dataformats.indexing.union_reader import union_of_readers
from dataformats.indexing.union_table import tables_by_fields, union_of_tables
from dataformats.interfaces import (
    Backend,
    BadRowsError,
    BlockTable,
    Reader,
    ReaderOptions,
    SniffResult,
    StoredFile,
    damage_of,
)
from dataformats.optional_imports import import_extra
from dataformats.spec import Spec
from dataformats.storage.file_object import FileObject
from dataformats.storage.threads import for_each

_TOGETHER_BYTES = 32 * 2**20  # threads decompress blocks of so many bytes at once
_DAMAGE = (OSError, RuntimeError, ValueError, TypeError, KeyError)  # errors of h5py
_MAGIC = b"\x89HDF\r\n\x1a\n"
_USER_BLOCKS = (0, *(512 << power for power in range(12)))  # places of the magic number: HDF5 File Format, II.A


class Hdf5Table(FilesTable):
    """The rows of the datasets of HDF5 files. Thread-safe; a forked child opens the files again.

    Args:
        files: The files; they can be read if they have the same fields.
        names: The datasets to read, or groups of them; `None`: all.
        max_block_bytes: The most bytes of a block.
    """

    def __init__(self, files: Sequence[StoredFile], names: Sequence[str] | None, max_block_bytes: int) -> None:
        self._given, self._names = files, names
        self._places: dict[tuple[int, str], NDArray[np.int64]] = {}
        self._forget()
        after_fork(self, "_forget")
        specs, block_rows, n_bytes = list[Spec](), list[NDArray[np.int64]](), 0
        for number, file in enumerate(files):
            fields = self._fields(number)
            specs.append(Spec({name: field.type for name, field in fields.items()}))
            n = len(next(iter(fields.values())).dataset)
            row_bytes = sum(field.row_bytes for field in fields.values())
            chunk = max((field.dataset.chunks or (0,))[0] for field in fields.values())
            rows = rows_of_block(chunk, n, row_bytes)
            check_block(min(rows, n), row_bytes, file.size, max_block_bytes, file)
            block_rows.append(np.diff(np.append(np.arange(0, n, rows), n)))
            if any(field.is_deflated for field in fields.values()):
                self.blocks_together: int = max(1, _TOGETHER_BYTES // max(1, rows * row_bytes))
            n_bytes += n * row_bytes
        super().__init__(files, specs, block_rows, n_bytes)
        self.left_out: Mapping[str, DataFormatsError] = self._opened[0][1]

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._opened: dict[int, tuple[dict[str, Hdf5Field], dict[str, DataFormatsError]]] = {}

    def _fields(self, number: int) -> dict[str, Hdf5Field]:
        """Return the fields of a file; opens it if it is not open."""
        with self._lock:
            if number not in self._opened:
                self._opened[number] = _opened(self._given[number], self._names)
            return self._opened[number][0]

    def metadata(self) -> dict[str, str]:
        return packing({name: field.dataset.attrs for name, field in self._fields(0).items()})

    def in_place(self) -> Hdf5Rows | None:
        """Return a reader of the same rows, if no field needs h5py."""
        try:
            rows = [
                {name: found for name, field in self._fields(number).items() if (found := stored_rows(field))}
                for number in range(len(self.files))
            ]
        except _DAMAGE:
            return None  # the file is damaged: blocks find the records
        if any(len(of_file) < len(self.spec) for of_file in rows):
            return None
        reader = Hdf5Rows(self.files, rows, self.places, self.metadata())
        reader.left_out = self.left_out
        self._opened.clear()  # closes the files
        return reader

    def places(self, number: int, name: str) -> NDArray[np.int64]:
        """Return the byte of each chunk of a field of a file. The first call opens the file, and lists its chunks."""
        with self._lock:
            if (number, name) not in self._places:
                with damage_of(self.files[number], _DAMAGE, f"the list of chunks of {name!r}"):
                    chunks = self._fields(number)[name].chunks
                    if chunks is None:
                        raise ValueError("it is another file now")
                    self._places[number, name] = chunks.places()
                self._opened.clear()
            return self._places[number, name]

    def read_blocks(self, blocks: Sequence[int], fields: Sequence[str]) -> Sequence[Mapping[str, Column]]:
        if len(blocks) == 1:  # no other thread is woken
            return super().read_blocks(blocks, fields)
        found = dict[int, Mapping[str, Column]]()
        for_each(lambda number: found.update({number: self.read_block(blocks[number], fields)}), len(blocks))
        return [found[number] for number in range(len(blocks))]

    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        known, failed = self._fields(block.file), dict[int, DataFormatsError]()
        stored = dict[str, NDArray[Any]]()  # the members of a compound are read at once
        for name in fields:
            field, path = known[name], known[name].dataset.name
            if path not in stored:
                parts = self._parts(field, block, failed)
                stored[path] = parts[0] if len(parts) == 1 else np.concatenate(parts)
            texts = field.text_errors(stored[path], name)
            failed = {block.first + row: error for row, error in texts.items()} | failed
        if failed:
            sound = [row for row in range(block.end - block.first) if block.first + row not in failed]
            stored = {path: rows[sound] for path, rows in stored.items()}
        columns = {name: known[name].column(stored[known[name].dataset.name]) for name in fields}
        if failed:
            raise BadRowsError(columns, {row - block.first: error for row, error in failed.items()})
        return columns

    def _parts(self, field: Hdf5Field, block: FileBlock, failed: dict[int, DataFormatsError]) -> list[NDArray[Any]]:
        """Return the rows of a block, in parts if it is damaged; `failed` gets the errors of rows without values."""
        try:
            part = f"rows {block.first} to {block.end - 1} of {field.dataset.name!r}"
            with damage_of(self.files[block.file], (*_DAMAGE, MemoryError), part):
                return [field.rows(block.first, block.end)]
        except FormatError as error:
            size = field.damaged_together
            middle = max(block.first // size + 1, (block.first + block.end) // 2 // size) * size
            if middle < block.end:
                halves = block._replace(end=middle), block._replace(first=middle)
                return [part for half in halves for part in self._parts(field, half, failed)]
            failed.update(dict.fromkeys(range(block.first, block.end), error))
            return [np.empty((block.end - block.first, *field.dataset.shape[1:]), field.dataset.dtype)]


def _opened(file: StoredFile, names: Sequence[str] | None) -> tuple[dict[str, Hdf5Field], dict[str, DataFormatsError]]:
    library = import_extra("h5py", "HDF5", "hdf5")
    with damage_of(file, _DAMAGE):
        return fields_of(library.File(FileObject(file) if file.local is None else file.local, "r"), file, names)


class Hdf5Backend(Backend):
    """HDF5."""

    name = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5", ".hdf", ".he5")
    has_checked_header = True

    def sniff(self, file: StoredFile) -> SniffResult:
        known = _USER_BLOCKS if self.matches_name(file.basename) else _USER_BLOCKS[:1]  # each may be a request
        places = [place for place in known if place + len(_MAGIC) <= file.size]
        found = file.pread_many([(place, len(_MAGIC)) for place in places])
        return SniffResult("yes") if _MAGIC in found else SniffResult("no", "it has no magic number of HDF5")

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        fields: str | Sequence[str] | None = None,
        **_: Any,
    ) -> BlockTable | Reader:
        """Return a table, or a reader of rows if no dataset needs h5py.

        Args:
            fields: The datasets to read, or groups of them: a list, or their names with commas. `None`: all.

        Raises:
            SpecError: A dataset has several types, and no type has the values of all files.
        """
        tables = tables_by_fields(files, lambda run: Hdf5Table(run, names_of(fields), options.max_record_bytes))
        rows = [found for table in tables if (found := table.in_place()) is not None]
        return union_of_readers(rows, options) if len(rows) == len(tables) else union_of_tables(tables, options)


BACKEND = Hdf5Backend()
