"""Functions with the variables they have now: TensorFlow reads the variables of a function when `map` is called."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["bound"]

_RUN_LATER = frozenset(("py_function", "numpy_function", "py_func"))
"""Operations whose functions TensorFlow calls for each element: these see variables as they are then."""


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function that keeps the present values of its variables.

    The copy has new cells for the variables of enclosing functions, and the module's variables that it names. Functions
    among these values, and among the arguments of a `functools.partial`, are bound as well. The function keeps, as they
    are, objects with attributes, variables that have no value yet, those it assigns with `global` or `nonlocal`, and
    those that only the function of a `py_function` reads.
    """
    copy: Callable[..., Any] = _Binding().value(function)
    return copy


class _Binding:
    """The copies made in one call; a recursive function calls its copy."""

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}
        self._modules: dict[int, dict[str, Any]] = {}

    def value(self, value: Any) -> Any:
        """Return the copy of a function, and any other value as it is."""
        if isinstance(value, functools.partial) and type(value) is functools.partial:
            named = {name: self.value(one) for name, one in value.keywords.items()}
            return functools.partial(self.value(value.func), *map(self.value, value.args), **named)
        if isinstance(value, MethodType):
            return MethodType(self.value(value.__func__), value.__self__)
        if not isinstance(value, FunctionType) or str(value.__module__).startswith("dataformats."):
            return value
        if id(value) not in self._copies:
            self._copy(value)
        return self._copies[id(value)]

    def _copy(self, function: FunctionType) -> None:
        code = function.__code__
        later = bool(_RUN_LATER.intersection(_names(code)))
        kept = _assigned(code) | (set(code.co_freevars) - _read(code) if later else set())
        old = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        cells = {name: cell if name in kept or not _filled(cell) else CellType() for name, cell in old.items()}
        variables = function.__globals__
        if "STORE_GLOBAL" not in _instructions(code) and not (later and _code_inside(code)):
            variables = self._modules.setdefault(id(variables), _dunders(variables))
        copy = FunctionType(code, variables, function.__name__, function.__defaults__, tuple(cells.values()))
        copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
        copy.__module__, copy.__doc__ = function.__module__, function.__doc__
        copy.__dict__.update(function.__dict__)
        self._copies[id(function)] = copy
        follow: Callable[[Any], Any] = (lambda value: value) if later else self.value
        for name, cell in old.items():
            if cells[name] is not cell:
                cells[name].cell_contents = follow(cell.cell_contents)
        if variables is not function.__globals__:
            for name in set(_names(code)) & function.__globals__.keys() - variables.keys():
                variables[name] = function.__globals__[name]  # before functions are followed: they may be recursive
                if _same_module(variables[name], function):
                    variables[name] = follow(variables[name])


def _same_module(value: Any, function: FunctionType) -> bool:
    return isinstance(value, functools.partial) or getattr(value, "__globals__", None) is function.__globals__


def _dunders(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name.startswith("__")}


def _filled(cell: CellType) -> bool:
    try:
        return bool([cell.cell_contents])
    except ValueError:  # its variable has no value yet
        return False


def _code_inside(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in _code_inside(code):
        yield from _all_code(one)


def _names(code: CodeType) -> list[str]:
    return [name for one in _all_code(code) for name in one.co_names]


def _instructions(code: CodeType) -> set[str]:
    return {step.opname for one in _all_code(code) for step in dis.get_instructions(one)}


def _assigned(code: CodeType) -> set[str]:
    """Return the variables of enclosing functions that a function assigns."""
    return {
        step.argval
        for one in _all_code(code)
        for step in dis.get_instructions(one)
        if step.opname in ("STORE_DEREF", "DELETE_DEREF")
    }


def _read(code: CodeType) -> set[str]:
    """Return the variables of enclosing functions that a function itself reads."""
    return {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF")}
