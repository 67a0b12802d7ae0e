"""Columns as pyarrow arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch.column_types import Nullable, Ragged, StackedList
from dataformats.errors import MissingExtraError, SpecError
from dataformats.spec import is_short_float

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_arrow(column: Any, kind: Any = None) -> Any:
    """Return a column as a pyarrow array, without a copy of its values if Arrow stores them the same way.

    Args:
        column: A column of a batch.
        kind: The type of the array, as `arrow_type` gives it. `None` derives it from the column: fixed shapes are
            fixed-size lists, a `Ragged` is a large list, and the values of a list decide its type.

    Raises:
        MissingExtraError: pyarrow is not installed.
        SpecError: The values of a list do not fit the type, or have no common one.
    """
    if isinstance(column, Nullable):
        if isinstance(column.values, list):
            return _of_list(list(column), kind)
        rows = to_arrow(column.values, kind)
        if column.present.all():
            return rows
        # `if_else` would put nulls into lists as well: then pandas makes floats of the integers of all others.
        buffers = [_bits(column.present), *rows.buffers()[1 : rows.type.num_buffers]]
        children = [rows.values] if rows.type.num_fields else None
        return pyarrow().Array.from_buffers(rows.type, len(rows), buffers, children=children)
    if isinstance(column, Ragged):
        return _of_ragged(column, kind)
    return _of_list(column, kind) if isinstance(column, list) else _of_array(column)


def _bits(present: NDArray[np.bool_]) -> Any:
    """Return a buffer of bits, as Arrow marks nulls."""
    return pyarrow().array(present).buffers()[1]


def _of_array(values: NDArray[Any]) -> Any:
    """Return nested fixed-size lists of numbers; a complex number is two, a float128 16 bytes."""
    arrow = pyarrow()
    if is_short_float(values.dtype):
        values = values.astype(np.float32)
    values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    if values.dtype.kind == "c":
        values = values.view(f"f{values.dtype.itemsize // 2}").reshape(*values.shape, 2)
    if values.dtype.itemsize <= 8:
        array = arrow.array(values.reshape(-1))
    else:
        wide = arrow.binary(values.dtype.itemsize)
        array = arrow.Array.from_buffers(wide, values.size, [None, arrow.py_buffer(values.reshape(-1).view(np.uint8))])
    for depth in range(values.ndim - 1, 0, -1):
        size = values.shape[depth]
        if size:
            array = arrow.FixedSizeListArray.from_arrays(array, size)
        else:  # no program reads fixed-size lists of size 0
            array = arrow.LargeListArray.from_arrays(np.zeros(math.prod(values.shape[:depth]) + 1, np.int64), array)
    return array


def _of_ragged(column: Ragged, kind: Any) -> Any:
    arrow = pyarrow()
    if isinstance(kind, arrow.StructType):
        files = _of_ragged(column, None).cast(kind.field(0).type)
        paths = arrow.nulls(len(column), kind.field(1).type)
        return arrow.StructArray.from_arrays([files, paths], fields=list(kind), mask=files.is_null())
    buffers = [None if column.present is None else _bits(column.present)]
    buffers.append(arrow.py_buffer(np.ascontiguousarray(column.offsets, np.int64)))
    if column.item_kind == "array":
        values = to_arrow(column.values, None if kind is None else kind.value_type)
        return arrow.Array.from_buffers(arrow.large_list(values.type), len(column), buffers, children=[values])
    stored = arrow.large_binary() if column.item_kind == "bytes" else arrow.large_string()
    buffers.append(arrow.py_buffer(np.ascontiguousarray(column.values)))
    array = arrow.Array.from_buffers(stored, len(column), buffers)
    return array if kind in (None, stored) else _converted(array.cast, kind)


def _of_list(values: list[Any], kind: Any) -> Any:
    arrow = pyarrow()
    if kind is None:
        kind = _type_of_arrays(values)
        values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    elif isinstance(kind, arrow.StructType):
        return _of_arrays(values, kind)
    return _converted(functools.partial(arrow.array, values), kind)


def _converted(convert: Callable[[Any], Any], kind: Any) -> Any:
    """Return the array of a type."""
    arrow = pyarrow()
    try:
        return convert(kind)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError) as error:
        expected = "one type" if kind is None else kind
        raise SpecError(
            f"the values do not fit in an Arrow column: expected {expected}: {error}",
            remedy="to_arrow() of a source gives values that have no fixed type as they are stored; a value that is "
            "too large for int64 can be read as bytes, with with_spec()",
        ) from error


def _type_of_arrays(values: list[Any]) -> Any:
    """Return the type of nested lists of the dtype of the arrays; `None` if pyarrow has to find it."""
    deep = next((value for value in values if isinstance(value, np.ndarray) and value.ndim > 1), None)
    if deep is None:
        return None
    arrow = pyarrow()
    kind = arrow.from_numpy_dtype(deep.dtype)
    for _ in range(deep.ndim):
        kind = arrow.list_(kind)
    return kind


def _of_arrays(values: list[Any], kind: Any) -> Any:
    """Return dtype, shape and bytes of arrays that may differ in dtype and shape."""
    arrow = pyarrow()
    mask = arrow.array([value is None for value in values], arrow.bool_())
    dtypes: list[str]
    shapes: list[tuple[int, ...]]
    if isinstance(values, StackedList):
        stacked = np.ascontiguousarray(values.stacked)
        n_bytes = stacked.nbytes // max(1, len(stacked))
        offsets = np.arange(len(stacked) + 1, dtype=np.int64) * n_bytes
        dtypes, shapes = [stacked.dtype.str] * len(stacked), [stacked.shape[1:]] * len(stacked)
        data = to_arrow(Ragged(stacked.reshape(-1).view(np.uint8), offsets, "bytes"))
    else:
        arrays = [np.asarray(() if value is None else value) for value in values]  # the mask hides those for None
        dtypes, shapes = [array.dtype.str for array in arrays], [array.shape for array in arrays]
        data = [array.tobytes() for array in arrays]
    parts = [arrow.array(part, one.type) for part, one in zip((dtypes, shapes, data), kind, strict=True)]
    return arrow.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def pyarrow() -> Any:
    """Return the package pyarrow.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise MissingExtraError("to_arrow", extra="arrow") from error
    return pyarrow
