"""`tf.nest`: the values in tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dataformats_compat.tensorflow.data.structure import map_leaves

__all__ = ["flatten", "map_structure"]


def flatten(structure: Any) -> list[Any]:
    """Return the values of a structure."""
    values: list[Any] = []
    map_leaves(values.append, structure)
    return values


def map_structure(func: Callable[..., Any], *structures: Any) -> Any:
    """Return a structure with `func(value)` in place of each value."""
    return map_leaves(func, *structures)
