"""Conditions: which records `where=` selects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.errors import SpecError
from dataformats.interfaces.record_source import OnCorrupt, RecordSource


class Condition(ABC):
    """Selects records of any source, for every `where=`; `str` of it is its text, by which plans are compared."""

    @abstractmethod
    def indices(
        self, source: RecordSource, failed: Callable[[int, Exception], object] | None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the matching records, in order, in parts.

        Args:
            source: The records.
            failed: Called with index and error of each record that cannot be read. `None` raises its error.

        Raises:
            SpecError: The condition does not fit the source.
        """

    def mask(self, source: RecordSource, on_corrupt: OnCorrupt = "raise") -> NDArray[np.bool_]:
        """Return bool[len(source)]; with `on_corrupt="omit"`, it is true for records that cannot be read."""
        mask = np.zeros(len(source), np.bool_)

        def note(index: int, _: Exception) -> None:
            mask[index] = True

        for indices in self.indices(source, None if on_corrupt == "raise" else note):
            mask[indices] = True
        return mask


class Mask(Condition):
    """The records for which a mask is true.

    Args:
        chosen: bool[len(source)].
        name: The name of the mask in plans.
    """

    def __init__(self, chosen: NDArray[np.bool_], name: str) -> None:
        self._chosen = chosen
        self._name = name

    def __str__(self) -> str:
        return self._name

    def indices(
        self, source: RecordSource, failed: Callable[[int, Exception], object] | None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of all chosen records, unread."""
        if self._chosen.dtype != np.bool_ or self._chosen.shape != (len(source),):
            raise SpecError(
                f"expected bool[{len(source)}], found {self._chosen.dtype}{list(self._chosen.shape)} in {self._name}"
            )
        yield np.flatnonzero(self._chosen)


class SqlCondition(Condition):
    """The records for which an expression in SQL is true: see `dataformats.interop.duckdb.matching`.

    Args:
        text: The expression.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def indices(
        self, source: RecordSource, failed: Callable[[int, Exception], object] | None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the matching records.

        Raises:
            MissingExtraError: DuckDB is not installed.
        """
        from dataformats.interop.duckdb import matching  # an extra

        return matching(source, self._text, failed=failed)


def is_true(condition: Callable[[Any], Any], record: Any) -> bool:
    """Return if a function is true of a record.

    Raises:
        SpecError: It returns an array of several values.
    """
    found = condition(record)
    try:
        return bool(found)
    except ValueError as error:
        what = f"where=: expected True or False of each record, found an array of shape {np.shape(found)}"
        raise SpecError(what, remedy="Return any() or all() of it") from error


Where: TypeAlias = str | Callable[[Any], bool] | ArrayLike | Condition
"""An expression in SQL, a function of a record, or bool[n], one for each record."""


def condition_of(where: Where) -> Callable[[Any], bool] | Condition:
    """Return a condition, or a function of a record as it is."""
    if isinstance(where, str):
        return SqlCondition(where)
    if callable(where) or isinstance(where, Condition):
        return where
    return Mask(np.asarray(where), "where=")
