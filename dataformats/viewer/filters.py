"""Filters: the indices of the records that meet a condition, found in the background."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.viewer.dataset import ViewedDataset, in_words

if TYPE_CHECKING:
    from dataformats.display.cells import Cell
    from dataformats.interop.duckdb import Matches

__all__ = ["Filters"]

_MOST_MATCHES = 5_000_000  # 8 bytes each
_KEPT = 4
_TIMEOUT_S = 30  # for the condition on some thousand records


class _Filter:
    """One condition, and its matches so far."""

    def __init__(self, dataset: ViewedDataset, condition: str) -> None:
        self._dataset = dataset
        self._condition = condition
        self._lock = threading.Lock()
        self._parts: list[NDArray[np.int64]] = []
        self._found = 0
        self._n_failed = 0
        self._error: Cell | None = None
        self._is_done = False
        self._is_canceled = False
        self._matching: Matches | None = None
        threading.Thread(target=self._run, name="filter", daemon=True).start()

    def cancel(self) -> None:
        self._is_canceled = True
        if self._matching is not None:
            self._matching.cancel()

    def _leave_out(self, index: int, error: Exception) -> None:
        self._n_failed += 1

    def _run(self) -> None:
        from dataformats.interop.duckdb import matching

        try:
            self._matching = matching(
                self._dataset.source, self._condition, failed=self._leave_out, timeout_s=_TIMEOUT_S
            )
            if self._is_canceled:  # before it could be interrupted
                self._matching.cancel()
            with closing(self._matching):
                for part in self._matching:
                    with self._lock:
                        self._parts.append(part)
                        self._found += len(part)
                    if self._is_canceled or self._found >= _MOST_MATCHES:
                        break
        except Exception as error:  # the page shows it
            self._error = in_words(error)
        self._is_done = True

    def matches(self, first: int, count: int) -> Cell:
        is_done = self._is_done  # must be read before the matches
        with self._lock:
            if len(self._parts) > 1:
                self._parts = [np.concatenate(self._parts)]
            numbers = self._parts[0][first : first + count].tolist() if self._parts else []
            facts = {"numbers": numbers, "found": self._found, "done": is_done, "left_out": self._n_failed}
        facts["is_cut"] = self._found >= _MOST_MATCHES
        return facts | ({} if self._error is None else {"error": self._error})


class Filters:
    """The last few filters; a new one cancels the oldest.

    Args:
        dataset: Whose records are filtered.
    """

    def __init__(self, dataset: ViewedDataset) -> None:
        self._dataset = dataset
        self._numbers = itertools.count(1)
        self._filters: dict[int, _Filter] = {}

    def start(self, condition: str) -> int:
        """Start to look for the records that meet a condition; return the filter's number."""
        number = next(self._numbers)
        self._filters[number] = _Filter(self._dataset, condition)
        for old in list(self._filters)[:-_KEPT]:
            self._filters.pop(old).cancel()
        return number

    def cancel(self, number: int) -> None:
        """End a filter that no page shows."""
        found: Any = self._filters.pop(number, None)
        if found is not None:
            found.cancel()

    def stop(self) -> None:
        """End all filters."""
        for number in list(self._filters):
            self.cancel(number)

    def matches(self, number: int, first: int, count: int) -> Cell:
        """Return the `numbers` of the matches `[first, first + count)`, how many were `found`, and if it is `done`.

        Raises:
            LookupError: There is no such filter, or newer ones replaced it.
        """
        if number not in self._filters:
            raise LookupError("newer filters replaced this one: apply it again")
        return self._filters[number].matches(first, count)
