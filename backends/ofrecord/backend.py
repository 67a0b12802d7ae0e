"""The OFRecord format: recognizes, opens and writes its files, and orders the parts of a dataset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.ofrecord.reader import OFRecordReader
from dataformats.backends.ofrecord.salvage import salvage
from dataformats.backends.ofrecord.sniff import sniff_frames
from dataformats.backends.ofrecord.writer import OFRecordWriter
from dataformats.errors import FormatError
from dataformats.interfaces import (
    BlobBackend,
    FilePlace,
    ReaderOptions,
    ResumesFinishedFiles,
    ShardSalvage,
    SniffResult,
    SupportsRepair,
    natural_key,
)
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec

_PART = re.compile(r"part-(\d+)", re.ASCII)


class OFRecordBackend(BlobBackend, ResumesFinishedFiles, SupportsRepair):
    """OFRecord, the format of OneFlow: files, or a folder of `part-0`, `part-1`, ..."""

    name = "ofrecord"
    suffixes: tuple[str, ...] = (".ofrecord",)

    def matches_name(self, name: str) -> bool:
        """True for the suffix, and for `part-` with a number, zero-padded or not."""
        return super().matches_name(name) or _is_part(name)

    def order(self, names: Sequence[str]) -> list[str]:
        """Return file names, or whole paths, in reading order: the parts of one folder by their numbers.

        Raises:
            FormatError: Two parts of one folder have the same number.
        """
        ordered = sorted(names, key=natural_key)  # which sorts the numbers of one folder
        seen: dict[tuple[str, int], str] = {}
        for name in ordered:
            folder, _, last = name.rpartition("/")
            part = _PART.fullmatch(last)
            if part is None:
                continue
            other = seen.setdefault((folder, int(part[1])), name)
            if other != name:
                raise FormatError(
                    "two files are the same part",
                    path=name,
                    expected="one file of each number",
                    found=f"{other.rpartition('/')[2]} and {last}",
                    remedy="Move one away, or pass a list of the files",
                )
        return ordered

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the parts of a folder, or if it has none, the files with the suffix."""
        names = [name for name in folder.names() if self.matches_name(name)]
        parts = [name for name in names if _is_part(name)]
        return [folder.file(name) for name in self.order(parts or names)]

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its first records, which must be OFRecords back to back: there is no checksum."""
        return sniff_frames(file, has_name=self.matches_name(file.basename))

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> OFRecordReader:
        """Return a reader."""
        return OFRecordReader(files, options)

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"ofrecord"` for all records: another payload must be named."""
        return "ofrecord"

    def accepts_payload(self, payload: str) -> bool:
        """True only for `"ofrecord"`, the only payload that other readers of OFRecords know."""
        return payload == "ofrecord"

    def payload_for(self, spec: Spec) -> str:
        """Return `"ofrecord"`."""
        return "ofrecord"

    def create(self, path: Path, *, resume: bool = False, place: FilePlace | None = None, **_: Any) -> OFRecordWriter:
        """Return a writer of one file."""
        return OFRecordWriter(path, resume=resume, place=place)

    def shard_names(self, stem: str, count: int, **_: Any) -> list[str]:
        """Return `part-00000` and so on; the original's names have no stem."""
        return [f"part-{number:05d}" for number in range(count)]

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound records of a file."""
        return salvage(files[0], payload)


def _is_part(name: str) -> bool:
    return _PART.fullmatch(name) is not None
