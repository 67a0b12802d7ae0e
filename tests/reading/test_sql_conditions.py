"""Which conditions in SQL are allowed, and how one ends."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats import RecordSource, UnknownNameError

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

from dataformats.interop import duckdb as conditions
from dataformats.interop.duckdb import matching
from dataformats.testing.loop_over import loop_over
from tests.waiting import LIMIT_S, wait_until

DOCS = Path(__file__).parents[2] / "docs"
SLOW = f"contains({'upper(lower(' * 20}s{'))' * 20}, 'zzz')"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordSource]:
    path = tmp_path_factory.mktemp("conditions") / "x.ffr"
    with dataformats.create(path, spec={"n": "int64", "s": "utf8", "tokens": "int64[]"}) as writer:
        writer.extend({"n": i, "s": f"text {i} " * 20, "tokens": [i, 7]} for i in range(2000))
    with dataformats.open(path) as source:
        yield source


@loop_over(
    "condition, message",
    [
        ("s collate nocase = 'a'", "has a collation"),
        ("default", "has a default"),
        ("tokens -> 1 = 7", r"has -> .* Parentheses help"),
        ("s->>'$..a' = '7'", "has ->> with a path"),
        ("len(s->'a') > 1", "json_array_length counts items"),
        ("n = $1", "has a parameter"),
        ("#1 = 3", "has a column by its position"),
        ("columns(*) = 3", "has .* or COLUMNS"),
        ("exists(select 1)", "has a subquery"),
        ("n in (select 1)", "has a subquery"),
        ("sum(n) over () > 1", "has a window"),
        ("grouping(n) = 1", "has GROUPING_FUNCTION"),
        ("try(n) = 1", "has OPERATOR_TRY"),
        ("s::json = '1'", "converts to"),
        ("[n]::varchar[]::varchar = '1'", "converts to list|calls list_value"),
        ("s::blob::bit::varchar = '1'", "converts to bit"),
        ("len(repeat(s, 1000000)) > 0", "calls repeat"),
        ("len(main.repeat(s, 1000000)) > 0", "calls repeat"),
        ("len(range(1000000000)) > n", "calls range"),
        ("bitstring('1', 2000000000) is null", "calls bitstring"),
        ("len(replace(s, 't', 'tttt')) > 0", "calls replace"),
        ("len(regexp_replace(s, '.', 'tttt', 'g')) > 0", "calls regexp_replace"),
        ("len(list_reduce([s, s], lambda x, y: x || x)) > 0", "calls list_reduce|calls list_value"),
        ("len(printf('%2000000000d', 1)) > 0", "calls printf"),
        ("len(lpad(s, 2000000000, 'x')) > 0", "calls lpad"),
        ("[[s]::varchar]::varchar = ''", "calls list_value"),
        ("s ~ s", "has a regular expression"),
        ("regexp_matches(s, '.{0,500}.{0,500}z')", "has a regular expression"),
        ("getenv('HOME') = ''", "calls getenv"),
        ("s.key = 'a'", "If text is JSON"),
    ],
)
def test_refused_conditions(source: RecordSource, condition: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        matching(source, condition)


def test_a_field_has_the_name_of_the_index(tmp_path: Path) -> None:
    """SQL does not tell `Record` from `record`."""
    with dataformats.create(tmp_path / "x.ffr", spec={"Record": "int64"}) as writer:
        writer.extend({"Record": 10 * i} for i in range(3))
    with dataformats.open(tmp_path / "x.ffr") as named:
        assert [found.tolist() for found in matching(named, "record = 10")] == [[1]]


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordSource]:
    path = tmp_path_factory.mktemp("nested") / "x.jsonl"
    records: list[Any] = [
        {"chat": [{"role": "user", "text": "a"}], "meta": {"source": "web", "n": 1}, "mix": 1},
        {"chat": [], "meta": {"source": None, "n": 2}, "mix": "a"},
        *[{"chat": None, "meta": None, "mix": [1]}] * 2000,
        {"chat": [{"role": "bot"}] * 3, "meta": {"source": "book", "n": 2.5}, "mix": None},
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    with dataformats.open(path) as source:
        yield source


@loop_over(
    "condition, expected",
    [
        ("len(chat) >= 1", [0, 2002]),
        ("chat[1].role = 'bot' or chat[-1].text = 'a'", [0, 2002]),
        ("meta.source = 'web' and (meta->>'n') is null", None),
        ("not (meta.source = 'web')", [2002]),
        ("meta.n > 1 and meta.n < 3", [1, 2002]),  # a later batch has the first float
        ("meta->>'source' = 'book'", [2002]),
        ("json_array_length(chat) = 3", [2002]),
        ("mix is null or meta.source is not null", [0, 2002]),
    ],
)
def test_nested_values(nested: RecordSource, condition: str, expected: list[int] | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="both before -> and without it"):
            matching(nested, condition)
    else:
        assert [number for part in matching(nested, condition) for number in part] == expected


@loop_over(
    "condition, message",
    [
        ("len(meta) > 1", "takes meta as one value, but it is an object"),
        ("chat like '%a%'", "takes chat as one value, but it is a list"),
        ("mix = 1", "it is a list or a number or text"),
        ("chat.role = 'user'", r"takes a part of chat, which is a list. A list has items, chat\[1\]"),
        ("meta[1] = 1", "takes a part of meta, which is an object"),
        ("meta.sorce = 'web'", "unknown key of meta 'sorce' .nearest: source"),
    ],
)
def test_refused_nested_values(nested: RecordSource, condition: str, message: str) -> None:
    with pytest.raises((ValueError, UnknownNameError), match=message):
        matching(nested, condition)


def test_docs_list_the_functions() -> None:
    table = (DOCS / "arrow.md").read_text("utf-8").partition("| functions | of |")[2].partition("\n\n")[0]
    listed = {name.replace("\\", "") for name in re.findall(r"`([^`]+)`", table)} - {
        "[...]",
        "ilike",
        "similar to",
        "like",
    }
    operators = {"~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
    assert conditions._FUNCTIONS - operators - {"ARRAY_SLICE"} == listed


def test_allowed_functions_exist() -> None:
    duckdb = pytest.importorskip("duckdb")
    names = conditions._FUNCTIONS - {
        "ARRAY_SLICE",
        "coalesce",
        "if",
        "ifnull",
        "->",
    }  # these are no functions for DuckDB
    query = "select distinct function_name from duckdb_functions() where function_type in ('scalar', 'macro')"
    assert names <= {name for (name,) in duckdb.sql(query).fetchall()}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "_CHUNK_BYTES", 500_000)


@pytest.mark.usefixtures("small_chunks")
def test_slow_condition_is_interrupted(source: RecordSource) -> None:
    with pytest.raises(TimeoutError, match=r"takes over 0\.001 s"):
        next(matching(source, SLOW, timeout_s=0.001))
    assert sum(map(len, matching(source, "n >= 0", timeout_s=60))) == 2000


class Endless:
    """The same batches again and again."""

    def __init__(self, *batches: Any) -> None:
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        pyarrow = pytest.importorskip("pyarrow")
        reader = pyarrow.RecordBatchReader.from_batches(self._batches[0].schema, itertools.cycle(self._batches))
        return reader.__arrow_c_stream__(requested_schema)


def test_canceled_condition_is_interrupted(source: RecordSource, monkeypatch: pytest.MonkeyPatch) -> None:
    found = matching(source, "contains(s, 'zzz')")
    monkeypatch.setattr(conditions, "_BatchStream", Endless)
    errors: list[BaseException] = []

    def search() -> None:
        try:
            list(found)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    wait_until(lambda: not (found._query._is_idle.is_set() and thread.is_alive()))
    found.cancel()
    thread.join(LIMIT_S)
    assert [type(error) for error in errors] == [CancelledError]
    found.close()
    found.cancel()  # it has ended


def test_parts_of_a_batch_are_computed_one_after_another(source: RecordSource, monkeypatch: pytest.MonkeyPatch) -> None:
    nested = "len(" + "lower(" * 20 + "S" + ")" * 20 + ") > 0 and n % 500 = 3"
    monkeypatch.setattr(conditions, "_CHUNK_BYTES", 100_000)
    assert [number for part in matching(source, nested) for number in part] == [3, 503, 1003, 1503]
    monkeypatch.setattr(conditions, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(conditions, "_RECORD_BYTES", 3000)
    with pytest.raises(ValueError, match=r"bytes of record \d+: at most 3000 are allowed"):
        next(matching(source, nested))
    assert len(next(matching(source, "len(lower(s)) > 0"))) > 0
    with pytest.raises(ValueError, match="bytes of record"):  # of constants alone
        next(matching(source, f"len({'lower(' * 20}'{'x' * 200}'{')' * 20}) > n"))
