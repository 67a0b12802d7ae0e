"""The records at some places of a plan: read from one source or several, in order, with what could not be read."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import RecordBatch
from dataformats.errors import SpecError
from dataformats.loaders.adapters import Readable
from dataformats.reading.concat import interleave
from dataformats.reading.source import OnCorrupt

__all__ = ["Got", "Records"]

_Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Got:
    """Some records as columns.

    Attributes:
        columns: As `RecordBatch` has them.
        rows: int64[m], which of the places that were asked for they are, ascending; `None`: all.
        numbers: int64[m], their numbers in their sources.
        failed: What could not be read: (place, error), `place` as in `rows`.
        single: True where records are single values.
    """

    columns: Mapping[str, Any]
    rows: NDArray[np.int64] | None
    numbers: NDArray[np.int64]
    failed: list[tuple[int, Exception]]
    single: bool

    def records(self) -> RecordBatch:
        """Return them as a batch that gives records one by one."""
        return RecordBatch(self.columns, self.numbers, {}, self.single)


@dataclass(frozen=True)
class Records:
    """The components of a plan.

    Attributes:
        components: A source each, all of one spec.
    """

    components: tuple[Readable, ...]

    def read(self, component: _Numbers | None, record: _Numbers, on_corrupt: OnCorrupt) -> Got:
        """Return the records at these places; with `"omit"` without those that are damaged.

        Args:
            component: int64[n]; `None`: all are of the first one.
            record: int64[n].
            on_corrupt: What becomes of a damaged record.
        """
        parts = [0] if component is None else np.unique(component).tolist() or [0]
        if len(parts) == 1:
            return self._of_one(parts[0], record, on_corrupt)
        groups = [np.flatnonzero(component == part) for part in parts]
        got = [self._of_one(part, record[rows], on_corrupt) for part, rows in zip(parts, groups, strict=True)]
        _compare(parts, got)
        kept = [rows if part.rows is None else rows[part.rows] for part, rows in zip(got, groups, strict=True)]
        columns, rows = interleave([part.columns for part in got], kept)
        failed = [(int(rows[row]), error) for part, rows in zip(got, groups, strict=True) for row, error in part.failed]
        return Got(columns, rows, record[rows], sorted(failed, key=operator.itemgetter(0)), got[0].single)

    def _of_one(self, component: int, numbers: _Numbers, on_corrupt: OnCorrupt) -> Got:
        batch = self.components[component].read(numbers, on_corrupt=on_corrupt)
        if not batch.failed:
            return Got(batch.columns, None, numbers, [], batch.single)
        failed = [(row, batch.failed[number]) for row, number in enumerate(numbers.tolist()) if number in batch.failed]
        rows = np.flatnonzero(~np.isin(numbers, list(batch.failed)))
        return Got(batch.columns, rows, numbers[rows], failed, batch.single)

    def describe(self, component: int, number: int) -> str:
        """Return which record this is, with its file where that is known: `"record 17 of 'a.tfrecord'"`."""
        origin = self.components[component].origin(number)
        return f"record {number}" if origin is None else f"record {origin[1]} of {origin[0]!r}"


def _compare(components: list[int], got: list[Got]) -> None:
    """Raise where components have other fields than the first of them."""
    fields = [None if part.single else sorted(part.columns) for part in got]
    for component, found in zip(components, fields, strict=True):
        if found != fields[0]:
            raise SpecError(
                f"component {components[0]} of the mixture has {_said(fields[0])}, component {component} has "
                f"{_said(found)}: make them alike with select() or map() before mix()"
            )


def _said(fields: list[str] | None) -> str:
    return "single values" if fields is None else f"the fields {fields}"
