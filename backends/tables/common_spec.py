"""One spec for the files of a dataset, whose columns have the same names and types under several schemas of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import holds_files, spec_of_arrow
from dataformats.columns.common_type import common_type
from dataformats.interfaces import StoredFile
from dataformats.spec import Spec, Type

_DOCUMENT, _FILES = Type("json"), Type("msgpack")


def common_spec(
    files: Sequence[StoredFile],
    schemas: Sequence[Any],
    optional: Collection[str],
    declared: Mapping[str, Type] | None,
) -> Spec:
    """Return the spec of files, in the order of the columns of the first one.

    The order of columns, the Arrow types of one type (`string`, `large_string`, dictionaries) and metadata may differ.
    A field is optional if a file lacks its column. A column of nothing but nulls, such as pandas writes for an empty
    one, has its type from the other files.

    Args:
        files: The files.
        schemas: The `pyarrow.Schema` of each.
        optional: The fields that records may lack.
        declared: The types of the call: a list that is declared as `json` is one, and may hold nulls; a file that is
            declared as `msgpack` is its bytes and its path; numbers of several types are cast.

    Raises:
        SpecError: A column has several types, and no type has the values of all files: see `common_type`.
    """
    declared = declared or {}
    kinds = dict(spec_of_arrow(schemas[0], optional))
    typed = dict.fromkeys(_typed(schemas[0]), files[0].name)  # the file that gave each type
    last = schemas[0]
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        if schema.equals(last):  # thousands of shards have one schema
            continue
        last, found, here = schema, spec_of_arrow(schema, optional), _typed(schema)
        for name in found:
            if name not in typed:  # no earlier file has values
                kinds[name] = found[name]
            elif name in here and kinds[name].required != found[name].required:
                one, other = (kinds[name], typed[name]), (found[name], file.name)
                kinds[name] = common_type(name, one, other, declared.get(name))
        typed |= {name: file.name for name in here if name not in typed}
    everywhere = set(kinds).intersection(*(schema.names for schema in _different(schemas)))
    kinds = {n: replace(kind, optional=n in optional or n not in everywhere) for n, kind in kinds.items()}
    for name, kind in declared.items():
        is_list = kind.required == _DOCUMENT and name in kinds and kinds[name].dims
        if is_list or (kind.required == _FILES and any(holds_files(one) for one in _types(schemas, name))):
            kinds[name] = replace(kind, optional=kinds[name].optional)
    return Spec(kinds)


def _types(schemas: Sequence[Any], name: str) -> Iterator[Any]:
    """Yield the Arrow types of a column."""
    return (schema.field(name).type for schema in _different(schemas) if name in schema.names)


def kept_types(schemas: Sequence[Any]) -> dict[str, Any]:
    """Return the Arrow types of fields that are read as text or numbers; not those with several."""
    found = {field.name: field.type for field in schemas[0] if _is_kept(field.type)}
    for schema in _different(schemas[1:]):
        found = {name: kind for name, kind in found.items() if name in schema.names and schema.field(name).type == kind}
    return found


def _is_kept(kind: Any) -> bool:
    types = pyarrow().types
    if types.is_dictionary(kind):
        return bool(types.is_string(kind.value_type) or types.is_large_string(kind.value_type))
    return bool(types.is_decimal(kind) or (types.is_temporal(kind) and not types.is_interval(kind)))


def json_columns(schemas: Sequence[Any]) -> frozenset[str]:
    """Return the columns of text that each of these schemas marks as JSON."""
    marked = pyarrow().JsonType
    each = [{field.name for field in schema if isinstance(field.type, marked)} for schema in _different(schemas)]
    return frozenset(each[0]).intersection(*each)


def _different(schemas: Sequence[Any]) -> Iterator[Any]:
    """Yield schemas that differ from the one before: thousands of shards have one schema."""
    return (schema for schema, _ in groupby(schemas))


def _typed(schema: Any) -> set[str]:
    """Return the columns whose values are not all null by their type."""
    return {field.name for field in schema if not pyarrow().types.is_null(field.type)}
