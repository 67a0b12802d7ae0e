"""The syntax tree of an expression, as DuckDB serializes it."""

from __future__ import annotations

from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]
"""A node of a syntax tree."""

_PARTS = ("ARRAY_EXTRACT", "STRUCT_EXTRACT")


def children(node: Node) -> list[Node]:
    """Return the nodes directly below a node, in the order of the text."""
    found: list[Node] = []
    waiting: list[Any] = [*node.values()][::-1]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and "class" in one:
            found.append(one)
        elif isinstance(one, dict | list):
            waiting += [*(one.values() if isinstance(one, dict) else one)][::-1]
    return found


def name_of(node: Node) -> str:
    """Return the name of the function, the type or the operator that a node is."""
    if "function_name" in node:
        return str(node["function_name"]).lower()
    if node["class"] == "LAMBDA":  # functions with lambdas are not allowed: it takes a part of JSON
        return "->"
    if node["class"] == "CAST":  # newer versions have the type in another node
        return str(node["cast_type"]["id"] if "cast_type" in node else node["type_expr"]["type_name"]).lower()
    return str(node["type_name"]).lower() if "type_name" in node else str(node["type"])


def constant_of(node: Node) -> str | None:
    """Return the text of a constant; `None` for other nodes."""
    if node["class"] != "CONSTANT":
        return None
    constant = node.get("literal") or node["value"]  # newer versions have literals
    return str(constant.get("text", constant.get("value")))


def is_part(node: Node) -> bool:
    """Return True for an item or a key of a value: `value[1]`, `value.key`."""
    return name_of(node) in _PARTS


def path_of(node: Node) -> tuple[Node, list[str | None]]:
    """Return the value that a node takes a part of, and the keys that lead there; `None` is any item of a list."""
    steps: list[str | None] = []
    while is_part(node):
        value, key = children(node)
        constant = key.get("literal") or key.get("value") or {}
        is_text = "VARCHAR" in str(constant.get("type")) or constant.get("kind") == "STRING"
        steps.append(constant_of(key) if is_text else None)
        node = value
    names = node["column_names"][1:] if node["class"] == "COLUMN_REF" else []
    return node, [*names, *steps[::-1]]
