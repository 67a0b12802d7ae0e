"""Reads and writes tables of SQLite."""

from collections.abc import Sequence
from pathlib import Path

from dataformats import Spec, Type
from dataformats import interfaces as df
from dataformats_sqlite.table import SqliteTable
from dataformats_sqlite.writer import SqliteWriter


class SqliteBackend(df.FieldsBackend):
    """Databases of SQLite; the records are the rows of one of their tables."""

    name, suffixes = "sqlite", (".sqlite", ".sqlite3", ".db")
    has_checked_header = stores_optional_fields = True
    copies_records = stores_full_spec = False

    def sniff(self, file: df.StoredFile) -> df.SniffResult:
        return df.SniffResult.of_magic(file, b"SQLite format 3\0")

    def open(
        self, files: Sequence[df.StoredFile], options: df.ReaderOptions, *, table: str = "records", **_: object
    ) -> df.BlockTable:
        return df.open_table_union(files, lambda some: SqliteTable(some, table, options.max_record_bytes), options)

    def stored_type(self, type_: Type) -> Type:
        kind = super().stored_type(type_)
        return kind if kind.dtype is not None or kind.codec == "utf8" else Type("bytes", optional=kind.optional)

    def create(self, path: Path, *, stored: Spec, resume: bool = False, **_: object) -> SqliteWriter:
        return SqliteWriter(path, stored)


BACKEND = SqliteBackend()
