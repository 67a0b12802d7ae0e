"""Statistics that compare an order with an ideal permutation: about normal, mean 0 and deviation 1, if it is good.

A separate file, so that other orders (numpy's, a plan of the loader) can be tested too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.int64]

LAGS = range(1, 9)
BLOCKS = 64
LOW = 16


def figures(order: Order, first: int, domain: int) -> Iterator[tuple[str, float]]:
    """Yield name and deviation of each figure of the records at positions `first + [0, len(order))`.

    Args:
        order: int64[n], distinct numbers in `[0, domain)`.
        first: The position of the first.
        domain: The number of positions.
    """
    positions = first + np.arange(len(order))
    whole = len(order) == domain
    for lag in LAGS:
        yield f"serial correlation, lag {lag}", correlation(order[:-lag], order[lag:], domain, whole)
    yield "displacement", footrule(order, domain) if whole else displacement(order, positions, domain)
    for within in (1, max(2, domain // 1000)):
        yield f"neighbors within {within}", neighbors(order, domain, within)
    yield "blocks", contingency(share(positions, first, len(order)), share(order, 0, domain), BLOCKS, BLOCKS)
    yield "low bits", contingency(positions % LOW, order % LOW, LOW, LOW)
    yield "low bits of neighbors", contingency(order[:-1] % LOW, order[1:] % LOW, LOW, LOW)
    yield "low bits within blocks", contingency(share(positions, first, len(order)), order % LOW, BLOCKS, LOW)
    yield "blocks by low bits", contingency(positions % LOW, share(order, 0, domain), LOW, BLOCKS)
    steps = (order[1:] - order[:-1]) % domain
    yield "steps", contingency(positions[:-1] % 2, share(steps, 0, domain), 2, BLOCKS)
    yield "low bits of steps", contingency(positions[:-1] % 2, (order[1:] ^ order[:-1]) % LOW, 2, LOW)


def correlation(some: Order, others: Order, domain: int, whole: bool = False) -> float:
    """Return the deviation of the correlation of two equally long runs of numbers in `[0, domain)`."""
    middle = (domain - 1) / 2
    products = (some - middle) * (others - middle)
    variance = (domain**2 - 1) / 12
    expected = -1 / max(1, domain - 1) if whole else 0.0  # distinct numbers avoid each other a little
    return float((products.mean() / variance - expected) * np.sqrt(len(some)))


def footrule(order: Order, domain: int) -> float:
    """Return the deviation of the sum of displacements: Diaconis and Graham, "Spearman's Footrule"."""
    total = float(np.abs(order - np.arange(domain)).sum(dtype=np.float64))
    n = float(domain)
    return (total - (n * n - 1) / 3) / float(np.sqrt((n + 1) * (2 * n * n + 7) / 45))


def displacement(order: Order, positions: Order, domain: int) -> float:
    """Return the deviation of how far records are from where they are stored, of some positions of a large domain."""
    here, n = positions.astype(np.float64), float(domain)
    below, above = here, n - 1 - here  # how many numbers lie on either side: means of their distances, and of squares
    mean = (below * (below + 1) + above * (above + 1)) / (2 * n)
    square = (below * (below + 1) * (2 * below + 1) + above * (above + 1) * (2 * above + 1)) / (6 * n)
    found = np.abs(order - positions).astype(np.float64)
    return float((found - mean).sum() / np.sqrt((square - mean**2).sum()))


def pair_figures(one: Order, other: Order, domain: int) -> Iterator[tuple[str, float]]:
    """Yield name and deviation of each figure that compares two orders at the same positions.

    Args:
        one: int64[n], distinct numbers in `[0, domain)`.
        other: int64[n], distinct numbers in `[0, domain)`, at the same positions.
        domain: The number of positions.
    """
    yield "correlation", correlation(one, other, domain)
    yield "low bits", contingency(one % LOW, other % LOW, LOW, LOW)
    yield "blocks", contingency(share(one, 0, domain), share(other, 0, domain), BLOCKS, BLOCKS)
    steps = (other - one) % domain
    yield "steps", contingency(np.arange(len(one)) % 2, share(steps, 0, domain), 2, BLOCKS)


def neighbors(order: Order, domain: int, within: int) -> float:
    """Return the deviation of how many records are followed by one that lies no further away."""
    found = int(np.count_nonzero(np.abs(np.diff(order)) <= within))
    chance = (2 * within * domain - within * (within + 1)) / (domain * (domain - 1))
    expected = chance * (len(order) - 1)
    # The square root makes small counts normal: F. J. Anscombe, "The Transformation of Poisson Data".
    return float(2 * (np.sqrt(found + 3 / 8) - np.sqrt(expected + 3 / 8)) / np.sqrt(1 - chance))


def contingency(rows: Order, columns: Order, n_rows: int, n_columns: int) -> float:
    """Return the deviation of chi-square of a table of two properties that should be independent."""
    table = np.bincount(rows * n_columns + columns, minlength=n_rows * n_columns).reshape(n_rows, n_columns)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / table.sum()
    some = expected > 0
    return normal(float(((table - expected)[some] ** 2 / expected[some]).sum()), (n_rows - 1) * (n_columns - 1))


def normal(chi_square: float, freedom: int) -> float:
    """Return a chi-square as a normal deviation: Wilson and Hilferty, "The Distribution of Chi-Square"."""
    spread = 2 / (9 * freedom)
    return float((np.cbrt(chi_square / freedom) - (1 - spread)) / np.sqrt(spread))


def share(numbers: Order, first: int, n: int) -> Order:
    """Return which of `BLOCKS` equal parts of `first + [0, n)` each number lies in."""
    parts: Order = (numbers - first) * BLOCKS // n
    return parts
