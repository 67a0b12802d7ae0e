"""What a walk through a batch of records has found: the features of each name, still as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.batch.inline_values import ValueSlice, common_slice
from dataformats.codecs.features.lists import BYTES, DOUBLES, FLOATS, KIND_DTYPES, MISSING
from dataformats.codecs.features.messages import corrupt, parse
from dataformats.kernels.wire import (
    ABSENT,
    BEGIN,
    COUNT,
    END,
    FORM,
    KIND,
    VALUES,
    Names,
    Shape,
    bytes_of,
    find_features,
    numbers_of,
    steps_of,
    survey_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FeatureColumn", "find"]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureColumn:
    """The features of one name in a batch: the neutral form between stored records and typed columns.

    Attributes:
        shape: What the records are.
        buffer: uint8[size], where they lie.
        features: int64[B, 6], where each feature lies in there: see `kernels/reference/wire.py`.
        held: The kinds there are, bit `kind + 1` for each.
        fewest: The fewest values of a feature that has a kind.
        most: The most.
        n_values: The values of all.
        dense: True where the features, one bytes value each or all floats, are of equally many bytes and lie back to
            back in a buffer that is theirs alone.
    """

    shape: Shape
    buffer: NDArray[np.uint8]
    features: NDArray[np.int64]
    held: int
    fewest: int
    most: int
    n_values: int
    dense: bool = False

    def __len__(self) -> int:
        return len(self.features)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """int64[B], `ABSENT`, `MISSING`, `BYTES`, a list of numbers, or `STEPS`."""
        return self.features[:, KIND]

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64[B], values of each."""
        return self.features[:, COUNT]

    @property
    def complete(self) -> bool:
        """True where every feature has a kind."""
        return not self.held & _NO_KIND

    @property
    def occurs(self) -> bool:
        """True where a record has an entry of that name."""
        return bool(self.held & ~(1 << ABSENT + 1))

    def holds(self, kind: int) -> bool:
        """Return True where a feature is of this kind."""
        return bool(self.held >> (kind + 1) & 1)

    def taken(self, rows: NDArray[np.int64]) -> FeatureColumn:
        """Return the column of these rows."""
        features = self.features[rows]
        return FeatureColumn(self.shape, self.buffer, features, *survey_of(features).tolist())

    def numbers(self, kind: int) -> NDArray[Any]:
        """Return the values of features that are all of this kind, or missing: (sum,) of its type's dtype."""
        if self.dense and self.holds(kind):
            dtype = KIND_DTYPES[kind]
            return self.buffer.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        return numbers_of(self.shape, self.buffer, self.features, kind, self.n_values)

    def blobs(self) -> Blobs:
        """Return the values of all bytes features, where they lie."""
        if self.held & ~(_NO_KIND | 1 << BYTES + 1):
            return self.taken(np.flatnonzero(self.kinds == BYTES)).blobs()
        if self.dense:
            begins, ends = self.features[:, BEGIN], self.features[:, END]
            return Blobs(self.buffer, begins, ends - begins, np.arange(len(self) + 1) * (len(self.buffer) // len(self)))
        return Blobs(self.buffer, *bytes_of(self.shape, self.buffer, self.features, self.n_values))

    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return where in all records the values of this feature lie, if at the same place of each, unparsed."""
        if self.held not in _UNPARSED or (self.features[:, FORM] != VALUES).any() or self.fewest < 1:
            return None
        return common_slice(blobs, self.features[:, BEGIN], self.features[:, END])

    def moved(self, rows: NDArray[np.uint8]) -> FeatureColumn:
        """Return the same features in a buffer of their own, uint8[B, n], one after the other."""
        features = self.features.copy()
        features[:, BEGIN] = np.arange(len(rows)) * rows.shape[1]
        features[:, END] = features[:, BEGIN] + rows.shape[1]
        survey = (self.held, self.fewest, self.most, self.n_values)
        return FeatureColumn(self.shape, rows.reshape(-1), features, *survey, dense=True)

    def steps(self) -> FeatureColumn:
        """Return the features that feature lists hold, list after list."""
        features = steps_of(self.shape, self.buffer, self.features, self.n_values)
        return FeatureColumn(self.shape, self.buffer, features, *survey_of(features).tolist())

    def values(self) -> list[Any]:
        """Return each feature's values as stored: an array, a list of bytes, or `None`."""
        lists: dict[int, Any] = {BYTES: list(self.blobs())}
        for kind in KIND_DTYPES:
            lists[kind] = self.taken(np.flatnonzero(self.kinds == kind)).numbers(kind) if self.holds(kind) else ()
        at = dict.fromkeys(lists, 0)
        found: list[Any] = []
        for kind, count in zip(self.kinds.tolist(), self.counts.tolist(), strict=True):
            if kind <= MISSING:
                found.append(None)
                continue
            found.append(lists[kind][at[kind] : at[kind] + count])
            at[kind] += count
        return found


_NO_KIND = 1 << ABSENT + 1 | 1 << MISSING + 1
_UNPARSED = frozenset(1 << kind + 1 for kind in (BYTES, FLOATS, DOUBLES))  # what is walked over, not through


_names = lru_cache(256)(Names.of)


def find(
    shape: Shape,
    message: Any,
    blobs: Blobs,
    wanted: Sequence[tuple[int, str]],
    known: frozenset[tuple[int, str]] | None = None,
    check: Callable[[Any, int], None] | None = None,
) -> list[FeatureColumn]:
    """Return the features of each wanted name.

    Args:
        shape: What the records are.
        message: The class of their messages, which has the last word where something is wrong.
        blobs: The records.
        wanted: Parts and names, none twice; the part is 0, or 1 in feature lists.
        known: All parts and names that records may have; `None`: any.
        check: Called with the message and the position of each record that may have others.

    Raises:
        CorruptRecordError: A record does not parse; `index` is its position.
    """
    found = find_features(shape, blobs.buffer, blobs.starts, blobs.lengths, _names(tuple(wanted), known or ()))
    if found.failed >= 0:
        parse(message, blobs.view(found.failed), found.failed)
        raise corrupt(message, int(blobs.lengths[found.failed]), found.failed)
    if known is not None and check is not None and found.strays.any():
        for index in np.flatnonzero(found.strays).tolist():
            check(parse(message, blobs.view(index), index), index)
    return [
        FeatureColumn(shape, blobs.buffer, features, *survey)
        for features, survey in zip(found.features, found.surveys.tolist(), strict=True)
    ]
