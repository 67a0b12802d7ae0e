"""One spec for the files of a dataset, whose columns have the same names and types under several schemas of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from dataformats.backends.tables.hugging_face import KEY, array_type, class_names, features_of, is_media, media_type
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import holds_files, spec_of_arrow, type_of_arrow, with_leaves
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
    arrow, features = _kept_types(schemas), features_of(schemas)
    labels = {(one.metadata or {}).get(KEY): (file.name, one) for file, one in zip(files, schemas, strict=True)}
    named = [(path, features_of([schema])) for path, schema in labels.values()]
    for name, kind in kinds.items():
        media = media_type(features[name]) if kind.codec == "bytes" and is_media(features.get(name)) else None
        is_media_column = media is not None and (media.num_fields == 1) == bool(kind.dims)
        kept = media if is_media_column else arrow.get(name)
        names = [(path, Type("int64", class_names=class_names(one.get(name)))) for path, one in named]
        types = [(path, replace(kind, arrow_type=kept).named_as(one)) for path, one in names]
        kinds[name] = types[0][1].known_in(types)
    return Spec(kinds)


def default_types(schemas: Sequence[Any], spec: Spec) -> dict[str, Type]:
    """Return the types of fields that are read otherwise if nothing declares types.

    Text that each schema marks as JSON is `json`, and what Hugging Face's features say to be arrays are arrays.
    """
    marked = pyarrow().JsonType
    each = [{field.name for field in schema if isinstance(field.type, marked)} for schema in _different(schemas)]
    found = {name: replace(spec[name], codec="json") for name in each[0].intersection(*each)}
    arrays = {name: array_type(feature, spec[name]) for name, feature in features_of(schemas).items() if name in spec}
    return found | {name: kind for name, kind in arrays.items() if kind is not spec[name]}


def _types(schemas: Sequence[Any], name: str) -> Iterator[Any]:
    """Yield the Arrow types of a column."""
    return (schema.field(name).type for schema in _different(schemas) if name in schema.names)


def _kept_types(schemas: Sequence[Any]) -> dict[str, Any]:
    """Return the Arrow types of fields that are read as text, numbers or documents; not those with several."""
    first, *others = _different(schemas)
    found = {field.name: kind for field in first if (kind := _kept_type(field.type)) is not None}
    for schema in others:
        same = {name for name in found if name in schema.names and schema.field(name).type == first.field(name).type}
        found = {name: found[name] for name in found if name in same}
    return found


def _kept_type(kind: Any) -> Any:
    """Return the type that a column has in new files; `None`: the one that follows from the type of its field.

    Within structs and lists, dictionaries become their values.
    """
    types = pyarrow().types
    if types.is_dictionary(kind):
        return kind if _is_text(kind.value_type) else None
    if not kind.num_fields:
        return kind if types.is_decimal(kind) or _is_temporal(kind) else None
    if isinstance(kind, pyarrow().BaseExtensionType) or type_of_arrow(kind).codec in ("array", "bytes"):
        return None
    leaves = list[Any]()

    def leaf(inner: Any) -> Any:
        leaves.append(inner.value_type if types.is_dictionary(inner) else inner)
        return leaves[-1]

    found = with_leaves(kind, leaf)
    is_plain = type_of_arrow(kind).codec not in ("json", "msgpack")  # a list that is no document
    return found if all(map(_is_storable, leaves)) and not (is_plain and not any(map(_kept_type, leaves))) else None


def _is_storable(kind: Any) -> bool:
    types = pyarrow().types
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    is_blob = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return is_number or is_blob or _is_text(kind) or _is_temporal(kind) or types.is_null(kind)


def _is_text(kind: Any) -> bool:
    return bool(pyarrow().types.is_string(kind) or pyarrow().types.is_large_string(kind))


def _is_temporal(kind: Any) -> bool:
    return bool(pyarrow().types.is_temporal(kind) and not pyarrow().types.is_interval(kind))


def _different(schemas: Sequence[Any]) -> Iterator[Any]:
    """Yield schemas that differ from the one before: thousands of shards have one schema."""
    return (schema for schema, _ in groupby(schemas))


def _typed(schema: Any) -> set[str]:
    """Return the columns whose values are not all null by their type."""
    return {field.name for field in schema if not pyarrow().types.is_null(field.type)}
