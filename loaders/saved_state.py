"""A loader that stands where a state was saved, to look at the steps of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dataformats.errors import StateMismatchError
from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.loader import Loader
from dataformats.loaders.state import State
from dataformats.loaders.step_sizes import StepSize

_COMPONENTS = "Trace a mixture in Python: Loader.trace(step) after load_state_dict(state)"


def loader_at(state: Mapping[str, Any], source: RecordSource) -> Loader:
    """Return a loader at a state, with the ranks and the batch size of then.

    Raises:
        StateMismatchError: The state is no state, or belongs to other data or to a mixture.
    """
    parsed = State.from_json(state)
    if parsed.weights is not None:
        raise StateMismatchError(
            "number of components", expected=1, found=len(parsed.weights[0][1]), remedy=_COMPONENTS
        )
    size = parsed.step_sizes[-1] if parsed.step_sizes else StepSize(0, 0, 1, 1, False)
    loader = Loader(
        source,
        size.batch_size,
        seed=parsed.seed,
        world_size=size.world_size,
        drop_last=size.drop_last,
        workers=0,
        new_skip=True,
    )
    loader.load_state_dict(state, grown="next_epoch")  # steps so far had the records of then
    return loader
