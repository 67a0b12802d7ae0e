"""The one check of types: whether the stored values of a field can be read as the type that a spec declares."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from dataformats.columns.column_cast import can_cast, can_read_bits
from dataformats.errors import SpecError
from dataformats.interfaces import Reader, Table
from dataformats.spec import Type


def stored_type(files: Reader | Table, field: str, declared: Type) -> Type:
    """Return the type that gives the stored values of a field. They are then cast, or decoded, to the declared one.

    Raises:
        SpecError: The stored values cannot be that type.
    """
    if isinstance(files, Table):
        return _type_of_column(files.spec[field], field, declared)
    stored = None if files.spec is None else files.spec[field]
    if stored is None or stored.dtype is None or not can_cast(stored.element, declared.element):
        return files.stored_type_for(field, declared)
    with suppress(SpecError):
        kind = files.stored_type_for(field, declared)
        if kind.dtype is None:  # the format stores numbers as text, or as arrays that know their dtype
            return kind
    return files.stored_type_for(field, replace(declared, codec=stored.codec))


def _type_of_column(stored: Type, field: str, declared: Type) -> Type:
    """Return the type of a table's column, if it is the declared one, can be cast, or if a codec decodes its bytes."""
    decodes = declared.codec in ("bytes", "json") if stored.codec == "utf8" else stored.codec == "bytes"
    is_list = stored.codec in ("bytes", "utf8") and stored.dims == (None,) and len(declared.dims) == 1
    has_dims = stored.dims == declared.dims or is_list
    if has_dims and (stored.element == declared.element or (decodes and declared.dtype is None)):
        return stored
    if can_cast(stored, declared) or can_read_bits(stored, declared):
        return stored
    raise unreadable_type(stored, field, declared)


def unreadable_type(stored: Type, field: str, declared: Type) -> SpecError:
    """Return the error of a field whose stored values cannot be read as the declared type."""
    return SpecError(f"stored as {stored}, which cannot be read as {declared}", field=field)
