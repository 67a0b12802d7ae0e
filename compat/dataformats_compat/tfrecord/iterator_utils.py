"""Iterators over iterators: repeated, sampled by weight, shuffled. They use numpy's global random state."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

__all__ = ["cycle", "sample_iterators", "shuffle_iterator"]

T = TypeVar("T")


def cycle(iterator_fn: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield the items of `iterator_fn()`, again and again; ends if there are none.

    Example:
        >>> import itertools
        >>> list(itertools.islice(cycle(lambda: iter("ab")), 5))
        ['a', 'b', 'a', 'b', 'a']
    """
    found = True
    while found:
        found = False
        for item in iterator_fn():
            found = True
            yield item


def sample_iterators(
    iterators: Sequence[Callable[[], Iterator[T]]], ratios: Sequence[float], infinite: bool = True
) -> Iterator[T]:
    """Yield items of several iterators; `np.random.choice` takes the next iterator by its ratio.

    Args:
        iterators: Functions that return an iterator.
        ratios: The weight of each, above 0.
        infinite: Repeat each iterator; else the iteration ends when all are exhausted.

    Example:
        >>> sorted(sample_iterators([lambda: iter("ab"), lambda: iter("xyz")], [1, 3], infinite=False))
        ['a', 'b', 'x', 'y', 'z']
    """
    sampled = [cycle(iterator) if infinite else iterator() for iterator in iterators]
    weights = np.array(ratios)
    weights = weights / weights.sum()
    while sampled:
        chosen = np.random.choice(len(weights), p=weights)
        try:
            item = next(sampled[chosen])
        except StopIteration:
            del sampled[chosen]
            weights = np.delete(weights, chosen)
            weights = weights / weights.sum()
        else:
            yield item


def shuffle_iterator(iterator: Iterator[T], queue_size: int) -> Iterator[T]:
    """Yield the items in random order: each is drawn by `np.random.randint` from `queue_size` waiting ones.

    Warns:
        UserWarning: There are fewer items than `queue_size`.

    Example:
        >>> sorted(shuffle_iterator(iter(range(5)), 3))
        [0, 1, 2, 3, 4]
    """
    queue = list(itertools.islice(iterator, queue_size))
    if len(queue) < queue_size:
        warnings.warn(f"Number of elements in the iterator is less than the queue size (N={queue_size}).", stacklevel=2)
    while queue:
        chosen = np.random.randint(len(queue))
        item = queue[chosen]
        try:
            queue[chosen] = next(iterator)
        except StopIteration:
            queue.pop(chosen)
        yield item
