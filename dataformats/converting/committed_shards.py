"""Shards that tasks wrote in any order: each is listed, then gets its number; all get the format's names at the end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataformats.indexing.sidecar import list_file
from dataformats.storage import atomic
from dataformats.writing.destination import Destination
from dataformats.writing.encoding import Encoded, WriteSchema
from dataformats.writing.partial_data import ATTEMPTS
from dataformats.writing.shard_journal import ShardJournal
from dataformats.writing.shards import Output

__all__ = ["TASKS_JOURNAL", "CommittedShards"]

_LOG = logging.getLogger("dataformats")
TASKS_JOURNAL = ".tasks.journal"


class CommittedShards(Output):
    """The shards of a conversion. Only one process, which has locked the destination, commits.

    Tasks write in a folder beside the partial data, so that a task that is late, or runs twice, changes nothing that is
    committed or published.

    Args:
        schema: Names the shards.
        target: The destination.
        resume: Keep the shards that are committed and sound.

    Attributes:
        attempts: The folder in which tasks write.
        entries: Number of a committed shard to its entry, with the number of records that it `omitted`.
    """

    def __init__(self, schema: WriteSchema, target: Destination, resume: bool) -> None:
        self._schema = schema
        self._target = target
        self._folder = target.partial
        self.attempts: Path = target.partial.with_name(target.partial.name + ATTEMPTS)
        self._remove_attempts()
        self.attempts.mkdir(parents=True)
        self._folder.mkdir(exist_ok=True)
        journal = target.partial.with_name(target.partial.name + TASKS_JOURNAL)
        self.entries: dict[int, dict[str, Any]] = self._resumed(journal) if resume else {}
        self._journal = ShardJournal(journal, [*self.entries.values()])

    @property
    def n_records(self) -> int:
        return sum(entry["records"] for entry in self.entries.values())

    def commit(self, number: int, shard: Path, entry: Mapping[str, Any]) -> None:
        """List a complete shard, then rename it; of several with a number, the first one is kept."""
        if number in self.entries:
            return
        self._target.check_owned()
        # Listed before it is renamed: a shard with a number is always checked by its entry.
        self._journal.append(entry)
        shard.rename(self._path(number))
        self.entries[number] = dict(entry)

    def append(self, encoded: Encoded) -> None:
        raise TypeError("tasks write these shards")

    def flush(self, sync: bool) -> None:
        if sync:
            atomic.sync(self._folder)

    def finish(self) -> list[dict[str, Any]]:
        names = self._names()
        empty = [self._path(number) for number in self.entries if number not in names]
        atomic.remove(*empty)
        self._remove_attempts()
        for number, name in names.items():
            self._path(number).rename(self._folder / name)
        atomic.sync(self._folder)
        listed = [{**self.entries[number], "name": name} for number, name in names.items()]
        return [{key: fact for key, fact in entry.items() if key != "omitted"} for entry in listed]

    def suspend(self) -> None:
        self._remove_attempts()

    def discard(self) -> None:
        """Leave all deleting to the destination."""

    def _remove_attempts(self) -> None:
        """Delete all shards that are not committed; tasks that still write them fail."""
        removed = self.attempts.with_name(f"{self.attempts.name}.partial")
        atomic.remove(removed)
        if self.attempts.exists():
            self.attempts.rename(removed)  # so that no task can add a file meanwhile
        atomic.remove(removed)

    def _names(self) -> dict[int, str]:
        """Return number to final name; shards without records have none, unless all are empty."""
        numbers = sorted(number for number, entry in self.entries.items() if entry["records"])
        numbers = numbers or sorted(self.entries)[:1]
        stem = self._target.name.rstrip("/").rsplit("/", 1)[-1]
        names = self._schema.backend.shard_names(stem, len(numbers), **self._schema.options)
        return dict(zip(numbers, names, strict=True))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:05d}"

    def _resumed(self, journal: Path) -> dict[int, dict[str, Any]]:
        """Return the entries of the sound shards of an interrupted conversion; delete everything else.

        Raises:
            FormatError: The journal is damaged.
        """
        self.entries = {int(entry["name"]): entry for entry in ShardJournal.load(journal, in_order=False)}
        for number, name in self._names().items():  # it may have been interrupted while it renamed them
            if (self._folder / name).exists():
                (self._folder / name).rename(self._path(number))
        sound = {number: entry for number, entry in self.entries.items() if self._is_sound(number, entry)}
        kept = {self._path(number) for number in sound}
        atomic.remove(*(path for path in self._folder.iterdir() if path not in kept))
        return sound

    def _is_sound(self, number: int, entry: Mapping[str, Any]) -> bool:
        path = self._path(number)
        if not path.exists():
            return False
        found = list_file(path.name, entry["records"], path, {}, checksums=True)
        if found == {key: fact for key, fact in entry.items() if key != "omitted"}:
            return True
        _LOG.warning("the shard %s is not as it was written: its records are converted again", path)
        return False
