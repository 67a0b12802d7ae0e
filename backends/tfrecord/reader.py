"""Reads TFRecords, compressed ones through checkpoints of the decompressor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataformats.backends.framed.reader import FramedReader
from dataformats.backends.framed.scan import Frames
from dataformats.backends.tfrecord.index import INDEXES
from dataformats.backends.tfrecord.scan import scan
from dataformats.backends.tfrecord.sniff import Compression, decompressed
from dataformats.interfaces import OpenOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.threads import concurrent_map

__all__ = ["TFRecordReader"]


class TFRecordReader(FramedReader):
    """TFRecord files as they are.

    Args:
        files: The files as they lie on the disk.
        options: What `open` was told.
        compression: Of all files, or `"auto"`: of each as its first bytes say.

    Raises:
        FormatError: A file is not compressed as `compression` says.
    """

    def __init__(self, files: Sequence[StoredFile], options: OpenOptions, compression: Compression = "auto") -> None:
        super().__init__(_decompressed(files, compression), options, INDEXES)

    def scan(self, file: StoredFile, progress: Callable[[int], None]) -> Frames:
        return scan(file, progress)


def _decompressed(files: Sequence[StoredFile], compression: Compression) -> list[StoredFile]:
    local = all(file.local is not None for file in files)
    return concurrent_map(lambda file: decompressed(file, compression), files, local=local)
