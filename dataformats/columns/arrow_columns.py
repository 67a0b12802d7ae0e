"""Arrow arrays as columns, and the types that a schema of Arrow gives the fields."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column, Ragged, RecordBatch
from dataformats.batch.arrow_types import arrow_type
from dataformats.batch.column_types import concat_columns
from dataformats.batch.stored_records import join_values
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.column_cast import can_cast, cast_column
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.columns.masks import insert_missing
from dataformats.columns.numbers import offsets_of
from dataformats.errors import DataFormatsError, Remedy, SpecError
from dataformats.interfaces.table import BadRowsError
from dataformats.spec import VALUE, Spec, Type

_ARRAY = {"dtype", "shape", "data"}
_MEDIA = {"bytes", "path"}
_MAX_JOINED = 2**31 - 1  # bytes: offsets of text and lists in one array are int32


def spec_of_arrow(schema: Any, optional: Collection[str] | None = None) -> Spec:
    """Return the spec of a `pyarrow.Schema`: the types that `to_arrow` makes such fields of.

    Dates, times and decimals are text, durations int64. Structs, maps and deeper lists are `json`, or `msgpack` if
    there are bytes in them. The struct of `array` becomes `array`, and the struct of an image its bytes. Intervals have
    an opaque type.

    Args:
        schema: Names and Arrow types.
        optional: The fields that records may lack; `None` is all nullable fields.

    Raises:
        SpecError: Two columns have one name, or the schema is damaged.
    """
    kinds = {field.name: type_of_arrow(field.type) for field in schema}
    if len(kinds) < len(schema):
        twice = next(name for name in kinds if schema.names.count(name) > 1)
        raise SpecError("expected one column of this name, found several", field=twice, remedy="Rename them.")
    lacking = {field.name for field in schema if field.nullable} if optional is None else optional
    return Spec({name: replace(kind, optional=name in lacking) for name, kind in kinds.items()})


def type_of_arrow(kind: Any) -> Type:
    """Return the type of a field: see `spec_of_arrow`."""
    while isinstance(kind, pyarrow().ExtensionType):  # a class of Python, whose values may have no hash
        kind = kind.storage_type
    return _type_of(kind)


@functools.lru_cache(1024)
def _type_of(kind: Any) -> Type:
    types = pyarrow().types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return type_of_arrow(kind.value_type)
    if isinstance(kind, pyarrow().FixedShapeTensorType):
        shape = [kind.shape[axis] for axis in kind.permutation or range(len(kind.shape))]
        return Type.parse(f"{kind.value_type.to_pandas_dtype().__name__}{shape}")
    if isinstance(kind, pyarrow().BaseExtensionType):
        return type_of_arrow(kind.storage_type)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return Type(np.dtype(kind.to_pandas_dtype()).name)
    if _is_binary(kind):
        return Type("bytes")
    if types.is_struct(kind):
        names = {field.name for field in kind}
        return Type("array") if names == _ARRAY else Type("bytes") if names == _MEDIA else _document(kind)
    if types.is_fixed_size_list(kind) or _is_list(kind):
        return _list_type(kind)
    if types.is_map(kind) or types.is_union(kind):
        return _document(kind)
    if types.is_interval(kind):
        return Type(str(kind))
    return Type("int64") if types.is_duration(kind) else Type("utf8")


def holds_files(kind: Any) -> bool:
    """True if values are files as Hugging Face stores them, bytes or a path, or lists of such files."""
    types = pyarrow().types
    if types.is_struct(kind):
        return {field.name for field in kind} == _MEDIA
    return _is_list(kind) and holds_files(kind.value_type)


def _list_type(kind: Any) -> Type:
    item = type_of_arrow(kind.value_type)
    if item.dtype is not None and item.fixed:
        size = kind.list_size if pyarrow().types.is_fixed_size_list(kind) else None
        if size is not None and size < 0:
            raise SpecError(f"expected the size of lists, found {size}: the schema is damaged")
        return replace(item, dims=(size, *item.dims))
    is_blob = item in (Type("utf8"), Type("bytes")) and _is_list(kind)
    return replace(item, dims=(None,)) if is_blob else _document(kind)


def _document(kind: Any) -> Type:
    """Return the codec of nested values."""
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    holds_bytes = any(_is_binary(one) or (one.num_fields and _document(one).codec == "msgpack") for one in inner)
    return Type("msgpack" if holds_bytes else "json")


def _is_binary(kind: Any) -> bool:
    types = pyarrow().types
    names = ("is_binary", "is_large_binary", "is_fixed_size_binary", "is_binary_view")
    return any(getattr(types, name)(kind) for name in names if hasattr(types, name))


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    return any(
        getattr(types, name)(kind) for name in ("is_list", "is_large_list", "is_list_view", "is_large_list_view")
    )


def batch_of_arrow(batch: Any, spec: Spec, first: int = 0) -> RecordBatch:
    """Return the rows of a pyarrow table or batch as records, numbered from `first` on."""
    columns = {name: column_of_arrow(batch.column(name), kind, name) for name, kind in spec.items()}
    numbers = np.arange(first, first + batch.num_rows)
    return RecordBatch(columns, numbers, single=tuple(spec) == (VALUE,))


def columns_of_arrow(rows: Any, spec: Spec, fields: Sequence[str]) -> dict[str, Column]:
    """Return columns of a pyarrow table or batch, validated; a field that it lacks is missing in each row.

    Raises:
        BadRowsError: Values of some rows are not of their types.
    """
    arrow = pyarrow()
    known = set(rows.schema.names)
    arrays = {name: rows.column(name) if name in known else arrow.nulls(rows.num_rows) for name in fields}
    try:
        return {name: column_of_arrow(array, spec[name], name) for name, array in arrays.items()}
    except SpecError:
        failed: dict[int, DataFormatsError] = {}
    for name, array in arrays.items():
        failed |= _bad_rows(array, spec[name], name, 0)
    good = arrow.array(np.delete(np.arange(rows.num_rows), [*failed]))
    columns = {name: column_of_arrow(array.take(good), spec[name], name) for name, array in arrays.items()}
    raise BadRowsError(columns, failed)


def _bad_rows(array: Any, type_: Type, field: str, first: int) -> dict[int, DataFormatsError]:
    """Return the error of each row whose value is not of the type; the rows are numbered from `first` on."""
    try:
        column_of_arrow(array, type_, field)
    except SpecError as error:
        half = len(array) // 2
        if not half:
            return {first: error.with_traceback(None)}  # its frames hold arrays
        return _bad_rows(array[:half], type_, field, first) | _bad_rows(array[half:], type_, field, first + half)
    return {}


def column_of_arrow(array: Any, type_: Type, field: str) -> Column:
    """Return the column of an array, without a copy if Arrow stores the values the same way.

    Args:
        array: A `pyarrow.Array` or `ChunkedArray`.
        type_: The type that `spec_of_arrow` returns, or another one: see `can_cast`. Nulls of a required type raise.
        field: Its name, for errors.

    Raises:
        SpecError: A value is null, or within a list.
    """
    arrow = pyarrow()
    if isinstance(array, arrow.ChunkedArray):
        if array.num_chunks > 1 and array.get_total_buffer_size() > _MAX_JOINED:  # `nbytes` fails for empty unions
            joined: Column = concat_columns([column_of_arrow(chunk, type_, field) for chunk in array.chunks])
            return joined
        array = array.chunk(0) if array.num_chunks == 1 else arrow.concat_arrays(array.chunks or [_empty(array.type)])
    if arrow.types.is_null(array.type):  # no row has a value; another file gives the type
        array = array.cast(arrow_type(type_))
    if arrow.types.is_dictionary(array.type):
        values = _cast(array.dictionary, _without_views(array.type.value_type), field)
        array = arrow.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if arrow.types.is_run_end_encoded(array.type):
        array = arrow.compute.run_end_decode(array)
    array = _cast(array, _without_views(array.type), field)
    if not array.null_count:
        column = _values(array, type_, field)
        return insert_missing(column, np.ones(len(array), np.bool_), optional=type_.optional)
    present = _to_numpy(array.is_valid())
    if not type_.optional:
        raise SpecError(f"expected {type_}, found null", field=field, index=int(present.argmin()))
    whole = arrow.concat_arrays([array])  # pyarrow 26 takes the wrong lists within fixed-size lists from a slice
    return insert_missing(_values(whole.drop_null(), type_, field), present, optional=True)


def _values(array: Any, type_: Type, field: str) -> Column:
    """Return the column of an array without nulls, cast if the file stores another type of numbers."""
    stored = type_of_arrow(array.type)
    if stored == Type("utf8") and type_.dims:
        return _lists_of_json(array.to_pylist(), type_, field)
    if not can_cast(stored, type_):
        return _column(array, type_.required, field)
    return cast_column(_column(array, stored, field), type_, field)


def _lists_of_json(texts: list[str], type_: Type, field: str) -> Column:
    """Return the column of lists that are written as JSON.

    Raises:
        SpecError: A text is no such list.
    """
    codecs = CodecResolver(trusted=False)
    encode = codecs.encoder(type_.required, field)
    try:
        values = [json.loads(text) for text in texts]
    except (ValueError, RecursionError) as error:
        raise SpecError(f"expected {type_} as JSON: {error}", field=field) from error
    return FieldDecoder(codecs, type_.required, type_.required, field).decode(*join_values([*map(encode, values)]))


def _empty(kind: Any) -> Any:
    return pyarrow().array([], kind)


def _column(array: Any, type_: Type, field: str) -> NDArray[Any] | Ragged | list[Any]:
    """Return the column of an array without nulls."""
    if array.null_count:
        raise _null_in_list(type_, field)
    if isinstance(array, pyarrow().FixedShapeTensorArray) and type_.dtype is not None:
        return np.asarray(array.to_numpy_ndarray())
    if isinstance(array, pyarrow().ExtensionArray):
        array = array.storage
    if type_.dtype is not None and type_.fixed:
        return _numbers(array, type_, field)
    if type_.dims:
        lengths = np.asarray(_to_numpy(pyarrow().compute.list_value_length(array)), np.int64)
        return Ragged(_column(array.flatten(), type_.item, field), offsets_of(lengths))
    if type_.codec in ("utf8", "bytes"):
        return _blobs(array, type_, field)
    if pyarrow().types.is_interval(array.type):
        return _blobs(array.view(pyarrow().binary(array.type.bit_width // 8)), Type("bytes"), field)
    if type_.codec == "array":
        parts = zip(*(array.field(name).to_pylist() for name in ("dtype", "shape", "data")), strict=True)
        try:
            return [np.frombuffer(data, dtype).reshape(shape) for dtype, shape, data in parts]
        except (TypeError, ValueError) as error:
            raise SpecError(f"expected dtype, shape and data of an array: {error}", field=field) from error
    values: list[Any] = _cast(array, type_of_documents(array.type), field).to_pylist()
    return _with_lists(values) if holds_type(array.type, _has_tuples) else values


def _has_tuples(kind: Any) -> bool:
    return bool(pyarrow().types.is_map(kind) or pyarrow().types.is_interval(kind))


def holds_type(kind: Any, matches: Callable[[Any], bool]) -> bool:
    """True if an Arrow type, or one within its structs and lists, matches."""
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return matches(kind) or any(holds_type(one, matches) for one in inner)


def _with_lists(value: Any) -> Any:
    """Return a document in which pairs of maps and intervals, tuples of pyarrow, are lists, as JSON reads them back."""
    if isinstance(value, dict):
        return {name: _with_lists(inner) for name, inner in value.items()}
    return [_with_lists(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _null_in_list(item: Type, field: str) -> SpecError:
    remedy = Remedy("Read the lists as documents: pass {spec}.", spec={field: "json?"})
    return SpecError(f"expected {item} in a list, found null", field=field, remedy=remedy)


def _without_views(kind: Any) -> Any:
    """Return the type of the same values for which pyarrow has functions: few take a view."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        return kind
    views = {"string_view": pyarrow().large_string(), "binary_view": pyarrow().large_binary()}
    return with_leaves(kind, lambda leaf: views.get(str(leaf.value_type if types.is_dictionary(leaf) else leaf), leaf))


