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
from dataformats.joining import interleave
from dataformats.loaders.plan import Place
from dataformats.loaders.sequences import Readable
from dataformats.source import OnCorrupt

__all__ = ["Got", "Records"]


@dataclass(frozen=True, slots=True)
class Got:
    """Some records as columns.

    Attributes:
        columns: As `RecordBatch` has them.
        rows: int64[m], which of the places that were asked for they are, ascending.
        numbers: int64[m], their numbers in their sources.
        failed: What could not be read: (place, error), `place` as in `rows`.
        single: True where records are single values.
    """

    columns: Mapping[str, Any]
    rows: NDArray[np.int64]
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

    def read(self, place: Place, on_corrupt: OnCorrupt) -> Got:
        """Return the records at these places; with `"omit"` without those that are damaged."""
        parts = [0] if len(self.components) == 1 else np.unique(place.component).tolist() or [0]
        if len(parts) == 1:
            return self._of_one(parts[0], np.arange(len(place.record)), place.record, on_corrupt)
        groups = [np.flatnonzero(place.component == part) for part in parts]
        got = [
            self._of_one(part, rows, place.record[rows], on_corrupt) for part, rows in zip(parts, groups, strict=True)
        ]
        _compare(parts, got)
        columns, rows = interleave([part.columns for part in got], [part.rows for part in got])
        failed = sorted((found for part in got for found in part.failed), key=operator.itemgetter(0))
        return Got(columns, rows, place.record[rows], failed, got[0].single)

    def _of_one(
        self, component: int, rows: NDArray[np.int64], numbers: NDArray[np.int64], on_corrupt: OnCorrupt
    ) -> Got:
        batch = self.components[component].read(numbers, on_corrupt=on_corrupt)
        if not batch.failed:
            return Got(batch.columns, rows, numbers, [], batch.single)
        failed = [
            (row, batch.failed[number])
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
            if number in batch.failed
        ]
        kept = ~np.isin(numbers, list(batch.failed))
        return Got(batch.columns, rows[kept], numbers[kept], failed, batch.single)

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
