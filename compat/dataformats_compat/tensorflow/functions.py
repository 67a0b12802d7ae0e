"""Operations that call functions, and the contexts of graphs, which have no effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dataformats_compat.tensorflow.arrays import constant
from dataformats_compat.tensorflow.data.structure import map_leaves, rows, stack
from dataformats_compat.tensorflow.dtypes import as_dtype, numpy_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import Tensor, array_of, as_tensor, like, plain, tensor_of

__all__ = [
    "cond", "control_dependencies", "device", "executing_eagerly", "function", "map_fn", "name_scope",
    "numpy_function", "py_function",
]  # fmt: skip


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: Any = None) -> Any:
    """Return `true_fn()` if the condition is true, else `false_fn()`."""
    return true_fn() if pred else false_fn()


def py_function(func: Any = None, inp: Any = None, Tout: Any = None, name: Any = None) -> Any:  # its name
    """Return `func(*inp)`, called with tensors; without `func` and `inp`, return a decorator of such a function.

    Raises:
        InvalidArgumentError: The function returns fewer values than `Tout` has.
        TypeError: A value does not fit its dtype.
    """
    if func is None:
        return lambda decorated: lambda *args: py_function(decorated, args, Tout)
    return _outputs(func(*(constant(one) for one in inp)), Tout, lambda one, kind: like(plain(one), numpy_dtype(kind)))


def numpy_function(
    func: Any = None, inp: Any = None, Tout: Any = None, stateful: bool = True, name: Any = None
) -> Any:  # its name
    """Return `func(*inp)`, called with numpy values; without `func` and `inp`, return a decorator of such a function.

    Raises:
        InvalidArgumentError: The function returns another number of values, or values of other dtypes.
    """
    if func is None:
        return lambda decorated: lambda *args: numpy_function(decorated, args, Tout)
    found = func(*(plain(constant(one)) for one in inp))
    many, kinds = isinstance(found, list | tuple), Tout if isinstance(Tout, list | tuple) else [Tout]
    if many and len(found) != len(kinds):
        raise InvalidArgumentError(f"numpy_function: expected {len(kinds)} values, found {len(found)}")
    return _outputs(found, Tout, _of_dtype)


def _outputs(found: Any, kinds: Any, converted: Callable[[Any, Any], Any]) -> Any:
    many = isinstance(kinds, list | tuple)
    wanted = kinds if many else [kinds]
    values = list(found) if isinstance(found, list | tuple) else [] if found is None else [found]
    if len(values) < len(wanted):
        raise InvalidArgumentError(f"Tout: expected a function that returns {len(wanted)} values, found {len(values)}")
    outputs = [tensor_of(converted(one, kind)) for one, kind in zip(values, wanted, strict=False)]
    return outputs if many else outputs[0]


def _of_dtype(value: Any, kind: Any) -> Any:
    array = np.asarray(value)
    return _checked(array_of(value) if array.dtype.kind in "USO" else array, kind, "numpy_function")


def _checked(array: Any, kind: Any, name: str) -> Any:
    if array.dtype != numpy_dtype(kind):
        found = f"expected values of {as_dtype(kind)!r}, found {as_dtype(array.dtype)!r}"
        raise InvalidArgumentError(f"{name}: {found}", remedy="Return values of the declared dtype")
    return array


def map_fn(
    fn: Callable[..., Any], elems: Any, dtype: Any = None, fn_output_signature: Any = None, **ignored: Any
) -> Any:
    """Return the results of a function of each row of arrays, stacked; their dtypes are as of `elems`, or as given.

    Raises:
        InvalidArgumentError: A result has another dtype, or there are no rows.
        ValueError: The results have another structure.
    """
    kept = map_leaves(constant, tuple(elems) if isinstance(elems, list) and np.ndim(elems[0]) else elems)
    signature = dtype if fn_output_signature is None else fn_output_signature
    signature = map_leaves(lambda leaf: leaf.dtype, kept) if signature is None else signature
    found = [map_leaves(_row_of, signature, fn(map_leaves(as_tensor, row))) for row in rows(kept)]
    if not found:
        raise InvalidArgumentError("map_fn: expected at least one row: the shape of the result is unknown without one")
    return map_leaves(as_tensor, stack(found))


def _row_of(kind: Any, value: Any) -> Any:
    array = array_of(value) if isinstance(value, Tensor) else like(value, numpy_dtype(kind))
    return _checked(array, kind, "map_fn")


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
