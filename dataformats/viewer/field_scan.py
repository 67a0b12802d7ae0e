"""Scans of all records in the background: statistics of fields, and which records are damaged."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from typing import Any

from dataformats.display.cells import Cell, short_text
from dataformats.reading.stats import FieldStats, RunningStats, scan_stats
from dataformats.spec import Type
from dataformats.viewer.dataset import ViewedDataset, in_words
from dataformats.viewer.sql import equal, measure, number

_SMALL = 2**28  # bytes of a dataset that is scanned without being asked
_COMMON = 24  # values that are sent
_SECONDS = 0.4  # time between two snapshots


class FieldScan:
    """Reads all records in a thread, for the statistics of some fields; `snapshot` returns the results so far.

    Args:
        dataset: Whose records are read.
    """

    def __init__(self, dataset: ViewedDataset) -> None:
        self._dataset = dataset
        self._lock = threading.Lock()
        self._known: dict[str, FieldStats] = {}  # results of complete scans
        self._latest: dict[str, FieldStats] = {}  # results of the last scan, complete or not
        self._state = "idle"
        self._done = 0
        self._n_failed = 0
        self._failures: dict[int, Exception] = {}
        self._error: Exception | None = None
        self._is_wanted = False

    def start(self, fields: Sequence[int]) -> None:
        """Scan all records for the fields that have no statistics, unless a scan runs."""
        names = [name for name in (self._dataset.fields[field] for field in fields) if name not in self._known]
        with self._lock:
            if self._state == "running" or not names or not self._dataset.wait(0):
                return
            self._state, self._is_wanted, self._done, self._error = "running", True, 0, None
            threading.Thread(target=self._run, args=(names,), name="statistics", daemon=True).start()

    def stop(self) -> None:
        """End the scan; its statistics of the records so far stay."""
        self._is_wanted = False

    def _run(self, names: list[str]) -> None:
        shown, running = time.monotonic(), RunningStats(names)
        try:
            for running in scan_stats(self._dataset.source, names):
                if not self._is_wanted:
                    break
                if time.monotonic() - shown >= _SECONDS:
                    self._publish(running)
                    shown = time.monotonic()
            self._publish(running)
        except Exception as error:  # the page shows it
            self._error, self._state = error, "failed"
            return
        if self._is_wanted:
            self._known |= self._latest
        self._state = "done" if self._is_wanted else "stopped"

    def _publish(self, running: RunningStats) -> None:
        self._latest = running.snapshot()
        self._n_failed = max(self._n_failed, running.n_failed)  # an earlier scan may have come further
        self._failures |= running.failures
        self._done = running.records

    def snapshot(self, fields: Sequence[int]) -> Cell:
        """Return how far the scan is, the damaged records so far, and the statistics of these fields."""
        is_ready = self._dataset.wait(0)
        if is_ready and self._state in ("idle", "done") and self._dataset.source.nbytes <= _SMALL:
            self.start(fields)
        names = {field: self._dataset.fields[field] for field in fields}
        state = self._state
        if state == "done" and not self._known.keys() >= {*names.values()}:
            state = "idle"  # other fields were chosen
        found = {field: self._known.get(name) or self._latest.get(name) for field, name in names.items()}
        failures = [{"record": number, "error": in_words(error)} for number, error in sorted(self._failures.items())]
        facts: dict[str, Any] = {
            "state": state,
            "done": self._done,
            "total": len(self._dataset.source) if is_ready else 0,
            "failed": {"count": self._n_failed, "records": failures},
            "fields": {
                field: _shown(names[field], self._dataset.source.spec[names[field]], stats)
                for field, stats in found.items()
                if stats is not None
            },
        }
        return facts if self._error is None else facts | {"error": in_words(self._error)}


def _shown(name: str, type_: Type, stats: FieldStats) -> Cell:
    bins = stats.histogram
    numbers = ("count", "missing", "nans", "infinite", "distinct", "minimum", "maximum", "mean", "std", "of_lengths")
    shown: Cell = {name: _finite(getattr(stats, name)) for name in numbers}
    shown["largest"] = [{"record": one.index, "size": _finite(one.size), "text": one.text} for one in stats.largest]
    if bins is not None:
        shown["histogram"] = {"edges": [_finite(edge) for edge in bins.edges], "counts": list(bins.counts)}
        if len({*bins.edges}) == len(bins.edges):  # or they are rounded: integers near 2**63
            shown["histogram"] |= {"measure": measure(name, type_), "bounds": list(map(number, bins.edges))}
    if stats.most_common is not None:
        common = stats.most_common[:_COMMON]
        shown["common"] = [
            {"text": short_text(value, type_.class_names), "count": n, "where": equal(name, value)}
            for value, n in common
        ]
    return shown


def _finite(number: Any) -> Any:
    """Return a number, or `None` if JSON has no such number."""
    return number if number is None or math.isfinite(number) else None
