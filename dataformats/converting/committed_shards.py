"""Shards that tasks wrote in any order, committed by any process; all get the format's names at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataformats.converting.tasks import Result
from dataformats.indexing.sidecar import list_file
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked
from dataformats.writing.destination import Destination
from dataformats.writing.encoding import Encoded, WriteSchema
from dataformats.writing.partial_data import ATTEMPTS
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
        attempt: The name of the shard in the folder of attempts.
        omitted: How many records were left out.
        parts: How many parts there are, if one of them wrote the shard; else 1.
    """

    file: dict[str, Any]
    attempt: str
    omitted: int = 0
    parts: int = 1


class CommittedShards(Output):
    """The shards of a conversion.

    Tasks write in a folder beside the partial data, so that a task that is late, or runs twice, changes nothing that is
    published. An entry `NUMBER.json` in that folder commits a shard: it names the attempt that is the shard. So any
    number of processes may commit, also shards of one number: one entry is left. All other attempts are deleted with
    the folder.

    Args:
        schema: Names the shards.
        target: The destination.

    Attributes:
        attempts: The folder in which tasks write.
        found: The committed shards that `find` found sound, and those that `commit` added, by their numbers.
    """

    def __init__(self, schema: WriteSchema, target: Destination) -> None:
        self._schema = schema
        self._target = target
        self._folder = target.partial
        self.attempts: Path = target.partial.with_name(target.partial.name + ATTEMPTS)
        self.found: dict[int, CommittedShard] = {}
        self.attempts.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(exist_ok=True)
        if any(self._folder.iterdir()):
            self._put_back()

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
            checksums: Read each file whole, for its CRC-32; else compare its size and a few blocks.
        """
        entries = {number: self._entry(number) for number in numbers}
        self.found = {number: entry for number, entry in entries.items() if entry is not None}
        for number, shard in [*self.found.items()]:
            if not self._is_sound(shard, checksums):
                path = self.attempts / shard.attempt
                _LOG.warning("the shard %d, %s, is not as it was written: it is converted again", number, path)
                atomic.remove(self._path(number))
                del self.found[number]

    def remove_others(self) -> None:
        """Delete all attempts but those that were found; tasks that still write them fail."""
        kept = {*(shard.attempt for shard in self.found.values()), *(self._path(n).name for n in self.found)}
        atomic.remove(*(path for path in self.attempts.iterdir() if path.name not in kept))

    def commit(self, result: Result, parts: int = 1) -> None:
        """Commit a complete shard; of several with one number, the last one counts, unless the first is found.

        Args:
            result: Of its task.
            parts: As in `CommittedShard`.
        """
        self._target.check_owned()
        path, attempt = self._path(result.number), Path(result.shard)
        if path.exists():
            atomic.remove(attempt)
        else:
            self._write(path, CommittedShard(result.entry, attempt.name, len(result.failures), parts))
        entry = self._entry(result.number)
        if entry is not None:
            self.found[result.number] = entry

    def append(self, encoded: Encoded) -> None:
        raise TypeError("tasks write these shards")

    def flush(self, sync: bool) -> None:
        if sync:
            atomic.sync(self._folder)

    def finish(self) -> list[dict[str, Any]]:
        names = self._names()
        for number, name in names.items():
            (self.attempts / self.found[number].attempt).rename(self._folder / name)
        atomic.sync(self._folder)
        return [{**self.found[number].file, "name": name} for number, name in names.items()]

    def suspend(self) -> None:
        """Leave the attempts: others may write some."""

    def discard(self) -> None:
        """Leave all deleting to the destination."""

    def _names(self) -> dict[int, str]:
        """Return number to final name; shards without records have none, unless all are empty."""
        numbers = sorted(number for number, shard in self.found.items() if shard.file["records"])
        numbers = numbers or sorted(self.found)[:1]
        stem = self._target.name.rstrip("/").rsplit("/", 1)[-1]
        names = self._schema.backend.shard_names(stem, len(numbers), **self._schema.options)
        return dict(zip(numbers, names, strict=True))

    def _path(self, number: int) -> Path:
        return self.attempts / f"{number:05d}{_ENTRY}"

    def _write(self, path: Path, shard: CommittedShard) -> None:
        temporary = self.attempts / f"{shard.attempt}{_ENTRY}"
        temporary.write_bytes(pack_checked(asdict(shard)))
        atomic.sync(temporary)
        atomic.publish(temporary, path)

    def _entry(self, number: int) -> CommittedShard | None:
        """Return the entry of a shard; `None` if it is missing, or is damaged and deleted."""
        path = self._path(number)
        try:
            return CommittedShard(**parse_checked(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            _LOG.warning("%s is damaged (%s): its shard is converted again", path, error)
            atomic.remove(path)
            return None

    def _is_sound(self, shard: CommittedShard, checksums: bool) -> bool:
        path, listed = self.attempts / shard.attempt, shard.file
        if not path.exists():
            return False
        if not checksums:
            listed = _without_checksums(listed)
        return list_file(listed["name"], listed["records"], path, {}, checksums=checksums) == listed

    def _put_back(self) -> None:
        """Move shards from the partial folder, which another process began to complete, to the attempts."""
        journal = self._folder.with_name(self._folder.name + TASKS_JOURNAL)
        for entry in ShardJournal.load(journal, in_order=False):  # of an earlier version, which commits by a journal
            omitted = entry.pop("omitted", 0)
            self._write(self._path(int(entry["name"])), CommittedShard(entry, f"{entry['name']}.listed", omitted))
        atomic.remove(journal)
        numbers = [int(path.stem) for path in self.attempts.glob(f"*{_ENTRY}") if path.stem.isdecimal()]
        entries = {number: self._entry(number) for number in sorted(numbers)}
        self.found = {number: entry for number, entry in entries.items() if entry is not None}
        names = self._names()
        for number, shard in self.found.items():
            numbered = f"{number:05d}"
            for old in {self._folder / numbered, self._folder / names.get(number, numbered)}:
                if old.exists():
                    old.rename(self.attempts / shard.attempt)
        self.found = {}
        atomic.remove(*self._folder.iterdir())


def _without_checksums(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a file without CRC-32s."""
    kept = {name: fact for name, fact in entry.items() if name != "crc32"}
    return kept | ({"parts": [_without_checksums(part) for part in entry["parts"]]} if "parts" in entry else {})
