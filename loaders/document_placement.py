"""Segments: documents, or parts of long ones, and the rows of one length in which they lie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import best_fit

_Numbers = NDArray[np.int64]


class Segments(NamedTuple):
    """Parts of documents, int64[s] each, row by row, in the order of their columns.

    Attributes:
        documents: The document of each.
        begins: Its first token there.
        lengths: Its tokens.
        rows: Its row, ascending.
    """

    documents: _Numbers
    begins: _Numbers
    lengths: _Numbers
    rows: _Numbers

    @property
    def numbers(self) -> _Numbers:
        """int64[s], the number of each in its row, from 1."""
        numbers = np.arange(1, len(self.rows) + 1)
        return numbers - np.maximum.accumulate((numbers - 1) * self._begin_rows)

    def places(self, length: int) -> list[int]:
        """Return the place of each in the rows of `length` tokens, one after the other."""
        before = np.cumsum(self.lengths) - self.lengths
        places: list[int] = (self.rows * length + before - np.maximum.accumulate(before * self._begin_rows)).tolist()
        return places

    @property
    def _begin_rows(self) -> NDArray[np.bool_]:
        return np.diff(self.rows, prepend=-1) > 0


def place_documents(lengths: _Numbers, row_length: int) -> Segments:
    """Return the segments of documents, numbered from 0: placed longest first, each into the row that it fills best.

    A document longer than a row becomes several segments, all but the last one full. An empty one becomes none.

    Args:
        lengths: int64[n], tokens of each document.
        row_length: The length of every row, in `[1, 2**31)`.
    """
    n_parts = -(-lengths // row_length)
    documents = np.repeat(np.arange(len(lengths)), n_parts)
    begins = (np.arange(len(documents)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)) * row_length
    parts = np.minimum(lengths[documents] - begins, row_length)
    longest = stable_order(row_length - parts, row_length)
    rows = best_fit(parts[longest], row_length)
    by_row = stable_order(rows, len(rows))
    order = longest[by_row]
    return Segments(documents[order], begins[order], parts[order], rows[by_row])


def stable_order(numbers: _Numbers, limit: int) -> NDArray[np.intp]:
    """Return the order that sorts numbers in `[0, limit)`; NumPy sorts numbers of 16 bits in linear time."""
    return np.argsort(numbers.astype(np.uint16) if limit <= 2**16 else numbers, kind="stable")
