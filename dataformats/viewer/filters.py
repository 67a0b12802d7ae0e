"""Filters: the indices of the records that meet a condition, found in the background."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.viewer.dataset import ViewedDataset, in_words

if TYPE_CHECKING:
    from dataformats.display.cells import Cell
    from dataformats.interop.duckdb import Matches

_MAX_MATCHES = 5_000_000  # 8 bytes each
_TIMEOUT_S = 30  # for the condition on some thousand records


class Filter:
    """One condition, and its matches so far.

    Args:
        dataset: Whose records are filtered.
        condition: An expression in SQL.
    """

    def __init__(self, dataset: ViewedDataset, condition: str) -> None:
        self._dataset = dataset
        self._condition = condition
        self._lock = threading.Lock()
        self._parts: list[NDArray[np.int64]] = []
        self._found = 0
        self._n_failed = 0
        self._error: Cell | None = None
        self._ended = threading.Event()
        self._is_canceled = False
        self._matching: Matches | None = None
        threading.Thread(target=self._run, name="filter", daemon=True).start()

    def cancel(self) -> None:
        """End the search."""
        self._is_canceled = True
        if self._matching is not None:
            self._matching.cancel()

    def _leave_out(self, index: int, error: Exception) -> None:
        self._n_failed += 1
        self._dataset.check_failure(self._n_failed)

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
                    if self._is_canceled or self._found >= _MAX_MATCHES:
                        break
        except Exception as error:  # the page shows it
            self._error = in_words(error)
        self._ended.set()

    def _matches(self) -> NDArray[np.int64]:
        """Return the matches so far; the lock is held."""
        if len(self._parts) != 1:
            self._parts = [np.concatenate([np.zeros(0, np.int64), *self._parts])]
        return self._parts[0]

    def matches(self, first: int, count: int) -> Cell:
        """Return the `numbers` of the matches `[first, first + count)`, how many were `found`, and if it is `done`."""
        is_done = self._ended.is_set()  # must be read before the matches
        with self._lock:
            numbers = self._matches()[first : first + count].tolist()
            facts = {"numbers": numbers, "found": self._found, "done": is_done, "left_out": self._n_failed}
        facts["is_cut"] = self._found >= _MAX_MATCHES
        return facts | ({} if self._error is None else {"error": self._error})

    def all_matches(self, timeout_s: float) -> NDArray[np.int64] | None:
        """Return all matches; `None` if the search takes more seconds.

        Raises:
            ValueError: The search ended early.
        """
        if not self._ended.wait(timeout_s):
            return None
        if self._is_canceled or self._error is not None:
            raise ValueError("the filter did not end: apply it again")
        with self._lock:
            return self._matches()
