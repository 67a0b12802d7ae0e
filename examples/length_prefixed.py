"""A format in about a hundred lines: a magic number, then records, each a uint32 length and that many bytes.

docs/extending.md explains it, and tests/contract/test_extending.py runs it through the conformance suites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

import dataformats
from dataformats import FormatError, SpecError, TruncatedError
from dataformats.interfaces import (
    AppendingWriter,
    ArrayIndex,
    BlobBackend,
    BlobWriter,
    FileIndex,
    FilesReader,
    ReaderOptions,
    SniffResult,
    StoredFile,
)

MAGIC = b"LPREC\0\0\1"
LENGTH = Struct("<I")


# ---- where the records of one file lie


def build_index(file: StoredFile, max_record_bytes: int) -> ArrayIndex:
    """Return offset and length of every record, from one pass over the lengths."""
    found = file.pread(0, len(MAGIC))
    if found != MAGIC:
        raise FormatError("wrong magic number", path=file.name, offset_bytes=0, expected=MAGIC, found=found)
    offsets: list[int] = []
    lengths: list[int] = []
    problems: dict[int, FormatError] = {}
    at = len(MAGIC)
    while at < file.size:
        head = file.pread(at, LENGTH.size)
        length = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else -1
        begin = at + LENGTH.size
        if not 0 <= length <= file.size - begin:
            # The rest cannot be read: it is one more record, of length 0, with a problem.
            problems[len(offsets)] = TruncatedError(
                "cut in a record",
                path=file.name,
                offset_bytes=at,
                expected=f"{max(length, 0)} bytes of data",
                found=f"{max(file.size - begin, 0)} bytes",
            )
            begin, length = at, 0
        elif length > max_record_bytes:
            limit = f"<= {max_record_bytes} bytes (max_record_bytes)"
            problems[len(offsets)] = FormatError(
                "record too long", path=file.name, offset_bytes=at, expected=limit, found=length
            )
        offsets.append(begin)
        lengths.append(length)
        at = begin + length if begin > at else file.size
    return ArrayIndex(np.array(offsets, np.int64), np.array(lengths, np.int64), problems=problems)


class LengthPrefixedReader(FilesReader):
    """The records of some files."""

    def __init__(self, files: Sequence[StoredFile], max_record_bytes: int) -> None:
        super().__init__(files)
        self._max_record_bytes = max_record_bytes

    def index_of(self, file: StoredFile) -> FileIndex:
        return FileIndex.of_blobs(build_index(file, self._max_record_bytes))


# ---- how a file is written


class LengthPrefixedWriter(AppendingWriter, BlobWriter):
    """Appends records to one file; with `resume`, after the last record that is whole."""

    begin = MAGIC
    extra = LENGTH.size

    def frame(self, record: bytes) -> bytes:
        return LENGTH.pack(len(record)) + record

    def check(self, record: bytes) -> None:
        if len(record) >= 2**32:
            raise SpecError(f"expected a record of less than 4 GiB, found {len(record)} bytes")

    def index(self, file: StoredFile) -> Iterator[ArrayIndex]:
        yield build_index(file, 2**32)


# ---- the format


class LengthPrefixed(BlobBackend):
    """Files of length-prefixed records."""

    name = "lengthprefixed"
    suffixes = (".lp",)
    has_checked_header = True  # the magic number

    def sniff(self, file: StoredFile) -> SniffResult:
        return SniffResult.of_magic(file, MAGIC)

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> LengthPrefixedReader:
        return LengthPrefixedReader(files, options.max_record_bytes)

    def create(self, path: Path, *, resume: bool = False, **_: Any) -> LengthPrefixedWriter:
        return LengthPrefixedWriter(path, resume=resume)


BACKEND = LengthPrefixed()
"""The object that an entry point names."""


def register() -> None:
    """Make the format known to this process."""
    dataformats.register_backend(BACKEND, replace=True)
