"""Writes one file of frames. The frames written so far are always a sound file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import Framing, gather_integers
from dataformats.backends.framed.stream import iter_chunks
from dataformats.batch import Blobs, StoredRecords
from dataformats.errors import FormatError
from dataformats.indexing.file_index import ArrayIndex
from dataformats.indexing.index_cache import IndexCache
from dataformats.interfaces import BlobWriter, FilePlace, ReaderOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import gather
from dataformats.storage.files import LocalFile
from dataformats.writing.appending_writer import AppendingWriter

_LOG = logging.getLogger("dataformats")
_HEAD_BYTES = 64
_MAX_ROWS = 2**23  # a longer shard gets no index, because its rows are held in memory


class FramedWriter(AppendingWriter, BlobWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record is a blob
    """Appends records to one file.

    Args:
        path: The file.
        resume: Keep the whole and sound records at the front of the file, and append to them.
        place: Where the file belongs. `close` leaves an index beside a shard of a folder that is not published yet.

    Attributes:
        framing: The frames of the format.
    """

    framing: Framing

    def __init__(self, path: Path, *, resume: bool = False, place: FilePlace | None = None) -> None:
        # Rows of the index; `None` for a file that gets none.
        self._index: list[NDArray[Any]] | None = [] if place is not None and place.name is None else None
        self._n_indexed = 0
        super().__init__(path, resume=resume)

    def frame(self, record: bytes) -> bytes:
        """Return the frame of one record."""
        return self.framing.frames([record])

    def frames(self, records: Sequence[bytes]) -> Sequence[bytes | memoryview]:
        """Return the frames of several records, compressed if the file is."""
        framed = self.framing.framed(records)
        self._add_to_index(framed.lengths, framed.checksums)
        return self._compressed(framed.parts)

    def frame_end(self, offset: int, length: int) -> int:
        """Return where the frame of a record ends: behind its footer."""
        return offset + length + self.framing.tail

    def index(self, file: StoredFile) -> Iterator[ArrayIndex]:
        """Yield where the sound records lie, some at a time; their data are verified."""
        for chunk in self._sound(file):
            self._add_blobs_to_index(chunk.blobs)
            yield ArrayIndex(chunk.blobs.starts + chunk.base, chunk.blobs.lengths)

    def append_stored(self, records: StoredRecords) -> None:
        """Append records; the frames of a file of the same format are copied as they are, with their checksums."""
        blobs, least = records.blobs, self.framing.min_length
        if not records.framed or records.format != self.framing.name or blobs.lengths.min(initial=least) < least:
            super().append_stored(records)
            return
        self._open_file()
        self._write_pending()
        self._count(len(blobs), int(blobs.lengths.sum()))
        self._add_blobs_to_index(blobs)
        self._write(*self._compressed([_frames_around(blobs, self.framing)]))

    def close(self, *, sync: bool = True) -> None:
        """Complete the file and sync it, and leave its index if it gets one; a second call is a no-op."""
        is_open = self._file is not None
        super().close(sync=sync)
        if is_open and self._index is not None:
            self._save_index(np.concatenate([np.empty(0, self._index_row), *self._index]))

    @property
    def _index_row(self) -> np.dtype[Any]:
        return np.dtype([("length", "<i8"), *([("crc", "<u4")] if self.framing.tail else [])])

    def _add_blobs_to_index(self, blobs: Blobs) -> None:
        """Add records to the index, from a buffer that holds their frames."""
        if self._index is not None:
            ends = blobs.starts + blobs.lengths
            self._add_to_index(blobs.lengths, gather_integers(blobs.buffer, ends, "<u4") if self.framing.tail else None)

    def _add_to_index(self, lengths: NDArray[np.int64], checksums: NDArray[np.uint32] | None) -> None:
        self._n_indexed += len(lengths)
        if self._index is None or self._n_indexed > _MAX_ROWS:
            self._index = None
            return
        rows = np.empty(len(lengths), self._index_row)
        rows["length"] = lengths
        if checksums is not None:
            rows["crc"] = checksums
        self._index.append(rows)

    def _save_index(self, rows: NDArray[Any]) -> None:
        """Save the index beside the file, which is complete. An error drops the index, not the data."""
        file = LocalFile(self._path)
        if file.size != rows["length"].sum() + self.framing.extra * len(rows):
            return  # an interrupted call was repeated
        metadata = {"compression": "none", "rest": None, "damage": None, "size": file.size}
        metadata |= self.framing.index_metadata
        try:
            columns = {name: rows[name] for name in self._index_row.names or ()}
            IndexCache("beside").save(file, self.framing.name, columns, metadata)
        except (OSError, ValueError) as error:
            _LOG.warning("%s gets no index: %s", self._path, error)

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
