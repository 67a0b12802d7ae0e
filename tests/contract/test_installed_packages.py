"""The packages of docs/extending.md, installed as other people's: their formats are found by entry point."""

from __future__ import annotations

import ast
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import FormatError
from dataformats.registry import backends
from dataformats.testing.loop_over import loop_over
from tests.examples import EXAMPLES, install_examples, needs_examples

pytestmark = needs_examples
installed = install_examples("dataformats_rows", "dataformats_sqlite")


PROGRAM = """
import json, sys
import dataformats
from dataformats.registry import backends

rows, sqlite = sys.argv[1:]
assert not {"dataformats_rows", "dataformats_sqlite"} & set(sys.modules)
with dataformats.create(rows, "rows", spec={"n": "int64", "text": "utf8?"}) as writer:
    writer.extend({"n": n} if n % 3 else {"n": n, "text": str(n)} for n in range(10))
copied = dataformats.convert(rows, sqlite, "sqlite").records
source = dataformats.open(sqlite)
batches = [batch["n"].tolist() for batch in dataformats.Loader(source.select(["n"]), 4, shuffle=False)]
print(json.dumps([copied, dataformats.open(rows).format, source.format, source[3], source[4], batches[:2]]))
"""


@pytest.mark.parametrize("name", ["rows", "sqlite"])
def test_installed_format_is_found_by_entry_point(name: str) -> None:
    assert name in list(backends)
    assert backends.package_of(name) == f"dataformats-{name}"
    assert not backends.shipped(name)


def test_new_process_finds_installed_formats(tmp_path: Path) -> None:
    run = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.rows"), str(tmp_path / "a.sqlite")]
    done = subprocess.run(run, env=os.environ, capture_output=True, encoding="utf-8", check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    expected = [10, "rows", "sqlite", {"n": 3, "text": "3"}, {"n": 4}, [[0, 1, 2, 3], [4, 5, 6, 7]]]
    assert json.loads(done.stdout) == expected


def lines_of_code(path: Path) -> int:
    """Count lines that are not blank, and no comment or docstring."""
    text = path.read_text("utf-8")
    without = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            without |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return sum(1 for number, line in lines if line and not line.startswith("#") and number not in without)


def test_page_states_lines_of_each_module() -> None:
    page = (EXAMPLES.parent / "docs" / "extending.md").read_text("utf-8")
    stated = {path: int(n) for path, n in re.findall(r"\]\(\.\./examples/(\S+\.py)\) \((\d+) lines\)", page)}
    counted = {name: lines_of_code(EXAMPLES / name) for name in stated}
    assert stated == counted
    modules = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("dataformats_*/**/*.py")}
    assert modules <= {*stated}
    assert max(counted[name] for name in modules) <= 60


# ---- databases of other programs


def make_database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def test_database_of_another_program(tmp_path: Path) -> None:
    path = make_database(
        tmp_path / "photos.db",
        'create table "my photos" (id integer primary key, name varchar(20) not null, size double, "a ""b" blob, n)',
        """insert into "my photos" values (7, 'é', 0.5, x'00ff', null), (9, '', 2, null, x'01')""",
    )
    source = dataformats.open(path, table="my photos")
    assert source.spec == {"id": "int64", "name": "utf8", "size": "float64?", 'a "b': "bytes?", "n": "bytes?"}
    assert list(source) == [
        {"id": 7, "name": "é", "size": 0.5, 'a "b': b"\0\xff"},
        {"id": 9, "name": "", "size": 2.0, "n": b"\1"},
    ]
    with pytest.raises(FormatError, match="no table 'records'") as caught:
        dataformats.open(path)
    assert caught.value.path == str(path)


def test_values_of_other_types_fail_alone(tmp_path: Path) -> None:
    path = make_database(
        tmp_path / "a.db",
        "create table records (n int not null, t text not null)",
        "insert into records values (1, 'a'), ('two', 'b'), (3, cast(x'ff' as text)), (4.5, 'd'), (5, 'e')",
    )
    source = dataformats.open(path)
    batch = source.read(range(5), on_corrupt="omit")
    assert batch["n"].tolist() == [1, 5]
    assert sorted(batch.failed) == [1, 2, 3]
    with pytest.raises(dataformats.DataFormatsError, match=f"record 1 of {str(path)!r}"):
        source[1]


def test_blocks_of_many_rows(tmp_path: Path) -> None:
    """Gaps between rowids, several blocks, several files."""
    numbers = "with recursive r(i) as (select 0 union all select i + 1 from r where i < 4999)"
    for name in "ab":
        make_database(
            tmp_path / f"{name}.db",
            "create table records (i int not null, t text not null)",
            f"insert into records {numbers} select i, printf('%.200c', 'x') || i from r",
            "delete from records where i % 5 = 2",
        )
    kept = [i for i in range(5000) if i % 5 != 2] * 2
    source = dataformats.open([tmp_path / "a.db", tmp_path / "b.db"])
    assert source.block_starts is not None
    assert len(source.block_starts) > 4
    order = np.random.default_rng(0).permutation(len(kept))
    batch = source.read(order)
    assert batch["i"].tolist() == [kept[row] for row in order]
    assert batch["t"][3] == "x" * 200 + str(kept[order[3]])


@loop_over("damage", ["without rowid", "schema", "no records", "version", "cycle", "cut"])
def test_unusual_databases(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "a.db"
    options = "without rowid" if damage == "without rowid" else ""
    values = ", ".join(f"({i}, hex(zeroblob(100)))" for i in range(500))
    insert = [] if damage == "no records" else [f"insert into records values {values}"]
    make_database(path, f"create table records (i integer primary key, t text) {options}", *insert)
    whole = path.read_bytes()
    page = 4096
    changed = {
        "schema": whole.replace(b"records", b"re\xffords"),
        "version": whole[:18] + b"\3\3" + whole[20:],  # an unknown version of the format
        "cycle": whole[: page + 8] + bytes([0, 0, 0, 2]) + whole[page + 12 :],  # the last child of the root is the root
        "cut": whole[: -page - 7],
    }
    path.write_bytes(changed.get(damage, whole))
    if damage == "no records":
        assert len(dataformats.open(path)) == 0
        return
    with pytest.raises(FormatError, match=re.escape(str(path))):
        dataformats.open(path)
