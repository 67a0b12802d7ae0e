"""The contracts: sources and writers for users; backends, readers, file writers and codecs for extensions."""

from __future__ import annotations

from dataformats.interfaces.backend import (
    Backend,
    BlobBackend,
    BlobWriter,
    Check,
    Codec,
    Extents,
    FieldCodecs,
    FieldsBackend,
    FieldsWriter,
    FileWriter,
    KernelCheck,
    Located,
    OpenOptions,
    Reader,
    RecordCodec,
    RecordCoder,
    Streaming,
    Stretch,
    Verdict,
    natural_key,
)
from dataformats.interfaces.source import (
    Fields,
    FieldStats,
    OnCorrupt,
    RecordSource,
)
from dataformats.interfaces.writer import (
    RecordWriter,
)

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
    "KernelCheck",
    "Located",
    "OnCorrupt",
    "OpenOptions",
    "Reader",
    "RecordCodec",
    "RecordCoder",
    "RecordSource",
    "RecordWriter",
    "Streaming",
    "Stretch",
    "Verdict",
    "natural_key",
]
