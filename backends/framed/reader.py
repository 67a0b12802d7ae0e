"""Reads files of frames: an index of each file, or from the first record to the last without one."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

from dataformats.backends.framed.index import FrameIndexes
from dataformats.backends.framed.kept import FrameIndex
from dataformats.backends.framed.progress import Progress
from dataformats.backends.framed.scan import Frames
from dataformats.backends.framed.stream import iter_chunks
from dataformats.errors import FormatError
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.indexing.index_cache import IndexCache
from dataformats.indexing.reader import FileIndex, IndexedReader
from dataformats.interfaces import Check, OpenOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["FramedReader"]


class FramedReader(IndexedReader):
    """The frames of some files.

    Args:
        files: The files, decompressed.
        options: What `open` was told.
        indexes: The indexes of the format.
    """

    def __init__(self, files: Sequence[StoredFile], options: OpenOptions, indexes: FrameIndexes) -> None:
        super().__init__(files, indexes_are_local=options.index != "beside")
        self.head: int = indexes.framing.head
        self.tail: int = indexes.framing.tail
        self._options = options
        self._indexes_kept = indexes
        self._shelf = IndexCache(options.index)
        self._check = indexes.framing.check(options.verify_checksums)
        self._progress = Progress(options.progress, self.files)

    def _unlock(self) -> None:
        super()._unlock()
        self._mending = threading.Lock()

    @abstractmethod
    def scan(self, file: StoredFile, progress: Callable[[int], None]) -> Frames:
        """Return the frames of a file by going through it; `progress` is called with bytes done."""

    @property
    def check(self) -> Check:
        """What verifies frames: their length, and with `verify_checksums` what checksums there are."""
        return self._check

    def quick_index(self, file: int) -> FrameIndex | None:
        """Return the index of a file as kept by whoever opened it before."""
        index = self._indexes_kept.exact(self.files[file], self._shelf)
        if index is not None:
            self._progress.skip(self.files[file])
        return index

    def load_index(self, file: int) -> FrameIndex:
        """Return the index of a file: as another process has made it since, as hinted, or made now."""
        stored = self.files[file]
        index = self.quick_index(file)
        if index is None:
            with self._progress.file(stored) as progress:
                index = self._made(stored, progress.add)
        return index

    def _made(self, file: StoredFile, progress: Callable[[int], None]) -> FrameIndex:
        frames = self._indexes_kept.hinted(file, self._shelf) or self.scan(file, progress)
        return self._indexes_kept.keep(file, self._shelf, frames)

    def part(self, file: int, first: int, stop: int) -> FileIndex:
        try:
            return super().part(file, first, stop)
        except BrokenBlockError:
            with self._mending:
                return self._mended(file, first, stop)

    def _mended(self, file: int, first: int, stop: int) -> FileIndex:
        """Return a part of an index that cannot be read: another process may have replaced it, else it is made again.

        Raises:
            FormatError: It is not what the first one said.
        """
        before, stored = self.indexes[file], self.files[file]
        for load in (self._indexes_kept.exact, lambda stored, _: self._made(stored, lambda _: None)):
            index = load(stored, self._shelf)
            if index is None:
                continue
            if (len(index), index.digest) != (len(before), before.digest):
                raise FormatError(
                    "its index was replaced by one that says something else",
                    path=stored.name,
                    expected=f"{len(before)} records ({before.digest})",
                    found=f"{len(index)} records ({index.digest})",
                    remedy="open the data set again",
                )
            try:
                found = index.part(first, stop)
            except BrokenBlockError:
                continue
            self.indexes[file] = index
            return found
        raise FormatError("its index cannot be kept: it breaks as soon as it is made", path=stored.name)

    def iter_chunks(self, file: int) -> Iterator[RecordChunk]:
        """Yield the records of one file in order, without an index."""
        return iter_chunks(self._indexes_kept.framing, self.files[file], self._options)
