"""Which of how many processes this one is."""

from __future__ import annotations

__all__ = ["resolve"]


def resolve(rank: int | str, world_size: int) -> tuple[int, int]:
    """Return the rank and the world size."""
    if not isinstance(rank, int) or not 0 <= rank < world_size:
        raise ValueError(f"rank must lie in [0, world_size), found {rank!r} of {world_size}")
    return rank, world_size
