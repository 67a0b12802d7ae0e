"""Writes one TFRecord file, plain or compressed as a whole."""

from __future__ import annotations

from dataformats.backends.framed.compressed_writer import CompressedWriter
from dataformats.backends.framed.framing import Framing
from dataformats.backends.tfrecord.compression import decompress_file
from dataformats.backends.tfrecord.layout import FRAMING
from dataformats.interfaces.stored_file import StoredFile
from dataformats.writing.appending_writer import Journaled


class TFRecordWriter(CompressedWriter):
    """Appends records to one file: see `CompressedWriter`."""

    framing: Framing = FRAMING
    extra: int = FRAMING.extra
    journaled: Journaled = "none"  # records have checksums

    def _decompressed(self, stored: StoredFile) -> StoredFile:
        assert self._compression != "zstd"  # TFRecord has none
        return decompress_file(stored, self._compression)
