"""The file of `Dataset.cache(filename)`: elements as MessagePack records of a TFRecord file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dataformats import create, open
from dataformats_compat.tensorflow.dtypes import string_array
from dataformats_compat.tensorflow.ragged import RaggedTensor
from dataformats_compat.tensorflow.sparse import SparseTensor

__all__ = ["cached"]


def cached(make: Callable[[], Iterator[Any]], path: Path) -> Iterator[Any]:
    """Yield the elements of a file; if it is missing, new elements, which a complete iteration leaves there.

    Args:
        make: Returns an iterator of new elements.
        path: The file.

    Raises:
        TargetInUseError: Another iteration is writing the file.
        TypeError: An element has parts that are neither tuples, dicts, arrays nor strings.
    """
    if path.exists():
        yield from map(_element, open(path, format="tfrecord", payload="tree"))
        return
    with create(path, "tfrecord", payload="tree") as writer:
        for element in make():
            writer.append(_stored(element))
            yield element


def _stored(element: Any) -> Any:
    """Return an element for the codec `tree`, which has arrays, bytes and mappings; else a list that begins with a tag.

    Elements have no lists, so that a list in the file is always one of these.
    """
    if isinstance(element, tuple):
        if hasattr(element, "_fields"):
            raise TypeError(f"cache(filename): expected tuples and dicts, found {type(element).__name__}")
        return ["tuple", *map(_stored, element)]
    if isinstance(element, dict):
        return {key: _stored(value) for key, value in element.items()}
    if isinstance(element, SparseTensor):
        return ["sparse", element.indices, _stored(element.values), element.dense_shape]
    if isinstance(element, RaggedTensor):
        return ["ragged", _stored(element.values), element.row_splits]
    if isinstance(element, np.ndarray) and element.dtype == object:
        return ["strings", list(element.shape), element.reshape(-1).tolist()]
    return np.asarray(element) if isinstance(element, np.generic) else element


def _element(stored: Any) -> Any:
    """Return the element that `_stored` converted to `stored`."""
    if isinstance(stored, dict):
        return {key: _element(value) for key, value in stored.items()}
    if isinstance(stored, list):
        tag, *parts = stored
        return _TAGGED[tag](*parts)
    return stored[()] if isinstance(stored, np.ndarray) and not stored.ndim else stored


_TAGGED: dict[str, Callable[..., Any]] = {
    "tuple": lambda *parts: tuple(map(_element, parts)),
    "sparse": lambda indices, values, shape: SparseTensor(indices, _element(values), shape),
    "ragged": lambda values, splits: RaggedTensor(_element(values), splits),
    "strings": lambda shape, values: string_array(values, tuple(shape)),
}
