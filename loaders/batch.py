"""Batch: a dict of columns with the positions of its rows; and its conversions to tensors and JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import describe_value
from dataformats.errors import MissingExtraError, UnknownNameError

Conversion = Callable[[Any], Any]


class Batch(dict[str, Any]):
    """The columns of a batch, field to column: a dict, whose `len` and iteration are about fields, not records.

    Attributes:
        positions: int64[B], the position of each row in the training run; `loader.locate` returns their records.
        padding: bool[B], True for rows that `pad_last=True` repeated to fill the batch.

    Both are NumPy arrays, even if the columns are tensors. A library that rebuilds a batch from its columns alone
    (`type(batch)(columns)`) gets one without them.

    Example:
        >>> import dataformats
        >>> batch = next(iter(dataformats.Loader([3, 1, 4, 1, 5], 2, shuffle=False)))
        >>> batch["value"], batch.positions, isinstance(batch, dict)
        (array([3, 1]), array([0, 1]), True)
    """

    positions: NDArray[np.int64]
    padding: NDArray[np.bool_]

    def __init__(
        self,
        columns: Mapping[str, Any],
        positions: NDArray[np.int64] | None = None,
        padding: NDArray[np.bool_] | None = None,
    ) -> None:
        super().__init__(columns)
        if positions is not None:
            self.positions = positions
        if padding is not None:
            self.padding = padding

    def __repr__(self) -> str:
        rows = f"{len(self.positions)} records; " if "positions" in self.__dict__ else ""
        return f"Batch({rows}{', '.join(f'{name}: {describe_value(column)}' for name, column in self.items())})"

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """Return the batch as tensors on a device; Lightning and Accelerate call this."""
        from dataformats.batch import tensors

        moved: Batch = tensors.move_tensors(self, device, non_blocking=non_blocking)
        return moved

    def __missing__(self, key: Any) -> Any:
        if isinstance(key, str):
            raise UnknownNameError("field", name=key, known=self)
        raise KeyError(f"a Batch is a dict of columns, found the key {key!r:.80}: index a column, as batch['label'][0]")

    def __getattr__(self, name: str) -> Any:
        if name in ("positions", "padding"):
            raise AttributeError(
                f"this batch has no {name}: a library rebuilt it from its columns alone. Take {name} from the batch "
                "that the loader returned"
            )
        if name in self:
            raise AttributeError(f"the column is batch[{name!r}]", name=name, obj=self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (dict(self), self.__dict__.get("positions"), self.__dict__.get("padding"))


def conversions(to: str, device: Any) -> tuple[Conversion | None, Conversion | None]:
    """Return how a batch of arrays is converted for `Loader(to=, device=)`: two steps; either may be `None`.

    The first begins the conversion in any thread of the caller's process, and the second returns the batch from its
    result, in the caller's thread: so a copy to a device overlaps with the computation.

    Raises:
        ValueError: `to` or `device` is unknown.
        MissingExtraError: torch or JAX is not installed.
    """
    if to not in ("numpy", "torch", "jax"):
        raise ValueError(f"to: expected 'numpy', 'torch' or 'jax', found {to!r}")
    if to == "jax":
        from dataformats.loaders.jax_conversion import jax_conversion

        return jax_conversion(device), None
    if to == "torch":
        try:
            from dataformats.loaders.pytorch.device import DeviceCopier, to_torch
        except ModuleNotFoundError as error:
            raise MissingExtraError("to='torch'", extra="torch") from error
        if device is None:
            return to_torch, None
        copier = DeviceCopier(device)
        return copier.begin, copier.end
    if device is not None:
        raise ValueError(f"device={device!r} works only with to='torch' or to='jax', found to={to!r}")
    return None, None
