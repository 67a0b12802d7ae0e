"""Finds the lines of a whole file, in windows; a large local file in several windows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.frame_scanner import read_window
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import scan_lines
from dataformats.storage.remote.systems import is_url
from dataformats.storage.threads import processors, submit

BOM = b"\xef\xbb\xbf"
_WINDOW = 2**20
_REMOTE_WINDOW = 4 * 2**20  # each is a request
_MAX_DAMAGED = 1000  # chunks: in a file with more, each costs a search through the others
_ROOM = 2**16  # lines that one call of the kernel finds

Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a file.

    Attributes:
        begin: Where the first one begins: behind a byte order mark.
        lengths: int64[n], the bytes of each with its end, negative if the line is blank. They fill the file.
        is_open: True if the last line has no end; its length counts one that is missing.
        is_crlf: True if all ends are CR LF.
    """

    begin: int
    lengths: Lengths
    is_open: bool
    is_crlf: bool


@dataclass(frozen=True, slots=True)
class _WindowLines:
    """The lines of a window: the first one may have begun before it.

    Attributes:
        lengths: int64[n], as in `Lines`.
        n_crlf: Lines that end in CR LF, both in the window.
        n_left: Bytes behind the last end.
        left_is_blank: True if they are blank.
        begins_with_end: True if the window begins with LF.
        ends_with_return: True if it ends with CR.
        n_bytes: Its bytes.
    """

    lengths: Lengths
    n_crlf: int
    n_left: int
    left_is_blank: bool
    begins_with_end: bool
    ends_with_return: bool
    n_bytes: int


def find_lines(file: StoredFile, progress: Callable[[int], None] | None = None) -> Lines:
    """Return the lines of a file. A line may be longer than memory: only windows of the file are held.

    Args:
        file: The file, decompressed.
        progress: Called by this thread with the bytes scanned since the last call.
    """
    begin = len(BOM) if _readable_window(file, 0, len(BOM)).tobytes() == BOM else 0
    parts: list[NDArray[Any]] = []
    n_lines = n_crlf = carried = 0
    carried_is_blank, after_return = True, False
    for window in _windows(file, begin):
        n_crlf += window.n_crlf + (after_return and window.begins_with_end)
        after_return = window.ends_with_return
        if len(window.lengths):
            first = int(window.lengths[0])
            whole = carried + abs(first)
            window.lengths[0] = -whole if carried_is_blank and first < 0 else whole
            parts.append(narrowed(window.lengths))
            n_lines += len(window.lengths)
            carried, carried_is_blank = 0, True
        carried += window.n_left
        carried_is_blank = carried_is_blank and window.left_is_blank
        if progress is not None:
            progress(window.n_bytes)
    is_crlf = 0 < n_lines == n_crlf
    if carried:
        parts.append(np.array([-carried - 1 if carried_is_blank else carried + 1], np.int64))
    lengths = np.concatenate(parts, dtype=np.int64) if parts else np.zeros(0, np.int64)
    return Lines(begin, lengths, carried > 0, is_crlf)


def narrowed(lengths: Lengths) -> NDArray[Any]:
    """Return lengths in the least memory."""
    is_short = int(lengths.min()) > -(2**31) and int(lengths.max()) < 2**31
    return lengths.astype(np.int32) if is_short else lengths  # half of the memory, for millions of lines


def _windows(file: StoredFile, begin: int) -> Iterator[_WindowLines]:
    """Yield the lines of each window, in order; one window a thread is scanned at a time, unless it is compressed."""
    size = _REMOTE_WINDOW if is_url(file.name) else _WINDOW
    if file.is_compressed:
        offset = begin
        while len(window := _readable_window(file, offset, size)):
            yield _lines_of(window)
            offset += len(window)
        return
    offsets = iter(range(begin, file.size, size))
    waiting = [submit(_scan, file, offset, size) for offset in islice(offsets, processors() + 1)]
    try:
        while waiting:
            found = waiting.pop(0).result()
            waiting += [submit(_scan, file, offset, size) for offset in islice(offsets, 1)]
            yield found
    finally:
        for future in waiting:
            future.cancel()


def _readable_window(file: StoredFile, offset: int, size: int) -> NDArray[np.uint8]:
    """Return a window in which letters stand for damaged chunks: so the lines in and around one are one record."""
    try:
        return read_window(file, offset, size)
    except FormatError:
        if not file.damaged_ranges():
            raise
    window = np.full(min(size, file.size - offset), ord("X"), np.uint8)
    at, stop = offset, offset + len(window)
    while at < stop:
        damaged = [bad for bad, _ in file.damaged_ranges()]
        inside = next((bad for bad in damaged if at in bad), None)
        until = min([stop, *(bad.start for bad in damaged if bad.start > at)])
        try:
            if inside is None:
                window[at - offset : until - offset] = read_window(file, at, until - at)
            at = until if inside is None else inside.stop
        except FormatError:
            if not len(damaged) < len(file.damaged_ranges()) <= _MAX_DAMAGED:
                raise
    return window


def _scan(file: StoredFile, offset: int, size: int) -> _WindowLines:
    return _lines_of(read_window(file, offset, size))


def _lines_of(window: NDArray[np.uint8]) -> _WindowLines:
    room, stop, n_crlf = np.empty(_ROOM, np.int64), 0, 0
    parts: list[Lengths] = []
    while True:
        n, stop, crlf, _ = scan_lines(window, stop, room)
        parts.append(room[:n].copy())
        n_crlf += crlf
        if n < _ROOM:
            break
    left = window[stop:].tobytes()
    return _WindowLines(
        np.concatenate(parts) if len(parts) > 1 else parts[0],
        n_crlf,
        len(left),
        not left.strip(b" \t\r"),
        window[:1].tobytes() == b"\n",
        window[-1:].tobytes() == b"\r",
        len(window),
    )
