"""Batches of Examples, SequenceExamples and OFRecords: where their features lie, and which values these hold.

The kernels in `wire/` parse protobuf's wire format; there is no reference implementation in numpy. `wire_kernels`
returns `None` if they cannot run, and the callers parse by protobuf.

A feature is a row of six integers, `wire_feature` in `wire/wire.h`:

| column | meaning |
|---|---|
| begin, end | its place in the buffer: `VALUES`, packed numbers or the one bytes value; or a message to parse again |
| count | the number of values, or of steps in a feature list |
| kind | `ABSENT`, `MISSING` (a feature without a list), the list, or `STEPS` |
| form | what lies there: `VALUES`, a `Feature` message, or the map's entry |
| replaced | how many lists a later one of another kind has replaced |
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.buffers import empty
from dataformats.kernels.dispatch import implementation, kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


class Shape(IntEnum):
    """The message type of records."""

    EXAMPLE = 0
    SEQUENCE_EXAMPLE = 1
    OFRECORD = 2


ABSENT = -1
"""The kind of a feature if the record has no entry for it."""

STEPS = 6
"""The kind of a feature list."""

BEGIN, END, COUNT, KIND, FORM, COLUMNS = 0, 1, 2, 3, 4, 6
"""Columns of a row, and their number."""

VALUES = 0
"""The form of a feature if nothing but its values lies at its place."""

_DTYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<f4"), 3: np.dtype("<i8"), 4: np.dtype("<f8"), 5: np.dtype("<i4")}


@functools.cache
def wire_kernels() -> Any:
    """Return the module with the kernels of this file; `None` if protobuf must parse and write instead.

    The C kernels write numbers little-endian, as they are stored.
    """
    module = kernels()
    return module if implementation() == "native" and sys.byteorder == "little" else None


class Names(NamedTuple):
    """Names to find, in the context (0) or the feature lists (1) of a record."""

    joined: bytes
    ends: NDArray[np.int64]
    parts: bytes
    n_wanted: int

    @classmethod
    def of(cls, wanted: Sequence[tuple[int, str]], known: Collection[tuple[int, str]] = ()) -> Names:
        """Return these names.

        Args:
            wanted: Part and name of the features to find, none twice.
            known: Other names that records may have.
        """
        pairs = [*wanted, *(set(known) - set(wanted))] if known else wanted
        names = [name.encode() for _, name in pairs]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        return cls(b"".join(names), ends, bytes([part for part, _ in pairs]), len(wanted))


class FeatureTable(NamedTuple):
    """The places of features in a batch of records.

    Attributes:
        failed: The first record that does not parse, or -1. If it is not -1, the arrays mean nothing.
        features: int64[n_wanted, n, 6], a row for each wanted name and record.
        surveys: int64[n_wanted, 4], a summary of each name's features: see `survey_of`.
        strays: uint8[n], 1 if a record may have something under a name in UTF-8 that was not given: an entry that is
            not empty (a later one may have replaced it), or any feature list.
    """

    failed: int
    features: NDArray[np.int64]
    surveys: NDArray[np.int64]
    strays: NDArray[np.uint8]


def find_features(
    shape: Shape, buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], names: Names
) -> FeatureTable:
    """Find the wanted features of records. Records are validated whole, by the rules of protobuf.

    Args:
        shape: The message type.
        buffer: Holds the records.
        starts: int64[n], the first byte of each record.
        lengths: int64[n], its length in bytes.
        names: The names to find.
    """
    features = np.empty((names.n_wanted, len(starts), COLUMNS), np.int64)
    surveys, strays = np.empty((names.n_wanted, 4), np.int64), np.empty(len(starts), np.uint8)
    failed = kernels().wire_find(
        shape,
        buffer,
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(lengths, np.int64),
        names.joined,
        names.ends,
        names.parts,
        features,
        surveys,
        strays,
    )
    return FeatureTable(failed, features, surveys, strays)


def survey_of(features: NDArray[np.int64]) -> NDArray[np.int64]:
    """Summarize features, as int64[4].

    The kinds present, bit `kind + 1` for each; the fewest and the most values of a feature that has a kind, 0 if
    none has; the sum of the values.
    """
    survey = np.empty(4, np.int64)
    kernels().wire_survey(0, features, survey)
    return survey


def numbers_of(shape: Shape, buffer: BytesLike, features: NDArray[np.int64], kind: int, n_values: int) -> NDArray[Any]:
    """Return the values of lists of numbers, one feature after the other: ndarray (n_values,) of the kind's dtype.

    Args:
        shape: The message type given to `find_features`.
        buffer: The buffer given to `find_features`.
        features: int64[n, 6], all of this kind or without a kind.
        kind: A kind of numbers.
        n_values: The number of values in all features.

    Raises:
        ValueError: The features are not of this kind, or not from this buffer.
    """
    dtype = _DTYPES[kind]
    values: NDArray[Any] = empty(n_values * dtype.itemsize).view(dtype)
    _check(kernels().wire_numbers(shape, buffer, features, values.view(np.uint8), kind))
    return values


def bytes_of(
    shape: Shape, buffer: BytesLike, features: NDArray[np.int64], n_values: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of bytes values in the buffer: starts and lengths, int64[n_values].

    Raises:
        ValueError: The features are not lists of bytes, or not from this buffer.
    """
    starts, lengths = np.empty(n_values, np.int64), np.empty(n_values, np.int64)
    _check(kernels().wire_places(shape, buffer, features, starts, lengths))
    return starts, lengths


def steps_of(shape: Shape, buffer: BytesLike, lists: NDArray[np.int64], n_steps: int) -> NDArray[np.int64]:
    """Return the features in feature lists, int64[n_steps, 6].

    Raises:
        ValueError: The rows are not feature lists, or not from this buffer.
    """
    steps = np.empty((n_steps, COLUMNS), np.int64)
    _check(kernels().wire_steps(shape, buffer, lists, steps))
    return steps


def _check(failed: int) -> None:
    if failed >= 0:
        raise ValueError(
            f"feature {failed} does not match this buffer: expected rows that find_features returned for it"
        )
