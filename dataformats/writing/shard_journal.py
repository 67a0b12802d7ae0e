"""The journal of shards, or of the tasks of a conversion: which are complete, and facts to check each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError
from dataformats.indexing.sidecar import list_file, without_checksums
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked

__all__ = ["ShardJournal", "check_shard", "shard_journal_path", "shard_name"]

_REMEDY = "Start again without resume=True"


class ShardJournal:
    """A file with one line a shard; each line has a checksum, so that a line torn by a crash is recognized.

    Args:
        path: The file. An existing one is replaced.
        shards: The entries of shards that are complete already: `list_file`, or any facts with `name` and `records`.
    """

    def __init__(self, path: Path, shards: Sequence[Mapping[str, Any]]) -> None:
        self._path = path
        lines = b"".join(map(_line, shards))
        atomic.write_bytes(path, lines)
        self._end = len(lines)

    def append(self, *shards: Mapping[str, Any]) -> None:
        """Append entries and sync them; may be repeated after an error."""
        lines = b"".join(map(_line, shards))
        with atomic.open_unbuffered(self._path) as file:
            atomic.write_all(file.fileno(), lines, self._end)
            os.fsync(file.fileno())
        self._end += len(lines)

    @staticmethod
    def load(path: Path, *, in_order: bool = True) -> list[dict[str, Any]]:
        """Return the entries, without a torn last line. Earlier journals have only `records`.

        Args:
            path: The journal; a missing one has no entries.
            in_order: Entry `n` must be named `n`. Otherwise the names may be any numbers, and repeat.

        Raises:
            FormatError: A line is damaged.
        """
        data = path.read_bytes() if path.is_file() else b""
        if data.startswith(b"["):
            return [{"records": count} for count in _counts(data, path)]
        *lines, _ = data.split(b"\n")
        return [_entry(line, number, path, in_order) for number, line in enumerate(lines)]


def shard_journal_path(partial: Path) -> Path:
    """Return the journal of a partial folder: beside it, so that it survives the renames inside."""
    return partial.with_name(partial.name + ".shards.journal")


def shard_name(number: int) -> str:
    """Return the name of a complete shard in a partial folder."""
    return f"{number:05d}"


def check_shard(entry: Mapping[str, Any], path: Path, n_before: int) -> dict[str, Any]:
    """Return the entry of a complete shard, whose files are those that the journal lists.

    Raises:
        FormatError: They are not.
    """
    found = list_file(path.name, entry["records"], path, {})
    if "bytes" in entry and found != without_checksums(entry):
        raise FormatError(
            "a complete shard is damaged or was replaced: its size or content is not what the journal lists",
            path=str(path),
            expected=f"{entry['bytes']} bytes",
            found=f"{found['bytes']} bytes",
            remedy=f"Delete it to resume with the {n_before} records before it, or start again without resume=True",
        )
    return {**found, **entry}


def _line(shard: Mapping[str, Any]) -> bytes:
    return pack_checked(shard) + b"\n"


def _entry(line: bytes, number: int, path: Path, in_order: bool) -> dict[str, Any]:
    try:
        entry = parse_checked(line)
        name = shard_name(number if in_order else int(entry["name"]))
        if entry["name"] == name and isinstance(entry["records"], int):
            return dict(entry)
        raise ValueError(f"expected shard {shard_name(number)}")
    except (ValueError, LookupError, TypeError) as error:
        what = f"line {number + 1} of the journal of shards is damaged: {error}"
        raise FormatError(what, path=str(path), remedy=_REMEDY) from error


def _counts(data: bytes, path: Path) -> list[int]:
    try:
        counts = json.loads(data)
        if not all(isinstance(count, int) and count >= 0 for count in counts):
            raise ValueError("expected counts of records")
    except (ValueError, RecursionError) as error:
        what = f"the journal of shards is damaged: {error}"
        raise FormatError(what, path=str(path), remedy=_REMEDY) from error
    return list(counts)
