"""Arrow IPC (`.arrow`, `.feather`), files and streams, also as `datasets.save_to_disk` writes them. By pyarrow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.backends.tables.arrow_errors import damage_of_arrow
from dataformats.backends.tables.arrow_messages import CONTINUES, MAGIC, Message, is_file, messages_of, n_arrays
from dataformats.backends.tables.common_spec import common_spec, default_types
from dataformats.backends.tables.decoded_sizes import bytes_of_repeated, check_decoded_size
from dataformats.backends.tables.hugging_face import INFO, empty_stream
from dataformats.backends.tables.stored_types import StoredSchema, stored_type
from dataformats.batch import Column
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import columns_of_arrow, holds_type
from dataformats.errors import FormatError
from dataformats.indexing.files_table import FileBlock, FilesTable
from dataformats.interfaces import FieldsBackend, Folder, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.file_object import FileObject
from dataformats.writing.table_writer import TableWriter

_STATE = "state.json"  # lists the files of a dataset of Hugging Face
_MAX_STATE_BYTES = 2**24
_CACHE = re.compile(r"cache-[0-9a-f]{16}(_\d+_of_\d+)?\.arrow")  # what `map` of `datasets` made of the data
_WHOLE = -1
_MAX_SCHEMA_BYTES = 2**20


class ArrowTable(FilesTable):
    """The rows of Arrow IPC files whose columns have the same names and types. A block is a record batch.

    A field is optional if a row lacks it, by the headers of the batches.

    Args:
        declared: The types of the call: see `common_spec`.
        max_record_bytes: A batch with more bytes in memory than an eighth is an error, unless its file is large.
    """

    def __init__(self, files: Sequence[StoredFile], declared: Spec | None, max_record_bytes: int) -> None:
        self._max_record_bytes = max_record_bytes
        self._places: list[list[int]] = []  # where the batches of each file lie: see `_read`
        self._schemas: list[Any] = []
        block_rows, lacking, n_bytes = list[list[int]](), set[str](), 0
        for file in files:
            with damage_of_arrow(file):
                schema = _schema_of(file)
                batches = _batches(file, schema, max_record_bytes)
                for place, batch in batches:
                    # Many are sound for nulls and runs; none may be a damaged header, which pyarrow verifies.
                    if not 0 < batch.n_records <= 8 * file.size:
                        _read(file, place, schema).validate()
                    if batch.n_records:
                        n_bytes += batch.n_bytes
                        lacking |= _lacking(schema, batch)
            self._schemas.append(schema)
            self._places.append([place for place, _ in batches])
            block_rows.append([batch.n_records for _, batch in batches])
        with damage_of_arrow(files[0], "the schema"):
            spec = common_spec(files, self._schemas, lacking, declared)
        super().__init__(files, [spec], block_rows, n_bytes)
        self.default_types: Mapping[str, Type] = default_types(self._schemas, self.spec)

    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        file = self.files[block.file]
        with damage_of_arrow(file, f"record batch {block.number}"):
            rows = _read(file, self._places[block.file][block.number], self._schemas[block.file])
            rows.validate(full=True)  # damaged offsets must not be followed
            part, known = f"record batch {block.number}", [name for name in fields if name in rows.schema.names]
            check_decoded_size(file, part, bytes_of_repeated(map(rows.column, known)), self._max_record_bytes)
            return columns_of_arrow(rows, self.spec, fields)


def _schema_of(file: StoredFile) -> Any:
    arrow = pyarrow()
    source = arrow.PythonFile(FileObject(file), "r")
    return arrow.ipc.open_file(source).schema if is_file(file) else arrow.ipc.read_schema(source)


def _lacking(schema: Any, batch: Message) -> set[str]:
    """Return the fields that a row of a batch lacks: all of them if its header has other arrays than the schema."""
    arrays = np.array([n_arrays(field.type) for field in schema], np.int64)
    if arrays.sum() != len(batch.nulls):
        return {*schema.names}
    return {name for name, n in zip(schema.names, batch.nulls[np.cumsum(arrays) - arrays].tolist(), strict=True) if n}


def _batches(file: StoredFile, schema: Any, max_record_bytes: int) -> list[tuple[int, Message]]:
    """Return the record batches of a file, each with its place: see `_read`."""
    messages = list(messages_of(file))
    # In a stream, a batch needs the dictionaries before it.
    is_whole = not is_file(file) and any(holds_type(field.type, pyarrow().types.is_dictionary) for field in schema)
    sizes = np.array([message.n_bytes for message in messages], np.int64)
    for message, n_bytes in zip(messages, np.cumsum(sizes) if is_whole else sizes, strict=True):
        check_decoded_size(file, f"the message at byte {message.place}", int(n_bytes), max_record_bytes)
    batches = [message for message in messages if message.is_batch]
    if is_whole:
        n_records, nulls = sum(batch.n_records for batch in batches), np.sum([batch.nulls for batch in batches], axis=0)
        return [(_WHOLE, Message(0, file.size, True, n_records, nulls, int(sizes.sum())))]
    return list(enumerate(batches)) if is_file(file) else [(batch.place, batch) for batch in batches]


def _read(file: StoredFile, place: int, schema: Any) -> Any:
    """Return a batch of a file by its number, a batch of a stream by its offset, or the whole stream as a table."""
    arrow = pyarrow()
    source = arrow.PythonFile(FileObject(file), "r")
    if is_file(file):
        return arrow.ipc.open_file(source).get_batch(place)
    if place == _WHOLE:
        return arrow.ipc.open_stream(source).read_all()
    source.seek(place)
    return arrow.ipc.read_record_batch(arrow.ipc.read_message(source), schema)


def _is_schema(message: bytes) -> bool:
    """True if a message of a stream, a flatbuffer, has a schema: in the table at its root, the field 1 is 1.

    Programs lay out the flatbuffer in different ways: pyarrow has the root at byte 16, and Polars at byte 8.
    """
    try:
        root = int.from_bytes(message[:4], "little")
        offsets = root - int.from_bytes(message[root : root + 4], "little", signed=True)  # a table
        field = int.from_bytes(message[offsets + 6 : offsets + 8], "little")
        return offsets >= 0 and field > 0 and message[root + field] == 1
    except IndexError:
        return False


def _listed(state: StoredFile, names: Sequence[str]) -> list[str] | None:
    """Return the files that the state of a dataset of Hugging Face lists; `None` if a file is no such state.

    Raises:
        FormatError: The state is damaged, or lists a file that is not beside it.
    """
    try:
        found = json.loads(state.read_all(_MAX_STATE_BYTES))
        listed = [str(entry["filename"]) for entry in found["_data_files"]] if "_data_files" in found else None
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        what, remedy = "the list of files is damaged", "Open the files by a glob, such as data-*.arrow"
        raise FormatError(what, path=state.name, found=str(error)[:200], remedy=remedy) from error
    missing = [name for name in listed or () if name not in names]
    if missing:
        raise FormatError("a listed file is not beside it", path=state.name, expected=missing[0])
    return listed


class ArrowWriter(TableWriter):
    """Writes one Arrow IPC file, and a record batch for each block."""

    def __init__(self, path: Path, schema: StoredSchema, compression: str, block_records: int | None) -> None:
        arrow = pyarrow()
        super().__init__(path, schema.stored, block_records)
        self._schema = schema
        options = arrow.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._writer = arrow.ipc.new_file(self._file, self._schema.schema, options=options)

    def write_block(self, columns: Mapping[str, Column], n: int) -> None:
        self._writer.write_batch(self._schema.batch(columns))

    def finish(self) -> None:
        self._writer.close()


class ArrowBackend(FieldsBackend):
    """Arrow IPC."""

    name = "arrow"
    suffixes: tuple[str, ...] = (".arrow", ".feather", ".ipc")
    compressions: tuple[str, ...] = ("lz4", "zstd")
    has_checked_header = True
    copies_records = False
    stores_full_spec = False
    stores_optional_fields = True

    def find(self, folder: Folder) -> list[StoredFile]:
        names, found = folder.names(), super().find(folder)
        is_dataset = _STATE in names and (bool(found) or INFO in names)
        listed = _listed(folder.file(_STATE), names) if is_dataset else None
        if listed == [] and INFO in names:
            return [empty_stream(folder.file(INFO))]
        if listed is not None:
            return folder.files(listed)
        data = [file for file in found if not _CACHE.fullmatch(file.basename)]
        return data if data and INFO in names else found

    def sniff(self, file: StoredFile) -> SniffResult:
        head = file.pread(0, 16)
        if head.startswith(MAGIC):
            is_whole = file.size > 2 * len(MAGIC) and file.pread(file.size - len(MAGIC), len(MAGIC)) == MAGIC
            return SniffResult("yes") if is_whole else SniffResult("damaged", "it does not end with ARROW1")
        if head.startswith(CONTINUES) and _is_schema(file.pread(8, min(_MAX_SCHEMA_BYTES, file.size - 8))):
            return SniffResult("yes")
        return SniffResult("no", "it begins neither with ARROW1 nor with a message of a stream")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> ArrowTable:
        return ArrowTable(files, options.spec, options.max_record_bytes)

    def stored_type(self, type_: Type) -> Type:
        return stored_type(type_)

    def create(
        self,
        path: Path,
        *,
        stored: Spec,
        resume: bool = False,
        compression: str = "none",
        batch_records: int | None = None,
        **_: Any,
    ) -> ArrowWriter:
        """Return a writer.

        Args:
            resume: The file begins anew: without its footer it cannot be read at random.
            compression: The codec of buffers: `"lz4"`, `"zstd"` or `"none"`.
            batch_records: Records of a record batch; `None`: about 8 MiB of values.
        """
        return ArrowWriter(path, StoredSchema(stored, dictionaries=False), compression, batch_records)


BACKEND = ArrowBackend()
