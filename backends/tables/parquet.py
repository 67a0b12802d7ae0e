"""Parquet (`.parquet`), decoded and encoded by pyarrow. A block is a row group."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.tables.arrow_errors import damage_of_arrow
from dataformats.backends.tables.common_spec import common_spec, default_types
from dataformats.backends.tables.decoded_sizes import bytes_of_repeated, check_decoded_size
from dataformats.backends.tables.parquet_footer import MAGIC, RowGroup, read_footer, row_groups
from dataformats.backends.tables.parquet_pages import ColumnChunks, pages_of, repeated_bytes
from dataformats.backends.tables.stored_types import StoredSchema, stored_type
from dataformats.batch import Column
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import columns_of_arrow
from dataformats.errors import Remedy, SpecError
from dataformats.indexing.files_table import FileBlock, FilesTable
from dataformats.interfaces import FieldsBackend, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.file_object import FileObject
from dataformats.storage.threads import concurrent_map
from dataformats.writing.table_writer import TableWriter

_PARTS = 64  # large row groups are read in so many
_FEW_BYTES = 2**18  # one thread decodes a file of so many
_TEXT_BYTES = 9  # in memory, besides the bytes of the text
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}  # bytes in memory


class ParquetTable(FilesTable):
    """The rows of Parquet files whose columns have the same names and types. A field is optional if a row may lack it.

    A file of kilobytes may hold a value millions of times: a row group is an error if it has more bytes in memory than
    an eighth of `max_record_bytes`, and than 100 times its file.

    Args:
        options: The arguments of `open`; `spec` has the types of the call, see `common_spec`.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions) -> None:
        self._options = options
        opened = concurrent_map(_opened, files, local=all(file.local is not None for file in files))
        self._footers = [footer.metadata for footer, _ in opened]
        self._schemas = schemas = [footer.schema_arrow for footer, _ in opened]
        groups = [group for _, found in opened for group in found if group.n_records]
        lacking = {field.name for schema in schemas for field in schema if field.nullable}
        full = frozenset(lacking).intersection(*(group.full for group in groups))
        with damage_of_arrow(files[0], "the schema"):
            spec = common_spec(files, schemas, lacking - full, options.spec)
        block_rows = [[group.n_records for group in found] for _, found in opened]
        super().__init__(files, [spec], block_rows, sum(group.n_bytes for group in groups))
        self.default_types: Mapping[str, Type] = default_types(schemas, self.spec)

    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        stored = self.files[block.file]
        with damage_of_arrow(stored, f"row group {block.number}"):
            footer = self._footers[block.file]
            leaves = _leaves_of(self._schemas[block.file], fields)
            group = footer.row_group(block.number)
            columns = [(footer.schema.column(leaf), group.column(leaf)) for leaf in leaves]
            self._check_size(block, _bytes_of(columns, [of.total_uncompressed_size for _, of in columns]))
            is_small = stored.size <= _FEW_BYTES
            source = ColumnChunks(stored, [chunk for _, chunk in columns], str(footer.created_by))
            repeated = self._repeated(block, columns, source.found)
            file = _library().ParquetFile(
                source,
                metadata=footer,
                pre_buffer=False,
                page_checksum_verification=self._options.verify_checksums,
                read_dictionary=repeated,  # each text once, until their bytes are known
            )
            try:
                # Without the fields that the file lacks. Threads cost more than they save in small files.
                rows = file.read_row_group(block.number, list(fields), use_threads=not is_small)
            except NotImplementedError:  # a nested column has more than 2 GiB of text
                size = max(1, file.metadata.row_group(block.number).num_rows // _PARTS)
                parts = file.iter_batches(size, row_groups=[block.number], columns=list(fields))
                rows = pyarrow().Table.from_batches(list(parts))
            if rows.num_rows != group.num_rows:
                raise ValueError(f"{rows.num_rows} rows of {group.num_rows}")
            rows.validate(full=True)  # damaged offsets must not be followed
            self._check_size(block, bytes_of_repeated(rows.columns))
            rows = self._with_far_times(rows, block)
            return columns_of_arrow(rows, self.spec, fields)

    def _repeated(self, block: FileBlock, columns: Sequence[tuple[Any, Any]], chunks: Sequence[bytes]) -> list[str]:
        """Return the columns whose texts must be counted before they are decoded: a dictionary may repeat them."""
        pages = [
            pages_of(data, of.num_values) if leaf.physical_type == "BYTE_ARRAY" else None
            for (leaf, of), data in zip(columns, chunks, strict=True)
        ]
        sizes = [of.total_uncompressed_size for _, of in columns]  # numbers cost as much as the footer says
        self._check_size(
            block, _bytes_of(columns, [n if of is None else of.n_bytes for n, of in zip(sizes, pages, strict=True)])
        )
        most = self.files[block.file].most_decoded_bytes(self._options.max_record_bytes)
        texts = [(column, of) for column, of in zip(columns, pages, strict=True) if of is not None]
        names, share = [leaf.path for (leaf, _), _ in texts], most // max(1, len(texts))
        sizes = [repeated_bytes(found, of.compression, share) for (_, of), found in texts]
        if sum(sizes) <= most:
            return []
        known = list(zip(names, sizes, [found.is_plain for _, found in texts], strict=True))
        counted = [name for name, n, is_plain in known if n > share and is_plain and names.count(name) == 1]
        self._check_size(block, sum(n for name, n, _ in known if name not in counted))
        return counted

    def _check_size(self, block: FileBlock, n_bytes: int) -> None:
        part = f"row group {block.number}"
        check_decoded_size(self.files[block.file], part, n_bytes, self._options.max_record_bytes)

    def _with_far_times(self, rows: Any, block: FileBlock) -> Any:
        """Return the rows with timestamps of INT96 as text if some do not fit the nanoseconds as which pyarrow reads.

        Such a date, before 1677 or after 2262, is another date then, without an error.
        """
        footer, names = self._footers[block.file], rows.schema.names
        leaves = [footer.schema.column(at) for at in range(len(footer.schema) if rows.num_rows else 0)]
        stamps = [leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path in names]
        if not stamps:
            return rows
        compute, stored = importlib.import_module("pyarrow.compute"), self.files[block.file]
        file = _library().ParquetFile(FileObject(stored), metadata=footer, coerce_int96_timestamp_unit="us")
        coarse = file.read_row_group(block.number, stamps)
        for name in stamps:
            exact, text = coarse[name], pyarrow().string()
            fits = compute.equal(compute.floor_temporal(rows[name], unit="microsecond").cast(exact.type), exact)
            if compute.any(compute.invert(fits)).as_py():
                far = compute.binary_join_element_wise(exact.cast(text), "000", "")
                times = compute.if_else(fits, rows[name].cast(text), far)
                rows = rows.set_column(names.index(name), name, times)
        return rows

    def metadata(self) -> dict[str, str]:
        return {"created by": str(self._footers[0].created_by), "version": str(self._footers[0].format_version)}


def _opened(file: StoredFile) -> tuple[Any, list[RowGroup]]:
    """Return the footer as pyarrow has it, and the row groups."""
    footer = read_footer(file)
    file_of_footer = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
    with damage_of_arrow(file, "the footer"):
        opened = _library().ParquetFile(pyarrow().BufferReader(file_of_footer), arrow_extensions_enabled=True)
        return opened, row_groups(file, footer)


def _leaves_of(schema: Any, fields: Sequence[str]) -> list[int]:
    """Return the numbers of the columns that a file stores for fields: one, or several for structs."""
    owners = [field.name for field in schema for _ in range(_n_leaves(field.type))]
    return [number for number, owner in enumerate(owners) if owner in fields]


def _n_leaves(kind: Any) -> int:
    return sum(_n_leaves(kind.field(place).type) for place in range(kind.num_fields)) or 1


def _bytes_of(columns: Sequence[tuple[Any, Any]], sizes: Sequence[int]) -> int:
    """Return how many bytes columns of a row group have in memory at least, from their decompressed sizes."""
    widths = [_WIDTHS.get(leaf.physical_type) or leaf.length or _TEXT_BYTES for leaf, _ in columns]
    return sum(max(n, of.num_values * width) for n, (_, of), width in zip(sizes, columns, widths, strict=True))


def _library() -> Any:
    pyarrow()  # names the extra if it is missing
    return importlib.import_module("pyarrow.parquet")


def _misfit(name: str, kind: Type) -> SpecError | None:
    """Return the error of a field whose Arrow type Parquet cannot hold, such as decimals with a negative scale."""
    schema = StoredSchema(Spec({name: kind})).schema
    try:
        _library().ParquetWriter(pyarrow().BufferOutputStream(), schema).close()
    except (pyarrow().ArrowException, OSError) as error:
        remedy = Remedy("To write the column as it is read, pass {spec}.", spec={name: str(kind)})
        return SpecError(f"parquet cannot hold {kind.arrow_type}: {error}", field=name, remedy=remedy)
    return None


class ParquetWriter(TableWriter):
    """Writes one Parquet file, and a row group for each block."""

    def __init__(self, path: Path, schema: StoredSchema, compression: str, block_records: int | None) -> None:
        super().__init__(path, schema.stored, block_records)
        self._schema = schema
        self._writer = _library().ParquetWriter(
            self._file, self._schema.schema, compression=compression, write_page_checksum=True
        )

    def write_block(self, columns: Mapping[str, Column], n: int) -> None:
        self._writer.write_table(pyarrow().Table.from_batches([self._schema.batch(columns)]), row_group_size=n)

    def finish(self) -> None:
        self._writer.close()


class ParquetBackend(FieldsBackend):
    """Parquet."""

    name = "parquet"
    suffixes: tuple[str, ...] = (".parquet", ".pq")
    compressions: tuple[str, ...] = ("zstd", "snappy", "lz4", "gzip", "brotli")
    has_checked_header = True
    copies_records = False
    stores_full_spec = False
    stores_optional_fields = True

    def sniff(self, file: StoredFile) -> SniffResult:
        if file.pread(0, 4) != MAGIC:
            return SniffResult("no", "it does not begin with PAR1")
        if file.size < 12 or file.pread(file.size - 4, 4) != MAGIC:
            return SniffResult("damaged", "it does not end with PAR1")
        return SniffResult("yes")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> ParquetTable:
        return ParquetTable(files, options)

    def stored_type(self, type_: Type) -> Type:
        return stored_type(type_)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        stored = super().stored_spec(spec)
        kept = {name: kind for name, kind in stored.items() if kind.arrow_type is not None}
        if problems := [problem for name, kind in kept.items() if (problem := _misfit(name, kind))]:
            raise SpecError.of(problems)
        return stored

    def create(
        self,
        path: Path,
        *,
        stored: Spec,
        resume: bool = False,
        compression: str = "zstd",
        row_group_records: int | None = None,
        **_: Any,
    ) -> ParquetWriter:
        """Return a writer.

        Args:
            resume: The file begins anew: without its footer it cannot be read.
            compression: The codec of pages: `"zstd"`, `"snappy"`, `"lz4"`, `"gzip"`, `"brotli"` or `"none"`.
            row_group_records: Records of a row group; `None`: about 8 MiB of values.
        """
        return ParquetWriter(path, StoredSchema(stored), compression, row_group_records)


BACKEND = ParquetBackend()
