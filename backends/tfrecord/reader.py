"""Reads TFRecords: an index of each file, or from the first record to the last without one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from dataformats.backends.tfrecord.content import Compression, decompressed
from dataformats.backends.tfrecord.index import exact_frames, hinted_frames, save_frames
from dataformats.backends.tfrecord.layout import FOOTER_BYTES, HEADER, FrameCheck
from dataformats.backends.tfrecord.scan import scan
from dataformats.backends.tfrecord.stream import stream
from dataformats.indexed import FileIndex, IndexedReader
from dataformats.interfaces import Check, OpenOptions, Stretch
from dataformats.storage.files import StoredFile
from dataformats.storage.forks import after_fork
from dataformats.storage.inflate import Inflated

__all__ = ["TFRecordReader"]

_FEW = 8


class TFRecordReader(IndexedReader):
    """TFRecord files as they are; compressed ones through checkpoints of the decompressor.

    Args:
        files: The files as they lie on the disk.
        options: What `open` was told.
        compression: Of all files, or `"auto"`: of each as its first bytes say.

    Raises:
        FormatError: A file is not compressed as `compression` says.
    """

    head = HEADER.size
    tail = FOOTER_BYTES

    def __init__(self, files: Sequence[StoredFile], options: OpenOptions, compression: Compression = "auto") -> None:
        super().__init__(_decompressed(files, compression))
        self._options = options
        self._check = FrameCheck(options.verify_checksums)
        self._progress = _Progress(options, files)

    @property
    def check(self) -> Check:
        """What verifies frames: their length, and with `verify_checksums` both checksums."""
        return self._check

    def load_index(self, file: int) -> FileIndex:
        """Return the index of a file: as kept by whoever opened it before, as hinted, or made now."""
        stored, where = self.files[file], self._options.index
        frames = exact_frames(stored, where)
        if frames is None:
            with self._progress.file(stored) as progress:
                frames = hinted_frames(stored, where) or scan(stored, progress.add)
            save_frames(stored, where, frames)
        else:
            self._progress.skip(stored)
        return frames.index()

    def stream(self, file: int) -> Iterator[Stretch]:
        """Yield the records of one file in order, without an index."""
        return stream(self.files[file], verify_checksums=self._options.verify_checksums)


class _Progress:
    """Adds up what the threads that build indexes have gone through, in bytes on the disk."""

    def __init__(self, options: OpenOptions, files: Sequence[StoredFile]) -> None:
        self._report = options.progress
        self._total = sum(file.size for file in files)
        self._done = 0
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def file(self, file: StoredFile) -> _FileProgress:
        return _FileProgress(self, file)

    def skip(self, file: StoredFile) -> None:
        self.add(_size(file))

    def add(self, n_bytes: int) -> None:
        if self._report is None or n_bytes <= 0:
            return
        with self._lock:
            self._done += n_bytes
            self._report(self._done, self._total)


class _FileProgress:
    """The part of one file; what was not told on the way is told at its end."""

    def __init__(self, whole: _Progress, file: StoredFile) -> None:
        self._whole = whole
        self._left = _size(file)
        # Positions in decompressed data say nothing about how much of the file is done.
        self._measured = not isinstance(file, Inflated)

    def __enter__(self) -> _FileProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._whole.add(self._left)

    def add(self, n_bytes: int) -> None:
        if self._measured:
            n_bytes = min(n_bytes, self._left)
            self._left -= n_bytes
            self._whole.add(n_bytes)


def _size(file: StoredFile) -> int:
    return file.compressed.size if isinstance(file, Inflated) else file.size


def _decompressed(files: Sequence[StoredFile], compression: Compression) -> list[StoredFile]:
    if len(files) <= _FEW:
        return [decompressed(file, compression) for file in files]
    with ThreadPoolExecutor(min(16, len(files))) as threads:  # remote files answer late
        return list(threads.map(lambda file: decompressed(file, compression), files))
