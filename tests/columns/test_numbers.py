"""Numbers of records."""

from __future__ import annotations

import numpy as np

from dataformats.columns.numbers import is_run
from dataformats.testing.loop_over import loop_over


@loop_over("records, expected", [([3], True), ([3, 4, 5], True), ([], False), ([3, 0, 5], False), ([3, 5], False)])
def test_runs(records: list[int], expected: bool) -> None:
    assert is_run(np.array(records, np.int64)) == expected
