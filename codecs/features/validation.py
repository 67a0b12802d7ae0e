"""Checks of samples, specs and records for Example, SequenceExample and OFRecord."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Set
from typing import Any

from dataformats.codecs.features.feature import FEATURE
from dataformats.codecs.features.list_kinds import BYTES, KIND_TYPES, KINDS
from dataformats.codecs.features.protobuf_messages import parse_errors
from dataformats.errors import Remedy, SpecError
from dataformats.spec import Spec, Type

NEEDS_SPEC = Remedy("Pass {spec} with a type for each field.", spec=...)
"""For records that cannot be encoded without types."""


def looks_like(message: Any, blob: bytes) -> bool:
    """Return True if a blob is a message without unknown fields, in it and in the messages that are its fields.

    Stricter than parsing, because almost any short text parses as unknown fields.
    """
    try:
        parsed = message.FromString(blob)
    except parse_errors():
        return False
    from google.protobuf.unknown_fields import UnknownFieldSet

    parts = (parsed, *dict(parsed.ListFields()).values())
    return not any(map(len, map(UnknownFieldSet, parts)))


def names_in(features: Iterable[str | bytes]) -> list[str]:
    """Return the names in a map of features, sorted, without names that are not UTF-8, which a map has as bytes."""
    return sorted(name for name in features if isinstance(name, str))


def inferred_names(features: Iterable[str | bytes]) -> list[str]:
    """Return the names of the fields of an inferred spec, sorted, and warn of features that it lacks."""
    for name in features:
        if isinstance(name, bytes):
            what = f"the feature {name!r} is left out: its name is not UTF-8. payload='bytes' reads whole records"
            warnings.warn(what, UserWarning, stacklevel=2)
    return names_in(features)


def range_of(part: bool | range) -> range | None:
    """Return the elements that a mask selects; `None`: all."""
    return part if isinstance(part, range) else None


# ---- specs


def check_types(spec: Spec, *, in_steps: Set[str] = frozenset()) -> None:
    """Raise if features cannot hold a spec. Unknown codecs raise only when they are used.

    Args:
        spec: The fields.
        in_steps: Fields that are feature lists; their first dimension is the steps.

    Raises:
        SpecError: A field does not fit; the message names all such fields.
    """
    problems = {name: _problem(name, kind.item if name in in_steps else kind) for name, kind in spec.items()}
    found = {name: problem for name, problem in problems.items() if problem}
    if found:
        raise SpecError(
            "features cannot hold " + "; ".join(f"{name!r}: {problem}" for name, problem in found.items()),
            field=next(iter(found)),
        )


def _problem(name: str, type_: Type) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        return "the name cannot be encoded as UTF-8"
    if None in type_.dims[1:]:
        return f"{type_}: [] must be the first dimension, as in float32[][4]"
    if 0 in type_.dims and (type_.dims[0] is None or type_.dtype is None):
        return f"{type_}: cannot store a variable number of zero-size elements"
    if type_.codec == FEATURE.name and type_.dims:
        return f"{type_}: a feature has no dims, except the steps of a feature list"
    return ""


# ---- records


def check_fields(record: Mapping[str, Any], spec: Spec) -> None:
    """Raise if a record has fields that the spec lacks.

    Raises:
        SpecError: The record has such a field.
    """
    extra = [name for name in record if name not in spec]
    if extra:
        raise SpecError(f"the spec has no such field; it has {', '.join(spec) or 'none'}", field=str(extra[0]))


def may_lack(type_: Type) -> bool:
    """Return True if a record may lack a field of this type: it is optional, or a sequence."""
    return type_.optional or type_.dims[:1] == (None,)


def check_missing(type_: Type, name: str) -> None:
    """Raise if a record lacks a required field.

    Raises:
        SpecError: The type is neither optional nor a sequence.
    """
    if not may_lack(type_):
        raise SpecError(f"expected {type_}, found nothing. Give a value, or declare '{type_}?'.", field=name)


def check_known(features: Mapping[str, Any], known: Set[str], index: int, prefix: str = "") -> None:
    """Raise if a record has something that an inferred spec lacks; a feature without a kind counts as nothing.

    Args:
        features: A map of `Feature` or `FeatureList` messages.
        known: The names in the spec.
        index: The record's row.
        prefix: The prefix of the name in a spec.

    Raises:
        SpecError: The record has another name. No data are dropped silently.
    """
    for name in names_in(_beyond(features, known)):
        found = features[name]
        if found.ByteSize() or found.DESCRIPTOR.name == "FeatureList":
            full = prefix + name
            kind = KINDS.get(found.WhichOneof("kind"), BYTES) if found.DESCRIPTOR.name != "FeatureList" else None
            type_ = f"{FEATURE.name if kind is None else KIND_TYPES[kind]}[]"
            raise SpecError(
                "the inferred spec lacks this field, which the sampled records did not have",
                field=full,
                index=index,
                remedy=Remedy("Pass {spec}, or the spec of the fields that you want.", spec={full: type_}),
            )


def _beyond(features: Iterable[str], known: Set[str]) -> Iterable[str]:
    return () if known.issuperset(features) else [name for name in features if name not in known]  # type: ignore[attr-defined]  # a set or frozenset
