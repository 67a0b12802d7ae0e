"""Stored features to arrays, `SparseTensor` and `RaggedTensor`: one class for each configuration of a feature."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dataformats.internals import (
    BYTES,
    FLOATS,
    INTEGERS,
    JOINED,
    MISSING,
    NO_KIND,
    RAGGED,
    FeatureColumn,
    Output,
    empty,
    renumber_errors,
    rows,
)
from dataformats_compat.tensorflow.dtypes import convert, string_array
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.features import FixedLenFeature, FixedLenSequenceFeature, stored_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KIND_NAMES", "Dense", "Found", "Padded", "ParsedFeature"]

_KINDS = {"string": BYTES, "float32": FLOATS, "int64": INTEGERS}
_bools = rows(np.dtype(np.bool_), ())
KIND_NAMES = {kind: f"tf.{name}" for name, kind in _KINDS.items()}
"""Kind of a stored list to the name of its dtype."""

Found = Mapping[str, FeatureColumn]
"""Name to its features, one a record."""


class ParsedFeature(ABC):
    """One feature of a configuration.

    Args:
        name: Its name in the result.
        feature: Its configuration.

    Attributes:
        name: See above.
        keys: The names of the features that it needs.
        group: Where it stands in the result.
    """

    group = 1

    def __init__(self, name: str, feature: Any) -> None:
        self.name = name
        self.dtype: Any = stored_dtype(feature.dtype, name)
        self.kind: Any = _KINDS[self.dtype.name]
        self.keys: list[str] = [name]

    @abstractmethod
    def batch(self, found: Found) -> Any:
        """Return the values of all records."""

    @abstractmethod
    def one(self, found: Found) -> Any:
        """Return the value of the only record."""

    @abstractmethod
    def one_of_values(self, values: Any) -> Any:
        """Return the value of a record from its stored values: bytes, an array, or `None` if it lacks them.

        The result is `None` if `one` must return it, or raise.
        """

    def output(self) -> Output | None:
        """Return the column that the kernels fill for the fast path; `None`: none."""
        if self.kind == BYTES:
            return None
        dtype = self.dtype.dtype
        return Output(RAGGED, dtype.kind, dtype.itemsize, 1, rows(dtype, ()), _bools)

    def values(self, stored: FeatureColumn, kind: Any = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the values of all features, one after the other, and how many each has.

        Args:
            stored: The features.
            kind: The kind of their values; `None` takes the kind of this field.
        """
        kind = self.kind if kind is None else kind
        if stored.held & ~(NO_KIND | 1 << kind + 1):
            row = int(((stored.kinds != kind) & (stored.kinds > MISSING)).argmax())
            self.raise_misfit(row, f"{KIND_NAMES[kind]} values", f"{KIND_NAMES[int(stored.kinds[row])]} values")
        if kind == BYTES:
            return string_array(list(stored.blobs())), stored.counts
        return stored.numbers(kind), stored.counts

    def values_of_steps(self, lists: FeatureColumn) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the values of all steps of feature lists, and how many each step has."""
        with renumber_errors(_records(lists)):
            return self.values(lists.steps())

    def check(self, wrong: NDArray[np.bool_], expected: str, found: NDArray[Any], remedy: str = "") -> None:
        """Raise the error of the first record that is wrong, if there is one."""
        if wrong.any():
            row = int(wrong.argmax())
            self.raise_misfit(row, expected, f"{found[row]}", remedy)

    def raise_misfit(self, row: int, expected: str, found: str, remedy: str = "") -> NoReturn:
        """Raise the error of a record."""
        raise InvalidArgumentError(
            f"expected {expected}, found {found}", field=self.name, index=row, remedy=remedy or None
        )


class Dense(ParsedFeature):
    """A `FixedLenFeature`."""

    def __init__(self, name: str, feature: FixedLenFeature) -> None:
        super().__init__(name, feature)
        self._shape = _known_sizes(name, feature.shape)
        self._size = math.prod(self._shape)
        self._default = _default(feature.default_value, self)
        if self._default is not None and self._default.size != self._size:
            raise ValueError(
                f"feature {name!r}: expected a default_value of shape {self._shape}, found {self._default.shape}"
            )

    def batch(self, found: Found) -> NDArray[Any]:
        stored = found[self.name]
        values, counts = self.values(stored)
        if not len(stored) or (stored.complete and stored.fewest == stored.most == self._size):
            return values.reshape(len(stored), *self._shape)
        present = stored.kinds > MISSING
        remedy = "Use tf.io.VarLenFeature or tf.io.RaggedFeature if records differ in their number of values"
        wrong = (counts != self._size) & present
        self.check(wrong, f"{self._size} values for the shape {self._shape}", counts, remedy)
        if self._default is None:
            remedy = "Check the name, or pass default_value= to FixedLenFeature if records may lack it"
            self.raise_misfit(int(present.argmin()), f"{self.dtype!r} of shape {self._shape}", "nothing", remedy)
        filled = np.empty((len(stored), self._size), values.dtype)
        filled[:] = self._default.reshape(-1)
        filled[present] = values.reshape(-1, self._size)
        return filled.reshape(len(stored), *self._shape)

    def one(self, found: Found) -> Any:
        return self.batch(found)[0]

    def one_of_values(self, values: Any) -> Any:
        if isinstance(values, bytes):
            return values
        if values is None:
            if self._default is None:
                return None
            values = self._default.reshape(-1).copy()
        if values.size != self._size:
            return None
        return values[0] if not self._shape else values.reshape(self._shape)

    def output(self) -> Output | None:
        if self.kind == BYTES and not self._shape:
            return Output(JOINED, new=empty, new_present=_bools)
        return super().output()


class Padded(ParsedFeature):
    """A `FixedLenSequenceFeature`."""

    def __init__(self, name: str, feature: FixedLenSequenceFeature, in_steps: bool = False) -> None:
        super().__init__(name, feature)
        if not feature.allow_missing and not in_steps:
            raise ValueError(f"feature {name!r}: expected FixedLenSequenceFeature(allow_missing=True), found False")
        self._shape = _known_sizes(name, feature.shape)
        self._size = math.prod(self._shape)
        if not self._size:
            raise ValueError(f"feature {name!r}: expected items of at least one value, found shape {self._shape}")
        self._may_lack = feature.allow_missing
        default = _default(feature.default_value, self)
        if default is not None and default.size != 1:
            raise ValueError(f"feature {name!r}: expected a scalar default_value, found shape {default.shape}")
        self._fill = (b"" if self.kind == BYTES else 0) if default is None else default.reshape(-1)[0]

    def batch(self, found: Found) -> NDArray[Any]:
        values, counts = self._items(found[self.name])
        return self.padded(values, counts)

    def one(self, found: Found) -> Any:
        return self._items(found[self.name])[0]

    def one_of_values(self, values: Any) -> Any:
        if values is None:
            values = np.empty(0, self.dtype.dtype)
        return values.reshape(-1, *self._shape) if not values.size % self._size else None

    def _items(self, stored: FeatureColumn) -> tuple[NDArray[Any], NDArray[np.int64]]:
        values, counts = self.values(stored)
        expected = f"a multiple of {self._size} values for the shape {self._shape}"
        self.check(counts % self._size != 0, expected, counts)
        return values.reshape(-1, *self._shape), counts // self._size

    def steps(self, lists: FeatureColumn) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the items of feature lists, one a step, and how many each has.

        Raises:
            InvalidArgumentError: A record lacks the list, or a step has another number of values.
        """
        lacks = lists.kinds < 0
        if lacks.any() and not self._may_lack:
            remedy = "Pass allow_missing=True to FixedLenSequenceFeature if records may lack it"
            self.raise_misfit(int(lacks.argmax()), "a feature list", "none", remedy)
        with renumber_errors(_records(lists)):
            values, sizes = self.values(lists.steps())
            self.check(sizes != self._size, f"{self._size} values in each step", sizes)
        return values.reshape(-1, *self._shape), lists.counts

    def padded(self, items: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return an array with a row for each record, as long as the longest."""
        dense = np.full((len(counts), int(counts.max(initial=0)), *self._shape), self._fill, items.dtype)
        dense[np.arange(dense.shape[1]) < counts[:, None]] = items
        return dense


def _known_sizes(name: str, shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    if None in sizes:
        raise ValueError(f"feature {name!r}: expected a shape of known sizes, found {shape}")
    return tuple(map(int, sizes))


def _records(lists: FeatureColumn) -> NDArray[np.int64]:
    """Return the record of each step."""
    return np.repeat(np.arange(len(lists)), lists.counts)


def _default(value: Any, field: ParsedFeature) -> NDArray[Any] | None:
    """Return a default value; `None` if it has no elements."""
    default = None if value is None else np.asarray(convert(value, field.dtype), field.dtype.dtype)
    return default if default is not None and default.size else None
