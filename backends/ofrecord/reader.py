"""Reads OFRecords."""

from __future__ import annotations

from collections.abc import Sequence

from dataformats.backends.framed.frame_index import FrameIndexStore
from dataformats.backends.framed.reader import FramedReader
from dataformats.backends.ofrecord.layout import FRAMING
from dataformats.interfaces import ReaderOptions
from dataformats.interfaces.stored_file import StoredFile


class OFRecordReader(FramedReader):
    """The records of OFRecord files. Records do not cross file boundaries."""

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions) -> None:
        super().__init__(files, options, FrameIndexStore(FRAMING))
