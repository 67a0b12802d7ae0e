"""CSV and TSV, with a line of names or without, read whole and written by pyarrow."""

from __future__ import annotations

import gzip
import importlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.backends.tables.arrays_of_rows import names_of
from dataformats.backends.tables.arrow_errors import damage_of_arrow
from dataformats.backends.tables.common_spec import common_spec
from dataformats.backends.tables.stored_types import StoredSchema
from dataformats.batch import Blobs, Column, StoredRecords
from dataformats.batch.arrow_types import arrow_type
from dataformats.batch.to_arrow import pyarrow, to_arrow
from dataformats.columns.arrow_columns import columns_of_arrow
from dataformats.columns.column_cast import can_cast
from dataformats.errors import CorruptRecordError, DataFormatsError, FormatError, Remedy, SpecError
from dataformats.indexing.files_table import FileBlock, FilesTable
from dataformats.interfaces import BadRowsError, FieldsBackend, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.file_object import FileObject
from dataformats.writing.table_writer import TableWriter

_TABS = (".tsv", ".tsv.gz")
_MAX_NAMES_BYTES = 2**16
_SAMPLED_BYTES = 2**20
_PADDED = re.compile(rb"""(?:^|[^\w.])[+-]?0\d""", re.MULTILINE)
_LARGE = 2**53  # from which on float64 has not every integer
_UNEVEN = re.compile(r"Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
_DELIMITER = Remedy("If another character separates the cells, pass {delimiter}.", delimiter=...)
_ESCAPE = Remedy("If backslashes escape quotation marks, pass {escape}.", escape="\\")
_ENCODING = Remedy("If it is Latin-1, pass {encoding}.", encoding="latin-1")
_LONG_ROW = "straddling object"  # an error of pyarrow: a row is longer than a block
_NUMBER = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*")
_BLOCKS = (2**20, 2**26, 2**30)  # bytes, from pyarrow's default on
_GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Dialect:
    """How cells are written.

    Attributes:
        delimiter: The character between two cells; `None`: see `_delimiter_of`.
        names: The names of the columns, if no line has them.
        escape: The character that makes a quotation mark a part of a cell, besides another quotation mark.
        encoding: The encoding of the text.
    """

    delimiter: str | None = None
    names: Sequence[str] | None = None
    escape: str | None = None
    encoding: str = "utf8"


class DelimitedTable(FilesTable):
    """The rows of CSV files whose columns have the same names and types. A block is a file.

    pyarrow infers the types that are not declared: `int64`, `float64`, `bool`, `utf8`, and text for dates. An empty
    cell of a column that is not text is missing. Integers beyond int64, which pyarrow takes for floats, are `uint64` or
    text, and numbers with leading zeros, such as postal codes, are text.

    Text in a file of `CsvWriter` is in quotation marks, and a cell without any character is missing, in all columns.

    Args:
        declared: The types of columns, or of some.
        saved: The types of the columns if `CsvWriter` wrote the files, else `None`.
        dialect: How cells are written.
    """

    spec_is_inferred = True

    def __init__(
        self, files: Sequence[StoredFile], declared: Spec | None, saved: Spec | None, dialect: Dialect
    ) -> None:
        self._dialect, self._is_exact = dialect, saved is not None
        types, own = dict(saved or {}), dict(declared or {})
        types |= {name: kind for name, kind in own.items() if name not in types or not can_cast(types[name], kind)}
        self._types = _arrow_types(types)
        schemas, counts, lacking, n_bytes = self._scanned(files)
        spec = common_spec(files, schemas, lacking, None)
        spec = Spec({name: _type_of_cells(kind, types.get(name, kind)) for name, kind in spec.items()})
        super().__init__(files, [spec], [[n] for n in counts], n_bytes)

    def _scanned(self, files: Sequence[StoredFile]) -> tuple[list[Any], list[int], set[str], int]:
        """Return the schema of each file, its rows, the columns with missing values, and the bytes of all values."""
        schemas, counts, lacking, n_bytes = list[Any](), list[int](), set[str](), 0
        for file in files:
            rows, uneven = self._rows(file)
            exact = self._exact_types(file, rows)
            if exact:  # in all files
                self._types |= exact
                return self._scanned(files)
            schemas.append(rows.schema)
            counts.append(rows.num_rows + len(uneven))
            columns = zip(rows.schema.names, rows.columns, strict=True)
            lacking |= {name for name, column in columns if column.null_count}
            n_bytes += rows.nbytes
        if texts := self._words_for_null(files, schemas):
            self._types |= texts
            return self._scanned(files)
        return schemas, counts, lacking, n_bytes

    def _words_for_null(self, files: Sequence[StoredFile], schemas: Sequence[Any]) -> dict[str, Any]:
        """Return text for columns of nothing but `NA` or `null` in a file, which are text or as empty in others."""
        arrow, types, found = pyarrow(), dict[str, set[Any]](), set[str]()
        for name, kind in ((field.name, field.type) for schema in schemas for field in schema):
            types.setdefault(name, set()).add(kind)
        empty, text = {arrow.null()}, arrow.string()
        names = {name for name, kinds in types.items() if empty <= kinds <= {*empty, text}} - self._types.keys()
        for file, schema in zip(files, schemas, strict=True):
            if asked := (names - found).intersection(schema.names):
                rows, _ = self._rows(file, asked)
                found.update(name for name in asked if _has_text(rows[name]))
        return dict.fromkeys(found, text)

    def _exact_types(self, file: StoredFile, rows: Any) -> dict[str, Any]:
        """Return types that keep the text of columns, if the numbers that pyarrow infers do not."""
        arrow, compute = pyarrow(), importlib.import_module("pyarrow.compute")
        is_padded = _PADDED.search(_stream(file).read(_SAMPLED_BYTES)) is not None
        suspects = list[str]()
        for column in rows.schema if len({*rows.schema.names}) == len(rows.schema) else ():
            if column.name not in self._types and column.type in (arrow.int64(), arrow.float64()):
                is_large = column.type == arrow.float64() and (compute.max(compute.abs(rows[column.name])).as_py() or 0)
                if is_large >= _LARGE or (is_padded and column.type == arrow.int64()):
                    suspects.append(column.name)
        if not suspects:
            return {}
        texts = self._rows(file, suspects)[0]
        found = {}
        for name in suspects:
            text = texts[name].filter(rows[name].is_valid())
            is_integer = rows.schema.field(name).type == arrow.int64()
            matching = compute.match_substring_regex(text, r"^[+-]?0[0-9]" if is_integer else r"^[+-]?[0-9]+$")
            if compute.any(matching).as_py() if is_integer else compute.all(matching).as_py():
                found[name] = arrow.string() if is_integer else _integer_type(text)
        return found

    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        rows, failed = self._rows(self.files[block.file])
        columns: Mapping[str, Column]
        try:
            columns = columns_of_arrow(rows, self.spec, fields)
        except BadRowsError as error:
            even = np.delete(np.arange(rows.num_rows + len(failed)), [*failed]).tolist()
            columns, failed = error.columns, {**failed, **{even[row]: one for row, one in error.failed.items()}}
        if failed:
            raise BadRowsError(columns, failed)
        return columns

    def _rows(self, file: StoredFile, texts: Collection[str] = ()) -> tuple[Any, dict[int, DataFormatsError]]:
        """Return the rows of a file that have as many cells as the line of names, and the errors of the others.

        If `texts` names columns, these alone are read, as text.
        """
        uneven, first = dict[int, DataFormatsError](), 2 if self._dialect.names is None else 1

        def skip(row: Any) -> str:
            uneven[row.number - first] = _uneven_row(row.text, row.expected_columns, row.actual_columns)
            return "skip"

        try:
            return self._parsed(file, texts), uneven
        except FormatError as error:
            found = _UNEVEN.search(str(error))
            if found is None:
                raise
            problem = _uneven_row(found[3], int(found[1]), int(found[2]))
            problem.path, cause = file.name, error.__cause__
            if "\ufffd" in found[3]:  # the handler of a row that is not UTF-8 is not called
                raise problem from cause
        rows = self._parsed(file, texts, skip)
        if not rows.num_rows:
            raise problem from cause
        return rows, uneven

    def _parsed(
        self, file: StoredFile, texts: Collection[str], skip: Any = None, blocks: Sequence[int] = _BLOCKS
    ) -> Any:
        library, dialect = importlib.import_module("pyarrow.csv"), self._dialect
        read = library.ReadOptions(
            use_threads=skip is None,  # threads do not count rows
            block_size=blocks[0],
            column_names=dialect.names,
            encoding=dialect.encoding,
        )
        parse = library.ParseOptions(
            delimiter=dialect.delimiter or _delimiter_of(file, is_exact=self._is_exact),
            escape_char=dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=skip,
        )
        convert = library.ConvertOptions(
            column_types=self._types | dict.fromkeys(texts, pyarrow().string()), include_columns=[*texts]
        )
        if self._is_exact:
            convert.null_values, convert.strings_can_be_null, convert.quoted_strings_can_be_null = [""], True, False
        try:
            with damage_of_arrow(file):
                rows = library.read_csv(_stream(file), read_options=read, parse_options=parse, convert_options=convert)
                _ = rows.schema.names  # pyarrow decodes names when they are asked for
                return rows
        except FormatError as error:
            if _LONG_ROW not in str(error) or len(blocks) == 1:
                error.remedy = _ENCODING if isinstance(error.__cause__, UnicodeDecodeError) else error.remedy
                raise
        return self._parsed(file, texts, skip, blocks[1:])

    def notes(self) -> Iterator[str]:
        """Yield which column is no UTF-8, and whether the line of names may be a record."""
        for name, kind in self.spec.items():
            if kind.codec == "bytes" and name not in self._types:
                field = f"{name!r:.80}".replace("{", "{{").replace("}", "}}")
                yield Remedy(
                    f"field {field} holds text that is not UTF-8: for Latin-1, pass {{encoding}}", encoding="latin-1"
                )
                break
        numbered = [*map(str, range(len(self.spec)))]  # as pandas names columns without names
        if self._dialect.names is None and [*self.spec] != numbered and all(map(_NUMBER.fullmatch, self.spec)):
            yield Remedy("the names of all fields are numbers: if they are a record, pass {names}", names=...)


def _has_text(column: Any) -> bool:
    """True if a text of a column has a character."""
    compute = importlib.import_module("pyarrow.compute")
    return bool(compute.max(compute.binary_length(column)).as_py())


def _integer_type(text: Any) -> Any:
    """Return uint64 if these integers fit it; text if not."""
    arrow = pyarrow()
    try:
        text.cast(arrow.uint64())
    except arrow.ArrowInvalid:
        return arrow.string()
    return arrow.uint64()


def _uneven_row(text: str, expected: int, found: int) -> CorruptRecordError:
    what = f"the row {text[:80]!r} has another number of cells than the line of names"
    return CorruptRecordError(what, expected=expected, found=found, remedy=_ESCAPE if '\\"' in text else _DELIMITER)


def _stream(file: StoredFile) -> Any:
    stream = FileObject(file)
    return pyarrow().CompressedInputStream(stream, "gzip") if _has_ending(file.basename, ".gz") else stream


def _has_ending(name: str, endings: str | tuple[str, ...]) -> bool:
    """Return True if a name, without the `.partial` of an unfinished file, ends with one of `endings`."""
    return name.lower().removesuffix(".partial").endswith(endings)


def _delimiter_of(file: StoredFile, *, is_exact: bool) -> str:
    """Return a tab or a comma, by the name; or a semicolon if the line of names has some and no comma.

    Spreadsheets write semicolons in countries that write numbers with a comma. Read with commas, all cells of a row
    would be one.
    """
    if _has_ending(file.basename, _TABS):
        return "\t"
    if is_exact:
        return ","
    with damage_of_arrow(file):
        names = _stream(file).read(_MAX_NAMES_BYTES).partition(b"\n")[0]
    return ";" if b";" in names and b"," not in names else ","


def _arrow_types(declared: Mapping[str, Type]) -> dict[str, Any]:
    """Return the types to read columns as: their numbers, or text for a codec to decode."""
    arrow, found = pyarrow(), dict[str, Any]()
    for name, kind in declared.items():
        if kind.dtype is None or kind.dims:
            found[name] = arrow.binary() if kind.required == Type("bytes") else arrow.string()
        elif kind.dtype.kind in "biuf" and kind.dtype.itemsize <= 8:
            found[name] = arrow.float32() if kind.codec == "float16" else arrow_type(kind)
    return found


def _type_of_cells(found: Type, declared: Type) -> Type:
    """Return the type of a column: the declared one of lists and of float16, which pyarrow does not parse."""
    if not (declared.dims or declared.codec == "float16"):
        return found
    codec = "utf8" if declared.codec == "bytes" else declared.codec  # JSON has no bytes
    return replace(declared, codec=codec, optional=found.optional)


class CsvWriter(TableWriter):
    """Writes one CSV file: a line of names, text in quotation marks, nothing for a missing value, JSON for lists."""

    def __init__(self, path: Path, stored: Spec) -> None:
        pyarrow()  # names the extra if it is missing
        super().__init__(path, stored)
        self._lists = [name for name, kind in stored.items() if kind.dims]
        self._floats: dict[str, Any] = {name: kind.dtype for name, kind in stored.items() if "float" in kind.codec}
        self._schema = StoredSchema(Spec({name: _written_type(kind) for name, kind in stored.items()}))
        is_packed = _has_ending(path.name, ".gz")
        self._out: Any = gzip.GzipFile("", "wb", _GZIP_LEVEL, self._file, mtime=0) if is_packed else self._file
        library = importlib.import_module("pyarrow.csv")
        options = library.WriteOptions(delimiter="\t" if _has_ending(path.name, _TABS) else ",")
        self._writer = library.CSVWriter(self._out, self._schema.schema, write_options=options)

    def write_block(self, columns: Mapping[str, Column], n: int) -> None:
        texts = {name: _as_json(columns[name]) for name in self._lists}
        self._writer.write_batch(self._schema.batch({**columns, **texts}))

    def as_read_back(self, records: StoredRecords) -> StoredRecords:
        """Return the records with the same bits in every NaN, because a cell `nan` keeps none."""
        fields = dict(records.fields)
        for name in self._floats.keys() & fields.keys():
            (blobs, counts), dtype = fields[name], self._floats[name]
            numbers = blobs.contiguous()[0].view(dtype)
            alike = np.where(np.isnan(numbers), dtype.type(np.nan), numbers)
            fields[name] = Blobs.back_to_back(alike, blobs.lengths), counts
        return replace(records, fields=fields)

    def finish(self) -> None:
        self._writer.close()
        if self._out is not self._file:
            self._out.close()


def _written_type(stored: Type) -> Type:
    """Return the type whose values pyarrow writes: lists and documents are text."""
    codec = "utf8" if stored.dims or stored.codec == "json" else stored.codec
    return Type("float32" if codec == "float16" else codec, optional=stored.optional)


def _as_json(column: Column) -> list[str | None]:
    """Return the texts of lists; `None` for a missing one."""
    values = to_arrow(column).to_pylist()
    return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]


