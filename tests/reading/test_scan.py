"""Selection of records by the indices of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataformats.reading.scan import as_indices
from dataformats.testing.loop_over import loop_over

RANGES = [range(0), range(4), range(3, -1, -1), range(1, 10, 3), range(0, 4, 2**80), range(5, 5)]


@loop_over("numbers", RANGES)
def test_ranges_are_their_numbers(numbers: range) -> None:
    found = as_indices(numbers, 10)
    assert found.dtype == np.int64
    assert found.tolist() == list(numbers)


@loop_over(
    "numbers, error, message",
    [
        (range(2**63, 2**63 + 2), IndexError, f"index {2**63} is out of range"),
        (range(2**62, 2**62 + 2), IndexError, f"index {2**62} is out of range"),
        (range(-3, 2), IndexError, "index -3 is out of range"),
        (range(8, 11), IndexError, "index 10 is out of range"),
        (range(2**70, 2**70 + 3), TypeError, "found object"),
        ([0.0], TypeError, "found float64"),
        ([[0]], TypeError, r"of shape \(1, 1\)"),
    ],
)
def test_other_numbers_are_refused(numbers: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_indices(numbers, 10)


def test_the_array_of_the_caller_is_unchanged() -> None:
    mine = np.arange(3)
    found = as_indices(mine, 10)
    mine[:] = 7
    assert found.tolist() == [0, 1, 2]
