"""Outputs of encoded records: a single file, or one shard after another."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataformats.indexing.sidecar import list_file
from dataformats.interfaces import BlobWriter, FieldsWriter, HasSidecars
from dataformats.storage import atomic
from dataformats.writing.destination import Destination
from dataformats.writing.encoding import Encoded, WriteSchema

__all__ = ["Output", "ShardedFiles", "SingleFile"]

_JOURNAL = ".shards.journal"


class Output(ABC):
    """The files that a writer appends to."""

    @property
    @abstractmethod
    def n_records(self) -> int:
        """Records appended, including those found on resuming."""

    @abstractmethod
    def append(self, encoded: Encoded) -> None: ...

    @abstractmethod
    def flush(self, sync: bool) -> None: ...

    @abstractmethod
    def finish(self) -> list[dict[str, Any]]:
        """Complete all files under the partial name; return name, records and bytes of each."""

    def sidecars(self) -> Mapping[str, Path | None]:
        """Return the files that belong beside the finished data: `HasSidecars.sidecars`."""
        return {}

    @abstractmethod
    def suspend(self) -> None: ...

    @abstractmethod
    def discard(self) -> None: ...


class SingleFile(Output):
    """One file or folder under the partial name."""

    def __init__(self, schema: WriteSchema, target: Destination, resume: bool) -> None:
        self._target = target
        self._file = schema.create(target.partial, resume)

    @property
    def n_records(self) -> int:
        return self._file.n_records

    def append(self, encoded: Encoded) -> None:
        self._file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def flush(self, sync: bool) -> None:
        self._file.flush(sync=sync)

    def finish(self) -> list[dict[str, Any]]:
        self._file.close()
        name = self._target.name.rstrip("/").rsplit("/", 1)[-1]
        beside = {other: path for other, path in self.sidecars().items() if path is not None}
        return [list_file(name, self._file.n_records, self._target.partial, beside)]

    def sidecars(self) -> Mapping[str, Path | None]:
        return self._file.sidecars() if isinstance(self._file, HasSidecars) else {}

    def suspend(self) -> None:
        self._file.suspend()

    def discard(self) -> None:
        self._file.discard()


class ShardedFiles(Output):
    """Files `00000`, `00001`, ... in the partial folder, renamed to the format's names at the end."""

    def __init__(
        self,
        schema: WriteSchema,
        target: Destination,
        max_records: int | None,
        max_bytes: int | None,
        resume: bool,
    ) -> None:
        self._schema = schema
        self._is_finished = False
        self._target = target
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._folder = target.partial
        # Beside the folder, so that it survives the renames inside and is never published.
        self._journal = target.partial.with_name(target.partial.name + _JOURNAL)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._counts: list[int] = self._resumed_counts() if resume else []  # records of each complete shard
        self._file = self._create(resume)

    @property
    def n_records(self) -> int:
        return sum(self._counts) + (0 if self._is_finished else self._file.n_records)

    def append(self, encoded: Encoded) -> None:
        if self._full(_size(encoded)):
            self._complete()
            self._file = self._create(resume=False)
        self._file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def flush(self, sync: bool) -> None:
        self._file.flush(sync=sync)
        if sync:
            atomic.sync(self._folder)

    def finish(self) -> list[dict[str, Any]]:
        if self._file.n_records or not self._counts:
            self._complete()
        else:
            self._file.discard()
        self._is_finished = True
        names = self._names(len(self._counts))
        for number, name in enumerate(names):
            (self._folder / f"{number:05d}").rename(self._folder / name)
        atomic.sync(self._folder)
        return [list_file(name, n, self._folder / name, {}) for name, n in zip(names, self._counts, strict=True)]

    def suspend(self) -> None:
        self._file.suspend()

    def discard(self) -> None:
        self._file.discard()

    def _full(self, more: int) -> bool:
        n, size = self._file.n_records, self._file.n_bytes
        records = self._max_records is not None and n >= self._max_records
        return records or (self._max_bytes is not None and n > 0 and size + more > self._max_bytes)

    def _names(self, count: int) -> list[str]:
        return self._schema.backend.shard_names(self._target.name.rstrip("/").rsplit("/", 1)[-1], count)

    def _path(self) -> Path:
        return self._folder / f"{len(self._counts):05d}"

    def _create(self, resume: bool) -> BlobWriter | FieldsWriter:
        return self._schema.create(self._path().with_suffix(".partial"), resume)

    def _complete(self) -> None:
        self._target.check_owned()
        self._file.close()
        path = self._path()
        # Counted before it is renamed: a complete shard that still has its partial name is resumed.
        self._counts.append(self._file.n_records)
        atomic.write_bytes(self._journal, json.dumps(self._counts).encode())
        path.with_suffix(".partial").rename(path)

    def _resumed_counts(self) -> list[int]:
        """Return the record counts of the complete shards of an interrupted writer."""
        try:
            counts = json.loads(self._journal.read_bytes())
        except FileNotFoundError:
            counts = []
        for number, name in enumerate(self._names(len(counts))):  # it may have died while renaming them
            if (self._folder / name).exists():
                (self._folder / name).rename(self._folder / f"{number:05d}")
        there = itertools.takewhile(lambda number: (self._folder / f"{number:05d}").exists(), range(len(counts)))
        return [int(counts[number]) for number in there]


def _size(encoded: Encoded) -> int:
    if isinstance(encoded, bytes):
        return len(encoded)
    return sum(len(blob) for blobs in encoded.values() for blob in blobs)
