"""Which records are taken, if more than a function of a record says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dataformats.interfaces.record_source import OnCorrupt, RecordSource

__all__ = ["Condition", "Mask"]


class Condition(ABC):
    """Selects records of any source, for every `where=`; `str` of it is its text, by which plans are compared."""

    @abstractmethod
    def numbers(
        self, source: RecordSource, failed: Callable[[int, Exception], object] | None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of the matching records, in order, in parts.

        Args:
            source: The records.
            failed: Called with number and error of each record that cannot be read. `None` raises its error.

        Raises:
            ValueError: The condition does not fit the source.
        """

    def mask(self, source: RecordSource, on_corrupt: OnCorrupt = "raise") -> NDArray[np.bool_]:
        """Return bool[len(source)]; with `on_corrupt="omit"`, it is true for records that cannot be read."""
        mask = np.zeros(len(source), np.bool_)

        def note(number: int, _: Exception) -> None:
            mask[number] = True

        for numbers in self.numbers(source, None if on_corrupt == "raise" else note):
            mask[numbers] = True
        return mask


class Mask(Condition):
    """The records for which a mask is true.

    Args:
        chosen: bool[len(source)].
        name: Of the mask, for plans.
    """

    def __init__(self, chosen: NDArray[np.bool_], name: str) -> None:
        self._chosen = chosen
        self._name = name

    def __str__(self) -> str:
        return self._name

    def numbers(
        self, source: RecordSource, failed: Callable[[int, Exception], object] | None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of all chosen records, unread."""
        if self._chosen.dtype != np.bool_ or self._chosen.shape != (len(source),):
            raise ValueError(
                f"expected bool[{len(source)}], found {self._chosen.dtype}{list(self._chosen.shape)} in {self._name}"
            )
        yield np.flatnonzero(self._chosen)
