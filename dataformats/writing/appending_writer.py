"""AppendingWriter: the base class of file writers whose records lie one behind another, each in a frame."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.indexing.file_index import ArrayIndex, FileIndex
from dataformats.interfaces import BlobWriter, FileWriter
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import VALUE
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile
from dataformats.storage.record_journal import (
    Entries,
    RecordJournal,
    StoredJournal,
    interrupted_append,
    journal_path,
)

_LOG = logging.getLogger("dataformats")
_BUFFER_BYTES = 2**20
_BUFFER_RECORDS = 4096
LARGE_BYTES = 8 * 2**20
"""A longer record is written by itself, without a copy."""
Journaled: TypeAlias = Literal["none", "flush", "record"]
"""What an entry of a journal covers; `"none"` if there is no journal."""


class AppendingWriter(FileWriter):
    r"""Writes one file whose records lie one behind another, each in a frame: implement `frame` and `index`.

    It buffers records, continues a write that a full disk stopped, syncs, and resumes behind the last whole record that
    the index of the format's own reader finds in the file. If frames have no checksums, a journal beside the file shows
    which records a loss of power damaged. If a table that `complete` writes locates the records, the journal does so
    until then. Inherit from `BlobWriter` or `FieldsWriter` as well.

    Args:
        path: The file.
        resume: Keep the whole records at the front of the file, and append to them.
        first_byte: Where the first record of a new file begins, if `complete` writes what is before it.

    Attributes:
        begin: The bytes that every file begins with.
        extra: Bytes that a frame adds to its record, about.
        overhead: Bytes of a complete file without a record, about.
        journaled: What an entry of the journal covers: `"flush"`, or `"record"` if nothing in the file locates records
            before it is complete; `"none"` if `index` verifies all bytes of a record, so that there is no journal.
        journal_fields: Fields of a record, in the order of their blobs in `frames`, if the journal lists records.
        journal_metadata: What the journal keeps about the file, as JSON; a writer with others cannot resume it.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from dataformats.interfaces import AppendingWriter, ArrayIndex, BlobWriter
        >>> class Lines(AppendingWriter, BlobWriter):
        ...     extra = 1
        ...     def frame(self, blob):
        ...         return blob + b"\n"
        ...     def frame_end(self, offset, length):
        ...         return offset + length + 1
        ...     def index(self, file):
        ...         lines = file.read_all(2**20).split(b"\n")[:-1]
        ...         length = np.array([len(line) for line in lines], np.int64)
        ...         yield ArrayIndex(np.cumsum(length + 1) - length - 1, length)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.lines"
        >>> path.write_bytes(b"one\ntwo\nthr")  # as an interrupted writer left it
        11
        >>> writer = Lines(path, resume=True)
        >>> writer.append(b"three")
        >>> writer.close()
        >>> writer.n_records, path.read_bytes()
        (3, b'one\ntwo\nthree\n')
    """

    begin: bytes = b""
    extra: int = 0
    overhead: int = 0
    journaled: Journaled = "flush"
    journal_fields: Sequence[str] = (VALUE,)
    journal_metadata: Mapping[str, Any] = {}

    def __init__(self, path: Path, *, resume: bool = False, first_byte: int = 0) -> None:
        self.n_records: int = 0
        self.n_bytes: int = self.overhead or len(self.begin)
        self._path = path
        self._type: type[Any] = bytes if isinstance(self, BlobWriter) else dict
        self._checks = type(self).check is not AppendingWriter.check
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._unwritten: list[bytes | memoryview] = []  # what a write that failed has yet to write
        self._end = first_byte  # bytes in the file
        self._is_named = False  # True once the folder's entry of the file is on disk
        self._file: FileIO | None = None
        self._journal: RecordJournal | None = None
        if self.journaled != "none":
            n_sizes, metadata = len(self.journal_fields), self.journal_metadata
            self._journal = RecordJournal(
                journal_path(path), [path], n_sizes=n_sizes, metadata=metadata, bases=[first_byte]
            )
        if resume and path.exists():
            self._resume()
        else:
            self._open(path, first_byte)

    # ---- what a format implements

    def frame(self, record: Any) -> bytes:
        """Return the bytes of one record in the file, from its blob or from a mapping from field to blobs."""
        raise NotImplementedError(f"{type(self).__name__} implements neither frame nor frames")

    def index(self, file: StoredFile) -> Iterator[ArrayIndex]:
        """Yield the index of a file that an interrupted writer left, as the reader builds it, in one part or several.

        The first record with a problem and all behind it are truncated. If fields are stored apart, the extents
        describe whole records. A format whose journal lists records needs no index.
        """
        raise NotImplementedError(f"{type(self).__name__} implements no index, and its journal lists no records")

    def frames(self, records: Sequence[Any]) -> Sequence[bytes | memoryview]:
        """Return the bytes of several records; override it if that is faster at once.

        If the journal lists records, these are the blobs of the `journal_fields` of each.
        """
        return [self.frame(record) for record in records]

    def frame_end(self, offset: int, length: int) -> int:
        """Return where the frame of a record ends whose blob lies there; by default, where the blob ends."""
        return offset + length

    def check(self, record: Any) -> None:
        """Raise `SpecError` if the format cannot hold a record; called before it is buffered."""

    def accepts_all(self, records: Sequence[bytes]) -> bool:
        """True if the format can hold all records, so that `extend` calls `check` for none of them.

        Override it together with `check` if it is faster for several records at once.
        """
        return not self._checks

    def end(self) -> bytes:
        """Return the bytes that complete the file, such as a table of its records; by default, none."""
        return b""

    def complete(self) -> None:
        """Write what completes the file; by default, `end`. If the journal lists records, both are on the disk."""
        end = self.end()
        if end and self.journaled == "record":  # no record, so the journal does not list it
            atomic.write_all(self._open_file().fileno(), end, self._end)
        elif end:
            self._write(end)

    def written(self) -> Iterator[FileIndex]:
        """Yield the index of all written records, some at a time; a format whose journal lists records completes by it.

        The extents of a format of one field have the CRC-32 of each record as `stored`.

        Raises:
            FormatError: The journal is not as it was written; after the last part.

        Example:
            >>> import pathlib, tempfile
            >>> from dataformats.interfaces import AppendingWriter, BlobWriter
            >>> class LengthsAtEnd(AppendingWriter, BlobWriter):
            ...     journaled = "record"
            ...     def frame(self, blob):
            ...         return blob
            ...     def end(self):
            ...         return b"".join(index.arrays["value"].length.astype("u1") for index in self.written())
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.blobs"
            >>> writer = LengthsAtEnd(path)
            >>> writer.extend([b"one", b"three"])
            >>> writer.close()
            >>> path.read_bytes()[:8], list(path.read_bytes()[8:])
            (b'onethree', [3, 5])
        """
        end = self.first_byte
        for entries in () if self._journal is None else self._journal.entries():
            stops = (end + np.cumsum(entries.sizes)).reshape(entries.sizes.shape)
            stored = entries.checksums[:, 0] if len(self.journal_fields) == 1 else None
            columns = zip(self.journal_fields, (stops - entries.sizes).T, entries.sizes.T, strict=True)
            yield FileIndex(len(entries), {name: ArrayIndex(offset, size, stored) for name, offset, size in columns})
            end = int(stops[-1, -1])

    def _moved(self, journal: StoredJournal) -> Sequence[int] | None:
        """Return where the records begin now if `complete` has moved them; by default, it does not."""

    # ---- the same for all formats

    @property
    def first_byte(self) -> int:
        """Where the first record begins in the file, until `complete` moves it."""
        return len(self.begin) if self._journal is None else self._journal.bases[0]

    def append(self, record: Any, /) -> None:
        """Append one record.

        Raises:
            TypeError: It is not bytes, bytearray or memoryview; if fields are stored apart, not a mapping.
            SpecError: The format cannot hold it.
        """
        if type(record) is not self._type:
            if isinstance(record, (bytearray, memoryview)):
                record = bytes(record)
            expected: type[Any] = bytes if self._type is bytes else Mapping
            if not isinstance(record, expected):
                kinds = f"expected {expected.__name__.lower()}, found {type(record).__name__}"
                raise TypeError(f"cannot append a record to {str(self._path)!r}: {kinds}")
        if self._checks:
            self.check(record)
        n_bytes = len(record) if self._type is bytes else _n_bytes(record)
        if n_bytes > LARGE_BYTES:
            self._write_pending()
        self._hold((record,), n_bytes)

    def extend(self, records: Sequence[Any], /) -> None:
        """Append several records, in order; up to the first that raises."""
        is_accepted = set(map(type, records)) == {bytes} and self.accepts_all(records)
        if is_accepted and (n_bytes := sum(map(len, records))) <= LARGE_BYTES:
            self._hold(records, n_bytes)
            return
        for record in records:
            self.append(record)

    def flush(self, *, sync: bool = False) -> None:
        """Flush buffers to the operating system; the file can then be resumed from here."""
        file = self._open_file()
        self._write_pending()
        if sync:
            os.fsync(file.fileno())
            if self._journal is not None:
                self._journal.sync([self._end])  # and the names in its folder
            elif not self._is_named:
                atomic.sync(self._path.parent)
                self._is_named = True

    def close(self, *, sync: bool = True) -> None:
        """Complete the file and sync it; a second call is a no-op.

        Raises:
            RuntimeError: An append was interrupted halfway.
        """
        if self._file is None:
            return
        if self.journaled == "record":
            self.flush(sync=True)  # so that a crash below leaves what `resume` understands
        else:
            self._write_pending()
        self._check_whole()
        self.complete()
        if sync:
            os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        if self._journal is not None:
            self._journal.close()
            if self.journaled == "flush":
                self._journal.remove()

    def suspend(self) -> None:
        """Close the incomplete file, with every record that was appended if the disk takes them."""
        if self._file is None:
            return
        try:
            self.flush()
        except OSError as error:
            _LOG.warning("could not write the last records of %s: %s", self._path, error)
        finally:
            self._close_file()

    def discard(self) -> None:
        """Delete the file."""
        self._pending = []
        self._close_file()
        atomic.remove(self._path)
        if self._journal is not None:
            self._journal.remove()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if self._journal is not None:
            self._journal.close()
        try:
            if file is not None:
                file.close()
        except OSError as error:
            _LOG.warning("could not close %s, which may be incomplete: %s", self._path, error)

    def _resume(self) -> None:
        """Truncate the file behind the last whole record."""
        if self._journal is not None:
            self._journal.resume(self._moved)
            self._journal.cut()
        if self.journaled == "record":
            self._resume_by_entries()
            return
        n, end, stored = 0, len(self.begin), LocalFile(self._path)
        try:
            head = stored.pread(0, end)
            has_begin = head == self.begin
            if any(head) and not self.begin.startswith(head):  # a crash of the machine may leave zeros
                raise FormatError(
                    "the unfinished file begins otherwise than a new one",
                    path=str(self._path),
                    offset_bytes=0,
                    expected=self.begin,
                    found=head,
                    remedy="Delete it, or pass the spec and the options that it was created with.",
                )
            for part in self.index(stored) if has_begin and stored.size > end else ():
                whole = min(part.problems, default=len(part))
                if whole:
                    n, end = n + whole, self.frame_end(int(part.offset[whole - 1]), int(part.length[whole - 1]))
                if whole < len(part):
                    break
        finally:
            stored.release()
        self.n_records, self.n_bytes = n, end
        self._open(self._path, end if has_begin else 0)

    def _resume_by_entries(self) -> None:
        """Resume behind the last record that the journal proves."""
        journal = self._journal
        assert journal is not None  # it lists records
        if not journal.is_found and self._path.stat().st_size:
            what = "cannot resume an unfinished file without its journal, which locates its records"
            raise FormatError(what, path=str(self._path), remedy="Delete it, or write without resume")
        self.n_records, (end,) = journal.n_entries, journal.sizes
        self.n_bytes += end - self.first_byte + self.extra * self.n_records
        self._open(self._path, end)

    def _open(self, path: Path, end: int = 0) -> None:
        """Open the file to write from byte `end` on; the bytes behind it are deleted."""
        self._file, self._end = atomic.open_unbuffered(path), end
        if os.fstat(self._file.fileno()).st_size > end:
            os.ftruncate(self._file.fileno(), end)
        self._unwritten = []
        if not end and self.begin:
            self._add([self.begin])

    def _open_file(self) -> FileIO:
        if self._file is None:
            raise ValueError(f"the writer of {str(self._path)!r} is closed")
        return self._file

    def _hold(self, records: Sequence[Any], n_bytes: int) -> None:
        """Append records to those that are written together."""
        if self._file is None:
            self._open_file()
        n_records = len(records)
        # No calls, so that an interrupt (Ctrl-C) comes before or after all of them.
        self._pending += records
        self._pending_bytes += n_bytes
        self.n_records += n_records
        self.n_bytes += n_bytes + n_records * self.extra
        if self._pending_bytes >= _BUFFER_BYTES or len(self._pending) >= _BUFFER_RECORDS:
            self._write_pending()

    def _count(self, n_records: int, n_bytes: int) -> None:
        self.n_records += n_records
        self.n_bytes += n_bytes + n_records * self.extra

    def _write_pending(self) -> None:
        self._write(*(self.frames(self._pending) if self._pending else ()))

    def _write_blobs(self, data: memoryview, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> None:
        """Append records to the file at once, if the journal has an entry for each.

        Args:
            data: The blobs of all records, back to back.
            sizes: int64[n, blobs of a record], their bytes.
            checksums: uint32[n], the CRC-32 of each record.
        """
        self._open_file()
        self._write_pending()
        self._count(len(sizes), len(data))
        self._add([data], Entries(sizes, checksums[:, None]))
        self._write()

    def _write(self, *parts: bytes | memoryview) -> None:
        """Append to the file, behind which nothing is pending. What a full disk refuses is written by the next call."""
        if parts:
            self._add(parts)
        if self._unwritten:
            descriptor = self._open_file().fileno()
            if self._journal is not None:
                self._journal.begin([self._end])
            n_bytes = atomic.write_parts(descriptor, self._unwritten, self._end)
            self._end, self._unwritten = self._end + n_bytes, []
        if self._journal is not None:
            self._journal.append()

    def _add(self, parts: Sequence[bytes | memoryview], entries: Entries | None = None) -> None:
        """Take parts, which are of all pending records, for the next write, and their entries for the journal."""
        journal, unlisted = self._journal, list[Entries]()
        if entries is None and self.journaled == "record":
            entries = Entries.of_records(parts, len(self.journal_fields))
        elif entries is None and journal is not None:
            entries = Entries.of_files(parts)
        if journal is not None and entries is not None:
            unlisted = [*journal.unlisted, entries]
        # No calls, so that an interrupt (Ctrl-C) comes before or after all of them.
        self._pending, self._pending_bytes = [], 0
        self._unwritten = [*self._unwritten, *parts]
        if journal is not None:
            journal.unlisted = unlisted

    def _check_whole(self) -> None:
        """Refuse a state that an interrupt (Ctrl-C) in an append or a flush left half changed."""
        journal = self._journal
        is_whole = journal is None or journal.covers([self._end])
        if self.journaled == "record" and journal is not None:
            is_whole &= journal.n_entries == self.n_records
        if not is_whole:
            raise interrupted_append(self._path)


def _n_bytes(record: Mapping[str, Sequence[bytes]]) -> int:
    return sum([len(blob) for blobs in record.values() for blob in blobs])
