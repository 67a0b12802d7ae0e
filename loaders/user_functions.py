"""The functions that the caller passes to the loader: `transform`, `collate`, `batch_transform`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import cached_property


@runtime_checkable
class ColumnCollate(Protocol):
    """A collate function that also accepts columns, which is faster if no `transform` needs single records."""

    def __call__(
        self,
        records: list[Any],
        indices: NDArray[np.int64] | None = None,
        like: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the columns of some records; `indices` are theirs, and `like` their columns before a transform."""
        ...

    def of_columns(self, columns: Mapping[str, Any], indices: NDArray[np.int64]) -> dict[str, Any]:
        """Return the same as a call with the records of these columns; `indices` are theirs, for errors."""
        ...


@dataclass(frozen=True)
class UserFunctions:
    """The caller's functions, in the order in which they run. Pickles if the functions do.

    Attributes:
        transform: Takes a record, or a record and its generator.
        collate: Takes a list of records.
        batch_transform: Takes a batch, or a batch and a generator.

    Raises:
        TypeError: One of them is not callable.
    """

    transform: Callable[..., Any] | None = None
    collate: Callable[[list[Any]], Any] | None = None
    batch_transform: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name in ("transform", "collate", "batch_transform"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise TypeError(f"{name}: expected a function, found {function!r}")

    def __bool__(self) -> bool:
        """True if any function is set. Compares with `is`, because callables may override `==`."""
        return not (self.transform is None and self.collate is None and self.batch_transform is None)

    def __reduce__(self) -> tuple[Any, ...]:
        return UserFunctions, (self.transform, self.collate, self.batch_transform)  # omits the cached properties

    @cached_property
    def on_record(self) -> Callable[[Any, np.random.Generator], Any]:
        """`transform`, which must be set, as a function of a record and its generator."""
        return _with_rng(self.transform)

    @cached_property
    def on_batch(self) -> Callable[[Any, np.random.Generator], Any]:
        """`batch_transform`, which must be set, as a function of a batch and a generator."""
        return _with_rng(self.batch_transform)


def check_returned(name: str, value: Any) -> Any:
    """Return the value that the function `name` returned.

    Raises:
        TypeError: It is `None`.
    """
    if value is None:
        raise TypeError(f"{name} returned None: expected a value. Add the missing return statement")
    return value


def _with_rng(function: Any) -> Callable[[Any, np.random.Generator], Any]:
    """Return a function of two arguments that passes the second one on if `function` accepts it.

    It does if it has a parameter called `rng`, or a second parameter without a default.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return lambda value, rng: function(value)
    named = parameters.get("rng")
    if named is not None and named.kind is not named.POSITIONAL_ONLY:
        return lambda value, rng: function(value, rng=rng)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters.values() if one.kind in positional and one.default is one.empty]
    return function if len(required) >= 2 else lambda value, rng: function(value)
