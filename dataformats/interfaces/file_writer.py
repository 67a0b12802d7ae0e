"""What a file writer is: it writes one file, or one folder, of a format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "BlobWriter",
    "FieldsWriter",
    "FileWriter",
]


class FileWriter(ABC):
    """Writes one file (or folder) of a format. Not thread-safe.

    Attributes:
        n_records: Records appended, those found on resuming included.
        n_bytes: Bytes so far, about.
    """

    n_records: int = 0
    n_bytes: int = 0

    @abstractmethod
    def flush(self, *, sync: bool = False) -> None:
        """Hand everything to the operating system; with `sync` onto the disk, so that it survives a crash."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file and sync it."""

    @abstractmethod
    def suspend(self) -> None:
        """Let go of the file as it is, for a later resume."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the file and whatever stands beside it for a resume."""

    def sidecars(self) -> Mapping[str, Path | None]:
        """Return the files that belong beside the closed one: final name to where each is now.

        They get their names just before the file does. `None`: nothing of that name may stand there.
        """
        return {}


class BlobWriter(FileWriter):
    """Writes one file of a format that stores one blob a record."""

    @abstractmethod
    def append(self, blob: bytes) -> None:
        """Append one record."""


class FieldsWriter(FileWriter):
    """Writes one file or folder of a format that stores the fields of a record apart."""

    @abstractmethod
    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one record: field to its blob, or to one blob an element for a sequence of a codec.

        A record is appended whole or not at all.
        """
