"""The features of one name in a batch of records: between stored records and typed columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from dataformats.batch import Blobs
from dataformats.batch.value_slices import ValueSlice
from dataformats.codecs.features.list_kinds import MISSING
from dataformats.kernels.wire import ABSENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_KIND = 1 << ABSENT + 1 | 1 << MISSING + 1
"""The bits of `FeatureColumn.held` for features without a kind."""


class FeatureColumn(ABC):
    """The features of one name, one a record, as stored.

    Attributes:
        held: The kinds present, bit `kind + 1` for each.
        fewest: The fewest values of a feature that has a kind.
        most: The most values of such a feature.
    """

    __slots__ = ()

    held: int
    fewest: int
    most: int

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def kinds(self) -> NDArray[Any]:
        """int64[B], `ABSENT`, `MISSING`, `BYTES`, a list of numbers, or `STEPS`."""

    @property
    @abstractmethod
    def counts(self) -> NDArray[Any]:
        """int64[B], number of values of each."""

    @abstractmethod
    def take(self, rows: NDArray[Any]) -> FeatureColumn:
        """Return the column of these rows."""

    @abstractmethod
    def numbers(self, kind: int) -> NDArray[Any]:
        """Return the values of features that are all of this kind, or missing: (sum,) of the kind's dtype."""

    @abstractmethod
    def blobs(self) -> Blobs:
        """Return the values of all bytes features."""

    @abstractmethod
    def steps(self) -> FeatureColumn:
        """Return the features in feature lists, list after list."""

    @abstractmethod
    def values(self) -> list[Any]:
        """Return each feature's values as stored: an array, a list of bytes, or `None`."""

    @abstractmethod
    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return the place of the values of this feature, if it is the same in all records; the records are `blobs`."""

    @property
    def complete(self) -> bool:
        """True if every feature has a kind."""
        return not self.held & NO_KIND

    @property
    def occurs(self) -> bool:
        """True if a record has an entry of that name."""
        return bool(self.held & ~(1 << ABSENT + 1))

    def holds(self, kind: int) -> bool:
        """Return True if a feature is of this kind."""
        return bool(self.held >> (kind + 1) & 1)
