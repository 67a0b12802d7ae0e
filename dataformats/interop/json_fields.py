"""The JSON fields of a condition, with the types that DuckDB gives their values in a file of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from dataformats.errors import SpecError, UnknownNameError
from dataformats.interop.sql_tree import Node, children, is_part, name_of, path_of

Structure: TypeAlias = "str | list[Structure] | dict[str, Structure]"
"""A type, as `from_json` of DuckDB takes it."""

JSON_FUNCTIONS = {"->", "->>", "json_extract", "json_extract_string"}
"""The functions that return a part of JSON."""

JSON_FACTS = {"json_array_length", "json_exists", "json_type"}
"""The functions that tell a fact of JSON."""

_ALL = 2**62  # records
_NULLS = {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}
_LENGTHS = {"len", "length", "array_length"}
_NUMBERS = {"BIGINT", "UBIGINT", "DOUBLE"}
_WORDS = {"ARRAY": "a list", "OBJECT": "an object", "VARCHAR": "text", "BOOLEAN": "a bool"}


class JsonFields:
    """Makes typed values of the JSON fields of a condition.

    A field that stands before `->` is JSON. In other fields, the values that the condition names have types:
    `messages[1].role` is text. Each batch is asked for the types of its values before these are converted.

    Args:
        tree: All nodes of the condition, the whole expression first.
        fields: The names of JSON fields.
        error: Makes the error of the condition.
    """

    def __init__(self, tree: list[Node], fields: Iterable[str], error: Callable[[str], SpecError]) -> None:
        self._error = error
        self._values: dict[str, _Value] = {}
        self._is_json: dict[str, bool] = {}
        names = {name.lower(): name for name in fields}
        for use, node in _uses(tree):
            whole, steps = path_of(node)
            name = names.get(whole["column_names"][0].lower()) if whole["class"] == "COLUMN_REF" else None
            if name is not None:
                self._note(name, steps, use)
            elif use in _LENGTHS and name_of(whole) in ("->", "json_extract"):
                raise error(f"calls {use} of JSON. json_array_length counts items, and ->> returns text")

    def _note(self, name: str, steps: list[str | None], use: str) -> None:
        is_json = not steps and use in JSON_FUNCTIONS | JSON_FACTS
        is_neutral = not steps and use in _NULLS
        if not is_neutral and self._is_json.setdefault(name, is_json) != is_json:
            example = f"{name}->>'$[0].key' for {name}[1].key, json_array_length({name}) for len({name})"
            raise self._error(f"has {name!r} both before -> and without it. Write {example}")
        self._values.setdefault(name, _Value(name, "$")).at(steps).uses.add(use)

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [*self._values]

    @property
    def has_types(self) -> bool:
        """True if the condition names values that have types."""
        return any(self._typed())

    def observe(self, rows: Callable[[], Any]) -> None:
        """Add the types of the values in some rows: `rows` returns a relation of DuckDB for each query."""
        queries = [query for name, value in self._typed() for query in value.queries(name)]
        if queries:
            lists = ", ".join(f"list_distinct(flatten(list({sql})))" for _, sql in queries)
            (found,) = rows().aggregate(lists).fetchall()
            for (types, _), new in zip(queries, found, strict=True):
                types.update(new or ())

    def check_names(self, rows: Callable[[], Any]) -> None:
        """Raise `UnknownNameError` if rows that were observed have objects, and none has a key of the condition."""
        for name, value in self._typed():
            for key, part in value.parts.items():
                if key is not None and "OBJECT" in value.types and not part.types:
                    path = value.path.replace("[*]", "[0]")
                    keys = f"list_distinct(flatten(list(json_keys({_column(name)}, {_text(path)}))))"
                    ((known,),) = rows().aggregate(keys).fetchall()
                    remedy = f"For a key that few records have, write {name}->>{_text(_joined(path, key))}"
                    raise UnknownNameError(f"key of {value.shown}", name=key, known=known or (), remedy=remedy)

    def typed(self, rows: Any) -> Any:
        """Return a relation with typed values in place of the text of the fields.

        Raises:
            SpecError: The condition does not fit the types.
        """
        if not self._values:
            return rows
        types = {
            name: "JSON" if self._is_json.get(name) else self._structure(value) for name, value in self._values.items()
        }
        columns = (
            f"from_json({_column(name)}, {_text(json.dumps(kind, ensure_ascii=False))}) as {_column(name)}"
            for name, kind in types.items()
        )
        # Behind a limit, DuckDB converts a field once, and not once for each value that the condition names.
        return rows.project(f"* replace ({', '.join(columns)})").limit(_ALL)

    def _typed(self) -> Iterator[tuple[str, _Value]]:
        for name, whole in self._values.items():
            if not self._is_json.get(name):
                yield from ((name, value) for value in whole.all())

    def _structure(self, value: _Value) -> Structure:
        """Return the type of a value, with its named parts."""
        parts = {key: self._structure(part) for key, part in value.parts.items()}
        kinds = value.types - {"NULL"}
        expected = {"ARRAY" if key is None else "OBJECT" for key in parts}
        if (parts and kinds - expected) or len(expected) > 1:
            what = f"takes a part of {value.shown}, which is {_shown(kinds)}"
            raise self._error(f"{what}. A list has items, {value.shown}[1], and an object has keys, {value.shown}.key")
        structure: Structure
        if parts:
            structure = [parts[None]] if None in parts else {str(key): part for key, part in parts.items()}
        else:
            structure = [_scalar(value.items)] if kinds == {"ARRAY"} else _scalar(kinds)
        others = value.uses - _NULLS - (_LENGTHS if isinstance(structure, list) else set())
        if others and not _is_whole(structure):
            what = f"takes {value.shown} as one value, but it is {_shown(kinds)}"
            raise self._error(f"{what}. Name a part, as in {value.shown}[1].key or {value.shown}.key, or write ->>")
        return structure


class _Value:
    """A value in a JSON field that a condition names.

    Args:
        shown: Its name in the condition.
        path: Its path in the field; `[*]` is any item.

    Attributes:
        parts: The values in it that the condition names, by key; `None` is any item.
        uses: The functions and operators that take the value.
        types: The types of JSON that it has.
        items: The types of its items.
    """

    def __init__(self, shown: str, path: str) -> None:
        self.shown, self.path = shown, path
        self.parts: dict[str | None, _Value] = {}
        self.uses: set[str] = set()
        self.types: set[str] = set()
        self.items: set[str] = set()

    def at(self, steps: list[str | None]) -> _Value:
        """Return the value at these keys in this one."""
        value = self
        for key in steps:
            shown = f"{value.shown}[1]" if key is None else f"{value.shown}.{key}"
            value = value.parts.setdefault(key, _Value(shown, _joined(value.path, key)))
        return value

    def all(self) -> Iterator[_Value]:
        """Yield this value and the values in it."""
        yield self
        for part in self.parts.values():
            yield from part.all()

    def queries(self, name: str) -> Iterator[tuple[set[str], str]]:
        """Yield sets of types, and expressions whose values they are to hold: lists of the types in a record."""
        wanted = [(self.types, self.path)]
        if not self.parts:
            wanted.append((self.items, _joined(self.path, None)))
        for types, path in wanted:
            sql = f"json_type({_column(name)}, {_text(path)})"
            yield types, sql if "[*]" in path else f"[{sql}]"


def _uses(tree: list[Node]) -> Iterator[tuple[str, Node]]:
    """Yield the values of an expression, with the functions and operators that take them."""
    yield "", tree[0]
    for node in tree:
        for number, child in enumerate(children(node)):
            if number or not is_part(node):
                name = name_of(node)
                yield ("" if number and name in JSON_FUNCTIONS | JSON_FACTS else name), child


def _scalar(types: set[str]) -> str:
    """Return the type of scalars of these types of JSON; `"JSON"` for all others."""
    types = types - {"NULL"}
    if types and types <= _NUMBERS:
        return "DOUBLE" if "DOUBLE" in types else "HUGEINT"
    return "NULL" if not types else next(iter(types)) if types in ({"VARCHAR"}, {"BOOLEAN"}) else "JSON"


def _is_whole(structure: Structure) -> bool:
    """Return True if a type has everything that a value has."""
    while isinstance(structure, list):
        (structure,) = structure
    return isinstance(structure, str) and structure != "JSON"


def _shown(types: set[str]) -> str:
    return " or ".join(sorted({_WORDS.get(kind, "a number") for kind in types})) or "null"


def _joined(path: str, key: str | None) -> str:
    return f"{path}[*]" if key is None else f"{path}.{json.dumps(key, ensure_ascii=False)}"


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
