"""Features where they lie in the records' bytes, as the wire kernels find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.batch.value_slices import ValueSlice, common_slice
from dataformats.codecs.features.list_kinds import BYTES, DOUBLES, FLOATS, KIND_DTYPES, MISSING
from dataformats.codecs.features.protobuf_column import find_in_messages
from dataformats.codecs.features.protobuf_messages import corrupt_message, parse
from dataformats.codecs.features.stored_feature import NO_KIND, FeatureColumn
from dataformats.kernels.wire import (
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
    wire_kernels,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class WireColumn(FeatureColumn):
    """Features of one name in a buffer of records.

    Attributes:
        shape: The message type of the records.
        buffer: uint8[size], holds the records.
        features: int64[B, 6], the place of each feature: see `kernels/wire.py`.
        held: The kinds present, bit `kind + 1` for each.
        fewest: The fewest values of a feature that has a kind.
        most: The most values of such a feature.
        n_values: The values of all features.
        dense: True if the features, one bytes value each or all floats, have equally many bytes and lie back to back
            in a buffer that holds nothing else.
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
        return self.features[:, KIND]

    @property
    def counts(self) -> NDArray[np.int64]:
        return self.features[:, COUNT]

    def take(self, rows: NDArray[np.int64]) -> WireColumn:
        features = self.features[rows]
        return WireColumn(self.shape, self.buffer, features, *survey_of(features).tolist())

    def numbers(self, kind: int) -> NDArray[Any]:
        """Return the values of features that are all of this kind, or missing: (sum,) of its type's dtype."""
        if self.dense and self.holds(kind):
            dtype = KIND_DTYPES[kind]
            return self.buffer.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        return numbers_of(self.shape, self.buffer, self.features, kind, self.n_values)

    def blobs(self) -> Blobs:
        """Return the values of all bytes features, in place."""
        if self.held & ~(NO_KIND | 1 << BYTES + 1):
            return self.take(np.flatnonzero(self.kinds == BYTES)).blobs()
        if self.dense:
            begins, ends = self.features[:, BEGIN], self.features[:, END]
            return Blobs(self.buffer, begins, ends - begins, np.arange(len(self) + 1) * (len(self.buffer) // len(self)))
        return Blobs(self.buffer, *bytes_of(self.shape, self.buffer, self.features, self.n_values))

    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return the place of the values of this feature, if it is the same in all records and they are unparsed."""
        if self.held not in _UNPARSED or (self.features[:, FORM] != VALUES).any() or self.fewest < 1:
            return None
        return common_slice(blobs, self.features[:, BEGIN], self.features[:, END])

    def with_values(self, rows: NDArray[np.uint8]) -> WireColumn:
        """Return the same features with their values in another buffer, uint8[B, n], one after the other."""
        features = self.features.copy()
        features[:, BEGIN] = np.arange(len(rows)) * rows.shape[1]
        features[:, END] = features[:, BEGIN] + rows.shape[1]
        survey = (self.held, self.fewest, self.most, self.n_values)
        return WireColumn(self.shape, rows.reshape(-1), features, *survey, dense=True)

    def steps(self) -> WireColumn:
        features = steps_of(self.shape, self.buffer, self.features, self.n_values)
        return WireColumn(self.shape, self.buffer, features, *survey_of(features).tolist())

    def values(self) -> list[Any]:
        lists: dict[int, Any] = {BYTES: list(self.blobs())}
        for kind in KIND_DTYPES:
            lists[kind] = self.take(np.flatnonzero(self.kinds == kind)).numbers(kind) if self.holds(kind) else ()
        at = dict.fromkeys(lists, 0)
        found: list[Any] = []
        for kind, count in zip(self.kinds.tolist(), self.counts.tolist(), strict=True):
            if kind <= MISSING:
                found.append(None)
                continue
            found.append(lists[kind][at[kind] : at[kind] + count])
            at[kind] += count
        return found


_UNPARSED = frozenset(1 << kind + 1 for kind in (BYTES, FLOATS, DOUBLES))  # whose values are not parsed


_names = lru_cache(256)(Names.of)


def find_columns(
    shape: Shape,
    message: Any,
    blobs: Blobs,
    wanted: Sequence[tuple[int, str]],
    *,
    known: frozenset[tuple[int, str]] | None = None,
    check: Callable[[Any, int], None] | None = None,
) -> Sequence[FeatureColumn]:
    """Return the features of each wanted name.

    Args:
        shape: The message type of the records.
        message: Their protobuf class, which words the error of a record that does not parse.
        blobs: The records.
        wanted: Parts and names, none twice; the part is 0, or 1 in feature lists.
        known: All parts and names that records may have; `None`: any.
        check: Called with the message and the row of each record that may have others.

    Raises:
        CorruptRecordError: A record does not parse; `index` is its row.
    """
    if wire_kernels() is None:
        return find_in_messages(shape, message, blobs, wanted, None if known is None else check)
    found = find_features(shape, blobs.buffer, blobs.starts, blobs.lengths, _names(tuple(wanted), known or ()))
    if found.failed >= 0:
        parse(message, blobs.view(found.failed), found.failed)
        raise corrupt_message(message, int(blobs.lengths[found.failed]), found.failed)
    if known is not None and check is not None and found.strays.any():
        for index in np.flatnonzero(found.strays).tolist():
            check(parse(message, blobs.view(index), index), index)
    return [
        WireColumn(shape, blobs.buffer, features, *survey)
        for features, survey in zip(found.features, found.surveys.tolist(), strict=True)
    ]
