"""The contract of a repair: a backend finds the sound records of damaged files, and the losses between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec

StoredRecord = bytes | Mapping[str, Sequence[bytes]]
"""A record as stored: its one blob, or the blobs of each field."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A part of a dataset that a repair does not copy.

    Attributes:
        path: The file; if fields are stored separately, perhaps the folder of the dataset.
        cause: The damage there, in words.
        start: The first byte in the file, decompressed; `None` if the loss is no range of bytes.
        stop: The byte behind the last one; `None` if the loss is no range of bytes.
        index: The number in its shard of the first lost record; `None` if an earlier loss hides it.
        records: How many records are lost; `None` if that is unknown, perhaps none.

    Example:
        >>> import dataformats
        >>> damaged = "tests/golden/tfrecord/corrupt/data_bit.tfrecord"
        >>> report = dataformats.repair(damaged, "repaired.tfrecord", dry_run=True)
        >>> [(loss.index, loss.records, loss.start, loss.stop) for loss in report.losses]
        [(3, 1, 368, 391)]
    """

    path: str
    cause: str
    start: int | None = None
    stop: int | None = None
    index: int | None = None
    records: int | None = None


SalvagePart: TypeAlias = "list[StoredRecord] | Loss"
"""Sound records, one behind the other, or a loss between such records."""


@dataclass(frozen=True, slots=True)
class ShardSalvage:
    """The sound records and the losses of one damaged shard.

    Attributes:
        parts: Yields lists of sound records, in order, and each loss in its place; reads while it is iterated.
        stored: The types of the fields as stored; `None` if a record is one blob.
        options: The options of `create` that give the new files the same form, such as a compression.
        notes: Damage that costs no record.
    """

    parts: Iterator[SalvagePart]
    stored: Spec | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


class SupportsRepair(ABC):
    """A backend that finds the sound records of damaged files."""

    def shards(self, files: Sequence[StoredFile]) -> list[list[StoredFile]]:
        """Return the files of each shard; by default each file is one."""
        return [[file] for file in files]

    @abstractmethod
    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound records of one shard. Every record must be proven: by a checksum, if the format has them.

        Args:
            files: The files of one shard.
            payload: The codec of whole records, which may help to recognize them.

        Raises:
            FormatError: No record can be located.
        """
