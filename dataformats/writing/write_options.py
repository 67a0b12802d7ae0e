"""WriteOptions: how new data are written, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dataformats.integer_arguments import checked_int
from dataformats.interfaces import FileWriter
from dataformats.writing.encoding import Encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How new data are written: see `create`.

    Attributes:
        plan: The plan of a conversion, which only an equal one resumes; kept in the sidecar.
        verify: Read each file back before it is committed. All records come as stored records.

    Raises:
        ValueError: A number is too small, or two options exclude each other.
    """

    shard_records: int | None = None
    shard_bytes: int | None = None
    shard_start: int | None = None
    shard_step: int = 1
    append: bool = False
    resume: bool = False
    overwrite: bool = False
    workers: int = 0
    storage_options: dict[str, Any] | None = field(default=None, repr=False)  # may hold a password
    plan: Mapping[str, Any] | None = None
    verify: bool = False

    def __post_init__(self) -> None:
        for name, least in (("shard_records", 1), ("shard_bytes", 1), ("shard_start", 0)):
            if getattr(self, name) is not None:
                checked_int(name, getattr(self, name), least)
        checked_int("shard_step", self.shard_step, 1)
        checked_int("workers", self.workers, 0)
        if self.append + self.overwrite + (self.shard_start is not None) > 1:
            raise ValueError("append=True, overwrite=True and shard_start= exclude each other: pass one of them")

    @property
    def limits_shards(self) -> bool:
        """True if a file ends with a number of records or bytes."""
        return self.shard_records is not None or self.shard_bytes is not None

    def is_full(self, file: FileWriter, encoded: Encoded) -> bool:
        """Return True if this record belongs to the next shard."""
        if self.shard_records is not None and file.n_records >= self.shard_records:
            return True
        most = self.shard_bytes
        return most is not None and file.n_records > 0 and file.n_bytes + _size(encoded) > most


def _size(encoded: Encoded) -> int:
    if isinstance(encoded, bytes):
        return len(encoded)
    return sum(len(blob) for blobs in encoded.values() for blob in blobs)
