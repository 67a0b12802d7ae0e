"""The contract of a file writer: it writes one file, or one folder, of a format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataformats.batch import StoredRecords


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a new file belongs in its dataset, for a `create` with a keyword parameter `place`.

    Attributes:
        name: Its final name; `None` if that depends on the number of shards.
        shard: The number of the shard; `None` for a single file.
        first_record: The number of its first record in the dataset; `None` if another process writes the records
            before it.

    Example:
        >>> from dataformats.interfaces import FilePlace
        >>> FilePlace("train.bin").shard is None
        True
    """

    name: str | None
    shard: int | None = None
    first_record: int | None = 0


class FileWriter(ABC):
    """Writes one file (or folder) of a format. Not thread-safe.

    Attributes:
        n_records: Records appended, including those found by `resume`.
        n_bytes: Approximate bytes so far.
        flush_adds_bytes: True if each `flush` adds bytes to the complete file, as a compressor does.
    """

    n_records: int = 0
    n_bytes: int = 0
    flush_adds_bytes: bool = False

    @abstractmethod
    def append_stored(self, records: StoredRecords) -> None:
        """Append records of another file of the format; their checksums may be kept, because a reader verified them."""

    def as_read_back(self, records: StoredRecords) -> StoredRecords:
        """Return stored records as a reader of the file finds them: by default, as they are."""
        return records

    @abstractmethod
    def flush(self, *, sync: bool = False) -> None:
        """Flush buffers to the operating system; with `sync` also to the disk, so that it survives a crash."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file and sync it.

        A journal beside it may stay, from which `resume` reopens the file; the staging area that publishes the file
        deletes it.
        """

    @abstractmethod
    def suspend(self) -> None:
        """Close the unfinished file, for a later resume."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the file, and the files beside it that a resume needs."""


class BlobWriter(FileWriter):
    """Writes one file of a format that stores one blob a record."""

    @abstractmethod
    def append(self, blob: bytes) -> None:
        """Append one record."""

    def extend(self, blobs: Sequence[bytes]) -> None:
        """Append several records, in order; up to the first that raises."""
        for blob in blobs:
            self.append(blob)

    def append_stored(self, records: StoredRecords) -> None:
        self.extend(list(records.blobs))


class FieldsWriter(FileWriter):
    """Writes one file or folder of a format that stores the fields of a record apart."""

    @abstractmethod
    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one record: field to its one blob, or to one blob for each element of a sequence.

        A field that the record lacks has no blob: see `FieldsBackend.stores_optional_fields`. A record is appended
        whole or not at all.
        """

    def extend(self, records: Sequence[Mapping[str, Sequence[bytes]]]) -> None:
        """Append several records, in order; up to the first that raises."""
        for blobs in records:
            self.append(blobs)

    def append_stored(self, records: StoredRecords) -> None:
        self.extend(list(records))
