"""Reads files of frames: any records through an index of each file, or all in order without one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from dataformats.backends.framed.file_scan import scan
from dataformats.backends.framed.frame_index import FrameIndex, FrameIndexStore
from dataformats.backends.framed.progress import ScanProgress
from dataformats.backends.framed.stream import iter_chunks
from dataformats.errors import FormatError
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.indexing.index_cache import IndexCache
from dataformats.indexing.indexed_reader import FileIndex, IndexedReader, RecordIndex
from dataformats.interfaces import CachesIndexes, Check, OutdatedIndexError, ReaderOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.seekable_gzip import DecompressedFile

__all__ = ["FramedReader"]

_MOST_KEPT = 2**24  # bytes of new indexes; more are read from where they were saved


class FramedReader(IndexedReader, CachesIndexes):
    """The records of files of frames.

    Args:
        files: The files, decompressed.
        options: The options of `open`.
        store: Loads and saves the indexes of the format.
    """

    is_packed = True

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, store: FrameIndexStore) -> None:
        super().__init__(files, indexes_are_local=options.index != "beside", counts=options.counts)
        self.head: int = store.framing.head
        self.tail: int = store.framing.tail
        self.has_stored: bool = self.tail > 0
        self._options = options
        self._store = store
        self._cache = IndexCache(options.index)
        self._check = store.framing.check(options.verify_checksums)
        self._progress = ScanProgress(options.progress, self.files)
        self._compared: dict[int, int] = {}  # the records of each file whose index was compared with it
        if options.counts is not None:
            self._cache.keep_together(self.files)

    def _unlock(self) -> None:
        super()._unlock()
        self._repair_lock = threading.Lock()

    @property
    def check(self) -> Check:
        """The check of frames: their lengths, and with `verify_checksums` their checksums, if they have any."""
        return self._check

    @property
    def index_failure(self) -> str | None:
        return self._cache.failure

    def _load_all(self) -> list[RecordIndex]:
        self._cache.keep_together([file.stored for file in self.files])
        indexes = super()._load_all()
        if self._cache.save_added() > _MOST_KEPT:
            saved = [self._store.load_exact(file, self._cache) for file in self.files]
            indexes = [new or old for new, old in zip(saved, indexes, strict=True)]
        return indexes

    def quick_index(self, file: int) -> FrameIndex | None:
        """Return the cached index of a file, or `None`."""
        index = self._store.load_exact(self.files[file], self._cache)
        if index is not None:
            self._progress.skip(self.files[file])
        return index

    def load_index(self, file: int) -> FrameIndex:
        """Return the index of a file: cached by another process since, confirmed from a hint, or built by a scan."""
        stored = self.files[file]
        index = self.quick_index(file)
        if index is None:
            with self._progress.file(stored) as progress:
                index = self._build(stored, progress.add)
        return index

    def _build(self, file: StoredFile, progress: Callable[[int], None]) -> FrameIndex:
        frames = self._store.load_hinted(file, self._cache) or scan(self._store.framing, file, progress)
        return self._store.save(file, self._cache, frames)

    def part(self, file: int, first: int, stop: int) -> FileIndex:
        try:
            return super().part(file, first, stop)
        except BrokenBlockError:
            with self._repair_lock:
                part = self._repaired_part(file, first, stop)
                self._cache.save_added()
                return part

    def _repaired_part(self, file: int, first: int, stop: int) -> FileIndex:
        """Return a part of a damaged index: loaded again, as another process may have replaced it, or built again.

        Raises:
            FormatError: The new index differs from the first one.
        """
        before, stored = self.indexes[file], self.files[file]
        for load in (self._store.load_exact, lambda stored, _: self._build(stored, lambda _: None)):
            index = load(stored, self._cache)
            if index is None:
                continue
            if (len(index), index.digest) != (len(before), before.digest):
                raise FormatError(
                    "the index of the file was replaced by another one",
                    path=stored.name,
                    expected=f"{len(before)} records ({before.digest})",
                    found=f"{len(index)} records ({index.digest})",
                    remedy="Open the dataset again",
                )
            try:
                part = index.part(first, stop)
            except BrokenBlockError:
                continue
            self.indexes[file] = index
            return part
        raise FormatError("the index of the file is damaged again as soon as it is built", path=stored.name)

    def compare_index(self, path: str) -> None:
        with self._repair_lock:
            for file, stored in enumerate(self.files):
                if stored.name == path:
                    self._compare(file)
            self._cache.save_added()
            self.forget_extents()

    def _compare(self, file: int) -> None:
        before, stored = self.indexes[file], self.files[file]
        assert isinstance(before, FrameIndex)  # load_index returns no others
        if file not in self._compared:
            index = self._index_of_content(before, stored)
            self._compared[file] = len(index)
            if len(index) == len(before):
                self.indexes[file] = index
        if self._compared[file] != len(before):
            raise OutdatedIndexError(
                "the index was of another file with the same name, size and time",
                path=stored.name,
                expected=f"{len(before)} records",
                found=f"{self._compared[file]}",
                remedy="It was built again: open the dataset again",
            )

    def _index_of_content(self, before: FrameIndex, file: StoredFile) -> FrameIndex:
        if before.is_compared:
            return before
        if isinstance(file, DecompressedFile):
            file.forget_size()
        frames = scan(self._store.framing, file)
        if frames.rest is None or before.rest is not None:
            return self._store.save(file, self._cache, frames)
        try:  # the file was damaged since: the index says where the records behind the damage are
            return self._store.save(file, self._cache, before.frames(), is_compared=True)
        except BrokenBlockError:
            return self._store.save(file, self._cache, frames)

    def iter_chunks(self, file: int) -> Iterator[RecordChunk]:
        """Yield the records of one file in order, without an index."""
        stored, n_yielded = self.files[file], 0
        if isinstance(stored, DecompressedFile) and self._options.verify_checksums:
            one_pass = DecompressedFile(stored.stored, stored.compression, one_pass=True)
            for chunk in iter_chunks(self._store.framing, one_pass, self._options):
                if chunk.problems:
                    break  # it may lie before the damage, which the slower way finds at the same place each time
                n_yielded += len(chunk.blobs)
                yield chunk
            else:
                return
        for chunk in iter_chunks(self._store.framing, stored, self._options):
            skipped = min(n_yielded, len(chunk.blobs))
            n_yielded -= skipped
            problems = {row - skipped: problem for row, problem in chunk.problems.items() if row >= skipped}
            if skipped < len(chunk.blobs):
                yield RecordChunk(chunk.blobs.take(slice(skipped, None)), problems, chunk.base)