def type_of_documents(kind: Any) -> Any:
    """Return the type of nested values whose dates, times and decimals are text, and durations int64."""
    types = pyarrow().types

    def leaf(kind: Any) -> Any:
        if types.is_duration(kind):
            return pyarrow().int64()
        is_text = types.is_decimal(kind) or (types.is_temporal(kind) and not types.is_interval(kind))
        return pyarrow().string() if is_text else kind

    return with_leaves(kind, leaf)


def with_leaves(kind: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a type whose structs and lists hold other values."""
    arrow = pyarrow()
    types = arrow.types
    if types.is_struct(kind):
        return arrow.struct([field.with_type(with_leaves(field.type, leaf)) for field in kind])
    if types.is_map(kind):
        return arrow.map_(with_leaves(kind.key_type, leaf), with_leaves(kind.item_type, leaf))
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return leaf(kind)
    item = kind.value_field.with_type(with_leaves(kind.value_type, leaf))
    if types.is_fixed_size_list(kind):
        return arrow.list_(item, kind.list_size)
    return arrow.large_list(item) if types.is_large_list(kind) else arrow.list_(item)


def _cast(array: Any, kind: Any, field: str) -> Any:
    """Cast an array unless it has the type: pyarrow 26 fails to cast some slices to the same type."""
    try:
        return array if array.type == kind else array.cast(kind)
    except pyarrow().ArrowException as error:
        remedy = "Cast the column to a plain type."
        raise SpecError(f"cannot read {array.type}: {error}", field=field, remedy=remedy) from error


def _numbers(array: Any, type_: Type, field: str) -> NDArray[Any]:
    n = len(array)
    for _ in type_.dims:
        array = array.flatten()
        if array.null_count:
            raise _null_in_list(Type(type_.codec), field)
    if array.type.num_fields or pyarrow().types.is_duration(array.type):
        array = array.cast(pyarrow().int64())
    values = _to_numpy(array)
    return np.asarray(values.reshape(n, *(size or 0 for size in type_.dims)), type_.dtype)


def _to_numpy(array: Any) -> NDArray[Any]:
    """Return the numbers of an array without nulls. `to_numpy` of pyarrow imports pandas, which takes 0.3 s."""
    if not pyarrow().types.is_boolean(array.type):
        return np.from_dlpack(array)
    return np.from_dlpack(array.cast(pyarrow().uint8())).view(np.bool_)


def _blobs(array: Any, type_: Type, field: str) -> Ragged:
    arrow = pyarrow()
    if arrow.types.is_struct(array.type):
        array = array.field("bytes")
        if array.null_count:
            remedy = Remedy("To read bytes and path as they are, pass {spec}.", spec={field: "msgpack?"})
            raise SpecError("expected the bytes of a file, found only its path", field=field, remedy=remedy)
    array = _large(array, type_)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    values = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Ragged(values, bounds, type_.codec)


def _large(array: Any, type_: Type) -> Any:
    arrow = pyarrow()
    return array.cast(arrow.large_string() if type_.codec == "utf8" else arrow.large_binary())
