"""Goes through a JSON document once, window by window: no more of it is in memory, whatever it contains."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.frame_scanner import read_window
from dataformats.backends.lines.line_scan import narrowed
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import CLOSED, scan_json
from dataformats.storage.remote.systems import is_url

SPACE = b" \t\r\n"
_WINDOW = 2**20
_REMOTE_WINDOW = 4 * 2**20  # each is a request
_ROOM = 2**16  # ends that one call of the kernel finds
_PIECE = 256
_MAX_KEY = 2**16
_MAX_SKIPPED = 8
_KEY = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*+")[ \t\r\n]*:', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a list.

    Attributes:
        head: Where the first one begins, with the space around it.
        lengths: int64[n], the bytes of each with the space around it; a comma is between two.
        are_objects: True if the first one is an object.
        problem: Why the list cannot be read on behind them; `None` if it ends there.
    """

    head: int
    lengths: NDArray[np.int64]
    are_objects: bool
    problem: FormatError | None


class Walk:
    """A place in a file that moves forward.

    Args:
        file: The file, decompressed.
        at: Where to begin.
        progress: Called with the bytes read since the last call.

    Attributes:
        at: The next byte.
        is_inside: True if the last `values` ended at the end of the file, inside of a value of several bytes.
        damage: Why the file cannot be read from `at` on, as if it ended there.
        skipped: The first keys whose values `members` has skipped.
    """

    def __init__(self, file: StoredFile, at: int, progress: Callable[[int], None] = lambda _: None) -> None:
        self.at: int = at
        self.is_inside: bool = False
        self.damage: FormatError | None = None
        self.skipped: list[str] = []
        self._file, self._progress = file, progress
        self._first, self._window = at, np.zeros(0, np.uint8)
        self._size = _REMOTE_WINDOW if is_url(file.name) and not file.is_compressed else _WINDOW

    def next(self) -> bytes:
        """Go to the next byte that is no space, and return it; none at the end of the file."""
        while piece := self._piece(_PIECE):
            rest = piece.lstrip(SPACE)
            self.at += len(piece) - len(rest)
            if rest:
                return rest[:1]
        return b""

    def values(self, level: int) -> tuple[NDArray[np.int64], bool]:
        """Go on to the end of the level, or of the file: see `dataformats.kernels.scan_json`.

        Returns:
            int64[n], the bytes of each value with its end; and True at the end of the level.
        """
        state, room = np.array([level, 0], np.int64), np.empty(_ROOM, np.int64)
        parts: list[NDArray[Any]] = [np.zeros(0, np.int64)]
        begin, why = self.at, -1
        while why != CLOSED and len(window := self._loaded()):
            n, stop, why = scan_json(window, self.at - self._first, level, state, room)
            ends = room[:n] + self._first
            if n:
                parts.append(narrowed(np.diff(ends, prepend=begin)))
                begin = int(ends[-1])
            self.at = self._first + stop
        self.is_inside = state.tolist() != [level, 0]
        return np.concatenate(parts, dtype=np.int64), why == CLOSED

    def elements(self) -> Elements:
        """Go through a list, from behind its bracket on."""
        head = self.at
        are_objects = self.next() == b"{"
        self.at = head
        lengths, is_closed = self.values(1)
        last = head + int(lengths.sum())
        lengths -= 1
        stop = self.at - is_closed
        end = self._before() if is_closed else b""
        tail = Walk(self._file, last).next() if last < stop else b""
        if end == b"]":
            if tail not in (b"", b"]"):
                return Elements(head, np.append(lengths, stop - last), are_objects, None)
            what = "a comma at the end of the list"
            return Elements(head, lengths, are_objects, self.error(what, last - 1) if len(lengths) else None)
        if not end and self._ends_whole(last):
            lengths, last = np.append(lengths, stop - last), stop
        return Elements(head, lengths, are_objects, self.error("the list has no end", last, "]", end))

    def members(self) -> tuple[dict[str, Elements], FormatError | None]:
        """Go through an object, from behind its brace on; return its lists by key, and why it cannot be read on."""
        lists: dict[str, Elements] = {}
        if self.next() == b"}":
            self.at += 1
            return lists, None
        while (key := self._key()) is not None:
            byte = self.next()
            if byte == b"[":
                self.at += 1
                lists[key] = self.elements()
                if lists[key].problem is not None:
                    return lists, lists[key].problem
                byte = self.next()
                self.at += 1
            else:
                lists.pop(key, None)  # the last of equal keys counts
                self.skipped += [key] if len(self.skipped) < _MAX_SKIPPED else []
                begin = self.at
                byte = self._skip()
                if not byte:
                    return lists, self.error("the object has no end", begin, "}", b"")
            if byte == b"}":
                return lists, None
            if byte != b",":
                return lists, self.error("the object does not go on", self.at - 1, ", or }", byte)
        byte = self.next()
        return lists, self.error("the object does not go on", self.at, 'a key, as in "key": value', byte)

    def error(self, what: str, offset: int, expected: object = None, found: bytes | None = None) -> FormatError:
        """Return an error of the document; `found` is b"" at the end of the file."""
        kind = FormatError if found or found is None else TruncatedError
        shown = None if found is None else found.decode(errors="replace") or "the end of the file"
        return kind(what, path=self._file.name, offset_bytes=offset, expected=expected, found=shown)

    def _key(self) -> str | None:
        """Go behind the key of a member and its colon, and return the key; `None` if the bytes are no key."""
        found = _KEY.match(self._piece(_PIECE)) or _KEY.match(self._piece(_MAX_KEY))
        if found is None:
            return None
        try:
            key: str = json.loads(found[1])
        except ValueError:
            return None
        self.at += found.end()
        return key

    def _skip(self) -> bytes:
        """Go behind the value of a member, and the comma or brace after it; return it, none at the end of the file."""
        state, room, n, why = np.array([1, 0], np.int64), np.empty(1, np.int64), 0, -1
        while not n and why != CLOSED:
            if not len(window := self._loaded()):
                return b""
            n, stop, why = scan_json(window, self.at - self._first, 1, state, room)
            self.at = self._first + stop
        return self._before()

    def _before(self) -> bytes:
        """Return the byte before `at`, where a scan has stopped."""
        stop = self.at - self._first
        return self._window[stop - 1 : stop].tobytes()

    def _ends_whole(self, begin: int) -> bool:
        """True if the last value, from `begin` to the end of the file, is a list or an object with its end."""
        first = max(begin, self.at - _MAX_KEY)
        tail = read_window(self._file, first, self.at - first).tobytes().rstrip(SPACE)
        return not self.is_inside and tail.endswith((b"}", b"]"))

    def _piece(self, size: int) -> bytes:
        window = self._loaded()
        piece = window[self.at - self._first :][:size]
        return piece.tobytes() if len(piece) == size else self._read(size).tobytes()

    def _loaded(self) -> NDArray[np.uint8]:
        """Return the window with the next byte; an empty one at the end of the file."""
        if not self._first <= self.at < self._first + len(self._window):
            self._first, self._window = self.at, self._read(self._size)
            self._progress(len(self._window))
        return self._window

    def _read(self, size: int) -> NDArray[np.uint8]:
        try:
            return read_window(self._file, self.at, size)
        except FormatError:
            damaged = [one for one in self._file.damaged_ranges() if one[0].stop > self.at]
            if not damaged:
                raise
        bad, error = min(damaged, key=lambda one: one[0].start)
        if bad.start > self.at:
            return self._read(min(size - 1, bad.start - self.at))
        self.damage = error
        return np.zeros(0, np.uint8)
