"""RecordWriter: appends records to new data that appear whole at close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

__all__ = ["RecordWriter"]


class RecordWriter(ABC):
    """Writes one data set. Not thread-safe.

    The data grow under a partial name and get their own in one rename at `close`. An exception inside the `with`
    block deletes what was written, unless the writer was made with `resume=True`.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.tfrecord"
        >>> with dataformats.create(path, "tfrecord", spec={"n": "int64"}) as writer:
        ...     writer.extend({"n": n} for n in range(3))
        >>> [record["n"] for record in dataformats.open(path)]
        [0, 1, 2]
    """

    @abstractmethod
    def append(self, record: Any) -> None:
        """Append one record: a mapping of the spec's fields, or a value of the payload.

        Raises:
            SpecError: The record does not fit the spec.
            CodecError: A value does not encode.
        """

    @abstractmethod
    def extend(self, records: Iterable[Any]) -> None:
        """Append several records; with workers, encoded in parallel and written in order."""

    @abstractmethod
    def flush(self, sync: bool = False) -> None:
        """Hand everything to the operating system; with `sync` onto the disk.

        After a `flush(sync=True)` the records so far survive `kill -9` and power loss where the format allows it, and
        `create(..., resume=True)` finds them.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return how many records were appended, those found on resuming included."""

    @abstractmethod
    def close(self) -> None:
        """Complete the data and give them their name."""

    @abstractmethod
    def abort(self) -> None:
        """Give up: delete what was written, or keep it for a later `resume=True` where that was asked for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
