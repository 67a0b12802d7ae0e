"""The types under which files with Arrow's types store values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dataformats.backends.tables.hugging_face import feature_of, is_media_type, media_type, metadata_of
from dataformats.batch import Column
from dataformats.batch.arrow_types import MEDIA, arrow_schema
from dataformats.batch.to_arrow import pyarrow, to_arrow
from dataformats.columns.arrow_columns import type_of_documents
from dataformats.errors import Remedy, SpecError
from dataformats.registry import codecs
from dataformats.spec import Spec, Type


def stored_type(kind: Type) -> Type:
    """Return the type that Arrow has: `json` is one; blobs of other codecs are stored as `bytes`, media with a path."""
    if kind.codec in MEDIA and kind.dims in ((), (None,)):
        return replace(kind, codec="bytes", args=(), arrow_type=kind.arrow_type or media_type(feature_of(kind)))
    if kind.dtype is None and len(kind.dims) > 1:
        what = f"expected lists of {kind.codec}, found lists of lists, {kind}"
        raise SpecError(what, remedy=f"Declare it as {'json' if kind.codec == 'utf8' else 'msgpack'}")
    if kind.dtype is None:
        return kind if kind.codec in ("bytes", "utf8", "json") else replace(kind, codec="bytes", args=())
    is_known = kind.dtype.kind in "biuf" and kind.dtype.itemsize <= 8 and 0 not in kind.dims
    return kind if is_known else Type("bytes", optional=kind.optional)


class StoredSchema:
    """The schema of a file. JSON is text that is marked as `arrow.json`, as other programs read it.

    Args:
        stored: The types of the fields. Values of a type with an Arrow type are cast to it.
        dictionaries: False stores the values of dictionaries instead.

    Attributes:
        stored: The types of the fields.
        schema: The `pyarrow.Schema`, with class names and media as Hugging Face stores them.

    Raises:
        TypeError: An Arrow type is no `pyarrow.DataType`.
    """

    def __init__(self, stored: Spec, *, dictionaries: bool = True) -> None:
        arrow = pyarrow()
        document = arrow.json_(arrow.large_string())
        schema = arrow_schema(stored)
        self._plain = schema
        features = {}
        for place, (name, kind) in enumerate(stored.items()):
            field = schema.field(place)
            if kind.arrow_type is not None:
                if not isinstance(kind.arrow_type, arrow.DataType):
                    raise TypeError(
                        f"field {name!r}: arrow_type: expected a pyarrow.DataType, found {kind.arrow_type!r}"
                    )
                if dictionaries or not arrow.types.is_dictionary(kind.arrow_type):
                    field = field.with_type(kind.arrow_type)
            elif kind.codec == "json" and not kind.dims:
                field = field.with_type(document)
            if (feature := feature_of(kind)) is not None:
                features[name] = feature
                field = field.with_nullable(True)  # as the fields of Hugging Face are, which else ignores the feature
            schema = schema.set(place, field)
        if features:
            schema = schema.with_metadata(metadata_of(features))
        self.stored: Spec = stored
        self.schema: Any = schema

    def batch(self, columns: Mapping[str, Column]) -> Any:
        """Return a `pyarrow.RecordBatch`.

        Raises:
            SpecError: A value does not fit the Arrow type of its column.
        """
        arrow = pyarrow()
        arrays = []
        for plain, field in zip(self._plain, self.schema, strict=True):
            array = to_arrow(columns[field.name], plain.type).cast(plain.type)
            try:
                arrays.append(array if array.type == field.type else _cast(array, field.type))
            except (arrow.ArrowException, ValueError) as error:
                what = f"a value does not fit the Arrow type {field.type} of its column: {error}"
                kind = str(self.stored[field.name])
                remedy = Remedy("To write the column as it is read, pass {spec}.", spec={field.name: kind})
                raise SpecError(what, field=field.name, remedy=remedy) from error
        return arrow.RecordBatch.from_arrays(arrays, schema=self.schema)


def _cast(array: Any, kind: Any) -> Any:
    """Cast an array of plain values to an Arrow type, also in ways that pyarrow lacks.

    Raises:
        ArrowException: A value does not fit.
    """
    arrow = pyarrow()
    if is_media_type(kind):
        if kind.num_fields > 1:
            contents = [array.cast(arrow.binary()), arrow.nulls(len(array), arrow.string())]
            return arrow.StructArray.from_arrays(contents, fields=[*kind], mask=array.is_null())
        lists = array.cast(arrow.list_(arrow.binary()))
        items = _cast(lists.values, kind.value_type)
        return arrow.Array.from_buffers(kind, len(lists), lists.buffers()[:2], children=[items])
    plain = type_of_documents(kind)
    if kind.num_fields and not array.type.num_fields:
        codec = codecs.get("msgpack" if arrow.types.is_large_binary(array.type) else "json")
        blobs = array.cast(arrow.large_binary()).to_pylist()
        documents = [None if blob is None else _with_tuples(codec.decode(blob), plain) for blob in blobs]
        array = arrow.array(documents, plain)
    return _with_leaves_cast(array.cast(plain), kind)


def _with_tuples(value: Any, kind: Any) -> Any:
    """Return a document in which the pairs of maps are tuples, as pyarrow takes them.

    Raises:
        ValueError: The Arrow type has no place for a value, which pyarrow would leave out.
    """
    types = pyarrow().types
    if isinstance(value, dict) and types.is_struct(kind):
        if unknown := value.keys() - {field.name for field in kind}:
            raise ValueError(f"the struct has no field {min(unknown)!r}")
        return {field.name: _with_tuples(value.get(field.name), field.type) for field in kind}
    if isinstance(value, list) and types.is_map(kind):
        return [(_with_tuples(key, kind.key_type), _with_tuples(item, kind.item_type)) for key, item in value]
    if isinstance(value, list) and kind.num_fields and not types.is_struct(kind):
        return [_with_tuples(item, kind.value_type) for item in value]
    return value


def _with_leaves_cast(array: Any, kind: Any) -> Any:
    arrow = pyarrow()
    types = arrow.types
    if array.type == kind:
        return array
    if kind.num_fields:
        children = array.flatten() if types.is_struct(kind) else [array.values]
        n_buffers = 1 if types.is_struct(kind) or types.is_fixed_size_list(kind) else 2  # with offsets
        cast = [_with_leaves_cast(child, kind.field(place).type) for place, child in enumerate(children)]
        return arrow.Array.from_buffers(kind, len(array), array.buffers()[:n_buffers], children=cast)
    if types.is_dictionary(kind):
        return array.dictionary_encode().cast(kind)
    if types.is_time(kind):
        days = arrow.compute.binary_join_element_wise("1970-01-01", array, " ")
        return days.cast(arrow.timestamp(kind.unit)).cast(kind)
    found = array.cast(kind)
    # The text of a time zone's offset has no seconds, as it had before 1900.
    if types.is_timestamp(kind) and kind.tz is not None and not found.cast(array.type).equals(array):
        raise arrow.ArrowInvalid("the offset of the time zone has seconds")
    return found
