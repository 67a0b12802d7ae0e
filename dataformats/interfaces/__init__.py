"""Interfaces that an extension implements or calls: backends, readers, codecs, operations, sources, writers.

The base classes of readers, writers and files lie in higher rooms, and are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.batch import Blobs, Column
from dataformats.interfaces.backend import (
    Backend,
    BlobBackend,
    FieldsBackend,
    ReaderOptions,
    SniffResult,
    checked_options,
)
from dataformats.interfaces.capabilities import (
    AppendsInPlace,
    CachesIndexes,
    FetchesRecords,
    FilesPerField,
    HasSidecars,
    ResumesFinishedFiles,
    WritesSingleValues,
)
from dataformats.interfaces.codec import ArrayCodec, Codec, FieldCodecs, RecordCodec, RecordCoder, SequenceCodec
from dataformats.interfaces.field_operation import Decode, FieldOperation
from dataformats.interfaces.file_writer import BlobWriter, FieldsWriter, FilePlace, FileWriter
from dataformats.interfaces.library_errors import damage_of
from dataformats.interfaces.reader import (
    BlobStarts,
    Check,
    Extents,
    Fetch,
    KernelCheck,
    Located,
    OpenedFiles,
    OutdatedIndexError,
    Reader,
    RecordChunk,
    SequentialReader,
)
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.interfaces.salvage import Loss, SalvagePart, ShardSalvage, StoredRecord, SupportsRepair
from dataformats.interfaces.source_facts import Origin, SourceFacts, SpecFacts, SpecProvenance
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key
from dataformats.interfaces.table import BadRowsError, BlockTable, RowTable, Table
from dataformats.registry import Registry, backends, codecs

if TYPE_CHECKING:
    from dataformats.indexing.fields_reader import FieldsReader
    from dataformats.indexing.file_index import ArrayIndex, FileIndex, LazyProblems
    from dataformats.indexing.files_reader import FilesReader
    from dataformats.indexing.files_table import FileBlock, FilesTable
    from dataformats.indexing.lookup import RecordsByFile, split_by_file
    from dataformats.indexing.union_reader import open_indexed_union, open_union
    from dataformats.indexing.union_table import open_table_union
    from dataformats.storage.files import LocalFile
    from dataformats.writing.appending_writer import AppendingWriter
    from dataformats.writing.table_writer import TableWriter

__all__ = [
    "AppendingWriter",
    "AppendsInPlace",
    "ArrayCodec",
    "ArrayIndex",
    "Backend",
    "BadRowsError",
    "BlobBackend",
    "BlobStarts",
    "BlobWriter",
    "Blobs",
    "BlockTable",
    "CachesIndexes",
    "Check",
    "Codec",
    "Column",
    "Decode",
    "Extents",
    "Fetch",
    "FetchesRecords",
    "FieldCodecs",
    "FieldOperation",
    "Fields",
    "FieldsBackend",
    "FieldsReader",
    "FieldsWriter",
    "FileBlock",
    "FileIndex",
    "FilePlace",
    "FileWriter",
    "FilesPerField",
    "FilesReader",
    "FilesTable",
    "Folder",
    "HasSidecars",
    "KernelCheck",
    "LazyProblems",
    "LocalFile",
    "Located",
    "Loss",
    "OnCorrupt",
    "OpenedFiles",
    "Origin",
    "OutdatedIndexError",
    "Reader",
    "ReaderOptions",
    "RecordChunk",
    "RecordCodec",
    "RecordCoder",
    "RecordSource",
    "RecordWriter",
    "RecordsByFile",
    "Registry",
    "ResumesFinishedFiles",
    "RowTable",
    "SalvagePart",
    "SequenceCodec",
    "SequentialReader",
    "ShardSalvage",
    "SniffResult",
    "SourceFacts",
    "SpecFacts",
    "SpecProvenance",
    "StoredFile",
    "StoredRecord",
    "SupportsRepair",
    "Table",
    "TableWriter",
    "WritesSingleValues",
    "backends",
    "checked_options",
    "codecs",
    "damage_of",
    "natural_key",
    "open_indexed_union",
    "open_table_union",
    "open_union",
    "split_by_file",
]

if not TYPE_CHECKING:  # type checkers read the imports above, and report unknown names

    def __getattr__(name: str) -> Any:
        if name in ("ArrayIndex", "FileIndex", "LazyProblems"):
            from dataformats.indexing import file_index as module
        elif name == "FieldsReader":
            from dataformats.indexing import fields_reader as module
        elif name == "FilesReader":
            from dataformats.indexing import files_reader as module
        elif name in ("FileBlock", "FilesTable"):
            from dataformats.indexing import files_table as module
        elif name in ("RecordsByFile", "split_by_file"):
            from dataformats.indexing import lookup as module
        elif name in ("open_indexed_union", "open_union"):
            from dataformats.indexing import union_reader as module
        elif name == "open_table_union":
            from dataformats.indexing import union_table as module
        elif name == "LocalFile":
            from dataformats.storage import files as module
        elif name == "AppendingWriter":
            from dataformats.writing import appending_writer as module
        elif name == "TableWriter":
            from dataformats.writing import table_writer as module
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(module, name)
