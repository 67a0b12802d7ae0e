"""Reads files of lines, or of JSON documents, through an index of each file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataformats.backends.framed.frame_index import FrameIndex
from dataformats.backends.framed.kept_index import KeptIndexReader
from dataformats.backends.lines.line_index import RecordIndexStore
from dataformats.interfaces import ReaderOptions
from dataformats.interfaces.stored_file import StoredFile


class LinesReader(KeptIndexReader):
    """The lines of files, or other records without frames.

    Args:
        files: The files, decompressed.
        store: Builds the indexes of the format.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, store: RecordIndexStore) -> None:
        super().__init__(files, options)
        self._store = store

    def load_exact(self, file: StoredFile) -> FrameIndex | None:
        return self._store.load_exact(file, self._cache)

    def build(self, file: StoredFile, progress: Callable[[int], None]) -> FrameIndex:
        return self._store.build(file, self._cache, progress)

    def index_of_content(self, before: FrameIndex, file: StoredFile) -> FrameIndex:
        return self._store.build(file, self._cache, lambda _: None)
