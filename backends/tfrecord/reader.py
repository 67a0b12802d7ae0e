"""Reads TFRecords; compressed files through checkpoints of the decompressor."""

from __future__ import annotations

from collections.abc import Sequence

from dataformats.backends.framed.frame_index import FrameIndexStore
from dataformats.backends.framed.reader import FramedReader
from dataformats.backends.tfrecord.compression import Compression, decompress_file
from dataformats.backends.tfrecord.layout import FRAMING, UNCHECKED, lacks_checksums
from dataformats.backends.tfrecord.text_index import text_hints
from dataformats.interfaces import ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.threads import concurrent_map

INDEXES = FrameIndexStore(FRAMING, text_hints)
"""The indexes of TFRecord files; text indexes of the `tfrecord` package serve as hints."""


class TFRecordReader(FramedReader):
    """The records of TFRecord files.

    Args:
        files: The files as stored.
        compression: The compression of all files; `"auto"` reads it from the first bytes of each file.

    Raises:
        FormatError: A file is not compressed as `compression` says.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, compression: Compression = "auto") -> None:
        files = _decompressed(files, compression) if options.counts is None else files
        plain = not options.verify_checksums and any(map(lacks_checksums, files[:1]))
        super().__init__(files, options, FrameIndexStore(UNCHECKED) if plain else INDEXES)


def _decompressed(files: Sequence[StoredFile], compression: Compression) -> list[StoredFile]:
    local = all(file.local is not None for file in files)
    return concurrent_map(lambda file: decompress_file(file, compression), files, local=local)
