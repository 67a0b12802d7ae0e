"""DatasetFixture: writes and opens the datasets of one case."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dataformats.interfaces.record_source import RecordSource
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.reading.opening import open as open_dataset
from dataformats.spec import SpecLike
from dataformats.testing.case import FormatCase
from dataformats.testing.records import index_of, is_same_value, plain_record, plain_spec
from dataformats.writing.creating import create


@dataclass(frozen=True)
class DatasetFixture:
    """A folder, the case whose datasets are made in it, and the suite's choice of places to damage."""

    case: FormatCase
    folder: Path
    choose_damage: Callable[[Sequence[Any]], Sequence[Any]]

    @property
    def spec(self) -> dict[str, str] | None:
        """The spec of the plain records; `None` for documents."""
        return plain_spec(self.case)

    def in_folder(self, name: str) -> DatasetFixture:
        """Return a fixture that makes its datasets in a new folder inside this one's."""
        folder = self.folder / name
        folder.mkdir()
        return DatasetFixture(self.case, folder, self.choose_damage)

    def record(self, index: int) -> dict[str, Any]:
        """Return plain record `index`."""
        return plain_record(self.case, index)

    def index(self, record: Mapping[str, Any]) -> int:
        """Return the index of a plain record."""
        return index_of(self.case, record)

    def records(self, indices: Iterable[int]) -> list[dict[str, Any]]:
        """Return the plain records of these indices."""
        return [self.record(index) for index in indices]

    def path(self, name: str = "data") -> Path:
        """Return the path of a dataset of that name."""
        return self.folder / f"{name}{self.case.suffix}"

    def declared(self, spec: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the spec and payload that `open` needs for data without a sidecar."""
        spec = spec or self.spec
        payload = {} if self.case.payload is None else {"payload": self.case.payload}
        return {**({} if spec is None else {"spec": spec}), **payload}

    def files(self, path: Path) -> list[Path]:
        """Return the files of a dataset."""
        return sorted(path.iterdir()) if self.case.folder else [path, *self.beside(path)]

    def beside(self, path: Path) -> list[Path]:
        """Return the files that belong beside one."""
        return [path.with_name(path.name.removesuffix(self.case.suffix) + ending) for ending in self.case.beside]

    def contents(self, path: Path) -> dict[str, bytes]:
        """Return the bytes of each file of a dataset, by its path in the folder, or by its ending."""
        begin = f"{path}{os.sep}" if self.case.folder else str(path).removesuffix(self.case.suffix)
        return {str(file).removeprefix(begin): file.read_bytes() for file in self.files(path)}

    def move(self, path: Path, there: Path) -> None:
        """Put a dataset in another one's place; sidecars stay where they are."""
        if there.is_dir():
            shutil.rmtree(there)
        path.replace(there)
        for file, beside in zip(self.beside(path), self.beside(there), strict=True):
            file.replace(beside)

    def create(self, path: Any, **options: Any) -> RecordWriter:
        """Return a writer of this case's format: of plain records unless `spec` or `payload` is given."""
        if options.get("shard_records") or options.get("shard_bytes"):
            self.need_shards()
        if not {"spec", "payload"} & options.keys():
            options |= {"payload": self.case.payload} if self.case.documents else {"spec": self.spec}
        return create(path, self.case.format, **{**self.case.create_options, **options})

    def write(self, n: int, name: str = "data", first: int = 0) -> Path:
        """Write plain records from index `first` on; return the path."""
        path = self.path(name)
        with self.create(path) as writer:
            writer.extend(self.records(range(first, first + n)))
        return path

    def write_records(self, records: Iterable[Any], spec: SpecLike | None, name: str = "data") -> Path:
        """Write records of a spec; return the path."""
        path = self.path(name)
        with self.create(path, spec=spec) as writer:
            writer.extend(records)
        return path

    def open(self, path: Any, **options: Any) -> RecordSource:
        """Open data of this case."""
        return open_dataset(path, **{**self.case.open_options, **options})

    def source(self, n: int, name: str = "data") -> RecordSource:
        """Return a source of `n` plain records."""
        return self.open(self.write(n, name))

    def check(self, records: Iterable[Any], indices: Iterable[int]) -> None:
        """Fail unless these are the plain records of these indices."""
        found, expected = list(records), self.records(indices)
        assert len(found) == len(expected)
        for row, (left, right) in enumerate(zip(found, expected, strict=True)):
            assert is_same_value(left, right), f"record {row}: {left} is not {right}"

    def check_resumed(self, writer: RecordWriter, done: int) -> int:
        """Return the number of records that a writer has after `done` were interrupted; fail if it lost some."""
        found = len(writer)
        assert found <= done
        assert found == done or self.case.pending_may_be_lost, f"{done - found} of {done} records are lost"
        return found

    def check_spec(self, *sources: RecordSource) -> None:
        """Fail unless these sources have the spec of the plain records."""
        for source in sources:
            assert self.spec is None or source.spec == self.spec

    def need_fields(self) -> None:
        """Skip the test if the format cannot hold any fields."""
        if not self.case.plain:
            pytest.skip("the format has fixed fields, or none")

    def need_sidecar(self, path: Path) -> Path:
        """Return the sidecar of data; skip the test without one, because the files store their whole schema."""
        sidecar = path.with_name(path.name + ".dataformats.json")
        if not sidecar.exists():
            pytest.skip("the files store their whole schema, without a sidecar")
        return sidecar

    def need_shards(self) -> None:
        """Skip the test if files of the format cannot be shards."""
        if self.case.beside:
            pytest.skip("files with others beside them cannot be shards")

    def need_bytes(self) -> None:
        """Skip the test if the format does not store records as one blob of arbitrary bytes."""
        if not self.case.blobs or self.case.documents or "bytes" in self.case.refuses:
            pytest.skip("the format does not store records as one blob of arbitrary bytes")


def fail_after(writer: RecordWriter, records: Iterable[Any]) -> None:
    """Write records, then leave the `with` block by an exception.

    Raises:
        ZeroDivisionError: Always, unless a record is refused before.
    """
    with writer:
        for record in records:
            writer.append(record)
        raise ZeroDivisionError
