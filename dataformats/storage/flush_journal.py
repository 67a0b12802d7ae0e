"""FlushJournal: shows a resume which bytes of growing files, whose records have no checksums, are as written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import IO, Any

from dataformats.errors import FormatError
from dataformats.kernels import crc32
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked

_CHUNK_BYTES = 2**20


class FlushJournal:
    """The sizes of growing files after each flush, and CRC-32s of the bytes that it added.

    After a loss of power, a file that was not synced may have its new size, and zeros or older bytes. So a resume keeps
    what was synced, and of the flushes after it those whose bytes match. The name of the journal is on the disk before
    the first byte of the data, and it is deleted when they are complete and synced. So data without one are believed.

    Args:
        path: The journal.
        files: The growing files.
        resume: Read the journal, if there is one.

    Attributes:
        synced: The size of each file at the last sync; `None` if the journal was not found.

    Raises:
        FormatError: The journal is damaged.
    """

    def __init__(self, path: Path, files: Sequence[Path], *, resume: bool) -> None:
        self.synced: list[int] | None = None
        self._path, self._files = path, files
        self._sizes, self._checksums = [0] * len(files), [0] * len(files)
        self._end = 0  # bytes of the journal
        self._file: FileIO | None = None
        # A format that deletes a growing file (Granular, generation 2) has synced all of them before.
        if resume and path.exists() and all(file.exists() for file in files):
            self._read()

    def cut(self) -> bool:
        """Cut off the bytes of the files that do not match the journal; return True if there were any."""
        files = () if self.synced is None else zip(self._files, self._sizes, strict=True)
        longer = [(path, size) for path, size in files if path.stat().st_size > size]
        for path, size in longer:
            os.truncate(path, size)
        return bool(longer)

    def begin(self, sizes: Sequence[int]) -> None:
        """Open the journal, before the first write to files of these sizes; a second call is a no-op."""
        if self._file is not None:
            return
        if self._sizes != [*sizes] or not any(sizes):
            self._sizes, line = [*sizes], b""
            if any(sizes):
                for file in self._files:
                    atomic.sync(file)
                line = self._line(synced=True)
                atomic.write_bytes(self._path, line)  # at once: a torn journal would cost the data before it
            else:
                atomic.remove(self._path)  # not truncated: its old lines could come back
            self._end = len(line)
        self._file = atomic.open_unbuffered(self._path)
        os.ftruncate(self._file.fileno(), self._end)
        if not self._end:
            atomic.sync(self._path.parent)

    def write(self, number: int, descriptor: int, parts: Sequence[bytes | memoryview], offset: int) -> int:
        """Write parts to a file, given by its number: see `write_parts`."""
        parts = atomic.joined(parts)
        n_bytes = atomic.write_parts(descriptor, parts, offset)
        self.count(number, parts)
        return n_bytes

    def count(self, number: int, parts: Sequence[bytes | memoryview]) -> None:
        """Count bytes that are written, or about to be, to a file, given by its number."""
        for part in parts:
            self._checksums[number] = crc32(part, self._checksums[number])

    def append(self, sizes: Sequence[int], *, synced: bool = False, to_disk: bool = False) -> None:
        """Add a line for a flush, unless it added nothing.

        Args:
            sizes: The size of each file behind it.
            synced: The files are synced.
            to_disk: Sync the journal.
        """
        if to_disk:
            self.begin(sizes)  # also without new bytes: the lines on which a resume relied may not be on the disk
        if self._file is None:
            return
        if self._sizes != [*sizes] or synced:
            self._sizes = [*sizes]
            line = self._line(synced=synced)
            atomic.write_all(self._file.fileno(), line, self._end)
            self._end += len(line)
            self._checksums = [0] * len(sizes)
        if to_disk:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the journal; it stays for a resume."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Delete the journal, also one that is half written."""
        self.close()
        atomic.remove(self._path, self._path.with_name(f"{self._path.name}.partial"))

    def _line(self, *, synced: bool) -> bytes:
        return pack_checked({"sizes": self._sizes, "crc32s": self._checksums, "synced": synced}) + b"\n"

    def _read(self) -> None:
        with ExitStack() as stack:
            journal = stack.enter_context(self._path.open("rb"))
            sizes, end, is_torn = self._sizes, 0, True
            for stop, line in _lines(journal):
                is_torn = False
                if line["synced"]:
                    sizes, end = line["sizes"], stop
            journal.seek(0)
            # Without one whole line, nothing was synced: a kill or a full disk leaves a part, a loss of power zeros.
            if is_torn and b"\n" in journal.read(_CHUNK_BYTES):
                remedy = "Delete it to keep all whole records of the data, or start again without resume=True"
                raise FormatError("the journal of the unfinished data is damaged", path=str(self._path), remedy=remedy)
            self.synced = sizes
            files = [stack.enter_context(file.open("rb")) for file in self._files]
            journal.seek(end)
            for stop, line in _lines(journal, end):
                parts = zip(files, sizes, line["sizes"], line["crc32s"], strict=True)
                if any(_checksum(file, start, size) != stored for file, start, size, stored in parts):
                    break
                sizes, end = line["sizes"], stop
        self._sizes, self._end = sizes, end


def _lines(journal: IO[bytes], stop: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield the sound lines at the front, each with the byte behind it."""
    for line in journal:
        stop += len(line)
        try:
            facts = parse_checked(line)
        except ValueError:
            return
        yield stop, facts


def _checksum(file: IO[bytes], start: int, stop: int) -> int | None:
    """Return the CRC-32 of a part of a file; `None` if the file is shorter."""
    value = 0
    file.seek(start)
    while start < stop:
        part = file.read(min(_CHUNK_BYTES, stop - start))
        if not part:
            return None
        value, start = crc32(part, value), start + len(part)
    return value
