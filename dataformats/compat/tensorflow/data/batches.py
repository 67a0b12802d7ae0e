"""The transformations of a dataset that group its elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Self

from dataformats.compat.tensorflow.data import iteration, structure
from dataformats.compat.tensorflow.data.elements import Elements
from dataformats.compat.tensorflow.errors import InvalidArgumentError

__all__ = ["Batches"]


class Batches(Elements):
    """The transformations of a dataset that group its elements, and the one that takes groups apart."""

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: Any = None,
    ) -> Self:
        """Return a dataset of batches: arrays with one dimension more.

        Args:
            batch_size: Elements of a batch.
            drop_remainder: Leave out a last batch with fewer.
            num_parallel_calls: Accepted.
            deterministic: Accepted.
            name: Ignored.

        Raises:
            InvalidArgumentError: In iteration: the shapes of a batch differ.
        """
        return self._batched(batch_size, drop_remainder, structure.stack)

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: Any = None,
    ) -> Self:
        """Return a dataset of batches whose arrays are padded behind each dimension.

        Args:
            batch_size: Elements of a batch.
            padded_shapes: A structure of shapes; `None`, and `None` or -1 in one, stand for the largest of the batch.
            padding_values: A structure of scalars, or one for all; `None`: 0 or `b""`.
            drop_remainder: Leave out a last batch with fewer elements.
            name: Ignored.

        Raises:
            InvalidArgumentError: In iteration: an array is larger than its shape.
        """
        return self._batched(
            batch_size, drop_remainder, lambda elements: structure.pad(elements, padded_shapes, padding_values)
        )

    def _batched(self, batch_size: int, drop_remainder: bool, join: Callable[[list[Any]], Any]) -> Self:
        size = int(batch_size)
        if size < 1:
            raise InvalidArgumentError(f"batch_size: expected a positive number, found {batch_size}")
        n = self._n if self._n < 0 else self._n // size if drop_remainder else -(-self._n // size)
        return self._derived(lambda: map(join, iteration.batches(self._make(), size, bool(drop_remainder))), n)

    def unbatch(self, name: Any = None) -> Self:
        """Return a dataset of the rows of each element."""
        return self._derived(lambda: itertools.chain.from_iterable(map(structure.rows, self._make())))
