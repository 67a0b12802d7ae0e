"""The generators of random numbers that transforms get."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Randomness"]


@dataclass(frozen=True)
class Randomness:
    """Generators keyed by seed and position.

    Attributes:
        seed: Another seed, other numbers.
    """

    seed: int

    def at(self, position: int) -> np.random.Generator:
        """Return the generator of a position."""
        return np.random.Generator(np.random.Philox(key=[self.seed, position]))
