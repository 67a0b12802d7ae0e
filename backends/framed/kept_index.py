"""Base class of readers whose files have indexes that the index cache keeps: loaded, built, repaired, compared."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from dataformats.backends.framed.frame_index import FrameIndex
from dataformats.backends.framed.progress import ScanProgress
from dataformats.errors import FormatError
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.indexing.file_index import ArrayIndex, FileIndex
from dataformats.indexing.files_reader import FilesReader
from dataformats.interfaces import CachesIndexes, OutdatedIndexError, Reader, ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.spliced_file import SplicedFile

_MAX_KEPT = 2**24  # bytes of new indexes; more are read from where they were saved


class KeptIndexReader(FilesReader, CachesIndexes):
    """The records of files whose indexes are kept.

    Args:
        files: The files, decompressed.
    """

    is_packed = True

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions) -> None:
        super().__init__(files, options, counts=options.counts)
        self._progress = ScanProgress(options.progress, self.files)
        self._compared: dict[int, int] = {}  # the records of each file whose index was compared with it
        if options.counts is not None:
            self._cache.keep_together(self.files)

    @abstractmethod
    def load_exact(self, file: StoredFile) -> FrameIndex | None:
        """Return the kept index of this version of a file, or `None`."""

    @abstractmethod
    def build(self, file: StoredFile, progress: Callable[[int], None]) -> FrameIndex:
        """Return a new index of a file, which is saved."""

    @abstractmethod
    def index_of_content(self, before: FrameIndex, file: StoredFile) -> FrameIndex:
        """Return the index of the present content of a file; `before` if it still is."""

    def first(self, n: int, open_files: Callable[[Sequence[StoredFile]], Reader]) -> Reader | None:
        """Return a reader of the files as they were with the first `n` records: the last file ends behind them."""
        file = int(np.searchsorted(self.starts, n, side="right")) - 1
        if self.starts[file] == n or self.files[file].is_compressed:
            return super().first(n, open_files)
        row = n - int(self.starts[file])
        end = int(self.part(file, row, row + 1).offset[0]) - self.head
        return open_files([*self.files[:file], SplicedFile(self.files[file], [range(end)])])

    def _unlock(self) -> None:
        super()._unlock()
        self._repair_lock = threading.Lock()

    @property
    def index_failure(self) -> str | None:
        return self._cache.failure

    def _load_all(self) -> list[FileIndex]:
        self._cache.keep_together([file.stored for file in self.files])
        indexes = super()._load_all()
        if self._cache.save_added() > _MAX_KEPT:
            saved = [self.load_exact(file) for file in self.files]
            indexes = [old if new is None else FileIndex.of_blobs(new) for new, old in zip(saved, indexes, strict=True)]
        return indexes

    def kept_index(self, file: StoredFile) -> FileIndex | None:
        """Return the cached index of a file, or `None`."""
        index = self.load_exact(file)
        if index is not None:
            self._progress.skip(file)
        return None if index is None else FileIndex.of_blobs(index)

    def index_of(self, file: StoredFile) -> FileIndex:
        """Return the index of a file: cached by another process since, confirmed from a hint, or built by a scan."""
        index = self.kept_index(file)
        if index is None:
            with self._progress.file(file) as progress:
                index = FileIndex.of_blobs(self.build(file, progress.add))
        return index

    def part(self, file: int, first: int, stop: int) -> ArrayIndex:
        try:
            return super().part(file, first, stop)
        except BrokenBlockError:
            with self._repair_lock:
                part = self._repaired_part(file, first, stop)
                self._cache.save_added()
                return part

    def _repaired_part(self, file: int, first: int, stop: int) -> ArrayIndex:
        """Return a part of a damaged index: loaded again, as another process may have replaced it, or built again.

        Raises:
            FormatError: The new index differs from the first one.
        """
        before, stored = self._blobs_of(file), self.files[file]
        for load in (self.load_exact, lambda stored: self.build(stored, lambda _: None)):
            index = load(stored)
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
            self.indexes[file] = FileIndex.of_blobs(index)
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
        before, stored = self._blobs_of(file), self.files[file]
        assert isinstance(before, FrameIndex)  # index_of returns no others
        if file not in self._compared:
            index = self.index_of_content(before, stored)
            self._compared[file] = len(index)
            if len(index) == len(before):
                self.indexes[file] = FileIndex.of_blobs(index)
        if self._compared[file] != len(before):
            raise OutdatedIndexError(
                "the index was of another file with the same name, size and time",
                path=stored.name,
                expected=f"{len(before)} records",
                found=f"{self._compared[file]}",
                remedy="It was built again: open the dataset again",
            )
