"""Reads the rows of a table of SQLite by sqlite3. A block is the rows between two rowids."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats import FormatError, Spec, SpecError, Type
from dataformats import interfaces as df

BLOCK_BYTES = 2**18
# Parts of the names of types, from "Datatypes In SQLite", 3.1; columns of other types are read as bytes.
KINDS = {"INT": "int64", "CHAR": "utf8", "TEXT": "utf8", "REAL": "float64", "FLOA": "float64", "DOUB": "float64"}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def type_of(declared: str, optional: int) -> Type:
    with suppress(SpecError):
        kind = Type.parse(declared + "?" * optional)
        if kind.dtype is not None:
            return kind
    known = [kind for part, kind in KINDS.items() if part in declared.upper()]
    return Type.parse([*known, "bytes"][0] + "?" * optional)


@contextmanager
def database(file: df.StoredFile, max_bytes: int) -> Iterator[sqlite3.Connection]:
    """Open a database for one read. It is read whole, into memory, if it is not on the local disk."""
    path = f"{Path(file.local).absolute().as_uri()}?mode=ro" if file.local else ":memory:"
    with df.damage_of(file, (sqlite3.Error, UnicodeError)), closing(sqlite3.connect(path, uri=True)) as db:
        if not file.local:
            db.deserialize(file.read_all(max_bytes))
        db.text_factory = lambda text: text.decode(errors="surrogateescape")
        yield db
        file.pread(0, 1)  # raises if the file was replaced


class SqliteTable(df.FilesTable):
    """The rows of the tables of one name in some databases."""

    def __init__(self, files: Sequence[df.StoredFile], table: str, max_bytes: int) -> None:
        self._table, self._max_bytes, self._ids = quoted(table), max_bytes, list[NDArray[np.int64]]()
        specs, blocks = list[Spec](), list[list[int]]()
        for file in files:
            with database(file, max_bytes) as db:
                page = db.execute("pragma page_size").fetchone()[0]
                if file.size % page:  # SQLite reads zeros behind the end
                    raise FormatError("cut in a page", path=file.name, expected=f"{page} bytes", found=file.size % page)
                columns = 'select name, type, "notnull" + pk = 0 from pragma_table_info(?)'
                specs.append(Spec({name: type_of(*facts) for name, *facts in db.execute(columns, (table,))}))
                if not specs[-1]:
                    raise FormatError(f"no table {table!r}", path=file.name, remedy="Pass table=")
                rows = db.execute(f"select _rowid_ from {self._table} order by _rowid_")
                ids = np.fromiter((row[0] for row in islice(rows, file.size)), np.int64)  # damage may repeat rows
            step = 1 + len(ids) * (BLOCK_BYTES if file.local else file.size) // file.size
            blocks.append([min(step, len(ids) - first) for first in range(0, len(ids), step)])
            self._ids.append(ids)
        super().__init__(files, specs, blocks, sum(file.size for file in files))

    def read_rows(self, block: df.FileBlock, fields: Sequence[str]) -> Mapping[str, df.Column]:
        file, ids = self.files[block.file], self._ids[block.file][block.first : block.end].tolist()
        names = ", ".join(["_rowid_", *map(quoted, fields)])
        wanted = f"select {names} from {self._table} where _rowid_ between ? and ? order by _rowid_"
        with database(file, self._max_bytes) as db:
            rows = db.execute(wanted, (ids[0], ids[-1])).fetchmany(len(ids) + 1)
        if [row[0] for row in rows] != ids:
            raise FormatError("other rows than when it was opened", path=file.name, expected=len(ids), found=len(rows))
        return self.columns_of_rows([row[1:] for row in rows], fields)
