"""Bases of readers and writers: `with` closes them; wrong arguments are an `ArgumentError`."""

from __future__ import annotations

import operator
import pickle
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dataformats.errors import DataFormatsError

__all__ = ["ArgumentError", "Closing"]


class ArgumentError(DataFormatsError, ValueError, AssertionError):
    """A call is wrong. The original asserts instead, so this is an `AssertionError`, too.

    Example:
        >>> from dataformats_compat.granular.utils import ArgumentError
        >>> issubclass(ArgumentError, AssertionError)
        True
    """


class Closing:
    """Closes at the end of a `with` block.

    Attributes:
        closed: True after `close`.

    Example:
        >>> from dataformats_compat.granular.utils import Closing
        >>> with Closing() as thing:
        ...     thing.closed
        False
        >>> thing.closed
        True
    """

    closed: bool = False

    def close(self) -> None:
        """Close; may be called twice."""
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except Exception:
            if error is None:  # else the error of the block is the one to show
                raise
        finally:
            self.closed = True


class RandomAccess(Closing):
    """Records or rows by number.

    Attributes:
        length: How many there are.
    """

    length: int
    _unit = "row"

    def __len__(self) -> int:
        return self.length

    def copy(self) -> Self:
        """Return another reader of the same files."""
        copied: Self = pickle.loads(pickle.dumps(self))
        return copied

    def checked(self, index: Any) -> int:
        """Return a number in `[0, length)`.

        Raises:
            IndexError: It is out of range.
        """
        number = operator.index(index)
        if not 0 <= number < self.length:
            raise IndexError(f"{self._unit} {number} is out of range for {self.length} {self._unit}s")
        return number


def path_of(path: Any) -> Any:
    """Return a path object: a `str` becomes a `pathlib.Path`."""
    return Path(path) if isinstance(path, str) else path
