"""Elements of datasets: numpy values in tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataformats_compat.tensorflow import ragged, sparse
from dataformats_compat.tensorflow.dtypes import convert, string_array
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.ragged import RaggedTensor
from dataformats_compat.tensorflow.sparse import SparseTensor
from dataformats_compat.tensorflow.tensor import array_of, as_tensor, plain

__all__ = ["as_element", "as_numpy", "call", "columns", "map_leaves", "pad", "rows", "stack"]


def map_leaves(function: Callable[..., Any], element: Any, *others: Any) -> Any:
    """Return an element with a function of each value, and of those at the same place in other elements.

    Raises:
        ValueError: Another element has no value at a place.
    """
    if isinstance(element, tuple):
        for other in others:
            if not isinstance(other, tuple | list) or len(other) != len(element):
                raise ValueError(f"expected a tuple of {len(element)}, found {other!r:.80}")
        return _like(element, [map_leaves(function, *parts) for parts in zip(element, *others, strict=True)])
    if isinstance(element, dict):
        for other in others:
            if not isinstance(other, dict) or other.keys() != element.keys():
                raise ValueError(f"expected a dict with the keys {list(element)}, found {other!r:.80}")
        return {key: map_leaves(function, value, *(other[key] for other in others)) for key, value in element.items()}
    return function(element, *others)


def _like(element: tuple[Any, ...], parts: Sequence[Any]) -> Any:
    return type(element)(*parts) if hasattr(element, "_fields") else tuple(parts)


def as_element(value: Any) -> Any:
    """Convert the result of a function to plain numpy values, as TensorFlow does: a list is one array."""
    kind = type(value)
    if kind is bytes or kind in _SCALARS:
        return value
    if isinstance(value, np.ndarray):
        array = value if kind is np.ndarray else value.view(np.ndarray)
        if array.dtype.kind not in "USO":
            return array if array.ndim else array[()]
    if isinstance(value, tuple):
        return _like(value, [as_element(part) for part in value])
    if isinstance(value, Mapping):
        return {key: as_element(part) for key, part in value.items()}
    whole = value is None or isinstance(value, SparseTensor | RaggedTensor) or hasattr(value, "as_numpy_iterator")
    return value if whole else plain(convert(plain(value)))


_SCALARS = frozenset((np.int64, np.int32, np.float32, np.float64, np.uint8, np.bool_))


def as_numpy(value: Any) -> Any:
    """Return a `SparseTensor` or `RaggedTensor` as an array, and everything else unchanged."""
    if isinstance(value, SparseTensor):
        return value.to_dense()
    return value.numpy() if isinstance(value, RaggedTensor) else value


def call(function: Callable[..., Any], element: Any) -> Any:
    """Return `function` of the tensors of an element; the parts of a tuple are separate arguments."""
    if isinstance(element, tuple):
        return function(*(map_leaves(as_tensor, part) for part in element))
    return function(map_leaves(as_tensor, element))


# ---- batches


def columns(function: Callable[[Sequence[Any]], Any], elements: Sequence[Any]) -> Any:
    """Return a function of all values at each place of elements of the same structure."""
    return map_leaves(lambda *leaves: function(leaves), *elements)


def stack(elements: Sequence[Any]) -> Any:
    """Return elements of the same structure as a batch.

    Raises:
        InvalidArgumentError: Their shapes or structures differ.
    """
    return columns(_stacked, elements)


def _stacked(elements: Sequence[Any]) -> Any:
    first = elements[0]
    if isinstance(first, bytes):
        return string_array(elements)
    if isinstance(first, np.generic):
        return np.array(elements, first.dtype)
    if isinstance(first, SparseTensor):
        return sparse.stack(elements)
    if isinstance(first, RaggedTensor):
        return ragged.stack(elements)
    if first is None:
        return None
    for number, element in enumerate(elements):
        if element.shape != first.shape:
            raise InvalidArgumentError(
                f"cannot batch arrays of different shapes: the first is {first.shape}, element {number} is "
                f"{element.shape}",
                remedy="Use padded_batch, or crop or resize them before batch",
            )
    return np.stack(elements)


def pad(elements: Sequence[Any], shapes: Any, values: Any, unknown: int | None = None) -> Any:
    """Return elements as a batch, padded behind each dimension.

    Args:
        elements: Elements of the same structure.
        shapes: A structure of shapes; `None`, and `None` or -1 in one, stand for an unknown size.
        values: A structure of scalars, or one for all; `None`: 0 or `b""`.
        unknown: The size in place of an unknown one; `None` takes the largest of the batch.

    Raises:
        InvalidArgumentError: An array is larger than its shape.
    """
    first = elements[0]
    if isinstance(first, tuple):
        each, fills = _parts(shapes, len(first)), _parts(values, len(first))
        return _like(
            first, [pad(*part, unknown) for part in zip(zip(*elements, strict=True), each, fills, strict=True)]
        )
    if isinstance(first, dict):
        return {
            key: pad([element[key] for element in elements], _key(shapes, key), _key(values, key), unknown)
            for key in first
        }
    arrays = [array_of(element) for element in elements]
    largest = np.max([array.shape for array in arrays], axis=0).tolist() if arrays[0].ndim else []
    wanted = largest if shapes is None else list(shapes)
    if len(wanted) != len(largest):
        raise InvalidArgumentError(f"padded_shapes: expected {len(largest)} dimensions, found {wanted}")
    others = largest if unknown is None else [unknown] * len(largest)
    sizes = [other if size in (None, -1) else size for size, other in zip(wanted, others, strict=True)]
    if any(size < most for size, most in zip(sizes, largest, strict=True)):
        raise InvalidArgumentError(f"padded_shapes: expected shapes up to {sizes}, found {largest}")
    fill = (b"" if arrays[0].dtype == object else 0) if values is None else convert(values)
    batch = np.full([len(arrays), *sizes], fill, arrays[0].dtype)
    for place, array in zip(batch, arrays, strict=True) if sizes else ():
        place[tuple(map(slice, array.shape))] = array
    return batch if sizes else stack(elements)


def _parts(structure: Any, n: int) -> Sequence[Any]:
    if not isinstance(structure, tuple | list):
        return [structure] * n
    if len(structure) != n:
        raise ValueError(f"expected a tuple of {n}, one for each part of an element, found {structure!r:.80}")
    return structure


def _key(structure: Any, key: Any) -> Any:
    return structure[key] if isinstance(structure, dict) else structure


# ---- the rows of batches


def rows(batch: Any) -> Iterator[Any]:
    """Yield the elements along the first dimension of all arrays in a structure.

    Raises:
        ValueError: They differ in length, or one has no dimensions.
    """
    leaves: list[Any] = []
    map_leaves(leaves.append, batch)
    lengths = {_length(leaf) for leaf in leaves}
    if len(lengths) != 1:
        raise ValueError(f"expected arrays of one length along their first dimension, found {sorted(lengths)}")
    parts = map_leaves(_rows, batch)
    return (map_leaves(lambda part, at=at: part[at], parts) for at in range(lengths.pop()))


def _length(leaf: Any) -> int:
    if isinstance(leaf, SparseTensor):
        return int(leaf.dense_shape[0])
    if isinstance(leaf, bytes | np.generic) or (isinstance(leaf, np.ndarray) and not leaf.ndim):
        raise ValueError(f"expected arrays with at least one dimension, found the scalar {leaf!r:.80}")
    return len(leaf)


def _rows(leaf: Any) -> Any:
    # The rows are a list, because a tuple or dict would be part of the structure.
    return sparse.unstack(leaf) if isinstance(leaf, SparseTensor) else leaf
