"""Outputs of encoded records: a single file, or one shard after another."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.batch import StoredRecords
from dataformats.errors import FormatError
from dataformats.indexing.sidecar import list_file, without_checksums
from dataformats.integer_arguments import checked_int
from dataformats.interfaces import AppendsInPlace, BlobWriter, FieldsWriter, FileWriter, HasSidecars
from dataformats.storage import atomic
from dataformats.writing.destination import Destination
from dataformats.writing.encoding import Encoded
from dataformats.writing.schema import WriteSchema
from dataformats.writing.shard_journal import ShardJournal, check_shard, shard_journal_path, shard_name

__all__ = ["Output", "ShardLimits", "ShardedFiles", "SingleFile"]

_LOG = logging.getLogger("dataformats")


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """When a shard is full.

    Attributes:
        records: The most records; `None` for any number.
        bytes: The most bytes, unless the first record alone has more; `None` for any number.
    """

    records: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name, number in (("shard_records", self.records), ("shard_bytes", self.bytes)):
            if number is not None:
                checked_int(name, number, 1)

    def is_full(self, file: FileWriter, encoded: Encoded) -> bool:
        """Return True if this record belongs to the next shard."""
        if self.records is not None and file.n_records >= self.records:
            return True
        return self.bytes is not None and file.n_records > 0 and file.n_bytes + _size(encoded) > self.bytes


def _size(encoded: Encoded) -> int:
    return (
        len(encoded) if isinstance(encoded, bytes) else sum(len(blob) for blobs in encoded.values() for blob in blobs)
    )


class Output(ABC):
    """The files that a writer appends to.

    Attributes:
        file: The writer of the current file.
        limits: When the next file begins.
    """

    file: BlobWriter | FieldsWriter
    limits: ShardLimits = ShardLimits()

    @property
    @abstractmethod
    def n_records(self) -> int:
        """Records appended, including those found on resuming."""

    def append(self, encoded: Encoded) -> None:
        if self.limits.is_full(self.file, encoded):
            self.next_shard()
        self.file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def extend(self, encoded: Sequence[Encoded]) -> None:
        """Append several records, in order; up to the first that raises."""
        for one in encoded:
            self.append(one)

    def append_stored(self, records: StoredRecords) -> None:
        if self.limits.bytes is not None:
            self.extend(list(records.blobs if isinstance(self.file, BlobWriter) else records))
            return
        while len(records):
            room = len(records) if self.limits.records is None else self.limits.records - self.file.n_records
            if not room:
                self.next_shard()
                continue
            self.file.append_stored(records if room >= len(records) else records[:room])
            records = records[room:]

    def next_shard(self) -> None:
        """Complete the current file and begin another one."""
        raise TypeError("a single file has no shards")

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
        self._backend = schema.backend
        self.file: BlobWriter | FieldsWriter = schema.create(target.partial, resume)

    @property
    def n_records(self) -> int:
        return self.file.n_records

    def extend(self, encoded: Sequence[Encoded]) -> None:
        self.file.extend(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def flush(self, sync: bool) -> None:
        self.file.flush(sync=sync)

    def finish(self) -> list[dict[str, Any]]:
        self.file.close()
        name = self._target.name.rstrip("/").rsplit("/", 1)[-1]
        beside = {other: path for other, path in self.sidecars().items() if path is not None}
        entry = list_file(name, self.file.n_records, self._target.partial, beside)
        if isinstance(self._backend, AppendsInPlace) and self._backend.can_append_in_place(self._target.partial):
            entry["grows"] = [part["name"] for part in entry["parts"] if self._backend.grows(part["name"])]
        return [entry]

    def sidecars(self) -> Mapping[str, Path | None]:
        return self.file.sidecars() if isinstance(self.file, HasSidecars) else {}

    def suspend(self) -> None:
        self.file.suspend()

    def discard(self) -> None:
        self.file.discard()


class ShardedFiles(Output):
    """Files `00000`, `00001`, ... in the partial folder, renamed to the format's names at the end."""

    def __init__(self, schema: WriteSchema, target: Destination, limits: ShardLimits, resume: bool) -> None:
        self._schema = schema
        self._is_finished = False
        self._target = target
        self.limits = limits
        self._folder = target.partial
        self._folder.mkdir(parents=True, exist_ok=True)
        journal = shard_journal_path(target.partial)
        self._shards = self._resumed(journal) if resume else []  # the entries of complete shards
        self._journal = ShardJournal(journal, self._shards)
        self.file: BlobWriter | FieldsWriter = self._create(resume)

    @property
    def n_records(self) -> int:
        complete: int = sum(shard["records"] for shard in self._shards)
        return complete + (0 if self._is_finished else self.file.n_records)

    def flush(self, sync: bool) -> None:
        self.file.flush(sync=sync)
        if sync:
            atomic.sync(self._folder)

    def next_shard(self) -> None:
        """Complete the shard, so that the next record begins another one."""
        self._complete()
        self.file = self._create(resume=False)

    def finish(self) -> list[dict[str, Any]]:
        if self.file.n_records or not self._shards:
            self._complete()
        else:
            self.file.discard()
        self._is_finished = True
        names = self._names(len(self._shards))
        for shard, name in zip(self._shards, names, strict=True):
            (self._folder / shard["name"]).rename(self._folder / name)
        atomic.sync(self._folder)
        return [{**shard, "name": name} for shard, name in zip(self._shards, names, strict=True)]

    def suspend(self) -> None:
        self.file.suspend()

    def discard(self) -> None:
        self.file.discard()

    def _names(self, count: int) -> list[str]:
        stem = self._target.name.rstrip("/").rsplit("/", 1)[-1]
        return self._schema.backend.shard_names(stem, count, **self._schema.options)

    def _path(self) -> Path:
        return self._folder / shard_name(len(self._shards))

    def _create(self, resume: bool) -> BlobWriter | FieldsWriter:
        return self._schema.create(self._path().with_suffix(".partial"), resume)

    def _complete(self) -> None:
        self._target.check_owned()
        self.file.close()
        path = self._path()
        partial = path.with_suffix(".partial")
        has_checksums = any(shard != without_checksums(shard) for shard in self._shards[:1])  # of a conversion
        shard = list_file(path.name, self.file.n_records, partial, {}, checksums=has_checksums)
        # Listed before it is renamed: a complete shard that still has its partial name is resumed.
        self._journal.append(shard)
        self._shards.append(shard)
        partial.rename(path)

    def _resumed(self, journal: Path) -> list[dict[str, Any]]:
        """Return the entries of the complete shards of an interrupted writer; delete what is behind them.

        Raises:
            FormatError: A complete shard is damaged, or the journal does not list it.
        """
        listed = ShardJournal.load(journal)
        for number, name in enumerate(self._names(len(listed))):  # it may have died while renaming them
            if (self._folder / name).exists():
                (self._folder / name).rename(self._folder / shard_name(number))
        shards: list[dict[str, Any]] = []
        for entry in listed:
            path = self._folder / shard_name(len(shards))
            if not path.exists():
                break
            shards.append(check_shard(entry, path, sum(shard["records"] for shard in shards)))
        unlisted = self._folder / shard_name(len(listed))
        if unlisted.exists():  # a shard is listed before it has this name
            what = f"the journal is missing, or does not list the complete shard {str(unlisted)!r}"
            raise FormatError(what, path=str(journal), remedy="Restore it, or start again without resume=True")
        self._remove_later(len(shards))
        return shards

    def _remove_later(self, count: int) -> None:
        """Delete the shards from number `count` on, but not the one that was being written."""
        later = [path for path in self._folder.iterdir() if path.name.isdecimal() and int(path.name) >= count]
        if later:
            text = "shard %s is missing in %s: the %d shards behind it are written again"
            _LOG.warning(text, shard_name(count), self._folder, len(later))
        others = [path for path in self._folder.glob("*.partial*") if not path.name.startswith(f"{shard_name(count)}.")]
        atomic.remove(*later, *others)
