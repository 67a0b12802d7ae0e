"""The types under which files with Arrow's types store values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dataformats.batch import Column
from dataformats.batch.arrow_types import arrow_schema
from dataformats.batch.to_arrow import pyarrow, to_arrow
from dataformats.errors import Remedy, SpecError
from dataformats.spec import Spec, Type


def stored_type(kind: Type) -> Type:
    """Return the type that Arrow has: `json` is one; blobs of other codecs, such as images, are stored as `bytes`."""
    if kind.dtype is None:
        return kind if kind.codec in ("bytes", "utf8", "json") else replace(kind, codec="bytes", args=())
    is_known = kind.dtype.kind in "biuf" and kind.dtype.itemsize <= 8 and 0 not in kind.dims
    return kind if is_known else Type("bytes", optional=kind.optional)


class StoredSchema:
    """The schema of a file. JSON is text that is marked as `arrow.json`, as other programs read it.

    Args:
        stored: The types of the fields.
        arrow_types: Field to the `pyarrow.DataType` that its text or numbers are cast to.

    Attributes:
        stored: The types of the fields.
        schema: The `pyarrow.Schema`.

    Raises:
        SpecError: `arrow_types` names another field.
        TypeError: A type is no `pyarrow.DataType`.
    """

    def __init__(self, stored: Spec, arrow_types: Mapping[str, Any] | None = None) -> None:
        arrow = pyarrow()
        document = arrow.json_(arrow.large_string())
        schema = arrow_schema(stored)
        for place, kind in enumerate(stored.values()):
            if kind.codec == "json" and not kind.dims:
                schema = schema.set(place, schema.field(place).with_type(document))
        self.stored: Spec = stored
        self._plain = schema
        self.schema: Any = schema
        for name, kind in (arrow_types or {}).items():
            if name not in stored:
                raise SpecError("arrow_types= names no field of the spec", field=name)
            if not isinstance(kind, arrow.DataType):
                raise TypeError(f"arrow_types={{{name!r}: ...}}: expected a pyarrow.DataType, found {kind!r}")
            place = schema.get_field_index(name)
            self.schema = self.schema.set(place, schema.field(place).with_type(kind))

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
                arrays.append(_cast(array, field.type))
            except arrow.ArrowException as error:
                what = f"a value does not fit the Arrow type {field.type} of its column: {error}"
                kind = str(self.stored[field.name])
                remedy = Remedy("To write the column as it is read, pass {spec}.", spec={field.name: kind})
                raise SpecError(what, field=field.name, remedy=remedy) from error
        return arrow.RecordBatch.from_arrays(arrays, schema=self.schema)


def _cast(array: Any, kind: Any) -> Any:
    """Cast an array, also in ways that pyarrow lacks."""
    arrow = pyarrow()
    if arrow.types.is_dictionary(kind):
        return array.cast(kind.value_type).dictionary_encode().cast(kind)
    if arrow.types.is_time(kind) and not arrow.types.is_integer(array.type):
        days = arrow.compute.binary_join_element_wise("1970-01-01", array.cast(arrow.string()), " ")
        return days.cast(arrow.timestamp(kind.unit)).cast(kind)
    found = array.cast(kind)
    # The text of a time zone's offset has no seconds, as it had before 1900.
    if arrow.types.is_timestamp(kind) and kind.tz is not None and not found.cast(array.type).equals(array):
        raise arrow.ArrowInvalid("the offset of the time zone has seconds")
    return found
