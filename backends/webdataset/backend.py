"""The WebDataset backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.webdataset.extensions import KEY, stored_types
from dataformats.backends.webdataset.members import BLOCK, header_is_sound
from dataformats.backends.webdataset.reader import WebDatasetReader, decompressed
from dataformats.backends.webdataset.writer import WebDatasetWriter
from dataformats.errors import SpecError
from dataformats.interfaces import (
    FieldsBackend,
    FilePlace,
    ReaderOptions,
    SniffResult,
    StoredFile,
)
from dataformats.spec import Spec


class WebDatasetBackend(FieldsBackend):
    """Tar files of samples, plain or compressed by gzip."""

    name = "webdataset"
    suffixes: tuple[str, ...] = (".tar", ".tar.gz", ".tgz")
    stores_full_spec = False
    stores_optional_fields = True
    has_checked_header = True
    key_field = KEY

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a tar file by the checksum of its first header, or a gzip file of one."""
        head = decompressed(file).pread(0, BLOCK)
        is_empty = len(head) == BLOCK and not any(head) and self.matches_name(file.basename)
        if is_empty or header_is_sound(head):
            return SniffResult("yes")
        if head[257:262] == b"ustar":
            return SniffResult("damaged", "the checksum of its first header is wrong")
        return SniffResult("no", "no header of a tar file")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> WebDatasetReader:
        """Return a reader. Scans the headers of the files, unless the index cache has their indexes."""
        return WebDatasetReader(files, options)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        """Return the types of the members: numbers are text, arrays of numbers are `npy`."""
        return stored_types(spec)

    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, place: FilePlace | None = None, **_: Any
    ) -> WebDatasetWriter:
        """Return a writer of one tar file.

        Args:
            place: The place of the file in its dataset, for keys.

        Raises:
            SpecError: The name is one of a compressed file.
        """
        place = place or FilePlace(path.name)
        if (place.name or "").endswith(self.suffixes[1:]):
            remedy = "Choose a name that ends in .tar"
            raise SpecError("compressed tar files are read, not written", remedy=remedy)
        return WebDatasetWriter(path, stored, place, resume=resume)

    def shard_names(self, stem: str, count: int, **_: Any) -> list[str]:
        """Return `stem-000000.tar` and so on, as WebDataset's users name shards."""
        return [f"{stem}-{number:06d}.tar" for number in range(count)]
