"""The file operations of a program, as the shim recorded them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from struct import Struct
from typing import Any

_ENTRY = Struct("=IIIIqQQQ")  # `struct entry` of shim.c


class Kind(IntEnum):
    """The kinds of `shim.c`, by their numbers there."""

    CREATE = 1
    MKDIR = 2
    SYMLINK = 3
    LINK = 4
    REMOVE = 5
    RENAME = 6
    WRITE = 7
    TRUNCATE = 8
    ZERO = 9
    SYNC = 10
    SYNC_ALL = 11
    NOTE = 12


_NAMES = (Kind.CREATE, Kind.MKDIR, Kind.SYMLINK, Kind.LINK)


@dataclass(frozen=True, slots=True)
class Event:
    """One operation that succeeded, or a note between two of them; `shim.c` explains `a`, `b` and `c`."""

    kind: Kind
    a: int
    b: int
    c: int
    time_ns: int
    text: bytes
    text2: bytes

    def described(self, paths: Mapping[int, str]) -> str:
        """Return the operation in words; `paths` has the path of an inode."""
        own = paths.get(self.a, f"inode {self.a}")
        name, name2 = self.text.decode(errors="replace"), self.text2.decode(errors="replace")
        match self.kind:
            case Kind.NOTE:
                return f"note {name}"
            case Kind.SYNC_ALL:
                return "sync all"
            case Kind.RENAME:
                verb = "exchange" if self.c & 2 else "rename"
                return f"{verb} {own}/{name} and {paths.get(self.b, self.b)}/{name2}"
            case Kind.WRITE:
                return f"write {len(self.text)} bytes at {self.b} of {own}"
            case Kind.TRUNCATE:
                return f"set the size of {own} to {self.b}"
            case Kind.ZERO | Kind.SYNC:
                return f"{self.kind.name.lower()} {own}"
            case _:
                return f"{self.kind.name.lower()} {own}/{name}"

    def half(self) -> Event:
        """Return the first half of a write."""
        return replace(self, text=self.text[: len(self.text) // 2])

    def with_inodes(self, inode: Callable[[int], int]) -> Event:
        """Return the operation with other inodes."""
        if self.kind in (Kind.SYNC_ALL, Kind.NOTE):
            return self
        second = self.kind in (*_NAMES, Kind.RENAME)
        return replace(self, a=inode(self.a) if self.a else 0, b=inode(self.b) if second and self.b else self.b)


def events_of(record: bytes) -> Iterator[Event]:
    """Yield the operations in a record."""
    place = 0
    while place < len(record):
        kind, n, n2, _, time_ns, a, b, c = _ENTRY.unpack_from(record, place)
        place += _ENTRY.size
        middle, end = place + n, place + n + n2
        yield Event(Kind(kind), a, b, c, time_ns, record[place:middle], record[middle:end])
        place = end


@dataclass
class Progress:
    """The progress of a job, by its notes.

    Attributes:
        call: The call that ran, or would have run next.
        is_complete: True if all calls had returned.
        promised: Maps a call to the number of records that it had synced.
    """

    call: int = 0
    is_complete: bool = False
    promised: dict[int, int] = field(default_factory=dict)

    def after(self, events: Sequence[Event], n_calls: int) -> Progress:
        """Return the progress after more operations."""
        found = Progress(self.call, self.is_complete, dict(self.promised))
        for event in events:
            if event.kind is Kind.NOTE:
                found._note(json.loads(event.text), n_calls)
        return found

    def _note(self, note: dict[str, Any], n_calls: int) -> None:
        self.call = note.get("call", self.call)
        if "promised" in note:
            self.promised[self.call] = max(note["promised"], self.promised.get(self.call, 0))
        if "returned" in note:
            self.is_complete |= note["returned"] == n_calls - 1
            self.call = min(note["returned"] + 1, n_calls - 1)
