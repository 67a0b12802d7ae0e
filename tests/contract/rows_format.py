"""A format of fields stored apart, some of them optional, on the public base classes.

A file is a magic number, the length of a JSON text and the text (field to stored type), then the records: an int32 for
the length of each field, -1 if the record lacks it, and then their bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

import dataformats
from dataformats import FormatError, Spec, SpecError, TruncatedError, Type
from dataformats.interfaces import (
    AppendingWriter,
    ArrayIndex,
    FieldsBackend,
    FieldsReader,
    FieldsWriter,
    FileIndex,
    ReaderOptions,
    SniffResult,
    StoredFile,
)

MAGIC = b"ROWREC\0\1"
PREFIX = Struct("<8sI")


def head_of(file: StoredFile) -> tuple[dict[str, str], int]:
    """Return field to type, and where the records begin."""
    start = file.pread(0, PREFIX.size)
    if len(start) < PREFIX.size or start[:8] != MAGIC:
        raise FormatError("no header", path=file.name, offset_bytes=0, expected=MAGIC, found=start)
    end = PREFIX.size + PREFIX.unpack(start)[1]
    try:
        return dict(json.loads(file.pread(PREFIX.size, end - PREFIX.size))), end
    except ValueError as error:
        raise FormatError("the header is damaged", path=file.name, offset_bytes=PREFIX.size) from error


def scan(file: StoredFile, names: Sequence[str], at: int, longest: int) -> tuple[ArrayIndex, dict[str, ArrayIndex]]:
    """Return the extents of the records and of each field; the rest of a damaged file is one more record."""
    layout = Struct(f"<{len(names)}i")
    rows: list[list[int]] = []  # begin, size, and offset and length of each field
    problems: dict[int, FormatError] = {}
    while at < file.size:
        head = file.pread(at, layout.size)
        lengths = layout.unpack(head) if len(head) == layout.size else (-2,)
        end = at + layout.size + sum(max(0, length) for length in lengths)
        if min(lengths) < -1 or end > file.size:
            problems[len(rows)] = TruncatedError("cut in a record", path=file.name, offset_bytes=at)
            rows.append([at, 0, *([at, 0] * len(names))])
            break
        if max(lengths) > longest:
            problems[len(rows)] = FormatError("record too long", path=file.name, offset_bytes=at)
        ends = at + layout.size + np.cumsum(np.maximum(lengths, 0))
        pairs = zip((ends - np.maximum(lengths, 0)).tolist(), lengths, strict=True)
        rows.append([at, end - at, *(number for pair in pairs for number in pair)])
        at = end
    table = np.array(rows, np.int64).reshape(-1, 2 + 2 * len(names))
    indexes = [ArrayIndex(table[:, 2 * n], table[:, 2 * n + 1], problems=problems) for n in range(len(names) + 1)]
    return indexes[0], dict(zip(names, indexes[1:], strict=True))


class RowsReader(FieldsReader):
    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions) -> None:
        super().__init__(files, options, "rows-1")

    def index_of(self, file: StoredFile) -> FileIndex:
        types, begin = head_of(file)
        records, fields = scan(file, list(types), begin, self.options.max_record_bytes)
        return FileIndex(len(records), fields, {"types": types})

    def type_of(self, field: str) -> Type:
        heads = [index.metadata["types"] for index in self.file_indexes]
        for file, head in zip(self.files, heads, strict=True):
            if head != heads[0]:
                raise FormatError("the fields differ", path=file.name, expected=heads[0], found=head)
        return Type.parse(heads[0][field])


class RowsWriter(AppendingWriter, FieldsWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record has fields
    def __init__(self, path: Path, stored: Spec, resume: bool) -> None:
        text = json.dumps({name: str(kind) for name, kind in stored.items()}).encode()
        self.begin = PREFIX.pack(MAGIC, len(text)) + text
        self.names = list(stored)
        self.extra = 4 * len(stored)
        super().__init__(path, resume=resume)

    def frame(self, record: Mapping[str, Sequence[bytes]]) -> bytes:
        lengths = [len(record[name][0]) if record[name] else -1 for name in self.names]
        return Struct(f"<{len(lengths)}i").pack(*lengths) + b"".join(b"".join(record[name]) for name in self.names)

    def index(self, file: StoredFile) -> Iterator[ArrayIndex]:
        yield scan(file, self.names, len(self.begin), 2**31)[0]


class BlockWriter(RowsWriter):
    """Writes blocks of three records; the last ones at `close` alone, so that a suspended writer loses them."""

    def __init__(self, path: Path, stored: Spec, resume: bool) -> None:
        self.waiting: list[Any] = []
        super().__init__(path, stored, resume)

    @property
    def n_records(self) -> int:
        return self._n_written + len(self.waiting)

    @n_records.setter
    def n_records(self, n: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._n_written = n - len(self.waiting)

    def append(self, record: Any, /) -> None:
        self.waiting.append(record)
        if len(self.waiting) == 3:
            self._write_block()

    def _write_block(self) -> None:
        block, self.waiting = self.waiting, []
        for record in block:
            super().append(record)

    def close(self, *, sync: bool = True) -> None:
        self._write_block()
        super().close(sync=sync)


class Rows(FieldsBackend):
    name = "rows"
    suffixes = (".rows",)
    has_checked_header = True
    stores_optional_fields = True

    def sniff(self, file: StoredFile) -> SniffResult:
        found = file.pread(0, len(MAGIC))
        if found == MAGIC:
            return SniffResult("yes")
        return SniffResult("damaged" if MAGIC.startswith(found) else "no", f"the magic number is {found!r}")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> RowsReader:
        return RowsReader(files, options)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        wrong = [name for name, kind in spec.items() if kind.dims and kind.dtype is None]
        if wrong:
            raise SpecError.of(
                SpecError(f"expected one blob a record, found {spec[name]}", field=name) for name in wrong
            )
        return spec

    def create(self, path: Path, *, stored: Spec, resume: bool = False, blocks: bool = False, **_: Any) -> RowsWriter:
        return (BlockWriter if blocks else RowsWriter)(path, stored, resume)


def register() -> None:
    dataformats.register_backend(Rows(), replace=True)
