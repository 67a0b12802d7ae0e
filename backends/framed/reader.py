"""Reads files of frames: an index of each file, or from the first record to the last without one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

from dataformats.backends.framed.index import FrameIndexes
from dataformats.backends.framed.progress import Progress
from dataformats.backends.framed.scan import Frames
from dataformats.backends.framed.stream import stream
from dataformats.indexed import FileIndex, IndexedReader
from dataformats.interfaces import Check, OpenOptions, Stretch
from dataformats.storage.files import StoredFile

__all__ = ["FramedReader"]


class FramedReader(IndexedReader):
    """The frames of some files.

    Args:
        files: The files, decompressed.
        options: What `open` was told.
        indexes: The indexes of the format.
    """

    def __init__(self, files: Sequence[StoredFile], options: OpenOptions, indexes: FrameIndexes) -> None:
        super().__init__(files)
        self.head = indexes.framing.head
        self.tail = indexes.framing.tail
        self._options = options
        self._indexes_kept = indexes
        self._check = indexes.framing.check(options.verify_checksums)
        self._progress = Progress(options.progress, self.files)

    @abstractmethod
    def scan(self, file: StoredFile, progress: Callable[[int], None]) -> Frames:
        """Return the frames of a file by going through it; `progress` is called with bytes done."""

    @property
    def check(self) -> Check:
        """What verifies frames: their length, and with `verify_checksums` what checksums there are."""
        return self._check

    def load_index(self, file: int) -> FileIndex:
        """Return the index of a file: as kept by whoever opened it before, as hinted, or made now."""
        stored, where, indexes = self.files[file], self._options.index, self._indexes_kept
        frames = indexes.exact_frames(stored, where)
        if frames is None:
            with self._progress.file(stored) as progress:
                frames = indexes.hinted_frames(stored, where) or self.scan(stored, progress.add)
            indexes.save_frames(stored, where, frames)
        else:
            self._progress.skip(stored)
        return frames.index()

    def stream(self, file: int) -> Iterator[Stretch]:
        """Yield the records of one file in order, without an index."""
        return stream(self._indexes_kept.framing, self.files[file], self._options)
