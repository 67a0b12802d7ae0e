"""The elements of a dataset, and their iterators."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from collections.abc import Iterator as Items
from typing import Any, Self

import numpy as np

from dataformats_compat.tensorflow.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from dataformats_compat.tensorflow.data.structure import as_element, as_numpy, call, map_leaves
from dataformats_compat.tensorflow.errors import InvalidArgumentError, OutOfRangeError
from dataformats_compat.tensorflow.missing import missing
from dataformats_compat.tensorflow.tensor import as_tensor

__all__ = ["Elements", "Iterator", "elements_of", "make_one_shot_iterator"]


class Iterator:
    """Yields the elements of a dataset.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> iterator = iter(tf.data.Dataset.range(2))
        >>> iterator.get_next().numpy(), next(iterator).numpy(), next(iterator, None)
        (np.int64(0), np.int64(1), None)
    """

    def __init__(self, elements: Items[Any]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return map_leaves(as_tensor, next(self._elements))

    def get_next(self, name: Any = None) -> Any:
        """Return the next element.

        Raises:
            OutOfRangeError: The iterator has no more elements.
        """
        for element in self:
            return element
        raise OutOfRangeError("the iterator has no more elements")


class Elements:
    """The elements of a dataset: their number, and ways to iterate over them.

    Args:
        make: Returns a new iterator of the elements.
        cardinality: The number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`.
    """

    def __init__(self, make: Callable[[], Items[Any]], cardinality: int = UNKNOWN_CARDINALITY) -> None:
        self._make = make
        self._n = cardinality

    def _derived(self, make: Callable[[], Items[Any]], cardinality: int = UNKNOWN_CARDINALITY) -> Self:
        """Return a dataset of other elements."""
        derived = object.__new__(type(self))
        Elements.__init__(derived, make, cardinality)
        return derived

    def __getattr__(self, name: str) -> Any:
        raise missing(f"data.Dataset.{name}")

    def __iter__(self) -> Iterator:
        return Iterator(self._make())

    def make_one_shot_iterator(self) -> Iterator:
        """Return `iter(dataset)`, as TensorFlow 1 names it: its `get_next` returns the next element at each call."""
        return iter(self)

    def as_numpy_iterator(self) -> Items[Any]:
        """Return an iterator of plain numpy values: arrays, numpy scalars and bytes; no sparse or ragged tensors."""
        return (map_leaves(as_numpy, element) for element in self._make())

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: Any = None) -> Any:
        """Return the last state: `reduce_func(state, element)` is the next one."""
        state = as_element(initial_state)
        for element in self._make():
            state = as_element(reduce_func(map_leaves(as_tensor, state), map_leaves(as_tensor, element)))
        return map_leaves(as_tensor, state)

    def get_single_element(self, name: Any = None) -> Any:
        """Return the only element.

        Raises:
            InvalidArgumentError: The dataset has no element, or more than one.
        """
        found = list(itertools.islice(self, 2))
        if len(found) != 1:
            raise InvalidArgumentError(f"expected one element, found {'none' if not found else 'more'}")
        return found[0]

    def cardinality(self) -> Any:
        """Return the number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`, int64."""
        return as_tensor(np.int64(self._n))

    def __len__(self) -> int:
        return self._cardinality("len")

    def __bool__(self) -> bool:
        return True

    def _cardinality(self, name: str) -> int:
        if self._n < 0:
            kind = "infinite" if self._n == INFINITE_CARDINALITY else "unknown before an iteration"
            raise TypeError(f"{name}: the number of elements is {kind}")
        return self._n


def make_one_shot_iterator(dataset: Elements) -> Iterator:
    """Return `iter(dataset)`, as TensorFlow 1 names it.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(2)).get_next().numpy()
        np.int64(0)
    """
    return iter(dataset)


def elements_of(function: Callable[..., Elements], element: Any) -> Items[Any]:
    """Return the elements of the dataset that a function returns.

    Raises:
        TypeError: It returns something else.
    """
    found = call(function, element)
    if not isinstance(found, Elements):
        raise TypeError(f"expected a function that returns a Dataset, found {type(found).__name__}")
    return found._make()
