"""Shards that tasks wrote in any order, committed by any process; all get the format's names at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from dataformats.converting.attempts import Attempts
from dataformats.converting.tasks import Result
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked
from dataformats.storage.threads import concurrent_map
from dataformats.writing.destination import Destination
from dataformats.writing.encoding import Encoded
from dataformats.writing.schema import WriteSchema
from dataformats.writing.shard_journal import ShardJournal
from dataformats.writing.shards import Output

__all__ = ["TASKS_JOURNAL", "CommittedShard", "CommittedShards"]

_LOG = logging.getLogger("dataformats")
TASKS_JOURNAL = ".tasks.journal"
_ENTRY = ".json"


@dataclass(frozen=True, slots=True)
class CommittedShard:
    """The entry of a shard, which commits it.

    Attributes:
        file: `list_file` of the shard, with checksums.
        attempt: The name of the shard among the attempts.
        omitted: How many records were left out.
        parts: How many parts there are, if one of them wrote the shard; else 1.
    """

    file: dict[str, Any]
    attempt: str
    omitted: int = 0
    parts: int = 1


class CommittedShards(Output):
    """The shards of a conversion.

    Tasks write apart from the partial data, so that a task that is late, or runs twice, changes nothing that is
    published. An entry `NUMBER.json` among the attempts commits a shard: it names the attempt that is the shard. So any
    number of processes may commit, also shards of one number: one entry is left. All other attempts are deleted with
    the folder.

    Args:
        schema: Names the shards.
        target: The destination.
        attempts: Where tasks write.

    Attributes:
        attempts: Likewise.
        found: The committed shards that `find` found sound, and those that `commit` added, by their numbers.
    """

    def __init__(self, schema: WriteSchema, target: Destination, attempts: Attempts) -> None:
        self._schema = schema
        self._target = target
        self.attempts: Attempts = attempts
        self.found: dict[int, CommittedShard] = {}
        if attempts.is_renamed:
            self._take_back()

    @property
    def n_records(self) -> int:
        return sum(shard.file["records"] for shard in self.found.values())

    @property
    def n_omitted(self) -> int:
        """How many records were left out."""
        return sum(shard.omitted for shard in self.found.values())

    def find(self, numbers: Iterable[int], *, checksums: bool = True) -> None:
        """Find the sound ones of these shards; the entries of others are deleted.

        Args:
            numbers: Their numbers.
            checksums: As in `Attempts.is_sound`.
        """

        def check(number: int) -> CommittedShard | None:
            shard = self._entry(number)
            if shard is None or self.attempts.is_sound(shard.attempt, shard.file, checksums):
                return shard
            text = "the shard %d, %s in %s, is not as it was written: it must be converted again"
            _LOG.warning(text, number, shard.attempt, self.attempts.name)
            self.attempts.remove([_name(number)])
            return None

        known = {*self.attempts.names()}
        listed = [number for number in numbers if _name(number) in known]
        shards = zip(listed, concurrent_map(check, listed, local=False), strict=True)
        self.found = {number: shard for number, shard in shards if shard is not None}

    def remove_others(self) -> None:
        """Delete all attempts but those that were found; tasks that still write them fail."""
        kept = {*(shard.attempt for shard in self.found.values()), *map(_name, self.found)}
        self.attempts.remove(name for name in self.attempts.names() if name not in kept)

    def commit(self, result: Result, parts: int = 1) -> None:
        """Commit a complete shard; of several with one number, the last one counts, unless the first is found.

        Args:
            result: Of its task.
            parts: As in `CommittedShard`.
        """
        self._target.check_owned()
        entry = self._entry(result.number)
        if entry is not None:
            self.attempts.remove([result.shard])
        else:
            entry = CommittedShard(result.entry, result.shard, len(result.failures), parts)
            self._write(result.number, entry)
        self.found[result.number] = entry

    def append(self, encoded: Encoded) -> None:
        raise TypeError("tasks write these shards")

    def flush(self, sync: bool) -> None:
        """Do nothing: a shard is synced when it is complete."""

    def finish(self) -> list[dict[str, Any]]:
        names = self._names()
        self.attempts.give_names({name: (self.found[n].attempt, self.found[n].file) for n, name in names.items()})
        return [{**self.found[number].file, "name": name} for number, name in names.items()]

    def suspend(self) -> None:
        """Leave the attempts: others may write some."""

    def discard(self) -> None:
        """Delete the attempts that the destination does not delete."""
        self.attempts.clear()

    def _names(self) -> dict[int, str]:
        """Return number to final name; shards without records have none, unless all are empty."""
        numbers = sorted(number for number, shard in self.found.items() if shard.file["records"])
        numbers = numbers or sorted(self.found)[:1]
        stem = self._target.name.rstrip("/").rsplit("/", 1)[-1]
        names = self._schema.backend.shard_names(stem, len(numbers), **self._schema.options)
        return dict(zip(numbers, names, strict=True))

    def _write(self, number: int, shard: CommittedShard) -> None:
        self.attempts.write(_name(number), pack_checked(asdict(shard)), f"{shard.attempt}{_ENTRY}")

    def _entry(self, number: int) -> CommittedShard | None:
        """Return the entry of a shard; `None` if it is missing, or is damaged and deleted."""
        try:
            return CommittedShard(**parse_checked(self.attempts.read(_name(number))))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            text = "%s in %s is damaged (%s): its shard must be converted again"
            _LOG.warning(text, _name(number), self.attempts.name, error)
            self.attempts.remove([_name(number)])
            return None

    def _take_back(self) -> None:
        """Undo the renaming of shards that an interrupted process began."""
        journal = self._target.partial.with_name(self._target.partial.name + TASKS_JOURNAL)
        for entry in ShardJournal.load(journal, in_order=False):  # of an earlier version, which commits by a journal
            omitted = entry.pop("omitted", 0)
            self._write(int(entry["name"]), CommittedShard(entry, f"{entry['name']}.listed", omitted))
        atomic.remove(journal)
        texts = [name.removesuffix(_ENTRY) for name in self.attempts.names() if name.endswith(_ENTRY)]
        entries = {number: self._entry(number) for number in sorted(int(text) for text in texts if text.isdecimal())}
        self.found = {number: entry for number, entry in entries.items() if entry is not None}
        numbered = {f"{number:05d}": shard.attempt for number, shard in self.found.items()}
        named = {name: self.found[number].attempt for number, name in self._names().items()}
        self.attempts.take_back(numbered | named)
        self.found = {}


def _name(number: int) -> str:
    return f"{number:05d}{_ENTRY}"
