"""The types of fields by the extensions of members, and the extensions of fields by their types."""

from __future__ import annotations

from dataclasses import replace

from dataformats.errors import Remedy, SpecError
from dataformats.spec import NUMBER_TYPES, Spec, Type

KEY = "__key__"
_DECIMAL = "decimal"
_TYPES = {
    **dict.fromkeys(("jpg", "jpeg"), "jpg"),
    **{name: name for name in ("json", "mp4", "msgpack", "npy", "png", "webm", "webp")},
    **dict.fromkeys(("txt", "text", "transcript"), "utf8"),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), "decimal(int64)"),
    "jsn": "json",
    "mp": "msgpack",
    "msg": "msgpack",
}
_EXTENSIONS = {"utf8": "txt", "msgpack": "mp"}


def type_of_extension(extension: str) -> Type:
    """Return the stored type of members with an extension, by its last part, as WebDataset decodes it."""
    return Type.parse(_TYPES.get(extension.rpartition(".")[2], "bytes"))


def declared_type(stored: Type) -> Type:
    """Return the type of the values of a stored type: numbers for those in digits."""
    return replace(stored, codec=(*stored.args, "int64")[0], args=()) if stored.codec == _DECIMAL else stored


def stored_types(spec: Spec) -> Spec:
    """Return the types under which fields are stored: numbers as text, arrays of numbers as `npy`.

    Raises:
        SpecError: Members cannot hold the spec; names every offending field.
    """
    problems = [SpecError(what, field=name) for name, kind in spec.items() if (what := _misfit(name, kind))]
    if problems:
        raise SpecError.of(problems)
    stored = Spec({name: _stored(kind) for name, kind in spec.items()})
    found: dict[str, str] = {}
    for name, extension in extensions(stored).items():
        if found.setdefault(extension, name) != name:
            remedy = Remedy("To convert, pass {rename}.", rename=...)
            what = f"has the same extension as the field {found[extension]!r}: {extension}"
            raise SpecError(what, field=name, remedy=remedy)
    return stored


def extensions(stored: Spec) -> dict[str, str]:
    """Return field to extension: the name itself if its end means the stored type, else with one more ending."""
    return {name: _extension(name.lower(), kind) for name, kind in stored.items() if name != KEY}


def stored_type_for(field: str, stored: Type, declared: Type) -> Type:
    """Return the type that decodes members of a stored type as a declared type.

    Raises:
        SpecError: They cannot be that type.
    """
    if declared.codec not in NUMBER_TYPES:
        if not declared.dims:
            return declared
    elif stored.codec == "npy":
        return replace(declared, codec="npy", dims=())
    elif stored.codec == "bytes":
        return declared
    elif not declared.dims:
        return replace(declared, codec=_DECIMAL, args=(declared.codec,))
    raise SpecError(f"stored as {stored}, which cannot be read as {declared}", field=field)


def _stored(kind: Type) -> Type:
    if kind.codec not in NUMBER_TYPES:
        return kind
    if kind.dims or kind.codec == "float128":
        return Type("npy", optional=kind.optional)
    return Type(_DECIMAL, (kind.codec,), optional=kind.optional)


def _extension(name: str, stored: Type) -> str:
    if stored.codec == "bytes" or type_of_extension(name).codec == stored.codec:
        return name
    if stored.codec == _DECIMAL:
        return f"{name}.{'json' if declared_type(stored).codec.startswith('float') else 'cls'}"
    return f"{name}.{_EXTENSIONS.get(stored.codec, stored.codec)}"


def _misfit(name: str, kind: Type) -> str | None:
    if name == KEY and kind != Type("utf8"):
        return f"expected utf8 for the key, found {kind}"
    if kind.dims and kind.codec not in NUMBER_TYPES:
        return f"expected a type of one value a record, found {kind}"
    if None in kind.dims[1:] or (None in kind.dims and 0 in kind.dims):
        return f"expected dims of which only the first one is [], found {kind}"
    if not name or "/" in name or "\0" in name or (name.startswith("__") and name != KEY):
        return f"{name!r} is no extension of a member; choose another name"
    return None
