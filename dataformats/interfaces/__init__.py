"""The contracts: sources and writers for users; backends, readers, file writers and codecs for extensions."""

from dataformats.interfaces.backend import Backend, BlobBackend, FieldsBackend, OpenOptions, SniffResult
from dataformats.interfaces.codec import Codec, FieldCodecs, RecordCodec, RecordCoder
from dataformats.interfaces.file_writer import BlobWriter, FieldsWriter, FileWriter
from dataformats.interfaces.reader import Check, Extents, KernelCheck, Located, Reader, RecordChunk, SequentialReader
from dataformats.interfaces.source import Fields, FieldStats, OnCorrupt, RecordSource
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key
from dataformats.interfaces.writer import RecordWriter

__all__ = [
    "Backend",
    "BlobBackend",
    "BlobWriter",
    "Check",
    "Codec",
    "Extents",
    "FieldCodecs",
    "FieldStats",
    "Fields",
    "FieldsBackend",
    "FieldsWriter",
    "FileWriter",
    "Folder",
    "KernelCheck",
    "Located",
    "OnCorrupt",
    "OpenOptions",
    "Reader",
    "RecordChunk",
    "RecordCodec",
    "RecordCoder",
    "RecordSource",
    "RecordWriter",
    "SequentialReader",
    "SniffResult",
    "StoredFile",
    "natural_key",
]
