"""Where the suite writes and opens the data of one case."""

from __future__ import annotations

import json
import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.interfaces.writer import RecordWriter
from dataformats.reading.opening import open as open_dataset
from dataformats.reading.source import RecordSource
from dataformats.testing.case import FormatCase
from dataformats.testing.records import PLAIN, plain, same
from dataformats.writing.dataset_writer import create

__all__ = ["Workshop", "check_plain", "fail_after", "in_fork"]


@dataclass(frozen=True)
class Workshop:
    """A folder, and the case whose data are made in it."""

    case: FormatCase
    folder: Path

    def path(self, name: str = "data") -> Path:
        """Return the path of a file of that name."""
        return self.folder / f"{name}{self.case.suffix}"

    def told(self, spec: Mapping[str, str] = PLAIN) -> dict[str, Any]:
        """Return what `open` needs to be told of data that have lost their sibling."""
        return {"spec": spec, **({} if self.case.payload is None else {"payload": self.case.payload})}

    def files(self, path: Path) -> list[Path]:
        """Return the files that a data set is made of."""
        return sorted(path.iterdir()) if self.case.folder else [path]

    def contents(self, path: Path) -> dict[str, bytes]:
        """Return the bytes of each file of a data set."""
        return {str(file.relative_to(path)): file.read_bytes() for file in self.files(path)}

    def move(self, path: Path, there: Path) -> None:
        """Put a data set in another one's place; siblings stay where they are."""
        if there.is_dir():
            shutil.rmtree(there)
        path.replace(there)

    def create(self, path: Any, **options: Any) -> RecordWriter:
        """Return a writer of this case's format."""
        return create(path, self.case.format, **{**self.case.create_options, **options})

    def write(self, n: int, name: str = "data", first: int = 0) -> Path:
        """Write a file of plain records from number `first` on; return its path."""
        return self.write_records(map(plain, range(first, first + n)), PLAIN, name)

    def write_records(self, records: Iterable[Any], spec: dict[str, str] | None, name: str = "data") -> Path:
        """Write records; return the file's path."""
        path = self.path(name)
        with self.create(path, spec=spec) as writer:
            writer.extend(records)
        return path

    def open(self, path: Any, **options: Any) -> RecordSource:
        """Open data of this case."""
        return open_dataset(path, **{**self.case.open_options, **options})

    def plain(self, n: int, name: str = "data") -> RecordSource:
        """Return a source of `n` plain records."""
        return self.open(self.write(n, name))


def fail_after(writer: RecordWriter, records: Iterable[Any]) -> None:
    """Write records, then leave the `with` block by an exception.

    Raises:
        ZeroDivisionError: Always, unless a record is refused before.
    """
    with writer:
        for record in records:
            writer.append(record)
        raise ZeroDivisionError


def check_plain(records: Iterable[Any], numbers: Iterable[int]) -> None:
    """Fail unless these are the plain records of these numbers."""
    found, expected = list(records), [plain(number) for number in numbers]
    assert len(found) == len(expected)
    for position, (left, right) in enumerate(zip(found, expected, strict=True)):
        assert same(left, right), f"record {position}: {left} is not {right}"


def in_fork(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a forked child, through JSON; `None` where the child died of an error."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            os.write(writing, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None
