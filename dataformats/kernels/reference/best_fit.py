"""Best fit in plain Python: the room of each row that is not full, in order."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray


def best_fit(lengths: NDArray[np.int64], row_length: int, rows: NDArray[np.int64], /) -> None:
    """Write the row of each item: the contract is `dataformats.kernels.best_fit`."""
    if len(lengths) != len(rows):
        raise ValueError(f"lengths and rows must be equally long, found {len(lengths)} and {len(rows)}")
    n_rows = 0
    rooms: list[int] = []  # each once, ascending
    rows_of: dict[int, list[int]] = {}  # room to its rows, the last one on top
    for i, length in enumerate(lengths.tolist()):
        if not 1 <= length <= row_length:
            raise ValueError(f"length {i} is outside [1, {row_length}]")
        at = bisect_left(rooms, length)
        if at == len(rooms):
            room, row, n_rows = row_length, n_rows, n_rows + 1
        else:
            room = rooms[at]
            row = rows_of[room].pop()
            if not rows_of[room]:
                del rooms[at]
        rows[i] = row
        if room > length:
            stack = rows_of.setdefault(room - length, [])
            if not stack:
                insort(rooms, room - length)
            stack.append(row)
