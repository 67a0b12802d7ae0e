"""RecordWriter: appends records to a new dataset that appears whole at close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from dataformats.foreign_names import WRITER, no_attribute


class RecordWriter(ABC):
    """Writes one dataset. Not thread-safe.

    The writers that `create` returns grow a dataset under a partial name and publish it in one rename at `close`. An
    exception inside the `with` block deletes the partial data, unless the writer was created with `resume=True`.

    To make a writer of your own, implement `append`, `__len__`, `close` and `abort`; `extend`, `flush` and the `with`
    block are mixed in. `convert` accepts it in place of a path.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.tfrecord"
        >>> with dataformats.create(path, "tfrecord", spec={"n": "int64"}) as writer:
        ...     writer.extend({"n": n} for n in range(3))
        >>> [record["n"] for record in dataformats.open(path)]
        [0, 1, 2]

        A writer that collects records in a list:

        >>> class Collector(dataformats.RecordWriter):
        ...     def __init__(self):
        ...         self.records = []
        ...     def append(self, record):
        ...         self.records.append(record)
        ...     def __len__(self):
        ...         return len(self.records)
        ...     def close(self):
        ...         pass
        ...     def abort(self):
        ...         self.records.clear()
        >>> with Collector() as writer:
        ...     report = dataformats.convert(path, writer)
        >>> report.records, writer.records[2]
        (3, {'n': 2})
    """

    @abstractmethod
    def append(self, record: Any) -> None:
        """Append one record: a mapping of the spec's fields, or a value of the payload.

        Raises:
            SpecError: The record does not fit the spec.
            CodecError: A value does not encode.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records appended, including those found on resuming."""

    @abstractmethod
    def close(self) -> None:
        """Complete the dataset and publish it."""

    @abstractmethod
    def abort(self) -> None:
        """Delete the partial data, or keep them for a later `resume=True` if the writer was created with it."""

    def extend(self, records: Iterable[Any]) -> None:
        """Append several records, in order.

        With `workers=`, `create`'s writer encodes them in parallel. It also takes a table: anything that gives an Arrow
        stream.
        """
        for record in records:
            self.append(record)

    def flush(self, sync: bool = False) -> None:  # noqa: B027  # a writer may hold nothing back
        """Flush buffers to the operating system; with `sync` also to the disk.

        Then the records so far survive `kill -9`, with `sync` also a loss of power: `create(..., resume=True)` finds
        them. Parquet, Arrow IPC and ArrayRecord keep whole shards alone.
        """

    if not TYPE_CHECKING:  # type checkers report unknown attributes

        def __getattr__(self, name: str) -> Any:
            if not hasattr(type(self), name):
                raise no_attribute(self, name, WRITER)
            return object.__getattribute__(self, name)  # raises again

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
