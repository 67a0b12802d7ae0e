"""The comparison of the conformance suites tells values of another dtype apart."""

from __future__ import annotations

import numpy as np

from dataformats.testing.records import is_same_value


def test_values_of_another_dtype_differ() -> None:
    one = np.zeros(3, np.int32)
    assert is_same_value([one], [one.copy()])
    assert not is_same_value([one], [one.astype(np.int64)])
