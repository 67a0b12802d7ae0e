"""Entries: small texts in a staging area; each commits one shard."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.sidecars.file_comparison import is_name
from dataformats.storage.checked_json import pack_checked, parse_checked

ENTRY_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """The entry of a shard. The text `NUMBER.json` in a staging area commits the shard, in one rename.

    Attributes:
        shard: The name of the file or folder in the staging area.
        file: The result of `list_file`. For a shard that grows, only the number of records that the entry is about.
        facts: The facts that its writer needs to continue behind it.
    """

    shard: str
    file: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """False if the shard grows: then the entry does not commit it."""
        return "bytes" in self.file

    @property
    def n_records(self) -> int:
        """The records of the shard."""
        return int(self.file["records"])

    @property
    def sizes(self) -> dict[str, int]:
        """The path of each file of the shard, from its name on, and its size in bytes."""
        if "parts" in self.file:
            return {f"{self.shard}/{part['name']}": part["bytes"] for part in self.file["parts"]}
        return {self.shard: self.file["bytes"]}

    def pack(self) -> bytes:
        """Return the text."""
        return pack_checked(asdict(self))

    @classmethod
    def parse(cls, text: bytes) -> ShardEntry:
        """Return the entry that a text holds.

        Raises:
            ValueError: The text is damaged, or no entry.
        """
        try:
            entry = cls(**parse_checked(text))
            if not isinstance(entry.file["records"], int) or not is_name(entry.shard):
                raise ValueError("the values have other types")
            return entry
        except (TypeError, LookupError) as error:
            raise ValueError(f"not an entry: {error}") from error


def entry_name(number: int) -> str:
    """Return the name of the entry of a shard."""
    return f"{number:05d}{ENTRY_SUFFIX}"


def index_name(shard: str) -> str:
    """Return the name of the index of a shard."""
    return f"{shard}{INDEX_SUFFIX}"
