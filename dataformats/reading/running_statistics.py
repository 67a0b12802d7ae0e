"""Running statistics of values that arrive in parts: moments, a histogram, frequencies, the largest values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Histogram", "Largest"]

MAX_DISTINCT = 10_000
"""With more distinct values than these, their frequencies are not counted."""

_BINS = 128
_MIN_EXPONENT, _PRECISION = -1022, 53  # limits of float64
_N_COMMON = 100
_FROM_TINY, _FROM_HUGE = 2.0**600, 2.0**-600


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of numbers in bins of equal width, a power of two.

    Attributes:
        edges: One more than bins; a bin includes its left edge.
        counts: Numbers in each bin. At most 128; the first and the last are not empty.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Largest:
    """One of the largest values of a field.

    Attributes:
        index: The index of the record.
        size: The number, or the length of bytes, text and sequences.
        text: Format and size of an image, otherwise empty.
    """

    index: int
    size: float
    text: str


class Moments:
    """Range, mean and variance of finite numbers (Chan, Golub, LeVeque 1979).

    The numbers are measured as distances from the first least one, which are exact for integers; a float64 of 2**62
    would lose the distance to the next integer. Huge and tiny ones are scaled, so that no square overflows.
    """

    def __init__(self) -> None:
        self.n: int = 0
        self._origin: float = 0
        self._mean = 0.0  # mean of the distances
        self._squares = 0.0
        self._scale = _FROM_TINY
        self.least: float = math.inf
        self.most: float = -math.inf

    def add(self, numbers: NDArray[Any], minimum: float, maximum: float) -> None:
        """Add float64 numbers or integers, given their least and largest."""
        self.least, self.most = min(self.least, minimum), max(self.most, maximum)
        self._rescale(_scale(minimum, maximum))
        if numbers.dtype.kind == "f" or self._scale != 1:
            distances, minimum = numbers * self._scale, minimum * self._scale
            distances -= minimum
        else:  # the difference of the same width is right without its sign
            wrapped = numbers - numbers.dtype.type(minimum)
            distances = wrapped.view(f"u{wrapped.itemsize}").astype(np.float64)
        if not self.n:
            self._origin = minimum
        n, mean = self.n + numbers.size, float(distances.mean())
        shift = (minimum - self._origin) + mean - self._mean
        distances -= mean
        np.multiply(distances, distances, out=distances)  # a dot product may wake the threads of a BLAS
        self._squares += float(distances.sum()) + shift * shift * self.n * numbers.size / n
        self._mean += shift * numbers.size / n
        self.n = n

    def _rescale(self, scale: float) -> None:
        if scale < self._scale:
            factor = scale / self._scale
            self._origin *= factor
            self._mean *= factor
            self._squares *= factor * factor
            self._scale = scale

    def summary(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return (least, most, mean, standard deviation)."""
        if not self.n:
            return None, None, None, None
        mean, std = self._origin + self._mean, (self._squares / self.n) ** 0.5
        return float(self.least), float(self.most), mean / self._scale, std / self._scale


def _scale(minimum: float, maximum: float) -> float:
    """Return the power of two that keeps squares of such numbers within the range of float64."""
    magnitude = max(abs(minimum), abs(maximum))
    return _FROM_TINY if magnitude < 2.0**-400 else _FROM_HUGE if magnitude > 2.0**400 else 1.0


class RunningHistogram:
    """A histogram whose bins merge in pairs if the range grows, so each number is counted once and exactly."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._first = 0  # bin i is [first + i, first + i + 1) * 2**exponent
        self._exponent = 0
        self._least: float = math.inf
        self._most: float = -math.inf

    def add(self, numbers: NDArray[Any], minimum: float, maximum: float) -> None:
        """Add finite float64 numbers or integers, given their least and largest."""
        if minimum < self._least or maximum > self._most:
            self._grow(min(minimum, self._least), max(maximum, self._most))
        self._counts += np.bincount(self._bins(numbers), minlength=len(self._counts))

    def _bins(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        if numbers.dtype.kind == "f" or self._exponent < 0:
            scaled = numbers * 2.0**-self._exponent
            bins = np.floor(scaled)
            if self._exponent > 0 and self._first < 0:
                bins[(scaled == 0) & (numbers < 0)] = -1  # they are too small to be scaled
            return (bins - self._first).astype(np.int64)
        if numbers.dtype.itemsize < 8:
            numbers = numbers.astype(np.int64)
        shifted = numbers >> numbers.dtype.type(self._exponent) if self._exponent else numbers
        offsets: NDArray[np.int64] = (shifted - numbers.dtype.type(self._first)).astype(np.int64, copy=False)
        return offsets

    def _grow(self, minimum: float, maximum: float) -> None:
        """Cover this range: merge bins until they are few enough, and add empty ones."""
        exponent = self._exponent if len(self._counts) else -(10**4)
        exponent = max(exponent, _least_exponent(minimum, maximum))
        while _bin(maximum, exponent) - _bin(minimum, exponent) >= _BINS:
            exponent += 1
        first, last = _bin(minimum, exponent), _bin(maximum, exponent)
        counts = np.zeros(last - first + 1, np.int64)
        for position, count in enumerate(self._counts.tolist()):
            counts[(self._first + position >> exponent - self._exponent) - first] += count
        self._counts, self._first, self._exponent = counts, first, exponent
        self._least, self._most = minimum, maximum

    def summary(self) -> Histogram | None:
        """Return the bins so far; `None` without numbers."""
        if not len(self._counts):
            return None
        edges = [_edge(self._first + i, self._exponent) for i in range(len(self._counts) + 1)]
        return Histogram(tuple(edges), tuple(self._counts.tolist()))


def _bin(number: float, exponent: int) -> int:
    """Return floor(number / 2**exponent)."""
    if isinstance(number, int) and exponent >= 0:
        return number >> exponent
    scaled = math.ldexp(number, -exponent)
    return -1 if scaled == 0 and number < 0 else math.floor(scaled)


def _least_exponent(minimum: float, maximum: float) -> int:
    """Return the least exponent of a bin's width: 0 for integers; for others such that bins have exact numbers."""
    if isinstance(minimum, int):
        return max(0, int(maximum - minimum).bit_length() - _BINS.bit_length())
    largest, half = max(abs(minimum), abs(maximum)), maximum / 2 - minimum / 2
    fine = math.frexp(half)[1] + 1 - _BINS.bit_length() if half else _MIN_EXPONENT
    return max(_MIN_EXPONENT, math.frexp(largest)[1] - _PRECISION, fine)


