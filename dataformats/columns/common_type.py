"""One type for a field whose type differs between the files of a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dataformats.columns.column_cast import can_cast
from dataformats.errors import Remedy, SpecError
from dataformats.spec import ML_TYPES, NUMBER_TYPES, Type

_ONE_TYPE = Remedy("Pass {spec} with a type that all of them can be cast to, or open the files one by one.", spec=...)


def common_type(field: str, first: tuple[Type, str], other: tuple[Type, str], declared: Type | None) -> Type:
    """Return the type under which the values of two files are read: the declared one, or a wider type of numbers.

    Args:
        field: The field's name.
        first: Its type in a file, and the name of that file.
        other: Its type in another file, and the name of that file.
        declared: The type that the call declares.

    Raises:
        SpecError: No type has the values of both.

    Example:
        >>> from dataformats import Type
        >>> from dataformats.columns.common_type import common_type
        >>> str(common_type("id", (Type("int32"), "a.syr"), (Type("int64"), "b.syr"), None))
        'int64'
    """
    (kind, path), (found, other_path) = first, other
    for wide in (declared, wider_type(kind, found)):
        if wide is not None and all(one.required == wide.required or can_cast(one, wide) for one in (kind, found)):
            return wide
    what = f"expected {kind.required} as in {path!r}, found {found.required} in {other_path!r}"
    raise SpecError(what, field=field, remedy=_ONE_TYPE)


def union_types(
    files: Sequence[tuple[str, Mapping[str, Type]]], declared: Mapping[str, Type] | None
) -> dict[str, Type]:
    """Return the fields of all files, in order of first appearance, each with a type for the values of all files.

    A field that a file lacks is optional.

    Args:
        files: The name of a file, and its fields, for each.
        declared: The types that the call declares.

    Raises:
        SpecError: No type has the values of a field in all files.
    """
    kinds: dict[str, Type] = {}
    typed: dict[str, str] = {}  # the file that has the type
    for path, spec in files:
        for name, kind in spec.items():
            if name not in kinds:
                kinds[name], typed[name] = kind, path
                continue
            optional = kinds[name].optional or kind.optional
            if kinds[name].required != kind.required:
                wanted = (declared or {}).get(name)
                kinds[name] = common_type(name, (kinds[name], typed[name]), (kind, path), wanted)
            kinds[name] = replace(kinds[name], optional=optional)
    lacking = {name for name in kinds if any(name not in spec for _, spec in files)}
    types = types_known_in(kinds, files)
    return {name: replace(kind, optional=kind.optional or name in lacking) for name, kind in types.items()}


def types_known_in(kinds: Mapping[str, Type], files: Sequence[tuple[str, Mapping[str, Type]]]) -> dict[str, Type]:
    """Return types with the class names and the Arrow types that all files share: see `Type.known_in`."""
    types = {name: [(path, spec[name]) for path, spec in files if name in spec] for name in kinds}
    return {name: kind.known_in(types[name]) for name, kind in kinds.items()}


def wider_type(one: Type, other: Type) -> Type | None:
    """Return the smallest type that has the numbers of two types, of one shape; `None` without one."""
    if one.required == other.required:
        return one
    numbers = [replace(kind, codec="float32") if kind.codec in ML_TYPES else kind for kind in (one, other)]
    dtypes = [kind.dtype for kind in numbers if kind.dtype is not None]
    if len(dtypes) < 2 or one.dims != other.dims:
        return None
    wide, kinds = np.promote_types(*dtypes), {dtype.kind for dtype in dtypes}
    is_exact = kinds <= {*"iu"} if wide.kind in "iu" else kinds <= {*"iuf"} and "f" in kinds
    return replace(one, codec=wide.name) if is_exact and wide.name in NUMBER_TYPES else None
