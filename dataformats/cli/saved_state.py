"""The state of a training run in a file, and a loader that stands there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dataformats.errors import StateMismatchError

if TYPE_CHECKING:
    from dataformats.interfaces.record_source import RecordSource
    from dataformats.loaders.loader import Loader

__all__ = ["loader_at", "read_state"]

_COMPONENTS = "Trace a mixture in Python: Loader.trace(step) after load_state_dict(state)"


def read_state(path: str, hint: str) -> Any:
    """Return the content of a file, or of standard input if the path is `-`; an error of JSON names the option."""
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"expected a JSON document, found {error}", param_hint=hint) from error


def loader_at(state: Any, source: RecordSource) -> Loader:
    """Return a loader at a state, with the ranks and the batch size of then.

    Raises:
        StateMismatchError: The state is no state, or belongs to other data or to a mixture.
    """
    from dataformats.loaders.loader import Loader
    from dataformats.loaders.state import State
    from dataformats.loaders.step_sizes import StepSize

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
    loader.load_state_dict(state)
    return loader
