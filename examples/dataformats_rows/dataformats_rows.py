"""A format of fields stored apart, some of which a record may lack.

A file is a magic number, the length of a JSON text and the text (field to stored type), then the records: an int32 for
the length of each field, -1 if the record lacks it, and then their bytes.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

import numpy as np

from dataformats import FormatError, Spec, TruncatedError, Type
from dataformats import interfaces as df

MAGIC = b"ROWREC\0\1"
PREFIX = struct.Struct("<8sI")


def head_of(file: df.StoredFile) -> tuple[dict[str, str], int]:
    """Return field to type, and where the records begin."""
    with df.damage_of(file, (struct.error, ValueError, TypeError, RecursionError), "the header"):
        magic, length = PREFIX.unpack(file.pread(0, PREFIX.size))
        if magic != MAGIC:
            raise FormatError("no header", path=file.name, offset_bytes=0, expected=MAGIC, found=magic)
        return dict(json.loads(file.pread(PREFIX.size, length))), PREFIX.size + length


def scan(file: df.StoredFile, n_fields: int, at: int, longest: int) -> list[df.ArrayIndex]:
    """Return the extents of the records, then of each field; the rest of a damaged file is one more record."""
    layout, problems = struct.Struct(f"<{n_fields}i"), dict[int, FormatError]()
    rows: list[list[int]] = []  # offset and length of each record, then of its fields
    while at < file.size:
        head = file.pread(at, layout.size)
        lengths = layout.unpack(head) if len(head) == layout.size else ()
        ends = [*accumulate((max(0, length) for length in lengths), initial=at + layout.size)]
        if min(lengths, default=-2) < -1 or ends[-1] > file.size:
            problems[len(rows)] = TruncatedError("cut in a record", path=file.name, offset_bytes=at)
            lengths, ends = (0,) * n_fields, [*[at] * n_fields, file.size]
        elif max(lengths) > longest:
            problems[len(rows)] = FormatError("record too long", path=file.name, offset_bytes=at)
        rows.append([at, ends[-1] - at, *chain.from_iterable(zip(ends, lengths, strict=False))])
        at = ends[-1]
    table = np.array(rows, np.int64).reshape(-1, 1 + n_fields, 2)
    return [df.ArrayIndex(table[:, n, 0], table[:, n, 1], problems=problems) for n in range(1 + n_fields)]


class RowsReader(df.FieldsReader):
    """The records of some files."""

    def index_of(self, file: df.StoredFile) -> df.FileIndex:
        types, begin = head_of(file)
        records, *fields = scan(file, len(types), begin, self.options.max_record_bytes)
        return df.FileIndex(len(records), dict(zip(types, fields, strict=True)), {"fields": types})

    def type_of(self, field: str) -> Type:
        return Type.parse(self.file_indexes[0].metadata["fields"].get(field, "bytes"))


class RowsWriter(df.AppendingWriter, df.FieldsWriter):
    """Appends records to one file; with `resume`, after the last record that is whole."""

    def __init__(self, path: Path, stored: Spec, resume: bool) -> None:
        text = json.dumps(stored.to_json()).encode()
        self.begin = PREFIX.pack(MAGIC, len(text)) + text
        self.names, self.extra = list(stored), 4 * len(stored)
        super().__init__(path, resume=resume)

    def frame(self, record: Mapping[str, Sequence[bytes]]) -> bytes:
        lengths = [len(record[name][0]) if record[name] else -1 for name in self.names]
        return struct.pack(f"<{len(lengths)}i", *lengths) + b"".join(b"".join(record[name]) for name in self.names)

    def index(self, file: df.StoredFile) -> Iterator[df.ArrayIndex]:
        yield scan(file, len(self.names), len(self.begin), 2**31)[0]


class RowsBackend(df.FieldsBackend):
    """Files with the ending `.rows`."""

    name, suffixes = "rows", (".rows",)
    has_checked_header = stores_optional_fields = True

    def sniff(self, file: df.StoredFile) -> df.SniffResult:
        return df.SniffResult.of_magic(file, MAGIC)

    def open(self, files: Sequence[df.StoredFile], options: df.ReaderOptions, **_: object) -> df.Reader:
        return df.open_indexed_union(files, lambda some: RowsReader(some, options, "rows-1"), "fields", options)

    def create(self, path: Path, *, stored: Spec, resume: bool = False, **_: object) -> RowsWriter:
        return RowsWriter(path, stored, resume)


BACKEND = RowsBackend()
