"""Operations that return the elements of arrays in another shape or order, or some of them, as `Tensor` arrays."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from dataformats_compat.tensorflow.dtypes import numpy_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import array_of, as_tensor, like, of_one_dtype, same_shape, tensor_of

__all__ = [
    "boolean_mask", "broadcast_to", "concat", "ensure_shape", "expand_dims", "gather", "gather_nd", "pad", "rank",
    "repeat", "reshape", "reverse", "shape", "size", "slice", "split", "squeeze", "stack", "tile", "transpose",
    "unique", "unstack",
]  # fmt: skip


def shape(input: Any, out_type: Any = "int32", name: Any = None) -> Any:
    """Return the shape, as an array."""
    return as_tensor(np.array(array_of(input).shape, numpy_dtype(out_type)))


def size(input: Any, out_type: Any = "int32", name: Any = None) -> Any:
    """Return the number of values."""
    return tensor_of(numpy_dtype(out_type).type(array_of(input).size))


def rank(input: Any, name: Any = None) -> Any:
    """Return the number of dimensions."""
    return tensor_of(np.int32(array_of(input).ndim))


def reshape(tensor: Any, shape: Any, name: Any = None) -> Any:
    """Return the values in another shape; -1 in it stands for the rest.

    Raises:
        InvalidArgumentError: The shape has another number of values.
    """
    array = array_of(tensor)
    wanted = tuple(np.atleast_1d(np.asarray(shape, np.int64)).tolist())
    try:
        return tensor_of(array.reshape(wanted))
    except ValueError as error:
        raise InvalidArgumentError(
            f"cannot reshape {array.size} values, of shape {array.shape}, to {wanted}"
        ) from error


def ensure_shape(x: Any, shape: Any, name: Any = None) -> Any:
    """Return the value if it has the shape; `None` in it stands for any size.

    Raises:
        InvalidArgumentError: It has another.
    """
    same_shape(array_of(x).shape, shape)
    return tensor_of(array_of(x))


def expand_dims(input: Any, axis: int, name: Any = None) -> Any:
    """Return the value with a dimension of size 1 more."""
    return tensor_of(np.expand_dims(array_of(input), axis))


def squeeze(input: Any, axis: Any = None, name: Any = None) -> Any:
    """Return the value without dimensions of size 1, or without those in `axis`."""
    return tensor_of(np.squeeze(array_of(input), None if axis is None or axis == [] else tuple(np.atleast_1d(axis))))


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: Any = None) -> Any:
    """Return the value with its dimensions in another order, reversed by default."""
    return tensor_of(np.transpose(array_of(a), None if perm is None else tuple(perm)))


def concat(values: Any, axis: int, name: Any = None) -> Any:
    """Return arrays joined along a dimension."""
    return tensor_of(np.concatenate(of_one_dtype("concat", *values), int(axis)))


def stack(values: Any, axis: int = 0, name: Any = None) -> Any:
    """Return arrays joined along a new dimension."""
    return tensor_of(np.stack(of_one_dtype("stack", *values), axis))


def unstack(value: Any, num: int | None = None, axis: int = 0, name: Any = None) -> list[Any]:
    """Return the parts of an array along a dimension."""
    return [tensor_of(part) for part in np.moveaxis(array_of(value), axis, 0)]


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: Any = None, name: Any = None) -> list[Any]:
    """Return an array in a number of equal parts, or in parts of these sizes, along a dimension."""
    array, sizes = array_of(value), num_or_size_splits
    if np.ndim(sizes):
        lengths = [int(one) for one in sizes]
        rest = array.shape[axis] - sum(one for one in lengths if one >= 0)
        sizes = np.cumsum([rest if one < 0 else one for one in lengths])[:-1]
    return [tensor_of(part) for part in np.split(array, sizes, axis)]


def tile(input: Any, multiples: Any, name: Any = None) -> Any:
    """Return an array repeated along its dimensions."""
    return tensor_of(np.tile(array_of(input), tuple(multiples)))


def broadcast_to(input: Any, shape: Any, name: Any = None) -> Any:
    """Return an array repeated to a shape.

    Raises:
        InvalidArgumentError: It cannot be.
    """
    wanted = tuple(np.asarray(shape, np.int64).tolist())
    try:
        return tensor_of(np.broadcast_to(array_of(input), wanted))
    except ValueError as error:
        raise InvalidArgumentError(f"cannot repeat the shape {array_of(input).shape} to {wanted}") from error


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: Any = None) -> Any:
    """Return an array padded before and behind each dimension."""
    modes = {"CONSTANT": {"constant_values": constant_values}, "REFLECT": {}, "SYMMETRIC": {}}
    if mode.upper() not in modes:
        raise ValueError(f"mode: expected 'CONSTANT', 'REFLECT' or 'SYMMETRIC', found {mode!r}")
    options: dict[str, Any] = modes[mode.upper()]
    return tensor_of(np.pad(array_of(tensor), np.asarray(paddings).tolist(), mode.lower(), **options))  # type: ignore[call-overload]  # checked above


def slice(input_: Any, begin: Any, size: Any, name: Any = None) -> Any:
    """Return a part of an array; a size of -1 stands for the rest.

    Raises:
        InvalidArgumentError: The part is not within the array.
    """
    array = array_of(input_)
    starts, sizes = np.asarray(begin).tolist(), np.asarray(size).tolist()
    ends = [full if n == -1 else at + n for at, n, full in zip(starts, sizes, array.shape, strict=True)]
    if any(not 0 <= at <= end <= full for at, end, full in zip(starts, ends, array.shape, strict=True)):
        raise InvalidArgumentError(f"expected a part of the shape {array.shape}, found begin {starts} and size {sizes}")
    return tensor_of(array[tuple(map(builtins.slice, starts, ends))])


def gather(
    params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: int = 0, name: Any = None
) -> Any:
    """Return the parts of an array at these indices along a dimension, `batch_dims` by default.

    Raises:
        InvalidArgumentError: An index is out of range.
    """
    array, at, n = array_of(params), array_of(indices), int(batch_dims)
    n = n + at.ndim if n < 0 else n
    along = n if axis is None else int(axis) % array.ndim
    _within(at, array.shape[along])
    if not n:
        return tensor_of(np.take(array, at, axis=along))
    parts = [gather(one, where, axis=along - 1, batch_dims=n - 1) for one, where in zip(array, at, strict=True)]
    return tensor_of(np.stack(parts))


def _within(indices: Any, size: Any) -> None:
    if indices.size and (((indices < 0) | (indices >= size)).any()):
        raise InvalidArgumentError(f"expected indices in [0, {size}), found {indices.reshape(-1).tolist()!r:.80}")


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: Any = None) -> Any:
    """Return the parts of an array at these indices, (..., n) along its first n dimensions.

    Raises:
        InvalidArgumentError: An index is out of range.
    """
    array, at = array_of(params), array_of(indices)
    if batch_dims:
        parts = [gather_nd(one, where, batch_dims - 1) for one, where in zip(array, at, strict=True)]
        return tensor_of(np.stack(parts))
    _within(at, np.array(array.shape[: at.shape[-1]], np.int64))
    return tensor_of(array[tuple(np.moveaxis(at, -1, 0))])


def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str = "boolean_mask") -> Any:
    """Return the parts of an array where a mask of its first dimensions, or of those from `axis` on, is true."""
    array, chosen = array_of(tensor), like(mask, np.dtype(bool))
    return tensor_of(array[(builtins.slice(None),) * int(axis or 0) + (chosen,)])


def repeat(input: Any, repeats: Any, axis: int | None = None, name: Any = None) -> Any:
    """Return an array with each part along a dimension, or each value, repeated."""
    return tensor_of(np.repeat(array_of(input), array_of(repeats), axis))


class Unique(NamedTuple):
    """The result of `unique`."""

    y: Any
    idx: Any


def unique(x: Any, out_idx: Any = "int32", name: Any = None) -> Unique:
    """Return the values of a vector, each once, in the order of the first ones; and the place of each value in these.

    Raises:
        InvalidArgumentError: It is no vector.
    """
    array = array_of(x)
    if array.ndim != 1:
        raise InvalidArgumentError(f"unique: expected a vector, found the shape {array.shape}")
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in array.tolist()]
    first = np.empty(len(places), array.dtype)
    first[:] = list(places)
    return Unique(tensor_of(first), tensor_of(np.array(at, numpy_dtype(out_idx))))


def reverse(tensor: Any, axis: Any, name: Any = None) -> Any:
    """Return an array in reverse order along dimensions."""
    return tensor_of(np.flip(array_of(tensor), tuple(np.atleast_1d(axis))))
