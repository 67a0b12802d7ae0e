"""Arrow IPC (`.arrow`, `.feather`), files and streams, also as `datasets.save_to_disk` writes them. By pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.tables.arrow_errors import damage_of_arrow
from dataformats.backends.tables.common_spec import common_spec, default_types
from dataformats.backends.tables.decoded_sizes import bytes_of_texts, check_decoded_size, message_bytes, message_places
from dataformats.backends.tables.hugging_face import INFO, empty_stream
from dataformats.backends.tables.stored_types import StoredSchema, stored_type
from dataformats.batch import Column
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import columns_of_arrow
from dataformats.errors import FormatError
from dataformats.indexing.files_table import FileBlock, FilesTable
from dataformats.interfaces import FieldsBackend, Folder, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.file_object import FileObject
from dataformats.writing.table_writer import TableWriter

_MAGIC = b"ARROW1"
_MESSAGE = b"\xff\xff\xff\xff"  # before the length of each message of a stream
_STATE = "state.json"  # lists the files of a dataset of Hugging Face
_MAX_STATE_BYTES = 2**24
_WHOLE = -1
_MAX_SCHEMA_BYTES = 2**20


class ArrowTable(FilesTable):
    """The rows of Arrow IPC files whose columns have the same names and types. A block is a record batch.

    A field is optional if a row lacks it. To know that, each batch is read once; without compression on the local disk,
    only its header is.

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
            self._places.append([])
            block_rows.append([])
            with damage_of_arrow(file):
                schema, batches = _scanned(file, max_record_bytes)
                self._schemas.append(schema)
                for place, rows in batches:
                    self._places[-1].append(place)
                    block_rows[-1].append(rows.num_rows)
                    if rows.num_rows:
                        n_bytes += rows.get_total_buffer_size()
                        lacking |= _lacking(rows, file)
        with damage_of_arrow(files[0], "the schema"):
            spec = common_spec(files, self._schemas, lacking, declared)
        super().__init__(files, [spec], block_rows, n_bytes)
        self.default_types: Mapping[str, Type] = default_types(self._schemas, self.spec)

    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        file = self.files[block.file]
        with damage_of_arrow(file, f"record batch {block.number}"):
            rows = _read(file, self._places[block.file][block.number], self._schemas[block.file])
            rows.validate(full=True)  # damaged offsets must not be followed
            part = f"record batch {block.number}"
            check_decoded_size(file, part, bytes_of_texts(rows.columns), self._max_record_bytes)
            return columns_of_arrow(rows, self.spec, fields)


def _lacking(rows: Any, file: StoredFile) -> set[str]:
    """Return the fields that a row lacks: all of them if the batch is damaged, so that its rows cannot be read."""
    names: list[str] = rows.schema.names
    try:
        rows.validate()  # pyarrow counts the nulls of a damaged batch outside of its buffers
    except pyarrow().ArrowInvalid:
        if rows.num_rows > 8 * file.size:
            raise
        return set(names)
    return {name for name, column in zip(names, rows.columns, strict=True) if column.null_count}


def _scanned(file: StoredFile, max_record_bytes: int) -> tuple[Any, Iterator[tuple[int, Any]]]:
    """Return the schema of a file, and its batches with their places: see `_read`."""
    arrow = pyarrow()
    # Mapped, the values of batches without compression are not read here.
    source = arrow.PythonFile(FileObject(file), "r") if file.local is None else arrow.memory_map(file.local)
    if _is_file(file):
        reader = arrow.ipc.open_file(source)
        for place in message_places(file):
            check_decoded_size(file, f"the message at byte {place}", message_bytes(file, place), max_record_bytes)
        return reader.schema, ((place, reader.get_batch(place)) for place in range(reader.num_record_batches))
    return arrow.ipc.read_schema(source), _batches_of_stream(file, source, max_record_bytes)


def _batches_of_stream(file: StoredFile, source: Any, max_record_bytes: int) -> Iterator[tuple[int, Any]]:
    arrow = pyarrow()
    source.seek(0)
    schema = arrow.ipc.open_stream(source).schema
    is_whole = any(arrow.types.is_dictionary(field.type) for field in schema)  # a batch needs those before it
    n_bytes = 0
    while (found := _message(source)) is not None:
        place, message = found
        n_bytes = n_bytes * is_whole + message_bytes(file, place)
        check_decoded_size(file, f"the message at byte {place}", n_bytes, max_record_bytes)
        if not is_whole and message.type == "record batch":
            yield place, arrow.ipc.read_record_batch(message, schema)
    if is_whole:
        yield _WHOLE, _read(file, _WHOLE, schema)


def _message(source: Any) -> tuple[int, Any] | None:
    """Return the next message of a stream with its offset; `None` at the end."""
    place = source.tell()
    try:
        return place, pyarrow().ipc.read_message(source)
    except EOFError:
        return None


def _read(file: StoredFile, place: int, schema: Any) -> Any:
    """Return a batch of a file by its number, a batch of a stream by its offset, or the whole stream as a table."""
    arrow = pyarrow()
    source = arrow.PythonFile(FileObject(file), "r")
    if _is_file(file):
        return arrow.ipc.open_file(source).get_batch(place)
    if place == _WHOLE:
        return arrow.ipc.open_stream(source).read_all()
    source.seek(place)
    return arrow.ipc.read_record_batch(arrow.ipc.read_message(source), schema)


def _is_file(file: StoredFile) -> bool:
    return file.pread(0, len(_MAGIC)) == _MAGIC


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
        return found if listed is None else folder.files(listed)

    def sniff(self, file: StoredFile) -> SniffResult:
        head = file.pread(0, 16)
        if head.startswith(_MAGIC):
            is_whole = file.size > 2 * len(_MAGIC) and file.pread(file.size - len(_MAGIC), len(_MAGIC)) == _MAGIC
            return SniffResult("yes") if is_whole else SniffResult("damaged", "it does not end with ARROW1")
        if head.startswith(_MESSAGE) and _is_schema(file.pread(8, min(_MAX_SCHEMA_BYTES, file.size - 8))):
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
