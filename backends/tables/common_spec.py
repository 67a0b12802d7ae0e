"""One spec for the files of a dataset, whose columns have the same names and types under several schemas of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import spec_of_arrow
from dataformats.errors import SpecError
from dataformats.interfaces import StoredFile
from dataformats.spec import Spec, Type

_DOCUMENT = Type("json")


def common_spec(
    files: Sequence[StoredFile],
    schemas: Sequence[Any],
    optional: Collection[str],
    declared: Mapping[str, Type] | None,
    remedy: str = "Give the files equal columns, or open them one by one.",
) -> Spec:
    """Return the spec of files, in the order of the columns of the first one.

    The order of columns, the Arrow types of one type (`string`, `large_string`, dictionaries) and metadata may differ.
    A column of nothing but nulls, such as pandas writes for an empty one, has its type from the other files.

    Args:
        files: The files.
        schemas: The `pyarrow.Schema` of each.
        optional: The fields that records may lack.
        declared: The types of the call: a list that is declared as `json` is one, and may hold nulls.
        remedy: How to get files with the same columns.

    Raises:
        SpecError: A column is missing in a file, or has another type.
    """
    kinds = dict(spec_of_arrow(schemas[0], optional))
    typed = dict.fromkeys(_typed(schemas[0]), files[0].name)  # the file that gave each type
    last = schemas[0]
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        if schema.equals(last):  # thousands of shards have one schema
            continue
        last, found, here = schema, spec_of_arrow(schema, optional), _typed(schema)
        for name in [*kinds, *(name for name in found if name not in kinds)]:
            if name in kinds and name in found and not (name in here and name in typed):
                kinds[name] = found[name] if name in here else kinds[name]
            elif kinds.get(name) != found.get(name):
                expected, other = (f"{one.get(name, 'no such column')}" for one in (kinds, found))
                what = f"expected {expected} as in {typed.get(name, files[0].name)!r}, found {other} in {file.name!r}"
                raise SpecError(what, field=name, remedy=remedy)
        typed |= {name: file.name for name in here if name not in typed}
    for name, kind in (declared or {}).items():
        if kind.required == _DOCUMENT and name in kinds and kinds[name].dims:
            kinds[name] = replace(_DOCUMENT, optional=kinds[name].optional)
    return Spec(kinds)


def json_columns(schemas: Sequence[Any]) -> frozenset[str]:
    """Return the columns of text that each of these schemas marks as JSON."""
    marked = pyarrow().JsonType
    each = [{field.name for field in schema if isinstance(field.type, marked)} for schema, _ in groupby(schemas)]
    return frozenset(each[0]).intersection(*each)


def _typed(schema: Any) -> set[str]:
    """Return the columns whose values are not all null by their type."""
    return {field.name for field in schema if not pyarrow().types.is_null(field.type)}
