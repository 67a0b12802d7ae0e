"""CSV and TSV with a line of names, read whole by pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tables.arrow_errors import damage_of
from dataformats.batch import Column
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import column_of_arrow, spec_of_arrow
from dataformats.errors import SpecError
from dataformats.interfaces import Backend, BlockTable, ReaderOptions, SniffResult, StoredFile
from dataformats.interfaces.table import starts_of
from dataformats.spec import Spec
from dataformats.storage.file_object import FileObject

__all__ = ["BACKEND", "CsvBackend"]

_TABS = (".tsv", ".tsv.gz")


class DelimitedTable(BlockTable):
    """The rows of CSV files whose columns have the same names and types. A block is a file.

    pyarrow infers the types: `int64`, `float64`, `bool`, `utf8`, and text for dates. An empty cell of a column that is
    not text is missing.

    Args:
        files: The files.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files: Sequence[StoredFile] = files
        counts, lacking = list[int](), set[str]()
        self.decoded_bytes: int = 0
        schema: Any = None
        for file in files:
            rows = _rows(file)
            schema = schema or rows.schema
            if not rows.schema.equals(schema):
                raise SpecError(f"the files {files[0].name!r} and {file.name!r} have different columns")
            counts.append(rows.num_rows)
            lacking |= {name for name in schema.names if rows.column(name).null_count}
            self.decoded_bytes += rows.nbytes
        self.counts: NDArray[np.int64] = np.array(counts, np.int64)
        self._filled = [file for file, n in zip(files, counts, strict=True) if n]
        self.block_starts: NDArray[np.int64] = starts_of([n for n in counts if n])
        self.spec: Spec = spec_of_arrow(schema, lacking)

    def read_block(self, block: int, fields: Sequence[str]) -> Mapping[str, Column]:
        rows = _rows(self._filled[block])
        return {name: column_of_arrow(rows.column(name), self.spec[name], name) for name in fields}


def _rows(file: StoredFile) -> Any:
    arrow = pyarrow()
    library = importlib.import_module("pyarrow.csv")
    name = file.basename.lower()
    with damage_of(file):
        stream = FileObject(file)
        delimiter = "\t" if name.endswith(_TABS) else ","
        rows = library.read_csv(
            arrow.CompressedInputStream(stream, "gzip") if name.endswith(".gz") else stream,
            parse_options=library.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        )
        _ = rows.schema.names  # pyarrow decodes names when they are asked for
        return rows


class CsvBackend(Backend):
    """CSV and TSV, recognized by their names."""

    name = "csv"
    suffixes: tuple[str, ...] = (".csv", ".csv.gz", *_TABS)

    def matches_name(self, name: str) -> bool:
        return name.lower().endswith(self.suffixes)

    def sniff(self, file: StoredFile) -> SniffResult:
        if not self.matches_name(file.basename):
            return SniffResult("no", "its name does not end in .csv or .tsv")
        head = file.pread(0, 1024)
        is_text = head.startswith(b"\x1f\x8b") if file.basename.lower().endswith(".gz") else b"\x00" not in head
        return SniffResult("yes") if is_text else SniffResult("no", "it is not text")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> DelimitedTable:
        return DelimitedTable(files)


BACKEND = CsvBackend()
