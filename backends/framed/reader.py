"""Reads files of frames: any records through an index of each file, or all in order without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dataformats.backends.framed.file_scan import scan
from dataformats.backends.framed.frame_index import FrameIndex, FrameIndexStore
from dataformats.backends.framed.kept_index import KeptIndexReader
from dataformats.backends.framed.stream import iter_chunks
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.interfaces import Check, ReaderOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.seekable_gzip import DecompressedFile


class FramedReader(KeptIndexReader):
    """The records of files of frames.

    Args:
        files: The files, decompressed.
        store: Loads and saves the indexes of the format.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, store: FrameIndexStore) -> None:
        super().__init__(files, options)
        self.head: int = store.framing.head
        self.tail: int = store.framing.tail
        self.has_stored: bool = self.tail > 0
        self._store = store
        self._check = store.framing.check(options.verify_checksums)

    @property
    def check(self) -> Check:
        """The check of frames: their lengths, and with `verify_checksums` their checksums, if they have any."""
        return self._check

    def load_exact(self, file: StoredFile) -> FrameIndex | None:
        return self._store.load_exact(file, self._cache)

    def build(self, file: StoredFile, progress: Callable[[int], None]) -> FrameIndex:
        frames = self._store.load_hinted(file, self._cache) or scan(self._store.framing, file, progress)
        return self._store.save(file, self._cache, frames)

    def index_of_content(self, before: FrameIndex, file: StoredFile) -> FrameIndex:
        if before.is_compared:
            return before
        if isinstance(file, DecompressedFile):
            file.forget_size()
        frames = scan(self._store.framing, file)
        if frames.rest is None or before.rest is not None:
            return self._store.save(file, self._cache, frames)
        try:  # the file was damaged since: the index says where the records behind the damage are
            return self._store.save(file, self._cache, before.frames(self._store.framing), is_compared=True)
        except BrokenBlockError:
            return self._store.save(file, self._cache, frames)

    def iter_chunks(self, file: int) -> Iterator[RecordChunk]:
        """Yield the records of one file in order, without an index."""
        stored, n_yielded = self.files[file], 0
        if isinstance(stored, DecompressedFile) and self.options.verify_checksums:
            one_pass = DecompressedFile(stored.stored, stored.compression, one_pass=True)
            for chunk in iter_chunks(self._store.framing, one_pass, self.options):
                if chunk.problems:
                    break  # it may lie before the damage, which the slower way finds at the same place each time
                n_yielded += len(chunk.blobs)
                yield chunk
            else:
                return
        for chunk in iter_chunks(self._store.framing, stored, self.options):
            skipped = min(n_yielded, len(chunk.blobs))
            n_yielded -= skipped
            problems = {row - skipped: problem for row, problem in chunk.problems.items() if row >= skipped}
            if skipped < len(chunk.blobs):
                yield RecordChunk(chunk.blobs.take(slice(skipped, None)), problems, chunk.base)
