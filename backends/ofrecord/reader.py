"""Reads OFRecords."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataformats.backends.framed.index import FrameIndexes
from dataformats.backends.framed.reader import FramedReader
from dataformats.backends.framed.scan import Frames, scan
from dataformats.backends.ofrecord.layout import FRAMING
from dataformats.interfaces import OpenOptions
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["OFRecordReader"]


class OFRecordReader(FramedReader):
    """OFRecord files, each of them whole: a record does not go on in the next file.

    Args:
        files: The files, in reading order.
        options: What `open` was told.
    """

    def __init__(self, files: Sequence[StoredFile], options: OpenOptions) -> None:
        super().__init__(files, options, FrameIndexes(FRAMING))

    def scan(self, file: StoredFile, progress: Callable[[int], None]) -> Frames:
        return scan(FRAMING, file, progress)
