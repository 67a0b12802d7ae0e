"""Outputs of encoded records: a single file, or one shard after another."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError
from dataformats.indexing.sidecar import list_file
from dataformats.interfaces import BlobWriter, FieldsWriter, HasSidecars
from dataformats.storage import atomic
from dataformats.writing.destination import Destination
from dataformats.writing.encoding import Encoded, WriteSchema
from dataformats.writing.shard_journal import ShardJournal, check_shard

__all__ = ["Output", "ShardedFiles", "SingleFile"]

_LOG = logging.getLogger("dataformats")
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
        self._folder.mkdir(parents=True, exist_ok=True)
        # Beside the folder, so that it survives the renames inside and is never published.
        journal = target.partial.with_name(target.partial.name + _JOURNAL)
        self._shards = self._resumed(journal) if resume else []  # the entries of complete shards
        self._journal = ShardJournal(journal, self._shards)
        self._file = self._create(resume)

    @property
    def n_records(self) -> int:
        complete: int = sum(shard["records"] for shard in self._shards)
        return complete + (0 if self._is_finished else self._file.n_records)

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
        if self._file.n_records or not self._shards:
            self._complete()
        else:
            self._file.discard()
        self._is_finished = True
        names = self._names(len(self._shards))
        for shard, name in zip(self._shards, names, strict=True):
            (self._folder / shard["name"]).rename(self._folder / name)
        atomic.sync(self._folder)
        return [{**shard, "name": name} for shard, name in zip(self._shards, names, strict=True)]

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
        return self._folder / _number(len(self._shards))

    def _create(self, resume: bool) -> BlobWriter | FieldsWriter:
        return self._schema.create(self._path().with_suffix(".partial"), resume)

    def _complete(self) -> None:
        self._target.check_owned()
        self._file.close()
        path = self._path()
        partial = path.with_suffix(".partial")
        shard = list_file(path.name, self._file.n_records, partial, {})
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
                (self._folder / name).rename(self._folder / _number(number))
        shards: list[dict[str, Any]] = []
        for entry in listed:
            path = self._folder / _number(len(shards))
            if not path.exists():
                break
            shards.append(check_shard(entry, path, sum(shard["records"] for shard in shards)))
        unlisted = self._folder / _number(len(listed))
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
            _LOG.warning(text, _number(count), self._folder, len(later))
        others = [path for path in self._folder.glob("*.partial*") if not path.name.startswith(f"{_number(count)}.")]
        atomic.remove(*later, *others)


def _number(number: int) -> str:
    return f"{number:05d}"


def _size(encoded: Encoded) -> int:
    if isinstance(encoded, bytes):
        return len(encoded)
    return sum(len(blob) for blobs in encoded.values() for blob in blobs)
