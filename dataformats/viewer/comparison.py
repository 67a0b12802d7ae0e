"""The comparison that the viewer shows: made in the background, and listed a page at a time."""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.inspecting.comparison import LISTED
from dataformats.inspecting.diff_report import compare_all, dataset_diff, differing_types
from dataformats.spec import VALUE
from dataformats.viewer.dataset import ViewedDataset, in_words

if TYPE_CHECKING:
    from dataformats.display.cells import Cell
    from dataformats.inspecting.comparison import DatasetDiff
    from dataformats.inspecting.finding import Finding

_MAX_ROWS = 5_000_000  # 8 bytes each
_TYPES, _DESCRIBED, _FIELDS = 500, 200, 30  # fields: that are listed, and those with values of a page, of a record


class ViewedComparison:
    """Compares two datasets in a thread, as `diff` does, and keeps the numbers of the records that differ.

    Args:
        first: The dataset with the expected values.
        second: The other one.
    """

    def __init__(self, first: ViewedDataset, second: ViewedDataset) -> None:
        self._datasets = first, second
        self._rows = array("q")
        self._counts = Counter[str]()
        self._types: dict[str, tuple[str | None, str | None]] = {}
        self._lengths = 0, 0
        self._done = self._n_damaged = 0
        self._diff: DatasetDiff | None = None
        self._listed: dict[str, int] = {}  # field to `LISTED`: its differences are only counted
        self._state = "indexing"
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="comparison", daemon=True).start()

    def _run(self) -> None:
        try:
            for dataset in self._datasets:
                dataset.wait(threading.TIMEOUT_MAX)
            old, new = (dataset.decoded for dataset in self._datasets)
            self._lengths = len(old), len(new)
            self._types = differing_types(old, new, None)
            self._diff = dataset_diff(old, new, None, min(self._lengths))
            self._state = "running"
            self._listed = dict.fromkeys([*new.spec, VALUE], LISTED)
            for done, compared in compare_all(self._diff, new, min(self._lengths), self._listed):
                self._rows.extend(compared.rows[: _MAX_ROWS - len(self._rows)].tolist())
                self._counts.update(compared.counts)
                self._n_damaged += len(compared.findings)
                self._done = done
            self._state = "done"
        except Exception as error:  # the page shows it
            self._error, self._state = error, "failed"

    def snapshot(self, first: int, count: int) -> Cell:
        """Return how far the comparison is, the types that differ, and the differing records `[first, first + count)`.

        The count is at most `LISTED`, as many differences of a field as are described at once. Records that one dataset
        alone has are the last ones, once all others are compared.
        """
        state, found, n = self._state, len(self._rows), min(self._lengths)
        alone = range(n, max(self._lengths) if state == "done" else n)
        numbers = [*self._rows[first : first + count], *alone[max(0, first - found) : max(0, first + count - found)]]
        types = [[name, *both] for name, both in list(self._types.items())[:_TYPES]]
        facts: dict[str, Any] = {
            "state": state,
            "records": self._lengths,
            "done": self._done,
            "total": n,
            "found": found + len(alone),
            "is_cut": found >= _MAX_ROWS,
            "damaged": self._n_damaged,
            "types": types,
            "n_types": len(self._types),
            "is_described": len(self._counts) <= _DESCRIBED,
            "counts": sorted([*self._counts.items()], key=itemgetter(1), reverse=True)[:_TYPES],
            "rows": self._described(numbers, n),
        }
        return facts if self._error is None else facts | {"error": in_words(self._error)}

    def _described(self, numbers: list[int], n: int) -> list[Cell]:
        """Return records with fields that differ, of the first ones that differ anywhere.

        A record that cannot be compared has none.
        """
        found: dict[int, list[Cell]] = {number: [] for number in numbers}
        shared = np.array([number for number in numbers if number < n], np.int64)
        if self._diff is not None and len(shared):
            before = self._listed | dict.fromkeys([*self._counts][:_DESCRIBED], 0)
            compared = self._diff.compare(self._diff.read(shared), self._diff.numbers, before)
            for name, finding in compared.differences:
                found[finding.index or 0].append(self._field(name, finding))
        return [
            {"record": number, "fields": fields[:_FIELDS], "n_fields": len(fields)} for number, fields in found.items()
        ]

    def _field(self, name: str, finding: Finding) -> Cell:
        places = [one.fields.index(name) if name in one.fields else None for one in self._datasets]
        return {"name": name, "places": places, "texts": [finding.expected, finding.found]}
