"""Batch: a dict of columns that knows which positions it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch"]


class Batch(dict[str, Any]):
    """The columns of a batch, field to column.

    Attributes:
        positions: int64[B], the position of each row in the training run; `loader.locate` has their records.
        padding: bool[B], True in rows that `pad_last=True` repeated to fill the batch.

    Example:
        >>> import dataformats
        >>> batch = next(iter(dataformats.Loader([3, 1, 4, 1, 5], 2, shuffle=False)))
        >>> batch["value"], batch.positions, isinstance(batch, dict)
        (array([3, 1]), array([0, 1]), True)
    """

    positions: NDArray[np.int64]
    padding: NDArray[np.bool_]

    def __init__(self, columns: dict[str, Any], positions: NDArray[np.int64], padding: NDArray[np.bool_]) -> None:
        super().__init__(columns)
        self.positions = positions
        self.padding = padding

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (dict(self), self.positions, self.padding)
