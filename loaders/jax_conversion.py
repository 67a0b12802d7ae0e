"""The batches of a loader as arrays of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats.batch import Ragged
from dataformats.batch.tensors import NUMBERS, apply_to_leaves
from dataformats.optional_imports import import_extra


def jax_conversion(device: Any) -> Callable[[Any], Any]:
    """Return the conversion of a batch to JAX arrays on a device or sharding; `None`: on JAX's default device.

    Raises:
        MissingExtraError: JAX is not installed.
    """
    jax = import_extra("jax", "to='jax'", "jax")

    def holds(array: Any) -> bool:
        """Return True if JAX can hold it: bfloat16, float8 and int4 are numbers for JAX, but void for NumPy."""
        if not isinstance(array, np.ndarray) or array.dtype.kind not in NUMBERS + "V":
            return False
        return array.dtype.kind != "V" or bool(jax.numpy.issubdtype(array.dtype, jax.numpy.number))

    def put(leaf: Any) -> Any:
        if isinstance(leaf, Ragged):
            if leaf.item_kind != "array" or not holds(leaf.values):
                return apply_to_leaves(list(leaf), put)
            first, last = leaf.offsets[[0, -1]]
            present = None if leaf.present is None else put(leaf.present)
            return Ragged(put(leaf.values[first:last]), put(leaf.offsets - first), leaf.item_kind, present)
        if not holds(leaf):
            return leaf
        native = leaf.astype(leaf.dtype.newbyteorder("="), copy=False)
        return jax.device_put(_as_jax_keeps(native, jax.config.jax_enable_x64), device)

    return lambda batch: apply_to_leaves(batch, put)


def _as_jax_keeps(array: np.ndarray[Any, Any], wide: bool) -> np.ndarray[Any, Any]:
    """Return the array, whose integers JAX would cut to 32 bits silently; refuse integers that do not fit."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and not wide and array.size:
        limits = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise OverflowError(
                f"to='jax': expected integers in [{limits.min}, {limits.max}], because JAX makes {limits.dtype} of "
                f"{array.dtype}, found {low if low < limits.min else high}. Set jax_enable_x64, or leave the field out"
            )
    return array
