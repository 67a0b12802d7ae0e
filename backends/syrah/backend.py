"""The Syrah format: which files are of it, how they are opened and made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.syrah.document import INT32
from dataformats.backends.syrah.dtypes import stored_types
from dataformats.backends.syrah.layout import HEADER, MAGIC, parse_header
from dataformats.backends.syrah.reader import SyrahReader
from dataformats.backends.syrah.writer import SyrahWriter
from dataformats.errors import FormatError
from dataformats.interfaces import FieldsBackend, OpenOptions, SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec

__all__ = ["BACKEND", "SyrahBackend"]


class SyrahBackend(FieldsBackend):
    """Syrah from 0.1.3 on: files, each complete in itself."""

    name = "syrah"
    suffixes: tuple[str, ...] = (".syr",)
    stores_full_spec = False

    def sniff(self, file: StoredFile) -> SniffResult:
        """Judge by the header; one of zeros is an unfinished file, if the name says so."""
        window = file.pread(0, HEADER.size)
        named = file.basename.endswith(self.suffixes)
        if not window.startswith(MAGIC + b"\0"):
            zeros = not any(window) and len(window) == HEADER.size
            if zeros and named:
                return SniffResult("damaged", "unfinished: a header of zeros")
            return SniffResult("no", f"begins with {window[:3]!r}, expected {MAGIC!r} and a version")
        try:
            header = parse_header(window, file.size, file.name)
        except FormatError as error:
            return SniffResult("damaged" if named or len(window) == HEADER.size else "no", error.what)
        (length,) = INT32.unpack(file.pread(header.offset, INT32.size))
        if length != header.length:
            return SniffResult("damaged", f"metadata of {header.length} bytes say that they are {length}")
        return SniffResult("yes")

    def open(self, files: Sequence[StoredFile], options: OpenOptions, **backend_options: Any) -> SyrahReader:
        """Return a reader, all headers and metadata read and checked; there are no checksums to verify."""
        _refuse(backend_options)
        return SyrahReader(files)

    def stored_spec(self, spec: Spec, **backend_options: Any) -> Spec:
        """Return numbers as they are, text as `str`, and everything else as bytes in an array of uint8."""
        _refuse(backend_options)
        return stored_types(spec)

    def create(self, path: Path, *, stored: Spec, resume: bool = False, **backend_options: Any) -> SyrahWriter:
        """Return a writer of one file.

        Args:
            path: A local path.
            stored: What `stored_spec` gave.
            resume: Go on with what a killed writer left there.
            **backend_options: None.

        Raises:
            SpecError: There are no fields, or others than those of the file that is resumed.
        """
        _refuse(backend_options)
        return SyrahWriter(path, stored=stored, resume=resume)

    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return `stem-00000-of-00003.syr` and so on; the original has no names of its own for parts."""
        return [f"{stem}-{number:05d}-of-{count:05d}.syr" for number in range(count)]


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise TypeError(f"syrah has no option {', '.join(sorted(options))}")


BACKEND = SyrahBackend()
