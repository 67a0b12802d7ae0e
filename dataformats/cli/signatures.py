"""The parameters of a function, read from its source: neither its module nor what that imports is imported."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any, NamedTuple

_DESCRIPTION = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_END = re.compile(r"[.;:](?: |$)")
_PLACES = {"path": "DESTINATION"}


class Parameter(NamedTuple):
    """A parameter that has a default.

    Attributes:
        kind: Its annotation, without `| None`.
        default: The default, if it is a constant; else `None`.
        about: The first clause of its description, with other parameters as options.
    """

    kind: str
    default: Any
    about: str


@cache
def parameters(function: str) -> dict[str, Parameter]:
    """Return the parameters of `module:function` that have a default, by name."""
    from importlib.util import find_spec

    module, _, name = function.partition(":")
    loader: Any = find_spec(module).loader  # type: ignore[union-attr]  # a module of this package
    (found,) = (
        node
        for node in ast.parse(loader.get_source(module)).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    section = (ast.get_docstring(found) or "").partition("Args:\n")[2].partition("\n\n")[0]
    described = dict(_DESCRIPTION.findall(section))
    arguments = [*found.args.args, *found.args.kwonlyargs]
    defaults = [*found.args.defaults, *found.args.kw_defaults]  # those of the last arguments
    return {
        one.arg: Parameter(
            ast.unparse(one.annotation).removesuffix(" | None") if one.annotation else "",
            default.value if isinstance(default, ast.Constant) else None,
            _as_help(described.get(one.arg, ""), described),
        )
        for one, default in zip(arguments[-len(defaults) :], defaults, strict=True)
    }


def _as_help(description: str, names: dict[str, str]) -> str:
    """Return the first clause of a description, with the names of options instead of parameters."""
    clause = _END.split(" ".join(description.split()), maxsplit=1)[0]
    return re.sub(r'`"?([^`"]+)"?`', lambda quoted: _place(quoted[1], names), clause)


def _place(name: str, names: dict[str, str]) -> str:
    return _PLACES.get(name) or (option_name(name) if name in names else name)


def option_name(parameter: str) -> str:
    """Return `--name` of the option for a parameter."""
    return f"--{parameter.replace('_', '-')}"
