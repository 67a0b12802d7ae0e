"""The transformations of a dataset that group its elements."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from collections.abc import Iterator as Items
from typing import Any, Self

import numpy as np

from dataformats_compat.tensorflow.data import iteration, structure
from dataformats_compat.tensorflow.data.binding import bound
from dataformats_compat.tensorflow.data.dataset_base import Elements, elements_of
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import as_tensor

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

        Raises:
            InvalidArgumentError: The shapes of a batch differ; raised in iteration.
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

        Raises:
            InvalidArgumentError: An array is larger than its shape; raised in iteration.
        """
        return self._batched(
            batch_size, drop_remainder, lambda elements: structure.pad(elements, padded_shapes, padding_values)
        )

    def _batched(self, batch_size: int, drop_remainder: bool, join: Callable[[list[Any]], Any]) -> Self:
        size = _positive(batch_size, "batch_size")
        n = self._n if self._n < 0 else self._n // size if drop_remainder else -(-self._n // size)
        return self._derived(lambda: map(join, iteration.batches(self._make(), size, bool(drop_remainder))), n)

    def unbatch(self, name: Any = None) -> Self:
        """Return a dataset of the rows of each element."""
        return self._derived(lambda: itertools.chain.from_iterable(map(structure.rows, self._make())))

    def window(
        self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False, name: Any = None
    ) -> Self:
        """Return a dataset of windows: elements whose parts are datasets of `size` elements.

        Args:
            size: Elements of a window.
            shift: How many elements lie between the first ones of two windows; `None`: `size`.
            stride: How many elements lie between two of a window.
            drop_remainder: Leave out the last windows, which have fewer elements.

        Raises:
            InvalidArgumentError: A number is not positive.

        Example:
            >>> import dataformats_compat.tensorflow as tf
            >>> windows = tf.data.Dataset.range(4).window(3, shift=1, drop_remainder=True)
            >>> list(windows.flat_map(lambda window: window.batch(3)).as_numpy_iterator())
            [array([0, 1, 2]), array([1, 2, 3])]
        """
        count, apart = _positive(size, "size"), _positive(stride, "stride")
        step = _positive(size if shift is None else shift, "shift")
        span = (count - 1) * apart + 1
        complete = max(0, self._n - span + step) // step
        n = self._n if self._n < 0 else complete if drop_remainder else -(-self._n // step)

        def window(elements: list[Any]) -> Any:
            return structure.columns(self._of, elements)

        return self._derived(
            lambda: map(window, iteration.windows(self._make(), count, step, apart, bool(drop_remainder))), n
        )

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Elements],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: Any = None,
    ) -> Self:
        """Return a dataset of the elements of datasets that a function makes of the elements with one key.

        Args:
            key_func: Returns the key of an element, an integer.
            reduce_func: Called with a key and a dataset of elements; returns a dataset.
            window_size: The most elements of one call.
            window_size_func: Returns this number for a key, instead of `window_size`.

        Raises:
            ValueError: Both `window_size` and `window_size_func` are given, or neither.
            InvalidArgumentError: The number of elements is not positive; raised in iteration.
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError("expected either window_size or window_size_func")
        keyed, reducer = bound(key_func), bound(reduce_func)
        sized = None if window_size_func is None else bound(window_size_func)

        def key_of(element: Any) -> int:
            return int(structure.call(keyed, element))

        def size_of(key: int) -> int:
            size = window_size if sized is None else sized(as_tensor(np.int64(key)))
            return _positive(size, "window_size")

        def reduced(group: tuple[int, list[Any]]) -> Items[Any]:
            return elements_of(reducer, (np.int64(group[0]), self._of(group[1])))

        groups = iteration.groups
        return self._derived(lambda: itertools.chain.from_iterable(map(reduced, groups(self._make(), key_of, size_of))))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Any,
        bucket_batch_sizes: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: Any = None,
    ) -> Self:
        """Return a dataset of padded batches, each of elements of similar length.

        Args:
            element_length_func: Returns the length of an element.
            bucket_boundaries: Lengths, ascending, at which another bucket begins.
            bucket_batch_sizes: Elements of a batch, for each bucket: one more than boundaries.
            padded_shapes: See `padded_batch`.
            padding_values: See `padded_batch`.
            pad_to_bucket_boundary: Pad the unknown sizes of `padded_shapes` to the longest length of the bucket.
            no_padding: The elements of a bucket have the same shape.
            drop_remainder: Leave out the last batches, which have fewer elements.

        Raises:
            ValueError: Boundaries are not ascending, there is not one batch size more than boundaries, or
                `pad_to_bucket_boundary` has no `padded_shapes`.
            InvalidArgumentError: An element has no boundary to be padded to; raised in iteration.

        Example:
            >>> import dataformats_compat.tensorflow as tf
            >>> words = tf.data.Dataset.range(4).map(tf.range)
            >>> batches = words.bucket_by_sequence_length(lambda item: tf.shape(item)[0], [2], [2, 2])
            >>> [batch.tolist() for batch in batches.as_numpy_iterator()]
            [[[0], [0]], [[0, 1, 0], [0, 1, 2]]]
        """
        bounds, sizes = [int(one) for one in bucket_boundaries], [int(one) for one in bucket_batch_sizes]
        if len(sizes) != len(bounds) + 1:
            raise ValueError(f"expected {len(bounds) + 1} bucket_batch_sizes, one more than boundaries, found {sizes}")
        if bounds != sorted(bounds):
            raise ValueError(f"expected bucket_boundaries in ascending order, found {bounds}")
        if pad_to_bucket_boundary and padded_shapes is None:
            raise ValueError(
                "pad_to_bucket_boundary: expected padded_shapes, found None. Pass shapes that have None for the sizes "
                "to pad: arrays do not tell which of their sizes vary"
            )

        length_of = bound(element_length_func)

        def bucket_of(*parts: Any) -> int:
            return bisect.bisect_right(bounds, int(length_of(*parts)))

        def batched(bucket: Any, elements: Batches) -> Batches:
            if no_padding:
                return elements.batch(sizes[bucket], drop_remainder)
            if pad_to_bucket_boundary and bucket == len(bounds):
                raise InvalidArgumentError(
                    f"pad_to_bucket_boundary: expected lengths below {bounds}, found a longer one"
                )
            longest = bounds[bucket] - 1 if pad_to_bucket_boundary else None
            return elements._batched(
                sizes[bucket],
                drop_remainder,
                lambda group: structure.pad(group, padded_shapes, padding_values, longest),
            )

        return self.group_by_window(bucket_of, batched, window_size_func=lambda bucket: sizes[bucket])

    def _of(self, elements: Sequence[Any]) -> Self:
        """Return a dataset of these elements."""
        return self._derived(lambda: iter(elements), len(elements))


def _positive(number: Any, name: str) -> int:
    if int(number) < 1:
        raise InvalidArgumentError(f"{name}: expected a positive number, found {number}")
    return int(number)
