"""Writes one file of frames. The frames written so far are always a sound file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.stream import iter_chunks
from dataformats.batch import Blobs, StoredRecords
from dataformats.errors import FormatError
from dataformats.indexing.file_index import FileIndex
from dataformats.interfaces import BlobWriter, ReaderOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import gather
from dataformats.writing.appending_writer import AppendingWriter

__all__ = ["FramedWriter"]

_HEAD_BYTES = 64


class FramedWriter(AppendingWriter, BlobWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record is a blob
    """Appends records to one file.

    Args:
        path: The file.
        resume: Keep the whole and sound records at the front of the file, and append to them.

    Attributes:
        framing: The frames of the format.
    """

    framing: Framing

    def frame(self, record: bytes) -> bytes:
        """Return the frame of one record."""
        return self.framing.frames([record])

    def frames(self, records: Sequence[bytes]) -> Sequence[bytes | memoryview]:
        """Return the frames of several records, compressed if the file is."""
        return self._compressed(self.framing.frame_parts(records))

    def frame_end(self, offset: int, length: int) -> int:
        """Return where the frame of a record ends: behind its footer."""
        return offset + length + self.framing.tail

    def index(self, file: StoredFile) -> Iterator[FileIndex]:
        """Yield where the sound records lie, some at a time; their data are verified."""
        for chunk in self._sound(file):
            yield FileIndex(chunk.blobs.starts + chunk.base, chunk.blobs.lengths)

    def append_stored(self, records: StoredRecords) -> None:
        """Append records; the frames of a file of the same format are copied as they are, with their checksums."""
        blobs, least = records.blobs, self.framing.min_length
        if not records.framed or records.format != self.framing.name or blobs.lengths.min(initial=least) < least:
            super().append_stored(records)
            return
        self._open_file()
        self._write_pending()
        self._count(len(blobs), int(blobs.lengths.sum()))
        self._write(*self._compressed([_frames_around(blobs, self.framing)]))

    # ---- hooks for compression

    def _compressed(self, parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Return the bytes to write for parts of frames; a compressor may hold some back."""
        return parts

    def _decompressed(self, stored: StoredFile) -> StoredFile:
        """Return the decompressed file of a stored one that is not empty."""
        return stored

    def _sound(self, stored: StoredFile) -> Iterator[RecordChunk]:
        """Yield the records of a file up to the first that is incomplete, damaged, or too short to be written."""
        if stored.size == 0:
            return
        try:
            frames = self._decompressed(stored)
        except FormatError:
            if any(stored.pread(0, _HEAD_BYTES)):
                raise
            return  # a crash of the machine left zeros
        for chunk in iter_chunks(self.framing, frames, ReaderOptions(max_record_bytes=2**62)):
            # A crash may leave zeros behind the data, which look like empty records if frames have no checksums.
            short = np.flatnonzero(chunk.blobs.lengths < self.framing.min_length)
            n_sound = min([*chunk.problems, *short[:1].tolist()], default=len(chunk.blobs))
            yield RecordChunk(chunk.blobs.take(slice(0, n_sound)), base=chunk.base)
            if n_sound < len(chunk.blobs):
                return


def _frames_around(blobs: Blobs, framing: Framing) -> memoryview:
    """Return the frames around blobs in their buffer, back to back; without a copy if they lie so."""
    starts, sizes = blobs.starts - framing.head, blobs.lengths + framing.extra
    ends = starts + sizes
    if len(blobs) and np.array_equal(starts[1:], ends[:-1]):
        return blobs.buffer.data[int(starts[0]) : int(ends[-1])]
    return gather(blobs.buffer, starts, sizes)[0].data
