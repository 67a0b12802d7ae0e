"""Writes the rows of a table of SQLite by sqlite3."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dataformats import RecordBatch, Spec, Type
from dataformats import interfaces as df
from dataformats_sqlite.table import quoted

BLOBS = ("bool", "uint64", "float128")  # numbers that SQLite lacks


def cell_of(kind: Type, value: Any) -> Any:
    """Return the value of a cell. Arrays are BLOBs of their bytes, and so is NaN, which SQLite stores as NULL."""
    if value is None or kind.dtype is None or (not kind.dims and kind.codec not in BLOBS and not np.isnan(value)):
        return value
    return np.asarray(value, kind.dtype).tobytes()


class SqliteWriter(df.TableWriter):
    """Writes one database with the table `records`. Columns have the names of number types, or TEXT, or BLOB."""

    def __init__(self, path: Path, stored: Spec) -> None:
        super().__init__(path, stored)
        self._stored, columns = stored, list[str]()
        for name, kind in stored.items():
            declared = {"utf8": "TEXT", "bytes": "BLOB"}.get(kind.codec, quoted(str(kind.required)))
            columns.append(f"{quoted(name)} {declared} {'' if kind.optional else 'not null'}")
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.executescript("pragma journal_mode = off; pragma synchronous = off")
        self._db.execute(f"create table records ({', '.join(columns)})")

    def write_block(self, columns: Mapping[str, df.Column], n: int) -> None:
        records = RecordBatch(columns, np.arange(n))
        rows = ([cell_of(kind, record.get(name)) for name, kind in self._stored.items()] for record in records)
        self._db.executemany(f"insert into records values ({', '.join('?' * len(self._stored))})", rows)

    def finish(self) -> None:
        self._db.commit()
        self._db.close()
