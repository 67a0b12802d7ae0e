"""Sorts: the indices of records in the order of a field, found in the background."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.reading.scan import scan_sound, split_by_bytes
from dataformats.viewer.dataset import ViewedDataset, in_words

if TYPE_CHECKING:
    from dataformats.display.cells import Cell
    from dataformats.viewer.filters import Filter

_MAX_RECORDS = 20_000_000  # a sort that is kept has 4 bytes for each and direction
_MAX_BYTES = 2**30  # the values of a field while they are sorted
_WAIT = 0.1  # seconds between two looks at what cancels a sort
_DIRECTIONS = ("ascending", "descending")
_ONE_AT_A_TIME = threading.Lock()  # only one sort holds values


class Sort:
    """The order of records by one field, in both directions.

    It is stable. NaN follows all numbers, records that lack the field follow them, and damaged ones are last. Text is
    in the order of its bytes, which is the order of its characters.

    Args:
        dataset: Whose records are sorted.
        field: The position of the field.
        found: The filter whose matches are sorted; `None` is all records.

    Raises:
        LookupError: There is no such field.
        ValueError: Its values have no order.
    """

    def __init__(self, dataset: ViewedDataset, field: int, found: Filter | None) -> None:
        self._dataset = dataset
        self._name = dataset.fields[field]
        if not dataset.is_ordered(self._name):
            raise ValueError(f"expected a field of numbers, text or bool to sort by, found {self._name!r}")
        self._filter = found
        self._orders: dict[str, NDArray[np.int32]] = {}
        self._failed: list[int] = []
        self._done = self._total = 0
        self._error: Cell | None = None
        self._is_canceled = False
        threading.Thread(target=self._run, name="sort", daemon=True).start()

    def cancel(self) -> None:
        """End the sort, after the batch that it reads."""
        self._is_canceled = True

    def _run(self) -> None:
        try:
            while not _ONE_AT_A_TIME.acquire(timeout=_WAIT):
                if self._is_canceled:
                    return
            try:
                self._sort()
            finally:
                _ONE_AT_A_TIME.release()
        except Exception as error:  # the page shows it
            self._error = in_words(error)

    def _sort(self) -> None:
        from pyarrow import chunked_array

        from dataformats.reading.arrow_stream import ArrowRows

        records = self._records()
        if records is None:
            return
        sort_indices = importlib.import_module("pyarrow.compute").sort_indices  # checkers do not know its names
        self._total = len(records)
        if self._total > _MAX_RECORDS:
            raise ValueError(f"expected at most {_MAX_RECORDS:,} records to sort, found {self._total:,}: filter first")
        rows = ArrowRows(self._dataset.source, [self._name])
        values, indices, n_bytes = [], [np.zeros(0, np.int32)], 0
        parts = None if isinstance(records, range) else split_by_bytes(rows.source, records)
        for batch in scan_sound(rows.source, parts, [self._name], self._leave_out):
            values += rows.arrays(batch)
            indices.append(batch.indices.astype(np.int32))
            n_bytes += values[-1].nbytes
            if n_bytes > _MAX_BYTES:
                raise ValueError(f"the values of {self._name!r} have over {_MAX_BYTES:,} bytes to sort: filter first")
            self._done += len(batch)
            if self._is_canceled:
                return
        column, found = chunked_array(values, rows.schema.types[0]), np.concatenate(indices)
        for direction in _DIRECTIONS:
            order = sort_indices(column, sort_keys=[("", direction)]).to_numpy()
            self._orders[direction] = np.concatenate([found[order], np.array(self._failed, np.int32)])
            if self._is_canceled:
                return

    def _leave_out(self, index: int, error: Exception) -> None:
        self._failed.append(index)
        self._dataset.check_failure(len(self._failed))

    def _records(self) -> range | NDArray[np.int64] | None:
        """Return the records to sort, when the filter ends; `None` if the sort is canceled."""
        if self._filter is None:
            return range(len(self._dataset.source))
        while (found := self._filter.all_matches(_WAIT)) is None:
            if self._is_canceled:
                return None
        return found

    def matches(self, first: int, count: int, descending: bool) -> Cell:
        """Return the `numbers` of the records `[first, first + count)` in this order, if it is `done`, and how far."""
        order = self._orders.get(_DIRECTIONS[descending])
        if self._error is not None:
            return {"done": True, "error": self._error}
        if order is None:
            return {"done": False, "read": self._done + len(self._failed), "total": self._total}
        return {"done": True, "numbers": order[first : first + count].tolist(), "found": len(order)}

    def order(self, descending: bool) -> NDArray[np.int32]:
        """Return the indices of all records in this order.

        Raises:
            ValueError: The sort has not ended.
        """
        if _DIRECTIONS[descending] not in self._orders:
            raise ValueError("the records are not sorted yet: wait for the end of the sort")
        return self._orders[_DIRECTIONS[descending]]
