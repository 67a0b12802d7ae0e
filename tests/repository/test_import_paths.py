"""Every documented import path exists, and gives the documented object."""

from __future__ import annotations

import importlib

from dataformats.testing.loop_over import loop_over

# Module -> names. README, docs/ and docstrings import these; a move of files must keep them.
PROMISED = {
    "dataformats": (
        "open",
        "create",
        "convert",
        "info",
        "verify",
        "Loader",
        "mix",
        "pad",
        "concat",
        "register_backend",
    ),
    "dataformats.backends.ffrecord": ("BACKEND", "PackedFolder"),
    "dataformats.batch": ("Blobs", "Nullable", "Ragged", "RecordBatch"),
    "dataformats.codecs.images": ("Png",),
    "dataformats.codecs.videos": ("MP4", "Video"),
    "dataformats.errors": ("FormatError", "SpecError", "TruncatedError"),
    "dataformats.indexing.files_reader": ("FileIndex", "FilesReader"),
    "dataformats.interfaces": (
        "Backend",
        "BlobBackend",
        "BlobWriter",
        "Codec",
        "FieldsBackend",
        "FieldsWriter",
        "ReaderOptions",
        "Reader",
        "RecordCodec",
        "RecordWriter",
        "SniffResult",
        "StoredFile",
    ),
    "dataformats.kernels": ("crc32c", "implementation", "permute"),
    "dataformats.kernels.permutation": ("permute",),
    "dataformats.loaders.pytorch": ("BatchDataset", "DeviceCopier", "RecordDataset", "collate", "to_torch"),
    "dataformats.registry": ("backends", "codecs"),
    "dataformats.storage.files": ("LocalFile",),
    "dataformats.testing": ("BackendConformance", "BackendDurability", "CodecCase", "CodecConformance", "FormatCase"),
}


@loop_over("module, names", PROMISED.items())
def test_promised_import_paths_exist(module: str, names: tuple[str, ...]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []
