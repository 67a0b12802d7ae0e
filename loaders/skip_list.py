"""SkipList: the records and positions that a run leaves out, kept in a file for its next start."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, StateMismatchError
from dataformats.fork_hooks import cached_property
from dataformats.integer_arguments import as_int, checked_int
from dataformats.loaders.quarantine import Quarantined
from dataformats.loaders.skips import MAX_POSITION, Skips
from dataformats.loaders.trace import TracedRecord
from dataformats.storage.atomic import write_bytes

__all__ = ["SkipList"]

SkipEntry = int | tuple[int, int] | TracedRecord | Quarantined
"""The index of a record, a pair (start, stop) of positions, or a record that a loader traced or quarantined."""

_VERSION = 1
_KEYS = ("version", "fingerprint", "records", "positions")
_index = partial(checked_int, "index of a record to skip", minimum=0)
_REMEDY = "Pass a list of these data, or make one: loader.skip_list(loader.trace(step))"


@dataclass(frozen=True, eq=False)
class SkipList:
    """Records and positions that a run leaves out: `Loader.skip_list` returns one, `Loader(skip=)` takes it.

    Attributes:
        fingerprint: The fingerprint of the data.
        records: The indices of the records of each component, int64[n], ascending.
        skips: The positions.
        sizes: `len` and `stored_length` of each component of these data, which may grow; empty if they are unknown.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> loader = dataformats.Loader(range(100, 110), 5, shuffle=False)
        >>> skips = loader.skip_list([7, *loader.trace(0)[:2], (3, 5)])
        >>> skips
        SkipList(3 records, 2 positions)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "skip.json"
        >>> skips.save(path)
        >>> again = dataformats.Loader(range(100, 110), 5, shuffle=False, skip=path)
        >>> [batch["value"].tolist() for batch in again]
        [[102, 105, 106], [108, 109]]
    """

    fingerprint: str
    records: tuple[NDArray[np.int64], ...]
    skips: Skips
    sizes: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, entries: Iterable[SkipEntry], fingerprint: str, sizes: tuple[tuple[int, int], ...] = ()) -> SkipList:
        """Return the list of these entries, which may be in any order.

        Args:
            entries: The records and positions.
            fingerprint: The fingerprint of the data.
            sizes: `len` and `stored_length` of each component.

        Raises:
            ValueError: One is not an entry.
            TypeError: A position is not an integer.
        """
        records: dict[int, list[int]] = {}
        ranges: list[tuple[Any, Any]] = []
        for entry in entries:
            if isinstance(entry, (TracedRecord, Quarantined)):
                records.setdefault(_index(entry.component), []).append(_index(entry.index))
            elif isinstance(entry, tuple) and len(entry) == 2:
                ranges.append(entry)
            else:
                records.setdefault(0, []).append(_index(entry))
        n_components = max(records, default=-1) + 1
        arrays = _arrays(records.get(number, ()) for number in range(n_components))
        return cls(fingerprint, arrays, Skips.of(ranges), sizes)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SkipList:
        """Return the list in a file.

        Raises:
            FormatError: The file is not a skip list, or one of a newer release.
            OSError: It cannot be read.
        """
        data = Path(path).read_bytes()
        try:
            found = json.loads(data)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            records = _arrays([*map(_index, indices)] for indices in found["records"])
            ranges = [(as_int(first), as_int(stop)) for first, stop in found["positions"]]
            sizes = tuple((as_int(n), as_int(n_stored)) for n, n_stored in found.get("sizes", ()))
            return cls(str(found["fingerprint"]), records, Skips.of(ranges), sizes)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            expected = f"a skip list of version {_VERSION}: JSON with {', '.join(_KEYS)}"
            raise FormatError(path=os.fspath(path), expected=expected, found=str(error)) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the list to a file, in place of an older one."""
        write_bytes(Path(path), self._text)

    def check(self, fingerprint: str, lengths: Sequence[int]) -> None:
        """Compare the list with data.

        Args:
            fingerprint: The fingerprint of the data.
            lengths: The number of records of each component.

        Raises:
            StateMismatchError: The list belongs to other data.
        """
        if self.fingerprint != fingerprint:
            raise StateMismatchError(
                "fingerprint of the skip list", expected=self.fingerprint, found=fingerprint, remedy=_REMEDY
            )
        for component, indices in enumerate(self.records):
            length = lengths[component] if component < len(lengths) else 0
            if len(indices) and indices[-1] >= length:
                record = f"record {indices[-1]} of component {component}"
                raise StateMismatchError("skip list", expected=record, found=f"{length} records", remedy=_REMEDY)

    @cached_property
    def digest(self) -> str | None:
        """Identifies the entries, which data that grew keep, 16 hex digits; `None` if there are none."""
        is_empty = not any(map(len, self.records)) and not self.skips
        entries = json.dumps(self._entries).encode()
        return None if is_empty else hashlib.blake2b(entries, digest_size=8).hexdigest()

    def add_to(self, skips: Skips, position: int) -> Skips:
        """Return these skips and the positions of the list from `position` on: earlier ones were consumed."""
        left = [(max(first, position), stop) for first, stop in self.skips.ranges if stop > position]
        return Skips.of((*skips.ranges, *left)) if left else skips

    @property
    def _entries(self) -> tuple[Any, ...]:
        return [indices.tolist() for indices in self.records], self.skips.ranges

    @property
    def _text(self) -> bytes:
        content = (_VERSION, self.fingerprint, *self._entries)
        found = dict(zip(_KEYS, content, strict=True))
        return json.dumps(found | ({"sizes": self.sizes} if self.sizes else {})).encode()

    def __or__(self, other: SkipList) -> SkipList:
        """Return the list of the entries of both.

        Raises:
            StateMismatchError: They belong to different data.
        """
        if self.fingerprint != other.fingerprint:
            other.check(self.fingerprint, ())
        both = itertools.zip_longest(self.records, other.records, fillvalue=np.zeros(0, np.int64))
        records = tuple(np.union1d(*indices) for indices in both)
        return SkipList(self.fingerprint, records, Skips.of((*self.skips.ranges, *other.skips.ranges)), self.sizes)

    def __repr__(self) -> str:
        n_positions = self.skips.count(0, MAX_POSITION)
        return f"SkipList({sum(map(len, self.records)):,} records, {n_positions:,} positions)"


def _arrays(records: Iterable[Sequence[int]]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.unique(np.array(indices, np.int64)) for indices in records)
