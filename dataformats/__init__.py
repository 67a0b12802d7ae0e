"""One reader, one writer and one loader for the record files that research already has.

    import dataformats

    src = dataformats.open("train-*.tfrecord")      # or a folder, a list, a URL
    src[5], len(src), src.read([3, 6, 0])["label"]

    with dataformats.create("out.ffr", "ffrecord", spec=src.spec) as writer:
        writer.extend(src)

What stands here is the public interface. It is imported piece by piece, at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataformats.batch import Nullable, Ragged, RecordBatch
    from dataformats.columns.codec_resolver import register_codec
    from dataformats.converting import ConvertReport, convert
    from dataformats.errors import (
        ChecksumError,
        CodecError,
        CorruptRecordError,
        DataFormatsError,
        FormatError,
        MissingExtraError,
        SpecError,
        StateMismatchError,
        TargetExistsError,
        TargetInUseError,
        TruncatedError,
        UnknownNameError,
        WorkerError,
    )
    from dataformats.inspecting import Finding, Info, VerifyReport, info, verify
    from dataformats.interfaces.record_source import RecordSource
    from dataformats.interfaces.record_writer import RecordWriter
    from dataformats.loaders.batch import Batch
    from dataformats.loaders.loader import Loader
    from dataformats.loaders.mixture import Mixture, mix
    from dataformats.loaders.pack import pack
    from dataformats.loaders.pad import pad
    from dataformats.merging import merge, split
    from dataformats.reading.concat import concat
    from dataformats.reading.field_operations import DecodingSource
    from dataformats.reading.opening import open, register_backend
    from dataformats.reading.stats import FieldStats
    from dataformats.repairing import RepairReport, repair
    from dataformats.spec import Spec, Type
    from dataformats.writing.creating import create

__version__ = "0.1.0"

_ROOMS = {
    "batch": ("Nullable", "Ragged", "RecordBatch"),
    "converting": ("ConvertReport", "convert"),
    "errors": (
        "ChecksumError",
        "CodecError",
        "CorruptRecordError",
        "DataFormatsError",
        "FormatError",
        "MissingExtraError",
        "SpecError",
        "StateMismatchError",
        "TargetExistsError",
        "TargetInUseError",
        "TruncatedError",
        "UnknownNameError",
        "WorkerError",
    ),
    "columns.codec_resolver": ("register_codec",),
    "inspecting": ("Finding", "Info", "VerifyReport", "info", "verify"),
    "merging": ("merge", "split"),
    "reading.field_operations": ("DecodingSource",),
    "reading.opening": ("open", "register_backend"),
    "interfaces.record_source": ("RecordSource",),
    "repairing": ("RepairReport", "repair"),
    "reading.stats": ("FieldStats",),
    "spec": ("Spec", "Type"),
    "reading.concat": ("concat",),
    "loaders.batch": ("Batch",),
    "loaders.loader": ("Loader",),
    "loaders.mixture": ("Mixture", "mix"),
    "loaders.pack": ("pack",),
    "loaders.pad": ("pad",),
    "interfaces.record_writer": ("RecordWriter",),
    "writing.creating": ("create",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Batch",
    "ChecksumError",
    "CodecError",
    "ConvertReport",
    "CorruptRecordError",
    "DataFormatsError",
    "DecodingSource",
    "FieldStats",
    "Finding",
    "FormatError",
    "Info",
    "Loader",
    "MissingExtraError",
    "Mixture",
    "Nullable",
    "Ragged",
    "RecordBatch",
    "RecordSource",
    "RecordWriter",
    "RepairReport",
    "Spec",
    "SpecError",
    "StateMismatchError",
    "TargetExistsError",
    "TargetInUseError",
    "TruncatedError",
    "Type",
    "UnknownNameError",
    "VerifyReport",
    "WorkerError",
    "concat",
    "convert",
    "create",
    "info",
    "merge",
    "mix",
    "open",
    "pack",
    "pad",
    "register_backend",
    "register_codec",
    "repair",
    "split",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        from dataformats.near_names import MODULE

        remedy = f"; instead: {MODULE[name]}" if name in MODULE else ""
        raise AttributeError(f"module 'dataformats' has no attribute {name!r}{remedy}")
    value = getattr(importlib.import_module(f"dataformats.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
