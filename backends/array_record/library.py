"""The library array_record, and its readers of one file, which are kept open for the next read."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dataformats.errors import FormatError, TruncatedError
from dataformats.fork_hooks import import_unforked
from dataformats.interfaces import StoredFile
from dataformats.storage.descriptors import max_open_files, open_patiently
from dataformats.storage.files import LocalFile

BLOCK_BYTES = 2**16
_RANDOM = "readahead_buffer_size:0,max_parallelism:0"  # no thread reads ahead
_COPY_BYTES = 8 * 2**20
MAGIC = bytes.fromhex("10 de c0 eb fe 84 ce c3 c9 71")  # field 2 of RiegeliPostscript: layout.proto of array_record
POSTSCRIPT_BYTES = 256
_REPAIR = "Run dataformats repair: it finds the chunks that are there"
_CUT = "the file was cut, or its writer was not closed: the last 64 KiB with the place of its table are missing"


def array_record() -> Any:
    """Return the module of the library, which crashes in a forked process in which several threads read."""
    return import_unforked("array_record.python.array_record_module", "array_record", "arrayrecord")


class LibraryFiles:
    """Opens files by the library. Thread-safe.

    The library reads by names. So a file that is not on the local disk is copied at its first use, into a temporary
    file that has no name and ends with this object.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self._files = files
        self._idle: OrderedDict[int, list[Any]] = OrderedDict()
        self._copies: dict[int, int] = {}
        self._lock, self._copying = threading.Lock(), threading.Lock()

    @contextmanager
    def reader(self, number: int) -> Iterator[Any]:
        """Yield a reader of a file, which no other thread uses; it is kept for later, unless an error leaves it unfit.

        Raises:
            FormatError: The file cannot be opened, or has changed.
        """
        file = self._files[number]
        if isinstance(file, LocalFile):
            file.check_unchanged()
        array_record()  # refuses forked processes
        with self._lock:
            kept = self._idle.get(number)
            found = kept.pop() if kept else None
        found = found or self.open(number)
        yield found
        if not found.ok():
            return
        with self._lock:
            self._idle.setdefault(number, []).append(found)
            self._idle.move_to_end(number)
            while len(self._idle) > max_open_files():
                self._idle.popitem(last=False)

    def open(self, number: int) -> Any:
        """Return a new reader of a file.

        Raises:
            FormatError: The library cannot open it.
            OSError: The process may open no more files.
        """
        return open_patiently(lambda: self._opened(number))

    def _opened(self, number: int) -> Any:
        file = self._files[number]
        reader = array_record().ArrayRecordReader(self._path(number, file), _RANDOM)
        if reader.ok():
            return reader
        message = _message(reader)
        if os.strerror(errno.EMFILE) in message:
            with self._lock:
                self._idle.clear()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), file.name)
        if file.size % BLOCK_BYTES or not has_postscript(file):
            raise TruncatedError(
                _CUT, path=file.name, found=f"{file.size} bytes", remedy=_REPAIR if file.size else "Write it again"
            )
        raise FormatError("the file cannot be opened", path=file.name, found=message)

    def _path(self, number: int, file: StoredFile) -> str:
        if file.local is not None:
            return file.local
        with self._copying:
            if number not in self._copies:
                descriptor = self._copies[number] = _copied(file)
                weakref.finalize(self, os.close, descriptor)
            return f"/dev/fd/{self._copies[number]}"


def has_postscript(file: StoredFile) -> bool:
    """True if the last block of a file says where its table lies."""
    return file.size >= BLOCK_BYTES and MAGIC in file.pread(file.size - BLOCK_BYTES, POSTSCRIPT_BYTES)


def _copied(file: StoredFile) -> int:
    """Return a descriptor of a copy without a name."""
    with tempfile.TemporaryFile(prefix="dataformats-") as copy:
        for offset in range(0, file.size, _COPY_BYTES):
            copy.write(file.pread(offset, _COPY_BYTES))
        copy.flush()
        return os.dup(copy.fileno())


def _message(reader: Any) -> str:
    """Return why a reader failed: the library tells it when records are read."""
    try:
        reader.read([0])
    except (RuntimeError, IndexError, ValueError) as error:
        return str(error)
    return "an unknown error"
