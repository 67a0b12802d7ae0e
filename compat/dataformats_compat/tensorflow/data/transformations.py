"""The transformations of a dataset that change, choose or order its elements."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Callable
from collections.abc import Iterator as Items
from pathlib import Path
from typing import Any, Self

import numpy as np

from dataformats_compat.tensorflow import random as tf_random
from dataformats_compat.tensorflow.data import iteration
from dataformats_compat.tensorflow.data.binding import bound
from dataformats_compat.tensorflow.data.constants import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    parallelism,
)
from dataformats_compat.tensorflow.data.dataset_base import Elements, elements_of
from dataformats_compat.tensorflow.data.element_file import cached
from dataformats_compat.tensorflow.data.options import Options
from dataformats_compat.tensorflow.data.structure import as_element, call
from dataformats_compat.tensorflow.errors import InvalidArgumentError

__all__ = ["Transformations"]

_PREFETCHED = 16  # elements, with AUTOTUNE


class Transformations(Elements):
    """The transformations of a dataset that change, choose or order its elements."""

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: Any = None,
    ) -> Self:
        """Return a dataset of a function of each element; a tuple's parts are separate arguments.

        Args:
            map_func: Called for each element, with tensors, and with the values that its variables have now. A list
                that it returns is a tuple; lists in that are arrays.
            num_parallel_calls: The most calls at once, in threads; short calls are made one after the other.
            deterministic: Accepted; the order is always kept.
        """
        n_threads, function = parallelism(num_parallel_calls, "num_parallel_calls"), bound(map_func)

        def mapped(element: Any) -> Any:
            found = call(function, element)
            return as_element(tuple(found) if isinstance(found, list) else found)

        return self._derived(lambda: iteration.mapped(self._make(), mapped, n_threads), self._n)

    def filter(self, predicate: Callable[..., Any], name: Any = None) -> Self:
        """Return a dataset of the elements for which a function is true."""
        chosen = bound(predicate)
        return self._derived(lambda: (element for element in self._make() if call(chosen, element)))

    def take_while(self, predicate: Callable[..., Any], name: Any = None) -> Self:
        """Return a dataset of the elements before the first for which a function is false."""
        going = bound(predicate)
        return self._derived(lambda: itertools.takewhile(lambda element: call(going, element), self._make()))

    def flat_map(self, map_func: Callable[..., Elements], name: Any = None) -> Self:
        """Return a dataset of the elements of the datasets that a function returns, one dataset after the other."""
        return self.interleave(map_func, cycle_length=1)

    def interleave(
        self,
        map_func: Callable[..., Elements],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: Any = None,
    ) -> Self:
        """Return a dataset of blocks of the elements of the datasets that a function returns, in turn.

        Args:
            map_func: Returns a dataset for each element.
            cycle_length: How many of these take turns; `None`: as many as there are processors.
            block_length: How many elements of one come at its turn; `None`: 1.
            num_parallel_calls: Accepted; each file is read ahead in a thread.
            deterministic: Accepted; the order is always TensorFlow's deterministic one.
        """
        cycle = parallelism(AUTOTUNE if cycle_length is None else cycle_length, "cycle_length")
        block = parallelism(1 if block_length is None else block_length, "block_length")
        function = bound(map_func)

        def opened(element: Any) -> Items[Any]:
            return elements_of(function, element)

        return self._derived(lambda: iteration.interleaved(self._make(), opened, cycle, block))

    def repeat(self, count: int | None = None, name: Any = None) -> Self:
        """Return a dataset of all elements `count` times; without end if it is `None` or -1."""
        times = -1 if count is None else int(count)
        n = INFINITE_CARDINALITY if times < 0 and self._n else 0 if not times else self._n * times
        n = self._n if self._n < 0 and times else n
        return self._derived(lambda: iteration.repeated(self._make, times), n)

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool | None = True, name: Any = None
    ) -> Self:
        """Return a dataset in random order: each element is drawn from the next `buffer_size` ones.

        Args:
            buffer_size: How many elements are held.
            seed: The seed of the order, which is not TensorFlow's; `None` takes the seed of `tf.random.set_seed`, or a
                random one.
            reshuffle_each_iteration: Each iteration has another order.
        """
        size = self._cardinality("buffer_size") if buffer_size == -1 else parallelism(buffer_size, "buffer_size")
        base, begun = tf_random.seed_of(seed), itertools.count()

        def elements() -> Items[Any]:
            number = 0 if reshuffle_each_iteration is False else next(begun)
            return iteration.shuffled(self._make(), size, random.Random(f"{base}/{number}"))

        return self._derived(elements, self._n)

    def prefetch(self, buffer_size: int, name: Any = None) -> Self:
        """Return the dataset, whose elements are made ahead in a thread: for about 1 ms, and one at least.

        Args:
            buffer_size: The most elements ahead, `AUTOTUNE`, or 0: no thread.
        """
        most = _PREFETCHED if buffer_size < 0 else int(buffer_size)
        return self if not most else self._derived(lambda: iteration.prefetched(self._make(), most), self._n)

    def take(self, count: int, name: Any = None) -> Self:
        """Return a dataset of the first `count` elements, or of all if it is -1."""
        most = sys.maxsize if count < 0 else int(count)
        n = self._n if self._n == UNKNOWN_CARDINALITY and most else min(most, self._n if self._n >= 0 else most)
        n = self._n if most == sys.maxsize else n
        return self._derived(lambda: itertools.islice(self._make(), most), n)

    def skip(self, count: int, name: Any = None) -> Self:
        """Return a dataset without the first `count` elements; an empty one if it is -1."""
        first = sys.maxsize if count < 0 else int(count)
        n = 0 if count < 0 else self._n if self._n < 0 else max(0, self._n - first)
        return self._derived(lambda: iter(()) if count < 0 else itertools.islice(self._make(), first, None), n)

    def shard(self, num_shards: int, index: int, name: Any = None) -> Self:
        """Return a dataset of every `num_shards`-th element from element `index` on.

        Raises:
            InvalidArgumentError: `index` is not below `num_shards`.
        """
        count, first = int(num_shards), int(index)
        if not 0 <= first < count:
            raise InvalidArgumentError(f"expected 0 <= index < num_shards, found {index} and {num_shards}")
        n = self._n if self._n < 0 else len(range(first, self._n, count))
        return self._derived(lambda: itertools.islice(self._make(), first, None, count), n)

    def concatenate(self, dataset: Elements, name: Any = None) -> Self:
        """Return a dataset of these elements, followed by another dataset."""
        counts = (self._n, dataset._n)
        n = next((kind for kind in (INFINITE_CARDINALITY, UNKNOWN_CARDINALITY) if kind in counts), sum(counts))
        makers = (self._make, dataset._make)
        return self._derived(lambda: itertools.chain.from_iterable(make() for make in makers), n)

    def enumerate(self, start: int = 0, name: Any = None) -> Self:
        """Return a dataset of tuples of a number (int64) and an element."""
        first = int(start)
        return self._derived(lambda: ((np.int64(at), one) for at, one in enumerate(self._make(), first)), self._n)

    def cache(self, filename: Any = "", name: Any = None) -> Self:
        """Return the dataset, whose elements the first complete iteration keeps, in memory or in a file.

        Args:
            filename: Elements are kept in the file `FILENAME.cache`; one that exists is read, and nothing else is:
                delete it if the data have changed. `""`: in memory.

        Raises:
            TargetInUseError: Another iteration is writing the file; raised in iteration.

        Example:
            >>> import tempfile
            >>> import dataformats_compat.tensorflow as tf
            >>> path = tempfile.mkdtemp() + "/numbers"
            >>> list(tf.data.Dataset.range(3).cache(path).as_numpy_iterator()) == [0, 1, 2]
            True
            >>> list(tf.data.Dataset.range(0).cache(path).as_numpy_iterator()) == [0, 1, 2]
            True
        """
        if filename:
            path = Path(f"{os.fsdecode(filename)}.cache")
            return self._derived(lambda: cached(self._make, path), self._n)
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

        return self._derived(elements, self._n)

    def apply(self, transformation_func: Callable[[Self], Any]) -> Any:
        """Return `transformation_func(dataset)`."""
        return transformation_func(self)

    def with_options(self, options: Any, name: Any = None) -> Self:
        """Return the dataset: options have no effect."""
        return self

    def options(self) -> Options:
        """Return options, which have no effect."""
        return Options()
