"""Reporting: how an exception goes from a worker to the caller, with its traceback and as what it is."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, replace

from dataformats.errors import WorkerError
from dataformats.loaders.prefetch import BuiltBatch

__all__ = ["RemoteError", "portable"]


@dataclass(frozen=True, slots=True)
class RemoteError:
    """What a worker raised; pickles whatever that was.

    Attributes:
        pickled: The exception, or `None` where it would not arrive as what it is.
        text: Its type and message.
        traceback: Where in the worker it came from, as text.
        notes: What was added to it.
    """

    pickled: bytes | None
    text: str
    traceback: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Return the report of an exception that was just caught."""
        text = "".join(traceback.format_exception_only(error)).strip()
        lines = "".join(traceback.format_exception(error))
        return cls(_pickled(error), text, lines, tuple(getattr(error, "__notes__", ())))

    def error(self, worker: int) -> Exception:
        """Return the exception, with the worker's traceback as a note."""
        error = WorkerError(f"raised {self.text}", worker=worker) if self.pickled is None else self._loaded(worker)
        known = getattr(error, "__notes__", [])
        for note in (*self.notes, f"raised in worker process {worker}:\n{self.traceback}"):
            if note not in known:
                error.add_note(note)
        return error

    def _loaded(self, worker: int) -> Exception:
        assert self.pickled is not None  # for the type checker
        try:
            error: Exception = pickle.loads(self.pickled)
        except Exception:  # what the worker could load is not there in this process
            error = WorkerError(f"raised {self.text}", worker=worker)
        return error


def portable(made: BuiltBatch, worker: int) -> BuiltBatch:
    """Return a batch whose list of failures can be pickled."""
    if not made.failed:
        return made
    failed = []
    for position, error in made.failed:
        fits = _pickled(error) is not None
        failed.append((position, error if fits else WorkerError(f"raised {error!r}", worker=worker)))
    return replace(made, failed=failed)


def _pickled(error: BaseException) -> bytes | None:
    # StopIteration would end the caller's loop as if the data were at an end, and SystemExit the program.
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        return None
    try:
        pickled = pickle.dumps(error)
        return pickled if type(pickle.loads(pickled)) is type(error) else None
    except Exception:  # whatever it holds
        return None