class CsvBackend(FieldsBackend):
    """CSV and TSV, recognized by their names."""

    name = "csv"
    suffixes: tuple[str, ...] = (".csv", ".csv.gz", *_TABS)
    copies_records = False
    stores_full_spec = False
    stores_optional_fields = True

    def matches_name(self, name: str) -> bool:
        return name.lower().endswith(self.suffixes)

    def sniff(self, file: StoredFile) -> SniffResult:
        if not self.matches_name(file.basename):
            return SniffResult("no", "its name does not end in .csv or .tsv")
        head = file.pread(0, 1024)
        is_text = head.startswith(b"\x1f\x8b") if file.basename.lower().endswith(".gz") else b"\x00" not in head
        return SniffResult("yes") if is_text else SniffResult("no", "it is not text")

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        delimiter: str | None = None,
        names: str | Sequence[str] | None = None,
        escape: str | None = None,
        encoding: str = "utf8",
        **_: Any,
    ) -> DelimitedTable:
        """Return a table.

        Args:
            delimiter: The character between two cells. `None`: a tab in `.tsv`; else a comma, or a semicolon if the
                line of names has semicolons and no comma.
            names: The names of the columns, if no line has them: a list, or names with commas between them.
            escape: The character that makes a quotation mark a part of a cell, such as a backslash.
            encoding: The encoding of the text, by Python's name of it.
        """
        dialect = Dialect(delimiter, names_of(names), escape, encoding)
        return DelimitedTable(files, options.spec, options.saved, dialect)

    def stored_type(self, type_: Type) -> Type:
        is_number = type_.dtype is not None and type_.dtype.kind in "biuf" and type_.dtype.itemsize <= 8
        if not is_number and type_.element != Type("utf8") and type_.required != Type("json"):
            what = f"a cell of CSV holds a number, text, a list of these or a JSON document, found {type_}"
            remedy = (
                "Declare bytes that are text as utf8, leave the field out, or write another format, such as Parquet"
            )
            raise SpecError(what, remedy=remedy)
        return replace(type_, arrow_type=None)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        name = next(iter(spec), "")
        if len(spec) == 1 and spec[name].optional:
            what = "the line of a missing value would be blank, and programs skip blank lines"
            raise SpecError(what, field=name, remedy="Write another format, such as Parquet, or another field as well")
        return super().stored_spec(spec)

    def create(self, path: Path, *, stored: Spec, resume: bool = False, **_: Any) -> CsvWriter:
        """Return a writer. The name tells whether tabs separate the cells, and whether the file is compressed.

        Args:
            resume: The file begins anew: the last cell may be cut.
        """
        return CsvWriter(path, stored)


BACKEND = CsvBackend()
