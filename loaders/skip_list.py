"""SkipList: the records and positions that a run leaves out, kept in a file for its next start."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, StateMismatchError
from dataformats.fork_hooks import cached_property
from dataformats.integer_arguments import as_int, checked_int
from dataformats.loaders.quarantine import Quarantined
from dataformats.loaders.skips import Skips
from dataformats.loaders.trace import TracedRecord
from dataformats.storage.atomic import write_bytes

__all__ = ["SKIP_LIST_VERSION", "SkipEntry", "SkipList"]

SKIP_LIST_VERSION = 1
"""Version of the file; a release reads all versions up to its own."""

SkipEntry = int | tuple[int, int] | TracedRecord | Quarantined
"""The index of a record, a pair (start, stop) of positions, or a record that a loader traced or quarantined."""

_KEYS = ("version", "fingerprint", "records", "positions")
_REMEDY = "Pass a list of these data, or make one: loader.skip_list(loader.trace(step))"


@dataclass(frozen=True, eq=False)
class SkipList:
    """Records and positions that a run leaves out: `Loader.skip_list` returns one, `Loader(skip=)` takes it.

    Attributes:
        fingerprint: The fingerprint of the data.
        records: Component to the indices of its records, int64[n], ascending; 0 without a mixture.
        skips: The positions.

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
    records: Mapping[int, NDArray[np.int64]]
    skips: Skips

    @classmethod
    def of(cls, entries: Iterable[SkipEntry], fingerprint: str) -> SkipList:
        """Return the list of these entries, which may be in any order.

        Args:
            entries: The records and positions.
            fingerprint: The fingerprint of the data.

        Raises:
            ValueError: One is not an entry.
            TypeError: A position is not an integer.
        """
        records: dict[int, list[int]] = {}
        ranges: list[tuple[Any, Any]] = []
        for entry in entries:
            if isinstance(entry, (TracedRecord, Quarantined)):
                records.setdefault(entry.component, []).append(_index(entry.index))
            elif isinstance(entry, tuple) and len(entry) == 2:
                ranges.append(entry)
            else:
                records.setdefault(0, []).append(_index(entry))
        return cls(fingerprint, _arrays(records), Skips.of(ranges))

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
            if found["version"] != SKIP_LIST_VERSION:
                raise ValueError(f"version {found['version']}")
            records = {number: [*map(_index, indices)] for number, indices in enumerate(found["records"])}
            ranges = [(as_int(first), as_int(stop)) for first, stop in found["positions"]]
            return cls(str(found["fingerprint"]), _arrays(records), Skips.of(ranges))
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            expected = f"a skip list of version {SKIP_LIST_VERSION}: JSON with {', '.join(_KEYS)}"
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
        facts: list[tuple[str, object, object]] = [("fingerprint", self.fingerprint, fingerprint)]
        for component, indices in self.records.items():
            length = lengths[component] if component < len(lengths) else 0
            if indices[-1] >= length:
                wanted = f"record {indices[-1]} of component {component}"
                facts.append(("record", wanted, f"{length} records"))
        for name, expected, found in facts:
            if expected != found:
                raise StateMismatchError(f"{name} of the skip list", expected=expected, found=found, remedy=_REMEDY)

    @cached_property
    def digest(self) -> str | None:
        """Identifies the list, 16 hex digits; `None` if it is empty."""
        is_empty = not self.records and not self.skips
        return None if is_empty else hashlib.blake2b(self._text, digest_size=8).hexdigest()

    def add_to(self, skips: Skips, position: int) -> Skips:
        """Return these skips and the positions of the list from `position` on: earlier ones were consumed."""
        left = [(max(first, position), stop) for first, stop in self.skips.ranges if stop > position]
        return Skips.of((*skips.ranges, *left)) if left else skips

    @cached_property
    def _text(self) -> bytes:
        n_components = max(self.records, default=-1) + 1
        records = [self._of(component) for component in range(n_components)]
        content = (SKIP_LIST_VERSION, self.fingerprint, records, self.skips.ranges)
        return json.dumps(dict(zip(_KEYS, content, strict=True))).encode()

    def __or__(self, other: SkipList) -> SkipList:
        """Return the list of the entries of both.

        Raises:
            StateMismatchError: They belong to different data.
        """
        if self.fingerprint != other.fingerprint:
            other.check(self.fingerprint, ())
        both = {number: [*self._of(number), *other._of(number)] for number in {**self.records, **other.records}}
        return SkipList(self.fingerprint, _arrays(both), Skips.of((*self.skips.ranges, *other.skips.ranges)))

    def _of(self, component: int) -> list[int]:
        return self.records[component].tolist() if component in self.records else []

    def __repr__(self) -> str:
        n_positions = sum(stop - first for first, stop in self.skips.ranges)
        return f"SkipList({sum(map(len, self.records.values())):,} records, {n_positions:,} positions)"


def _index(entry: Any) -> int:
    try:
        return checked_int("skip", entry, 0)
    except ValueError as error:
        raise ValueError(
            f"{error}. An entry is the index of a record, a pair (start, stop) of positions, or a record of "
            "loader.trace or loader.quarantined"
        ) from None


def _arrays(records: Mapping[int, list[int]]) -> dict[int, NDArray[np.int64]]:
    return {component: np.unique(np.array(indices, np.int64)) for component, indices in records.items() if indices}
