"""The form in which the caller gets a batch: arrays, tensors, tensors on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dataformats.errors import MissingExtraError
from dataformats.loaders.prefetch import BatchTask, BuildBatch, BuiltBatch, Progress

__all__ = ["AheadOfTime", "Arrays", "OutputFormat", "output_format"]


class OutputFormat(Protocol):
    """Gives a batch its form, in two steps, so that a copy can be on its way while the caller computes."""

    def begin(self, batch: Any) -> Any:
        """Begin, in any thread of the caller's process."""
        ...

    def end(self, begun: Any) -> Any:
        """Return the batch, in the caller's thread."""
        ...


class Arrays:
    """Batches stay as they are."""

    def begin(self, batch: Any) -> Any:
        """Return the batch."""
        return batch

    def end(self, begun: Any) -> Any:
        """Return the batch."""
        return begun


@dataclass(frozen=True)
class AheadOfTime:
    """Makes batches, and begins to give them their form in the thread that made them.

    Attributes:
        make: Makes them.
        form: Their form.
    """

    make: BuildBatch
    form: OutputFormat

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        made = self.make(task, progress)
        made.batch = self.form.begin(made.batch)
        return made

    def describe(self, position: int) -> str:
        """Return which record a position is."""
        return self.make.describe(position)


def output_format(to: str, device: Any) -> OutputFormat:
    """Return the form that `Loader(to=, device=)` names.

    Raises:
        ValueError: There is no such form, or no such device.
        MissingExtraError: torch is not installed.
    """
    if to not in ("numpy", "torch"):
        raise ValueError(f"to must be 'numpy' or 'torch', found {to!r}")
    if to == "torch":
        try:
            from dataformats.loaders.pytorch.datasets import form_on
        except ModuleNotFoundError as error:
            raise MissingExtraError("to='torch'", extra="torch") from error
        return form_on(device)
    if device is not None:
        raise ValueError(f"device={device!r} needs to='torch'")
    return Arrays()
