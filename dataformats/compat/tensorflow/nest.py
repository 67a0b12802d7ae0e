"""`tf.nest`: the values in tuples and dicts."""

from __future__ import annotations

from typing import Any

from dataformats.compat.tensorflow.data.structure import map_leaves
from dataformats.compat.tensorflow.ops import map_structure

__all__ = ["flatten", "map_structure"]


def flatten(structure: Any) -> list[Any]:
    """Return the values of a structure."""
    values: list[Any] = []
    map_leaves(values.append, structure)
    return values
