"""The types under which Syrah stores the values of a spec."""

from __future__ import annotations

from dataformats.backends.syrah.metadata import ITEM_BYTES
from dataformats.columns.field_decoder import check_dims
from dataformats.errors import SpecError
from dataformats.spec import NUMBER_TYPES, Spec, Type


def stored_types(spec: Spec) -> Spec:
    """Return the types under which values of a spec are stored.

    Numbers are native; only the sidecar keeps their dims. `utf8` is stored as `str`, and the blob of any other codec
    as an array of uint8.

    Raises:
        SpecError: An item cannot hold some fields; names all of them.
    """
    reasons = {name: reason for name, kind in spec.items() if (reason := _objection(name, kind))}
    if reasons:
        raise SpecError.of(SpecError(f"syrah cannot hold {reason}", field=name) for name, reason in reasons.items())
    return Spec({name: _stored(kind) for name, kind in spec.items()})


def dtypes_of(stored: Spec) -> dict[str, str]:
    """Return array name to dtype in the file, for a result of `stored_types`."""
    return {name: kind.codec for name, kind in stored.items()}


def _stored(type_: Type) -> Type:
    if type_.codec in NUMBER_TYPES:
        return type_
    return Type("str") if type_.codec == "utf8" else Type("uint8", dims=(None,))


def _objection(name: str, type_: Type) -> str | None:
    """Return the reason why an item cannot hold a field, or `None`."""
    if "\0" in name:
        return "a name with a zero byte"
    if not _is_text(name):
        return "a name that is not UTF-8"
    if type_.optional:
        return f"{type_}: every item has every array"
    if type_.codec not in NUMBER_TYPES or type_.args:
        return f"{type_}: an item has one array of a name, so one value of a codec" if type_.dims else None
    try:
        type_.dtype  # noqa: B018  # raises if this platform has no such dtype
        check_dims(type_, None)
    except SpecError as error:
        return error.what
    return None if type_.codec in ITEM_BYTES else f"{type_}, which is not one of its dtypes"


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
