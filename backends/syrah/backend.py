"""The Syrah format: recognizes, opens and writes its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.syrah.dtypes import stored_types
from dataformats.backends.syrah.reader import SyrahReader
from dataformats.backends.syrah.salvage import salvage
from dataformats.backends.syrah.sniff import sniff_header
from dataformats.backends.syrah.writer import SyrahWriter
from dataformats.indexing.union_reader import open_indexed_union
from dataformats.interfaces import FieldsBackend, Reader, ReaderOptions, ShardSalvage, SniffResult, SupportsRepair
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec


class SyrahBackend(FieldsBackend, SupportsRepair):
    """Syrah from 0.1.3 on: files, each complete in itself."""

    name = "syrah"
    suffixes: tuple[str, ...] = (".syr",)
    has_checked_header = True
    stores_full_spec = False

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its header; a header of zeros is an unfinished file, if the name is one of Syrah."""
        return sniff_header(file, has_name=self.matches_name(file.basename))

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> Reader:
        """Return a reader; reads and checks all headers and metadata. The format has no checksums.

        Raises:
            FormatError: A header or metadata are broken.
            SpecError: An array has several dtypes, and no type has the values of all files.
        """

        def read(some: Sequence[StoredFile]) -> SyrahReader:
            return SyrahReader(some, fixed_lengths=len(some) == len(files))

        return open_indexed_union(files, read, "dtypes", options)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        """Return numbers unchanged, text as `str`, and everything else as bytes in an array of uint8."""
        return stored_types(spec)

    def create(self, path: Path, *, stored: Spec, resume: bool = False, **_: Any) -> SyrahWriter:
        """Return a writer of one file.

        Raises:
            SpecError: The unfinished file has other fields.
        """
        return SyrahWriter(path, stored=stored, resume=resume)

    def shard_name(self, stem: str, number: int, **_: Any) -> str:
        """Return `stem-00000.syr` and so on."""
        return f"{stem}-{number:05d}.syr"

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound records of a file."""
        return salvage(files[0])
