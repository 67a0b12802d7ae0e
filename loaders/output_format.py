"""The output format of batches: arrays of NumPy or JAX, tensors, or tensors on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dataformats.errors import MissingExtraError

__all__ = ["OutputFormat", "output_format"]


@dataclass(frozen=True)
class OutputFormat:
    """How a batch of arrays is converted, in two steps, so that a copy to a device overlaps with the computation.

    Attributes:
        start: Begins the conversion, in any thread of the caller's process; `None` leaves the batch as it is.
        finish: Returns the batch from the result of `start`, in the caller's thread; `None`: that result is the batch.
    """

    start: Callable[[Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None


def output_format(to: str, device: Any) -> OutputFormat:
    """Return the format for `Loader(to=, device=)`.

    Raises:
        ValueError: `to` or `device` is unknown.
        MissingExtraError: torch or JAX is not installed.
    """
    if to not in ("numpy", "torch", "jax"):
        raise ValueError(f"to: expected 'numpy', 'torch' or 'jax', found {to!r}")
    if to == "jax":
        from dataformats.loaders.jax_format import jax_format

        return jax_format(device)
    if to == "torch":
        try:
            from dataformats.loaders.pytorch.device import tensor_format
        except ModuleNotFoundError as error:
            raise MissingExtraError("to='torch'", extra="torch") from error
        return tensor_format(device)
    if device is not None:
        raise ValueError(f"device={device!r} works only with to='torch' or to='jax', found to={to!r}")
    return OutputFormat()
