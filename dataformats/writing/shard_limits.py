"""ShardLimits: when a shard is full."""

from __future__ import annotations

from dataclasses import dataclass

from dataformats.integer_arguments import checked_int
from dataformats.interfaces import FileWriter
from dataformats.writing.encoding import Encoded


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
    if isinstance(encoded, bytes):
        return len(encoded)
    return sum(len(blob) for blobs in encoded.values() for blob in blobs)
