"""Batches of Examples, SequenceExamples and OFRecords: where their features lie, and what these hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.buffers import empty
from dataformats.kernels.dispatch import kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference import BytesLike

__all__ = [
    "ABSENT",
    "BEGIN",
    "COUNT",
    "END",
    "FORM",
    "KIND",
    "VALUES",
    "Found",
    "Names",
    "Shape",
    "bytes_of",
    "find_features",
    "numbers_of",
    "steps_of",
    "survey_of",
]


class Shape(IntEnum):
    """What records are."""

    EXAMPLE = 0
    SEQUENCE_EXAMPLE = 1
    OFRECORD = 2


ABSENT = -1
"""The kind of a feature that the record has no entry for."""

BEGIN, END, COUNT, KIND, FORM, COLUMNS = 0, 1, 2, 3, 4, 6
"""Columns of a row: where a feature lies; how many values it has; of what kind; what lies there; how many columns."""

VALUES = 0
"""The form of a feature whose values lie there, and nothing else."""

_DTYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<f4"), 3: np.dtype("<i8"), 4: np.dtype("<f8"), 5: np.dtype("<i4")}


class Names(NamedTuple):
    """Names to look for, in the context (0) or the feature lists (1) of a record."""

    joined: bytes
    ends: NDArray[np.int64]
    parts: bytes
    n_wanted: int

    @classmethod
    def of(cls, wanted: Sequence[tuple[int, str]], known: Collection[tuple[int, str]] = ()) -> Names:
        """Return these names.

        Args:
            wanted: Part and name of the features to find, none twice.
            known: Others that may be there.
        """
        pairs = [*wanted, *(set(known) - set(wanted))] if known else wanted
        names = [name.encode() for _, name in pairs]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        return cls(b"".join(names), ends, bytes([part for part, _ in pairs]), len(wanted))


class Found(NamedTuple):
    """What `find_features` finds.

    Attributes:
        failed: The first record that does not parse, or -1; if there is one, the rest means nothing.
        features: int64[n_wanted, n, 6], a row for each wanted name and record: see `kernels/reference/wire.py`.
        surveys: int64[n_wanted, 4], what the features of a name have in common: see `survey_of`.
        strays: uint8[n], 1 where a record may have something under a name that is not among those given.
    """

    failed: int
    features: NDArray[np.int64]
    surveys: NDArray[np.int64]
    strays: NDArray[np.uint8]


def find_features(
    shape: Shape, buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], names: Names
) -> Found:
    """Find the wanted features of records, which are validated whole, as protobuf does it.

    Args:
        shape: What they are.
        buffer: Where the records lie.
        starts: int64[n], the first byte of each.
        lengths: int64[n], its bytes.
        names: What to look for.
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
    return Found(failed, features, surveys, strays)


def survey_of(features: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what features have in common, int64[4].

    The kinds there are, bit `kind + 1` for each; the fewest and the most values of one that has a kind, 0 where
    none has; the sum of the values.
    """
    survey = np.empty(4, np.int64)
    kernels().wire_survey(0, features, survey)
    return survey


def numbers_of(shape: Shape, buffer: BytesLike, features: NDArray[np.int64], kind: int, n_values: int) -> NDArray[Any]:
    """Return the values of lists of numbers, one feature after the other: ndarray (n_values,) of the kind's dtype.

    Args:
        shape: As `find_features` had it.
        buffer: As well.
        features: int64[n, 6], all of this kind or without any.
        kind: A kind of numbers.
        n_values: How many there are in all.

    Raises:
        ValueError: The features are not of this kind, or not of this buffer.
    """
    dtype = _DTYPES[kind]
    values: NDArray[Any] = empty(n_values * dtype.itemsize).view(dtype)
    _check(kernels().wire_numbers(shape, buffer, features, values.view(np.uint8), kind))
    return values


def bytes_of(
    shape: Shape, buffer: BytesLike, features: NDArray[np.int64], n_values: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the values of lists of bytes lie in the buffer: starts and lengths, int64[n_values].

    Raises:
        ValueError: The features are not lists of bytes, or not of this buffer.
    """
    starts, lengths = np.empty(n_values, np.int64), np.empty(n_values, np.int64)
    _check(kernels().wire_places(shape, buffer, features, starts, lengths))
    return starts, lengths


def steps_of(shape: Shape, buffer: BytesLike, lists: NDArray[np.int64], n_steps: int) -> NDArray[np.int64]:
    """Return the features that feature lists hold, int64[n_steps, 6].

    Raises:
        ValueError: These are no feature lists, or not of this buffer.
    """
    steps = np.empty((n_steps, COLUMNS), np.int64)
    _check(kernels().wire_steps(shape, buffer, lists, steps))
    return steps


def _check(failed: int) -> None:
    if failed >= 0:
        raise ValueError(f"feature {failed} is not what was found in this buffer")
