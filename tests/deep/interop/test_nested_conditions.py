"""Conditions on nested JSON, compared with DuckDB over the same file."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats import RecordSource

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

import duckdb

from dataformats.interop.duckdb import matching

N_RECORDS = 80
N_CONDITIONS = 260

TEXT = [
    "meta.source",
    "meta.deep.name",
    "messages[1].role",
    "messages[-1].role",
    "tags[2]",
    "meta.tags[1]",
    "kinds[1].a",
]
NUMBER = ["meta.n", "meta.score", "messages[1].n", "meta.big", "grid[1][2]", "meta.ids[-1]", "meta['n']", "meta.deep.u"]
LISTS = ["messages", "tags", "meta.tags", "meta.ids", "grid", "grid[1]", "kinds", "meta.mixed"]
ANY = [*TEXT, *NUMBER, *LISTS, "meta", "meta.deep", "meta.ok", "messages[1]", "meta.either", "whole"]
ARROWS = [
    "meta->>'source' = 'web'",
    "meta->>'$.deep.name' < 'b'",
    "(meta->'n')::int > 3",
    "(meta->>'n')::int between 2 and 5",
    "messages->>'$[0].role' = 'user'",
    "(messages->0)->>'role' = 'user'",
    "messages->>'$[#-1].role' is null",
    "json_array_length(messages) > 2",
    "json_array_length(meta, '$.tags') = 1",
    "json_type(meta, '$.either') = 'ARRAY'",
    "json_exists(meta, 'ok')",
    "(meta->'ok') is null",
    "(meta->'ok')::bool",
    "meta is null or (meta->'n') is null",
    "meta->>'either' like '%x%'",
    "(whole->>'$') = '7'",
    "json_extract_string(messages, '$[1].role') <> 'user'",
    "json_extract(meta, 'n') is not null",
]


def value(rng: random.Random, *choices: Any) -> Any:
    """Return one of these, or null."""
    return rng.choice([*choices, None])


def record(rng: random.Random) -> dict[str, Any]:
    roles = ("user", "assistant", "", "système")
    messages = [
        {"role": value(rng, *roles), "n": value(rng, 0, 1, 2)} if rng.random() < 0.9 else {"role": "user"}
        for _ in range(rng.randrange(5))
    ]
    meta = {
        "source": value(rng, "web", "a'b", "Book", ""),
        "n": value(rng, -3, 0, 4, 5),
        "score": value(rng, 1, 0.5, -2.25, 1e30),
        "big": value(rng, 2**53 + 1, 2**62 + 9, -(2**62)),
        "ok": value(rng, True, False),
        "tags": value(rng, [], ["x"], ["y", None, "x"]),
        "ids": value(rng, [1, 2, 3], [-5], []),
        "mixed": value(rng, [1, "a"], [None], [{"k": 1}]),
        "either": value(rng, "x", ["x", "y"]),
        "deep": value(rng, {"name": "a", "u": 1}, {"name": "c"}, {"u": None}),
    }
    found = {
        "messages": value(rng, messages, messages, messages),
        "meta": value(rng, *[{key: one for key, one in meta.items() if rng.random() < 0.85}] * 8),
        "tags": value(rng, ["a", "b"], ["b", None], []),
        "grid": value(rng, [[1, 2], [3]], [[]], [[4, None]], []),
        "kinds": value(rng, [{"a": "b"}], [{"a": "a", "c": 1}, {}], []),
        "whole": value(rng, 7, "t", [7], {"a": 1}),
    }
    return {key: one for key, one in found.items() if rng.random() < 0.9}


def conditions(rng: random.Random) -> Iterator[str]:
    """Yield conditions that can be asked, over all types of values."""

    def simple() -> str:
        text, number, items = rng.choice(TEXT), rng.choice(NUMBER), rng.choice(LISTS)
        return rng.choice([
            f"{text} = '{rng.choice(['web', 'user', 'a', 'x', 'b'])}'",
            f"{text} <> {rng.choice(TEXT)}",
            f"{text} in ('user', 'Book', '')",
            f"lower({text}) like '%{rng.choice('aeo')}%'",
            f"coalesce({text}, 'none') >= 'n'",
            f"len({text}) > 3",
            f"{number} {rng.choice(['=', '<>', '<', '>='])} {rng.choice([0, 1, 2.5, -3, 9007199254740992])}",
            f"{number} between 1 and 4",
            f"{number} in (1, 4, 9223372036854775817)",
            f"{number} > {rng.choice(NUMBER)}",
            f"{number} % 2 = 0",
            f"{number} + record > 10",
            f"case when {number} is null then record % 3 = 0 else {number} > 1 end",
            f"len({items}) {rng.choice(['>', '=', '<='])} {rng.randrange(3)}",
            f"{rng.choice(ANY)} is {rng.choice(['null', 'not null'])}",
            rng.choice(["meta.ok", "not meta.ok", "meta.ok = false", "meta.ok is distinct from true"]),
            rng.choice(["list_contains(meta.tags, 'x')", "list_contains(tags, 'b')", "list_has_any(meta.tags, tags)"]),
            rng.choice(["list_max(meta.ids) > 1", "list_sum(meta.ids) = 6", "list_sum(grid[1]) > 2", "3 in meta.ids"]),
            "messages[record % 3 + 1].role = 'user'",
        ])  # fmt: skip

    for _ in itertools.repeat(None):
        yield simple()
        join, first, second = rng.choice(["and", "or"]), rng.choice(["", "not "]), rng.choice(["", "not "])
        yield f"{first}({simple()} {join} {second}({simple()}))"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nested") / "x.jsonl"
    rng = random.Random(5)
    path.write_text("".join(json.dumps(record(rng)) + "\n" for _ in range(N_RECORDS)), "utf-8")
    return path


@pytest.fixture(scope="module")
def source(path: Path) -> Iterator[RecordSource]:
    # `json`, as for a field with one record of another type; `tags` would be `utf8[]` otherwise
    names = ("messages", "meta", "tags", "grid", "kinds", "whole")
    with dataformats.open(path, spec=dict.fromkeys(names, "json?")) as source:
        yield source


@pytest.fixture(scope="module")
def tables(path: Path, source: RecordSource) -> Iterator[Any]:
    """Tables of DuckDB: `typed` as it reads the file, and `texts` of JSON."""
    columns = ", ".join(f"{name}: 'JSON'" for name in source.spec)
    options = {"typed": "sample_size=-1, map_inference_threshold=-1", "texts": f"columns={{{columns}}}"}
    with duckdb.connect(":memory:") as connection:
        for name, option in options.items():
            rows = f"select *, row_number() over () - 1 as record from read_json('{path}', {option})"
            connection.execute(f"create table {name} as {rows}")
        yield connection


def check(source: RecordSource, tables: Any, table: str, condition: str) -> None:
    rows = tables.execute(f"select record from {table} where {condition} order by record").fetchall()
    found = [int(number) for part in matching(source, condition) for number in part]
    assert found == [number for (number,) in rows], condition


def test_answers_of_typed_values(source: RecordSource, tables: Any) -> None:
    for condition in itertools.islice(conditions(random.Random(7)), N_CONDITIONS):
        check(source, tables, "typed", condition)


def test_answers_of_json(source: RecordSource, tables: Any) -> None:
    for condition in ARROWS:
        check(source, tables, "texts", condition)
        check(source, tables, "texts", f"not ({condition})")
