"""The types of `spec.json`: parsing them, choosing them for a spec, and reading them as declared types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dataformats.errors import Remedy, SpecError
from dataformats.registry import codecs
from dataformats.spec import NUMBER_TYPES, Spec, Type

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_SCALARS = {"int64": "i64", "uint64": "u64"}
_MAX_NAME_BYTES = 255 - len(".bag")  # the longest file name on every common file system
_PLAIN = ("bytes", "utf8")  # blobs that a declared type may decode otherwise


def is_sequence(type_: Type) -> bool:
    """True if `refs.bag` has `[first, count]` for a stored type."""
    return type_.dims[:1] == (None,)


def stored_type(text: str) -> Type:
    """Return the type of a text in `spec.json`: the name of a codec, with `[]` at its end for a sequence."""
    if text.endswith("[]"):
        return replace(_element(text[:-2]), dims=(None,))
    return _element(text)


def _element(text: str) -> Type:
    kind = Type.named(text)
    return Type(text) if kind.dims or kind.optional else kind


def record_bytes(type_: Type) -> int | None:
    """Return the size of every record of a stored type; `None` if they differ, or if the codec is not ours."""
    if not codecs.shipped(type_.codec):
        return None
    try:
        return codecs.get(type_.codec).with_args(type_.args).blob_bytes
    except SpecError:
        return None


def may_be_empty(type_: Type) -> bool:
    """Return False if a record of no bytes is no value of a stored type; True also for a codec that is not ours."""
    if not codecs.shipped(type_.codec):
        return True
    try:
        codecs.get(type_.codec).with_args(type_.args).decode(b"")
    except Exception:  # a decoder may raise anything for bytes that are not its own
        return False
    return True


def store_spec(spec: Spec, generation: int | None) -> Spec:
    """Return the types under which values are stored.

    Args:
        spec: The types of the values.
        generation: 2 or 3; `None` is 3, or 2 if a sequence needs it.

    Raises:
        SpecError: The format cannot hold the spec; names every offending field.
    """
    check_generation(generation)
    problems = [
        SpecError(what, field=name, remedy=remedy)
        for name, kind in spec.items()
        for what, remedy in _misfits(name, kind, generation)
    ]
    if problems:
        raise SpecError.of(problems)
    return Spec({name: _stored(kind) for name, kind in spec.items()})


def check_generation(generation: int | None) -> None:
    """Raise `ValueError` for a generation that is not written."""
    if generation not in (None, 2, 3):
        raise ValueError(f"cannot write generation {generation!r}: expected 2, 3 or None. Generation 1 is read-only")


def decoded_type(stored: Type, declared: Type, generation: int) -> Type:
    """Return the type that decodes the blobs of a field declared as `declared`.

    Raises:
        SpecError: The stored type cannot be read as that type.
    """
    if declared.codec == "bytes" and not declared.args and _same_shape(declared, stored):
        return declared
    if generation == 3 and is_sequence(stored):
        raise SpecError(f"stored as {str(stored)!r}, and generation 3 has no sequences; read it as 'bytes'")
    if declared == stored:
        # FORMATS: `int` is unsigned in generation 1, signed in all later ones.
        unsigned = generation == 1 and stored.codec == "int" and not stored.args
        return replace(stored, args=("unsigned",)) if unsigned else stored
    if not declared.optional and _fits(stored, declared):
        # Arrays and integers hold their own type; plain bytes have the declared one.
        knows_type = declared.codec in NUMBER_TYPES and stored.codec != "bytes"
        return decoded_type(stored, stored, generation) if knows_type else declared
    raise SpecError(f"stored as {str(stored)!r}, which cannot be read as {str(declared)!r}")


def _fits(stored: Type, declared: Type) -> bool:
    if declared.codec in NUMBER_TYPES:
        if stored.dims:
            return False
        if stored.codec == "bytes":
            return True
        if stored.codec == "array":
            return not stored.args or stored.args == (declared.codec, *map(str, declared.dims))
        integers = {"i64": "int64", "u64": "uint64", "int": "int64"}
        return integers.get(stored.codec) == declared.codec and not declared.dims
    known = stored.codec in codecs and stored.codec not in _PLAIN
    return _same_shape(declared, stored) and (stored.codec == declared.codec or not known)


def _same_shape(declared: Type, stored: Type) -> bool:
    """True if both are one blob a row, or both one blob an element."""
    return len(declared.dims) == len(stored.dims)


def _stored(type_: Type) -> Type:
    if type_.codec in NUMBER_TYPES:
        return Type(_SCALARS.get(type_.codec, "array") if not type_.dims else "array")
    return replace(type_, dims=(None,)) if type_.dims else type_


def _misfits(name: str, type_: Type, generation: int | None) -> Iterator[tuple[str, str | None]]:
    """Yield (problem, remedy) for each property of a field that the format cannot hold."""
    if len(name.encode("utf-8", "replace")) > _MAX_NAME_BYTES:
        remedy = Remedy("To convert, pass {rename} with a shorter name.", rename=...)
        yield f"{name[:20] + '...'!r} is too long for a file name", remedy
    elif name == "refs" or not _NAME.fullmatch(name):
        why = "is the name of the format's own file" if name == "refs" else "is not a valid file name in this format"
        yield f"{name!r} {why}", Remedy("To convert, pass {rename}.", rename={name: _proposed(name)})
    if type_.optional:
        yield f"{str(type_)!r} may be missing, but every row has every field", "Drop the '?'."
    if type_.codec in NUMBER_TYPES:
        if None in type_.dims[1:]:
            yield f"{str(type_)!r} has [] after the first dimension", "Write it first, as in float32[][4]."
    elif len(type_.dims) > 1 or type_.dims == (0,):
        nested = bool(type_.dims[1:])
        yield f"{str(type_)!r} {'nests sequences: only codec[] exists' if nested else 'is empty'}", None
    elif type_.dims and generation == 3:
        remedy = Remedy("Pass {generation}, or leave it out.", generation=2)
        yield f"{str(type_)!r} is a sequence, which generation 3 does not have", remedy


def _proposed(name: str) -> str:
    cleaned = re.sub(r"[^\w.-]", "_", name)
    if name == "refs":
        return "refs_"
    return cleaned if _NAME.fullmatch(cleaned) else f"_{cleaned}"
