"""Give arrays the shapes that other fields of their records hold: `uint8[height,width,3]`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dataformats.batch import Column, StackedList
from dataformats.batch.column_types import items_of
from dataformats.columns.masks import insert_missing
from dataformats.errors import CodecError, SpecError
from dataformats.spec import MAX_ELEMENTS, Spec, Type

Mask = Mapping[str, "bool | range"]


class ShapedFields:
    """The fields of a spec whose types name fields in their shape.

    Args:
        spec: All fields of the records.

    Attributes:
        types: The types of these fields.

    Raises:
        SpecError: A shape names a field that records lack.
    """

    def __init__(self, spec: Spec) -> None:
        self.types: dict[str, Type] = {name: kind for name, kind in spec.items() if kind.shape_fields}
        for name, kind in self.types.items():
            others = spec.keys() - {name}
            if kind.dims or not others >= {*kind.shape_fields}:
                names = ", ".join(sorted(others)) or "none"
                raise SpecError(f"expected an array whose shape names other fields ({names}), found {kind}", field=name)

    def stored(self, mask: Mask) -> Mask:
        """Return the mask of a read that gets the values of these fields: with the fields that shapes name."""
        if not self.types:
            return mask
        sizes = [size for name in self.types.keys() & mask.keys() for size in self.types[name].shape_fields]
        return {**mask, **dict.fromkeys(sizes, True)} if sizes else mask

    def columns(self, stored: dict[str, Column], mask: Mask) -> dict[str, Column]:
        """Return the columns of a mask, given the columns of `stored(mask)`.

        Raises:
            CodecError: A value does not have the shape that its record gives.
        """
        if not self.types:
            return stored
        columns: dict[str, Any] = dict(stored)
        for name, kind in self.types.items():
            if name in mask:
                rows = zip(stored[name], *(items_of(stored[size]) for size in kind.shape_fields), strict=True)
                found = [_reshaped(array, sizes, kind, name) for array, *sizes in rows if array is not None]
                alike = len({array.shape for array in found}) == 1
                present = np.array([array is not None for array in stored[name]], np.bool_)
                values = StackedList(np.stack(found)) if alike else found
                columns[name] = insert_missing(values, present, optional=kind.optional)
        return {name: columns[name] for name in mask}


def _reshaped(array: Any, sizes: Iterable[Any], kind: Type, name: str) -> Any:
    of_fields = dict(zip(kind.shape_fields, sizes, strict=True))
    shape: list[Any] = [of_fields[size] if size in of_fields else int(size) for size in kind.args[1:]]
    are_sizes = all(type(size) is int and size >= 0 for size in shape)
    if are_sizes and math.prod(shape) == len(array) and math.prod(size or 1 for size in shape) < MAX_ELEMENTS:
        return array.reshape(shape)
    expected = f"{math.prod(shape) * array.itemsize} bytes" if are_sizes else "sizes from 0 on"
    found = ", ".join(f"{field}={size!r}" for field, size in of_fields.items())
    raise CodecError(f"expected {expected}, found {array.nbytes} bytes and {found}", codec=str(kind), field=name)
