"""The contracts of backends, readers, file writers and codecs, and of a dataset's writer."""

from dataformats.interfaces.backend import (
    Backend,
    BlobBackend,
    FieldsBackend,
    OpenOptions,
    SniffResult,
    check_options,
)
from dataformats.interfaces.capabilities import (
    AppendsInPlace,
    CachesIndexes,
    FilesPerField,
    HasSidecars,
    KeepsFieldTypes,
    ResumesFinishedFiles,
    WritesSingleValues,
)
from dataformats.interfaces.codec import ArrayCodec, Codec, FieldCodecs, RecordCodec, RecordCoder
from dataformats.interfaces.field_operation import Decode, FieldOperation
from dataformats.interfaces.file_writer import BlobWriter, FieldsWriter, FileWriter
from dataformats.interfaces.reader import (
    Check,
    Extents,
    KernelCheck,
    Located,
    OutdatedIndexError,
    Reader,
    RecordChunk,
    SequentialReader,
)
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.interfaces.salvage import Loss, Salvage, Salvages, StoredRecord
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key

__all__ = [
    "AppendsInPlace",
    "ArrayCodec",
    "Backend",
    "BlobBackend",
    "BlobWriter",
    "CachesIndexes",
    "Check",
    "Codec",
    "Decode",
    "Extents",
    "FieldCodecs",
    "FieldOperation",
    "Fields",
    "FieldsBackend",
    "FieldsWriter",
    "FileWriter",
    "FilesPerField",
    "Folder",
    "HasSidecars",
    "KeepsFieldTypes",
    "KernelCheck",
    "Located",
    "Loss",
    "OnCorrupt",
    "OpenOptions",
    "OutdatedIndexError",
    "Reader",
    "RecordChunk",
    "RecordCodec",
    "RecordCoder",
    "RecordSource",
    "RecordWriter",
    "ResumesFinishedFiles",
    "Salvage",
    "Salvages",
    "SequentialReader",
    "SniffResult",
    "StoredFile",
    "StoredRecord",
    "WritesSingleValues",
    "check_options",
    "natural_key",
]
