"""`tf.data.Dataset`."""

from __future__ import annotations

import glob
import itertools
import os
import random
import sys
from collections.abc import Callable, Iterable
from collections.abc import Iterator as Items
from typing import Any

import numpy as np

from dataformats.compat.tensorflow import random as tf_random
from dataformats.compat.tensorflow.data import iteration, structure
from dataformats.compat.tensorflow.data.constants import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    parallelism,
)
from dataformats.compat.tensorflow.data.structure import as_element, as_numpy, call, map_leaves
from dataformats.compat.tensorflow.dtypes import convert, is_string, numpy_dtype
from dataformats.compat.tensorflow.errors import InvalidArgumentError, OutOfRangeError
from dataformats.compat.tensorflow.tensor import as_tensor, same_shape

__all__ = ["Dataset", "Iterator", "Options"]

_PREFETCHED = 16  # elements, with AUTOTUNE


class Options:
    """Options of a dataset: any attribute may be set, and none has an effect.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> options = tf.data.Options()
        >>> options.threading.private_threadpool_size = 4
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = Options()
        setattr(self, name, value)
        return value


class Iterator:
    """Yields the elements of a dataset.

    Example:
        >>> import dataformats.compat.tensorflow as tf
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
            OutOfRangeError: There is none.
        """
        for element in self:
            return element
        raise OutOfRangeError("the iterator has no more elements")


class Dataset:
    """Elements, which are numpy values in tuples and dicts; each method returns a new dataset.

    Iteration yields arrays that also have the method `numpy()`; `as_numpy_iterator` yields plain ones.

    Args:
        make: Returns a new iterator of the elements.
        cardinality: The number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> numbers = tf.data.Dataset.range(10).map(lambda number: number * number).batch(4)
        >>> list(numbers.as_numpy_iterator())
        [array([0, 1, 4, 9]), array([16, 25, 36, 49]), array([64, 81])]
    """

    def __init__(self, make: Callable[[], Items[Any]], cardinality: int = UNKNOWN_CARDINALITY) -> None:
        self._make = make
        self._n = cardinality

    # ---- sources

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
        """Return a dataset of what a function yields.

        Args:
            generator: Returns an iterable of elements.
            output_types: A structure of dtypes.
            output_shapes: A structure of shapes; `None`, and `None` in one, stand for any size.
            args: Arguments of `generator`.
            output_signature: A structure of `TensorSpec`s, instead of `output_types` and `output_shapes`.
            name: Ignored.

        Raises:
            TypeError: `generator` is not a function, or neither types nor signature are given.
        """
        if not callable(generator):
            raise TypeError(f"generator: expected a function that returns an iterable, found {generator!r:.80}")
        if output_signature is None and output_types is None:
            raise TypeError("expected output_signature, or output_types, found neither")

        def typed(value: Any) -> Any:
            if output_signature is not None:
                return _typed(output_signature, value)
            return _typed_by(output_types, output_shapes, value)

        return Dataset(lambda: map(typed, generator(*map(convert, args or ()))))

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: Any = None
    ) -> Dataset:
        """Return a dataset of the paths, as bytes, that match glob patterns.

        Args:
            file_pattern: A pattern, or several.
            shuffle: In random order, another one in each iteration (the default), or sorted.
            seed: Of the random order.
            name: Ignored.

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
            seed: Of the random choice.
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

    # ---- transformations

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: Any = None,
    ) -> Dataset:
        """Return a dataset of a function of each element; a tuple's parts are arguments of their own.

        Args:
            map_func: Called for each element, with numpy values. A list that it returns is a tuple; lists in that are
                arrays.
            num_parallel_calls: The most calls at once, in threads; short calls are made one after the other.
            deterministic: Accepted; the order is always kept.
            synchronous: Accepted.
            use_unbounded_threadpool: Accepted.
            name: Ignored.
        """
        n_threads = parallelism(num_parallel_calls, "num_parallel_calls")

        def mapped(element: Any) -> Any:
            found = call(map_func, element)
            return as_element(tuple(found) if isinstance(found, list) else found)

        return Dataset(lambda: iteration.mapped(self._make(), mapped, n_threads), self._n)

    def filter(self, predicate: Callable[..., Any], name: Any = None) -> Dataset:
        """Return a dataset of the elements for which a function is true."""
        return Dataset(lambda: (element for element in self._make() if call(predicate, element)))

    def take_while(self, predicate: Callable[..., Any], name: Any = None) -> Dataset:
        """Return a dataset of the elements before the first for which a function is false."""
        return Dataset(lambda: itertools.takewhile(lambda element: call(predicate, element), self._make()))

    def flat_map(self, map_func: Callable[..., Dataset], name: Any = None) -> Dataset:
        """Return a dataset of the elements of the datasets that a function returns, one dataset after the other."""
        return self.interleave(map_func, cycle_length=1)

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: Any = None,
    ) -> Dataset:
        """Return a dataset of blocks of the elements of the datasets that a function returns, in turn.

        Args:
            map_func: Returns a dataset for each element.
            cycle_length: How many of these take turns; `None`: as many as there are processors.
            block_length: How many elements of one come at its turn; `None`: 1.
            num_parallel_calls: Accepted; each file is read ahead in a thread.
            deterministic: Accepted; the order is always TensorFlow's deterministic one.
            name: Ignored.
        """
        cycle = parallelism(AUTOTUNE if cycle_length is None else cycle_length, "cycle_length")
        block = parallelism(1 if block_length is None else block_length, "block_length")

        def opened(element: Any) -> Items[Any]:
            found = call(map_func, element)
            if not isinstance(found, Dataset):
                raise TypeError(f"map_func: expected a function that returns a Dataset, found {type(found).__name__}")
            return found._make()

        return Dataset(lambda: iteration.interleaved(self._make(), opened, cycle, block))

    def repeat(self, count: int | None = None, name: Any = None) -> Dataset:
        """Return a dataset of all elements `count` times; without end if it is `None` or -1."""
        times = -1 if count is None else int(count)
        n = INFINITE_CARDINALITY if times < 0 and self._n else 0 if not times else self._n * times
        n = self._n if self._n < 0 and times else n
        return Dataset(lambda: iteration.repeated(_Again(self._make), times), n)

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool | None = True, name: Any = None
    ) -> Dataset:
        """Return a dataset in random order: each element is drawn from the next `buffer_size` ones.

        Args:
            buffer_size: How many elements are held.
            seed: Of the order, which is not TensorFlow's; `None`: that of `tf.random.set_seed`, or a random one.
            reshuffle_each_iteration: Each iteration has another order.
            name: Ignored.
        """
        size = self._cardinality("buffer_size") if buffer_size == -1 else parallelism(buffer_size, "buffer_size")
        base, begun = tf_random.seed_of(seed), itertools.count()

        def elements() -> Items[Any]:
            number = 0 if reshuffle_each_iteration is False else next(begun)
            return iteration.shuffled(self._make(), size, random.Random(f"{base}/{number}"))

        return Dataset(elements, self._n)

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: Any = None,
    ) -> Dataset:
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
    ) -> Dataset:
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

    def _batched(self, batch_size: int, drop_remainder: bool, join: Callable[[list[Any]], Any]) -> Dataset:
        size = int(batch_size)
        if size < 1:
            raise InvalidArgumentError(f"batch_size: expected a positive number, found {batch_size}")
        n = self._n if self._n < 0 else self._n // size if drop_remainder else -(-self._n // size)
        return Dataset(lambda: map(join, iteration.batches(self._make(), size, bool(drop_remainder))), n)

    def unbatch(self, name: Any = None) -> Dataset:
        """Return a dataset of the rows of each element."""
        return Dataset(lambda: itertools.chain.from_iterable(map(structure.rows, self._make())))

    def prefetch(self, buffer_size: int, name: Any = None) -> Dataset:
        """Return the dataset, whose elements are made ahead in a thread: for about 1 ms, and one at least.

        Args:
            buffer_size: The most elements ahead, `AUTOTUNE`, or 0: no thread.
            name: Ignored.
        """
        most = _PREFETCHED if buffer_size < 0 else int(buffer_size)
        return self if not most else Dataset(lambda: iteration.prefetched(self._make(), most), self._n)

    def take(self, count: int, name: Any = None) -> Dataset:
        """Return a dataset of the first `count` elements; of all if it is -1."""
        most = sys.maxsize if count < 0 else int(count)
        n = self._n if self._n == UNKNOWN_CARDINALITY and most else min(most, self._n if self._n >= 0 else most)
        n = self._n if most == sys.maxsize else n
        return Dataset(lambda: itertools.islice(self._make(), most), n)

    def skip(self, count: int, name: Any = None) -> Dataset:
        """Return a dataset without the first `count` elements; an empty one if it is -1."""
        first = sys.maxsize if count < 0 else int(count)
        n = 0 if count < 0 else self._n if self._n < 0 else max(0, self._n - first)
        return Dataset(lambda: iter(()) if count < 0 else itertools.islice(self._make(), first, None), n)

    def shard(self, num_shards: int, index: int, name: Any = None) -> Dataset:
        """Return a dataset of every `num_shards`-th element from element `index` on.

        Raises:
            InvalidArgumentError: `index` is not below `num_shards`.
        """
        count, first = int(num_shards), int(index)
        if not 0 <= first < count:
            raise InvalidArgumentError(f"expected 0 <= index < num_shards, found {index} and {num_shards}")
        n = self._n if self._n < 0 else len(range(first, self._n, count))
        return Dataset(lambda: itertools.islice(self._make(), first, None, count), n)

    def concatenate(self, dataset: Dataset, name: Any = None) -> Dataset:
        """Return a dataset of these elements, then those of another dataset."""
        counts = (self._n, dataset._n)
        n = next((kind for kind in (INFINITE_CARDINALITY, UNKNOWN_CARDINALITY) if kind in counts), sum(counts))
        return Dataset(lambda: itertools.chain(self._make(), _Again(dataset._make)), n)

    def enumerate(self, start: int = 0, name: Any = None) -> Dataset:
        """Return a dataset of tuples of a number (int64) and an element."""
        first = int(start)
        return Dataset(lambda: ((np.int64(at), one) for at, one in enumerate(self._make(), first)), self._n)

    def cache(self, filename: str = "", name: Any = None) -> Dataset:
        """Return the dataset, whose elements the first complete iteration keeps in memory.

        Raises:
            NotImplementedError: A file is named.
        """
        if filename:
            raise NotImplementedError(
                "cache(filename): only cache() in memory is offered. Write with dataformats.create"
            )
        kept: list[Any] = []

        def elements() -> Items[Any]:
            if kept:
                yield from kept[0]
                return
            found = []
            for element in self._make():
                found.append(element)
                yield element
            kept[:] = [found]

        return Dataset(elements, self._n)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return `transformation_func(dataset)`."""
        return transformation_func(self)

    def with_options(self, options: Any, name: Any = None) -> Dataset:
        """Return the dataset: options have no effect."""
        return self

    def options(self) -> Options:
        """Return options, which have no effect."""
        return Options()

    # ---- elements

    def __iter__(self) -> Iterator:
        return Iterator(self._make())

    def as_numpy_iterator(self) -> Items[Any]:
        """Return an iterator of plain numpy values: arrays, numpy scalars and bytes; no sparse or ragged tensors."""
        return (map_leaves(as_numpy, element) for element in self._make())

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: Any = None) -> Any:
        """Return the last state: `reduce_func(state, element)` is the next one."""
        state = as_element(initial_state)
        for element in self._make():
            state = as_element(reduce_func(state, element))
        return state

    def get_single_element(self, name: Any = None) -> Any:
        """Return the only element.

        Raises:
            InvalidArgumentError: There is none, or more than one.
        """
        found = list(itertools.islice(self, 2))
        if len(found) != 1:
            raise InvalidArgumentError(f"expected one element, found {'none' if not found else 'more'}")
        return found[0]

    def cardinality(self) -> np.int64:
        """Return the number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`."""
        return np.int64(self._n)

    def __len__(self) -> int:
        return self._cardinality("len")

    def __bool__(self) -> bool:
        return True

    def _cardinality(self, name: str) -> int:
        if self._n < 0:
            kind = "infinite" if self._n == INFINITE_CARDINALITY else "unknown before an iteration"
            raise TypeError(f"{name}: the number of elements is {kind}")
        return self._n


class _Again:
    """An iterable that begins anew each time."""

    def __init__(self, make: Callable[[], Items[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Items[Any]:
        return self._make()


def _typed(signature: Any, value: Any) -> Any:
    """Return an element with the dtypes and shapes of a structure of specs."""
    if isinstance(signature, tuple):
        return tuple(_typed(*pair) for pair in zip(signature, value, strict=True))
    if isinstance(signature, dict):
        return {key: _typed(part, value[key]) for key, part in signature.items()}
    return _converted(value, signature.dtype, signature.shape)


def _typed_by(kinds: Any, shapes: Any, value: Any) -> Any:
    """Return an element with the dtypes and shapes of two structures."""
    if isinstance(kinds, tuple):
        each = shapes if isinstance(shapes, tuple) else [shapes] * len(kinds)
        return tuple(_typed_by(*parts) for parts in zip(kinds, each, value, strict=True))
    if isinstance(kinds, dict):
        return {
            key: _typed_by(kind, None if shapes is None else shapes[key], value[key]) for key, kind in kinds.items()
        }
    return _converted(value, kinds, shapes)


def _converted(value: Any, dtype: Any, shape: Any) -> Any:
    found = convert(value, None if is_string(dtype) else dtype)
    same_shape(np.shape(found) if not isinstance(found, bytes) else (), shape)
    return found
