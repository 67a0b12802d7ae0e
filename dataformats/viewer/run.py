"""The training run whose steps the viewer shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.saved_state import loader_at

if TYPE_CHECKING:
    from dataformats.display.cells import Cell


@dataclass(frozen=True, slots=True)
class ViewedRun:
    """A training run that read the dataset.

    Attributes:
        state: A state of the run, at the steps to show or later.
        first: The step to show first; `None`: the last one before the state.
    """

    state: Any
    first: int | None

    def step(self, source: RecordSource, number: int | None) -> Cell:
        """Return the records of a step, `[rank, position, index]` each, and the data of a skip list.

        Args:
            source: The dataset.
            number: The step; `None`: the one to show first.
        """
        loader = loader_at(self.state, source)
        if number is None:
            number = max(0, loader.step - 1) if self.first is None else self.first
        records = [[one.rank, one.position, one.index] for one in loader.trace(number)]
        skips = loader.skip_list(())
        return {"step": number, "records": records, "fingerprint": skips.fingerprint, "sizes": skips.sizes}
