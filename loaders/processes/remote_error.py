"""Exceptions of a worker process, raised again in the caller's with their type and traceback."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, replace

from dataformats.errors import WorkerError
from dataformats.loaders.prefetcher import BuiltBatch


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An exception in a worker; pickles whatever the exception is.

    Attributes:
        pickled: The exception, or `None` if it would not unpickle as the same type.
        text: Its type and message.
        traceback: The worker's traceback, as text.
        notes: Its notes.
    """

    pickled: bytes | None
    text: str
    traceback: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Return the remote error of an exception that was just caught."""
        text = "".join(traceback.format_exception_only(error)).strip()
        lines = "".join(traceback.format_exception(error))
        return cls(_pickle(error), text, lines, tuple(getattr(error, "__notes__", ())))

    def exception(self, worker: int) -> Exception:
        """Return the exception, with the worker's traceback as a note."""
        error = self._load()
        if error is None:
            error = WorkerError(f"raised {self.text}", worker=worker)
        known = getattr(error, "__notes__", [])
        for note in (*self.notes, f"raised in worker process {worker}:\n{self.traceback}"):
            if note not in known:
                error.add_note(note)
        return error

    def _load(self) -> Exception | None:
        if self.pickled is None:
            return None
        try:
            error: Exception = pickle.loads(self.pickled)
        except Exception:  # this process lacks what the worker could import
            return None
        return error


def with_picklable_errors(built: BuiltBatch, worker: int) -> BuiltBatch:
    """Return a batch whose list of failures can be pickled."""
    if not built.failed:
        return built
    failed = []
    for position, error in built.failed:
        is_picklable = _pickle(error) is not None
        failed.append((position, error if is_picklable else WorkerError(f"raised {error!r}", worker=worker)))
    return replace(built, failed=failed)


def _pickle(error: BaseException) -> bytes | None:
    # StopIteration would end the caller's loop as if the data were at an end, and SystemExit the program.
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        return None
    try:
        pickled = pickle.dumps(error)
        return pickled if type(pickle.loads(pickled)) is type(error) else None
    except Exception:  # objects in it may raise anything
        return None
