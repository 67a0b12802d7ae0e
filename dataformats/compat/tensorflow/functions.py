"""Operations that call functions, and the contexts of graphs, which have no effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from dataformats.compat.tensorflow.dtypes import convert, is_string
from dataformats.compat.tensorflow.tensor import array_of, as_tensor, plain, tensor_of

__all__ = [
    "cond",
    "control_dependencies",
    "device",
    "executing_eagerly",
    "function",
    "name_scope",
    "numpy_function",
    "py_function",
]


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: Any = None) -> Any:
    """Return `true_fn()` if the condition is true, else `false_fn()`."""
    return true_fn() if pred else false_fn()


def py_function(func: Callable[..., Any], inp: Any, Tout: Any = None, name: Any = None) -> Any:  # its name
    """Return `func(*inp)`, with the dtypes of `Tout`."""
    return _typed(
        func(*(as_tensor(array_of(one) if isinstance(one, list | int | float) else one) for one in inp)), Tout
    )


def numpy_function(
    func: Callable[..., Any], inp: Any, Tout: Any = None, stateful: bool = True, name: Any = None
) -> Any:  # its name
    """Return `func(*inp)`, with the dtypes of `Tout`."""
    return _typed(func(*(plain(one) for one in inp)), Tout)


def _typed(found: Any, kinds: Any) -> Any:
    if isinstance(kinds, list | tuple):
        return [_typed(one, kind) for one, kind in zip(found, kinds, strict=True)]
    if kinds is None or found is None:
        return found
    return tensor_of(plain(convert(found, None if is_string(kinds) else kinds)))


def function(func: Any = None, **ignored: Any) -> Any:
    """Return the function: there is no graph to make of it."""
    return func if func is not None else lambda decorated: decorated


@contextlib.contextmanager
def name_scope(*ignored: Any, **named: Any) -> Iterator[str]:
    """A context without effect."""
    yield ""


control_dependencies = name_scope
"""A context without effect."""

device = name_scope
"""A context without effect."""


def executing_eagerly() -> bool:
    """Return True: functions run at once."""
    return True
