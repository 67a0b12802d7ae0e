"""`tf.data.Dataset`: where its elements come from."""

from __future__ import annotations

import glob
import itertools
import os
import random
from collections.abc import Callable, Iterable
from collections.abc import Iterator as Items
from typing import Any

import numpy as np

from dataformats_compat.tensorflow import random as tf_random
from dataformats_compat.tensorflow.data import structure
from dataformats_compat.tensorflow.data.batches import Batches
from dataformats_compat.tensorflow.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from dataformats_compat.tensorflow.data.structure import as_element, map_leaves
from dataformats_compat.tensorflow.data.transformations import Transformations
from dataformats_compat.tensorflow.dtypes import convert, is_string, numpy_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import TensorSpec, same_shape

__all__ = ["Dataset"]


class Dataset(Transformations, Batches):
    """Elements, which are numpy values in tuples and dicts; each method returns a new dataset.

    Iteration yields arrays that also have the method `numpy()`; `as_numpy_iterator` yields plain ones.

    Args:
        make: Returns a new iterator of the elements.
        cardinality: The number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> numbers = tf.data.Dataset.range(10).map(lambda number: number * number).batch(4)
        >>> list(numbers.as_numpy_iterator())
        [array([0, 1, 4, 9]), array([16, 25, 36, 49]), array([64, 81])]
    """

    @staticmethod
    def from_tensor_slices(tensors: Any, name: Any = None) -> Dataset:
        """Return a dataset of the rows of arrays.

        Raises:
            ValueError: The arrays differ in length.
        """
        batch = as_element(tensors)
        n = sum(1 for _ in structure.rows(batch))
        return Dataset(lambda: structure.rows(batch), n)

    @staticmethod
    def from_tensors(tensors: Any, name: Any = None) -> Dataset:
        """Return a dataset of one element."""
        element = as_element(tensors)
        return Dataset(lambda: iter([element]), 1)

    @staticmethod
    def range(*args: int, output_type: Any = "int64", name: Any = None) -> Dataset:
        """Return a dataset of numbers, as Python's `range` has them."""
        numbers, kind = range(*map(int, args)), numpy_dtype(output_type).type
        return Dataset(lambda: map(kind, numbers), len(numbers))

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = (),
        output_signature: Any = None,
        name: Any = None,
    ) -> Dataset:
        """Return a dataset of the elements that a function yields.

        Args:
            generator: Returns an iterable of elements.
            output_types: A structure of dtypes.
            output_shapes: A structure of shapes; `None`, and `None` in one, stand for any size.
            args: Arguments of `generator`.
            output_signature: A structure of `TensorSpec`s, instead of `output_types` and `output_shapes`.

        Raises:
            TypeError: `generator` is not a function, or neither types nor signature are given.
        """
        if not callable(generator):
            raise TypeError(f"generator: expected a function that returns an iterable, found {generator!r:.80}")
        if output_signature is None and output_types is None:
            raise TypeError("expected output_signature, or output_types, found neither")

        specs = _specs(output_types, output_shapes) if output_signature is None else output_signature

        def typed(value: Any) -> Any:
            return map_leaves(_typed, specs, value)

        return Dataset(lambda: map(typed, generator(*map(convert, args or ()))))

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: Any = None
    ) -> Dataset:
        """Return a dataset of the paths, as bytes, that match glob patterns.

        Args:
            file_pattern: A pattern, or several.
            shuffle: True or `None`: a random order, another one in each iteration. False: sorted.
            seed: The seed of the random order.

        Raises:
            InvalidArgumentError: A pattern matches no file.
        """
        values = np.atleast_1d(np.asarray(convert(file_pattern), object)).tolist()
        found: set[bytes] = set()
        for pattern in values:
            names = glob.glob(pattern)
            if not names:
                raise InvalidArgumentError(f"no file matches {os.fsdecode(pattern)!r}")
            found.update(names)
        names = sorted(found)
        files = Dataset(lambda: iter(names), len(names))
        return files if shuffle is False else files.shuffle(len(names), seed)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: Any = None) -> Dataset:
        """Return a dataset whose elements are tuples, or another structure, of elements of several datasets."""
        parts = datasets if datasets is not None else args[0] if len(args) == 1 else args
        leaves: list[Dataset] = []
        map_leaves(leaves.append, parts)
        ordered = iter(range(len(leaves)))
        places = map_leaves(lambda _: next(ordered), parts)

        def elements() -> Items[Any]:
            for values in zip(*(leaf._make() for leaf in leaves), strict=False):
                yield map_leaves(lambda at, values=values: values[at], places)

        known = [leaf._n for leaf in leaves if leaf._n != INFINITE_CARDINALITY]
        unknown = UNKNOWN_CARDINALITY in known
        return Dataset(elements, UNKNOWN_CARDINALITY if unknown else min(known, default=INFINITE_CARDINALITY))

    @staticmethod
    def sample_from_datasets(
        datasets: Any,
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Return a dataset that draws each element from one of several datasets.

        Args:
            datasets: The datasets.
            weights: Their probabilities; `None`: equal.
            seed: The seed of the random choice.
            stop_on_empty_dataset: End when a dataset has ended; else draw from the others.
            rerandomize_each_iteration: Accepted; each iteration draws anew.
        """
        sources, begun = list(datasets), itertools.count()
        chances = [1.0] * len(sources) if weights is None else [float(weight) for weight in weights]
        base = tf_random.seed_of(seed)

        def elements() -> Items[Any]:
            chooser = random.Random(f"{base}/{next(begun)}")
            open_ = {at: source._make() for at, source in enumerate(sources) if chances[at] > 0}
            while open_:
                at = chooser.choices(list(open_), [chances[one] for one in open_])[0]
                for element in open_[at]:
                    yield element
                    break
                else:
                    del open_[at]
                    if stop_on_empty_dataset:
                        return

        return Dataset(elements)


def _specs(kinds: Any, shapes: Any) -> Any:
    """Return a structure of specs from one of dtypes, and one of shapes."""
    if isinstance(kinds, tuple):
        each = shapes if isinstance(shapes, tuple) else [shapes] * len(kinds)
        return tuple(map(_specs, kinds, each))
    if isinstance(kinds, dict):
        return {key: _specs(kind, None if shapes is None else shapes[key]) for key, kind in kinds.items()}
    return TensorSpec(shapes, kinds)


def _typed(spec: TensorSpec, value: Any) -> Any:
    found = convert(value, None if is_string(spec.dtype) else spec.dtype)
    same_shape(np.shape(found) if not isinstance(found, bytes) else (), spec.shape)
    return found
