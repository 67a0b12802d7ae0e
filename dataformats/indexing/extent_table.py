"""Where all records of a source lie, held so that the kernels look them up themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.interfaces import Extents, Reader
from dataformats.storage.native_read import held

__all__ = ["Tables"]

_RECORD_BYTES = 24  # file, offset, length, checksum
_MOST_BYTES = 128 * 2**20
_MOST_CHOICES = 1024  # of fields, which some choose anew for each call
_PART = 16  # a table is made once so large a part of the records was asked for: it costs as much as to locate them all


class Tables:
    """The extents of all records, field by field, made once that pays. Thread-safe.

    Args:
        reader: What knows where they lie.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._fields: dict[str, Any] = {}
        self._made: dict[tuple[str, ...], tuple[Any, ...]] = {}
        self._asked = self._due = 0

    def of(self, fields: tuple[str, ...], n_asked: int) -> tuple[Any, ...] | None:
        """Return what `gathering.look_up` takes for these fields; `None` where records have to be located.

        Args:
            fields: At least one.
            n_asked: Of how many records the call wants them.
        """
        return self._made.get(fields) or self._make(fields, n_asked)

    def _make(self, fields: tuple[str, ...], n_asked: int) -> tuple[Any, ...] | None:
        if not self._hold([name for name in fields if name not in self._fields], n_asked):
            return None
        if len(self._made) >= _MOST_CHOICES:
            self._made.clear()
        made = self._made[fields] = tuple([self._fields[name] for name in fields])
        return made

    def _hold(self, missing: list[str], n_asked: int) -> bool:
        """Make the extents of these fields, each once, whichever other fields it is read with; True: all are there."""
        if not missing:
            return True
        self._asked += n_asked
        if self._asked < self._due:
            return False
        n = int(self._reader.counts.sum())
        is_early = self._asked < n // _PART
        # Where it cannot be made now, it may be later: indexes of more files are known then.
        self._due = n // _PART if is_early else 2 * self._asked
        if is_early or n * _RECORD_BYTES * (len(self._fields) + len(missing)) > _MOST_BYTES:
            return False
        for field in missing:
            extents = self._reader.all_extents(field)
            index = None if extents is None else held(_told_wrong(extents))
            if index is None:
                return False
            self._fields[field] = index
        return True


def _told_wrong(extents: Extents) -> Extents:
    """Return extents in which records that have a problem fit no file, so that whoever asks for one locates it."""
    if not extents.problems:
        return extents
    length = extents.length.copy()
    length[np.fromiter(extents.problems, np.int64, len(extents.problems))] = -1
    around = (extents.head, extents.tail, extents.stored, extents.check)
    return Extents(extents.file, extents.offset, length, *around)
