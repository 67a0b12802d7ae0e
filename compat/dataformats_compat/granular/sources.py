"""Sources: functions of a step. Orders equal the original's, number for number, so that its runs can be resumed.

A source is a function `source(step)`, or anything with `[]`. Its result depends on the step alone.

Example:
    >>> from dataformats_compat.granular import sources
    >>> shuffled = sources.Epochs([{"n": n} for n in range(10)])
    >>> [shuffled(step)["n"] for step in range(10)]
    [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataformats_compat.granular.utils import ArgumentError

__all__ = ["Epochs", "Interleave", "Mix", "Sample", "Transform", "Truncate", "convert"]


_NO_ORDER = -1, None  # no epoch, and no order


def convert(source: Any) -> Callable[[int], Any]:
    """Return a source as a function of the step.

    Raises:
        TypeError: It can neither be called nor indexed.
    """
    if callable(source):
        function: Callable[[int], Any] = source
        return function
    if hasattr(source, "__getitem__"):
        item: Callable[[int], Any] = source.__getitem__
        return item
    raise TypeError(f"expected a function of the step, or something with [], found {type(source).__name__}")


class Transform:
    """Applies `fn(datapoint, seed=[seed, step])`.

    Args:
        source: Gives the datapoints.
        fn: Returns the datapoint to use instead.
        seed: The first part of the seeds.
    """

    def __init__(self, source: Any, fn: Callable[..., Any], seed: int = 0) -> None:
        self.source: Callable[[int], Any] = convert(source)
        self.fn = fn
        self.seed = seed

    def __call__(self, step: int) -> Any:
        return self.fn(self.source(step), seed=[self.seed, step])


class Sample:
    """Draws a record at each step, with replacement.

    Args:
        source: Gives the datapoints.
        length: How many records to draw from; `None`: all.
        seed: Another seed, another sequence.
    """

    def __init__(self, source: Any, length: int | None = None, seed: int = 0) -> None:
        self.length: int = _length(source, length)
        self.source: Callable[[int], Any] = convert(source)
        self.seed = seed

    def __call__(self, step: int) -> Any:
        return self.source(int(np.random.default_rng([self.seed, step]).integers(self.length)))


class Epochs:
    """Gives all records, epoch after epoch, each in an order of its epoch.

    Args:
        source: Gives the datapoints.
        length: How many records an epoch has; `None`: all.
        shuffle: False: in order.
        seed: Ignored, as in the original, whose runs could not be resumed otherwise.
    """

    def __init__(self, source: Any, length: int | None = None, shuffle: bool = True, seed: int = 0) -> None:
        self.length: int = _length(source, length)
        self.source: Callable[[int], Any] = convert(source)
        self.shuffle = shuffle
        self.seed = 0
        self._order: tuple[int, Any] = _NO_ORDER

    def __call__(self, step: int) -> Any:
        epoch, index = step // self.length, step % self.length
        if not self.shuffle:
            return self.source(index)
        order = self._order  # another thread may replace it
        if order[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._order = order = epoch, rng.permutation(np.arange(self.length))
        return self.source(order[1].item(index))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_order": _NO_ORDER}  # each worker computes it: faster than to send it


class Truncate:
    """Repeats the first records.

    Args:
        source: Gives the datapoints.
        limit: The number of first records.
        length: The number of all records; `None`: `len(source)`.
    """

    def __init__(self, source: Any, limit: int, length: int | None = None) -> None:
        self.limit: int = min(_length(source, length), limit)
        self.source: Callable[[int], Any] = convert(source)

    def __call__(self, step: int) -> Any:
        return self.source(step % self.limit)


class Interleave:
    """Takes turns: step `s` is step `s // n` of source `s % n`.

    Args:
        sources: The n sources.
    """

    def __init__(self, sources: Sequence[Any]) -> None:
        self.sources: list[Callable[[int], Any]] = [convert(source) for source in sources]

    def __call__(self, step: int) -> Any:
        inner, outer = divmod(step, len(self.sources))
        return self.sources[outer](inner)


class Mix:
    """Draws a source at each step, and passes the step to it.

    Args:
        sources: The sources.
        weights: The share of each; they need not add up to 1.
        seed: Another seed, another sequence.
    """

    def __init__(self, sources: Sequence[Any], weights: Sequence[float], seed: int = 0) -> None:
        self.sources: list[Callable[[int], Any]] = [convert(source) for source in sources]
        shares = np.array(weights, np.float32)
        if len(shares) != len(self.sources) or not (shares >= 0).all() or not shares.sum() > 0:
            raise ArgumentError(f"expected a weight >= 0 for each of {len(self.sources)} sources, found {weights!r}")
        shares /= shares.sum()
        self.weights = shares
        self.seed = seed
        self._bounds = np.cumsum(shares, dtype=np.float64)
        self._bounds /= self._bounds[-1]

    def __call__(self, step: int) -> Any:
        drawn = np.random.default_rng([self.seed, step]).random()
        return self.sources[int(self._bounds.searchsorted(drawn, side="right"))](step)


def _length(source: Any, length: int | None) -> int:
    found = length or len(source)
    if found < 1:
        raise ArgumentError(f"expected at least one record, found {found}")
    return found
