"""Infers the types of the fields of JSON objects from samples."""

from __future__ import annotations

from typing import Any

from dataformats.spec import Type

_NAMES = {bool: "bool", int: "int64", float: "float64", str: "utf8"}
_KINDS = {"b": "bool", "i": "int64", "u": "int64", "f": "float64"}
_EXACT = 2**53  # float64 holds these integers


class JsonSamples:
    """What the samples of one field are.

    Attributes:
        kinds: Types of values, such as `"int64"`, `"utf8[]"`, `"[]"` for empty lists, or `"json"`.
        n: Values that are not null.
        exact: True if all integers are exact in float64.
    """

    __slots__ = ("exact", "kinds", "n")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.n: int = 0
        self.exact: bool = True

    @classmethod
    def of(cls, value: Any) -> JsonSamples:
        """Return the facts of one value."""
        facts = cls()
        facts.add(value)
        return facts

    @classmethod
    def of_type(cls, kind: Type) -> JsonSamples:
        """Return the facts of values of a type."""
        facts = cls()
        codec = _KINDS[kind.dtype.kind] if kind.dtype is not None else kind.codec
        facts.kinds.add(codec if not kind.dims else f"{codec}[]" if len(kind.dims) == 1 else "json")
        return facts

    def add(self, value: Any) -> None:
        """Add a sample; null counts as absent."""
        if value is None:
            return
        self.n += 1
        if type(value) is not list:
            self.kinds.add(self._scalar(value))
        elif not value:
            self.kinds.add("[]")
        else:
            kinds = set(map(self._scalar, value))
            kind = _joined(kinds, self.exact)
            self.kinds.add("json" if kind == "json" else f"{kind}[]")

    def _scalar(self, value: Any) -> str:
        if type(value) is int:
            if not -(2**63) <= value < 2**63:
                return "json"
            self.exact = self.exact and -_EXACT <= value <= _EXACT
        if type(value) is str and not _is_text(value):
            return "json"
        return _NAMES.get(type(value), "json")

    def type_of(self, n_records: int) -> Type:
        """Return the type of the field in `n_records` records: `json` for nested or mixed values."""
        lists = {kind for kind in self.kinds if kind.endswith("[]")}
        if lists == self.kinds and lists != {"[]"} and lists:
            codec = _joined({kind[:-2] for kind in lists if kind != "[]"}, self.exact)
            kind = codec if codec == "json" else f"{codec}[]"
        else:
            kind = _joined(self.kinds, self.exact) if not lists else "json"
        return Type.parse(kind + ("?" if self.n < n_records else ""))


def _joined(kinds: set[str], exact: bool) -> str:
    """Return the one type of scalars of these types."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "float64" if kinds == {"int64", "float64"} and exact else "json"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True
