"""The training run whose steps the viewer shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.cli.saved_state import loader_at
from dataformats.interfaces.record_source import RecordSource

if TYPE_CHECKING:
    from dataformats.display.cells import Cell
    from dataformats.loaders.loader import Loader

__all__ = ["ViewedRun"]


class ViewedRun:
    """A training run that read the dataset. Thread-safe.

    Args:
        state: A state of the run, at the steps to show or later.
        step: The step to show first; `None`: the last one before the state.
    """

    def __init__(self, state: Any, step: int | None) -> None:
        self._state, self._first = state, step
        self._at: tuple[RecordSource | None, Loader | None] = None, None

    def step(self, source: RecordSource, number: int | None) -> Cell:
        """Return the records of a step, `[rank, position, index]` each, and the data's fingerprint for a skip list.

        Args:
            source: The dataset.
            number: The step; `None`: the one to show first.
        """
        opened, loader = self._at
        if loader is None or opened is not source:
            loader = loader_at(self._state, source)
            self._at = source, loader
        if number is None:
            number = max(0, loader.step - 1) if self._first is None else self._first
        records = [[one.rank, one.position, one.index] for one in loader.trace(number)]
        return {"step": number, "records": records, "fingerprint": loader.state_dict()["fingerprint"]}