def _edge(number: int, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:  # the last bin of the largest numbers
        return math.copysign(np.finfo(np.float64).max, number)


class Frequencies:
    """How often each value occurs, if there are at most `MAX_DISTINCT`. All values are integers, or none is."""

    def __init__(self) -> None:
        self.overflown: bool = False
        self._values: NDArray[Any] | None = None  # distinct integers, sorted
        self._counts = np.zeros(0, np.int64)
        self._others: Counter[Any] = Counter()

    def add_integers(self, numbers: NDArray[Any], minimum: int, maximum: int) -> None:
        """Add integers, given their least and largest."""
        if numbers.dtype != np.uint64:
            numbers = numbers.astype(np.int64, copy=False)
        if maximum - minimum < 2 * numbers.size and numbers.dtype != np.uint64:
            counts = np.bincount(numbers - minimum)
            positions = np.flatnonzero(counts)
            values, counts = positions + minimum, counts[positions]
        else:
            values, counts = np.unique(numbers, return_counts=True)
        if self._values is None:
            self._values, self._counts = values, counts
        else:
            at = np.searchsorted(self._values, values)
            known = self._values[np.minimum(at, len(self._values) - 1)] == values
            self._counts[at[known]] += counts[known]
            if not known.all():
                self._values = np.insert(self._values, at[~known], values[~known])
                self._counts = np.insert(self._counts, at[~known], counts[~known])
        self._limit(len(self._values))

    def add_others(self, values: Iterable[Any]) -> None:
        """Add values that can be sorted."""
        self._others.update(values)
        self._limit(len(self._others))

    def _limit(self, n: int) -> None:
        if n > MAX_DISTINCT:
            self.give_up()

    def give_up(self) -> None:
        """Count no longer."""
        self.overflown, self._values = True, None
        self._others.clear()

    def summary(self) -> tuple[int | None, tuple[tuple[Any, int], ...] | None]:
        """Return the number of distinct values, and the most common ones with their counts; `None` if unknown."""
        if self._values is not None:
            first = np.lexsort((self._values, -self._counts))[:_N_COMMON]
            pairs = zip(self._values[first].tolist(), self._counts[first].tolist(), strict=True)
            return len(self._values), tuple(pairs)
        if not self._others:
            return None, None
        ranked = sorted(self._others.items(), key=lambda pair: (-pair[1], pair[0]))
        return len(ranked), tuple(ranked[:_N_COMMON])


class LargestValues:
    """The largest values.

    Args:
        n: The number of values to keep.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self.values: tuple[Largest, ...] = ()
        self._least: float = -math.inf  # a value must be larger

    def add(self, sizes: NDArray[Any], indices: NDArray[np.int64], text: Callable[[int], str]) -> None:
        """Add the values of some records.

        Args:
            sizes: Numbers or lengths.
            indices: The indices of the records.
            text: Returns the text of the value at a position; called for at most `n` of them.
        """
        larger = np.flatnonzero(sizes > self._least)
        if not (self._n and len(larger)):
            return
        ascending = np.argsort(sizes[larger][::-1], kind="stable")[-self._n :]  # the first of equal ones is kept
        chosen = larger[::-1][ascending]
        new = [Largest(int(indices[i]), sizes[i].item(), text(int(i))) for i in chosen.tolist()]
        self.values = tuple(sorted((*self.values, *new), key=lambda one: (-one.size, one.index))[: self._n])
        if len(self.values) == self._n:
            self._least = self.values[-1].size
