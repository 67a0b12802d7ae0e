"""What `dataformats` knows of OFRecord as a format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.ofrecord.parts import in_order, is_part, part_names
from dataformats.backends.ofrecord.reader import OFRecordReader
from dataformats.backends.ofrecord.sniff import judge
from dataformats.backends.ofrecord.writer import OFRecordWriter
from dataformats.interfaces import BlobBackend, OpenOptions, SniffResult
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec

__all__ = ["OFRecordBackend"]


class OFRecordBackend(BlobBackend):
    """OFRecord, the format of OneFlow: files, or a folder of `part-0`, `part-1`, ..."""

    name = "ofrecord"
    suffixes: tuple[str, ...] = (".ofrecord",)

    def matches_name(self, name: str) -> bool:
        """Return True for the suffix, and for `part-00000`."""
        return super().matches_name(name) or is_part(name)

    def order(self, names: Sequence[str]) -> list[str]:
        """Return the names in the order of the parts' numbers."""
        return in_order(names)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the parts of a folder; where it has none, the files with the suffix."""
        claimed = [name for name in folder.names() if self.matches_name(name)]
        parts = [name for name in claimed if is_part(name)]
        return [folder.file(name) for name in self.order(parts or claimed)]

    def sniff(self, file: StoredFile) -> SniffResult:
        """Judge a file by its first records: without a checksum, they must be OFRecords back to back."""
        return judge(file, self.matches_name(file.basename))

    def open(self, files: Sequence[StoredFile], options: OpenOptions, **backend_options: Any) -> OFRecordReader:
        """Return a reader."""
        _refuse(backend_options)
        return OFRecordReader(files, options)

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"ofrecord"`, whatever the records are: another payload must be named."""
        return "ofrecord"

    def accepts_payload(self, payload: str) -> bool:
        """Return True for `"ofrecord"` alone: no other reader of OFRecords takes anything else."""
        return payload == "ofrecord"

    def payload_for(self, spec: Spec) -> str:
        """Return `"ofrecord"`."""
        return "ofrecord"

    def create(self, path: Path, *, resume: bool = False, **backend_options: Any) -> OFRecordWriter:
        """Return a writer of one file."""
        _refuse(backend_options)
        return OFRecordWriter(path, resume=resume)

    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return `part-00000` and so on; the original has no place for a stem."""
        return part_names(count)


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise TypeError(f"ofrecord has no option {', '.join(sorted(options))}")
