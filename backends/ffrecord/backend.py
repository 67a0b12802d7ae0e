"""The FFRecord format: recognizes, opens and writes its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.ffrecord.reader import FFRecordReader
from dataformats.backends.ffrecord.salvage import salvage
from dataformats.backends.ffrecord.sniff import sniff_header
from dataformats.backends.ffrecord.writer import FFRecordWriter
from dataformats.interfaces import BlobBackend, ReaderOptions, ShardSalvage, SniffResult, SupportsRepair
from dataformats.interfaces.stored_file import StoredFile


class FFRecordBackend(BlobBackend, SupportsRepair):
    """FFRecord 1.4: files, or a folder of `*.ffr` in the order of their names as strings."""

    name = "ffrecord"
    suffixes: tuple[str, ...] = (".ffr",)
    has_checked_header = True

    def order(self, names: Sequence[str]) -> list[str]:
        """Return the names sorted as strings: `a10` before `a2`."""
        return sorted(names)

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its header, whose parts must fit each other and the file: there is no magic number."""
        return sniff_header(file, has_name=self.matches_name(file.basename))

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> FFRecordReader:
        """Return a reader; reads the headers and verifies small ones."""
        return FFRecordReader(files, verify_checksums=options.verify_checksums, counts=options.counts)

    def create(self, path: Path, *, resume: bool = False, records: int | None = None, **_: Any) -> FFRecordWriter:
        """Return a writer of one file.

        Args:
            records: The number of records, if it is known: `close` then need not copy the data.
        """
        return FFRecordWriter(path, resume=resume, records=records)

    def shard_names(self, stem: str, count: int, **_: Any) -> list[str]:
        """Return `PART_00000.ffr` and so on; the original's names have no stem."""
        return [f"PART_{number:05d}.ffr" for number in range(count)]

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound records of a file."""
        return salvage(files[0])
