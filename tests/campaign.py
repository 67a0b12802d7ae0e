"""How much of each campaign runs, and by which seed: damage, kills, power losses, forks, random inputs.

A check runs a third of each, chosen by the tree of the commit: the same commit repeats its run, and each commit tries
other cases. `make test-deep SEED=7 ALL=1` runs all, by another seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

SEED = int(os.environ.get("DATAFORMATS_SEED", 0))
ALL = os.environ.get("DATAFORMATS_ALL", "") not in ("", "0")


def share(n: int) -> int:
    """Return how many of `n` cases run: all, or a third, rounded up."""
    return n if ALL else -(-n // 3)


def chosen(cases: Sequence[Any]) -> list[Any]:
    """Return the cases that run, in their order."""
    rng = random.Random(f"{SEED} {len(cases)}")
    return [cases[at] for at in sorted(rng.sample(range(len(cases)), share(len(cases))))]
