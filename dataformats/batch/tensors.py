"""Convert columns to torch tensors, and apply a function to every tensor of a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch.column_types import Nullable, Ragged
from dataformats.errors import MissingExtraError
from dataformats.spec import is_short_float

NUMBERS = "biufc"
"""The kinds of dtypes that tensors and arrays of JAX may have."""


def to_tensors(value: Any, *, share: bool) -> Any:
    """Return a column, or a structure of columns, with tensors instead of arrays.

    Numbers become tensors of the same dtype, a `Ragged` of numbers a jagged nested tensor; a `Ragged` of anything else
    becomes a list. Dicts (subclasses too), lists, tuples and `Nullable` are converted recursively; text, bytes, and
    arrays without a dtype in torch stay unchanged.

    Args:
        value: Its arrays are not changed.
        share: True: a tensor shares the memory of its array, if that is writable, contiguous and in the machine's
            byte order. False: every tensor is a copy.

    Raises:
        MissingExtraError: torch is not installed.
    """

    def converted(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return _tensor(leaf, share)
        return _jagged(leaf, share) if isinstance(leaf, Ragged) else leaf

    return apply_to_leaves(value, converted)


def map_tensors(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return `value`, a structure as for `to_tensors`, with `function(tensor)` in place of each tensor.

    `function` is called with plain tensors only: for a jagged tensor, with its values and its offsets.
    """
    torch = _torch()

    def applied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        # `to` and `pin_memory` accept jagged tensors, `record_stream` does not: so all are applied to their parts.
        if leaf.layout != torch.jagged or getattr(leaf, "_ragged_idx", 1) != 1 or leaf.lengths() is not None:
            return function(leaf)
        return torch.nested.nested_tensor_from_jagged(function(leaf.values()), function(leaf.offsets()))

    return apply_to_leaves(value, applied)


def move_tensors(value: Any, device: Any, *, non_blocking: bool = False) -> Any:
    """Return `value` as tensors on a device.

    Raises:
        MissingExtraError: torch is not installed.
    """
    return map_tensors(to_tensors(value, share=True), lambda tensor: tensor.to(device, non_blocking=non_blocking))


def apply_to_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a column, or a structure of columns, with `function` applied to every leaf."""
    if isinstance(value, Nullable):
        return Nullable(apply_to_leaves(value.values, function), function(value.present))
    if isinstance(value, Mapping):
        made: MutableMapping[Any, Any] = copy.copy(value) if isinstance(value, MutableMapping) else {}
        made.update({name: apply_to_leaves(item, function) for name, item in value.items()})
        return made
    if isinstance(value, list):
        return [apply_to_leaves(item, function) for item in value]
    if isinstance(value, tuple):
        items = [apply_to_leaves(item, function) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return function(value)


def _tensor(array: NDArray[Any], share: bool) -> Any:
    if is_short_float(array.dtype):
        bits = array.view(np.int16 if array.itemsize == 2 else np.uint8)
        return _tensor(bits, share).view(getattr(_torch(), array.dtype.name))
    if array.dtype.kind not in NUMBERS:
        return array
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    # torch has no read-only tensors: writing to one over a mapped file would end the process.
    if not (share and native.flags.writeable and native.flags.c_contiguous):
        native = np.array(native, order="C")
    return _torch().from_numpy(native)


def _is_number(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in NUMBERS or is_short_float(dtype)


def _jagged(column: Ragged, share: bool) -> Any:
    values = column.values
    if column.item_kind != "array" or not isinstance(values, np.ndarray) or not _is_number(values.dtype):
        return to_tensors(list(column), share=share)
    first, last = int(column.offsets[0]), int(column.offsets[-1])
    offsets = _torch().from_numpy(column.offsets - first)
    return _torch().nested.nested_tensor_from_jagged(_tensor(values[first:last], share), offsets)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("to_torch", extra="torch") from error
    return torch
