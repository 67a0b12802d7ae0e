"""Sorts in the viewer: their order, their limits, and how they end."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import dataformats
from dataformats.reading.scan import scan_sound
from dataformats.testing.loop_over import loop_over
from dataformats.viewer import sorts
from tests.viewer.browser import DAMAGED, PHOTOS, Browser, finished
from tests.waiting import LIMIT_S

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

N = 300
SPEC = {
    "n": "int64?",
    "x": "float64?",
    "small": "float32",
    "word": "utf8?",
    "blob": "bytes",
    "flag": "bool",
    "many": "int64[]",
}


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    words = ["", "a", "ab", "é", "z", "\U0001f600", "\uffff", "a\0", 'quo"te', "line\nbreak"]
    made = []
    for index in range(N):
        record: dict[str, Any] = {"small": float(rng.integers(-3, 3)), "flag": bool(rng.integers(2)), "many": [index]}
        record["blob"] = bytes(rng.integers(0, 256, rng.integers(4), np.uint8))
        optional = {
            "n": int(rng.integers(-(2**63), 2**63 - 1)) >> int(rng.integers(64)),
            "word": words[rng.integers(10)],
        }
        optional["x"] = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, 2.5][rng.integers(7)]
        made.append(record | {name: value for name, value in optional.items() if rng.random() < 0.8})
    return made


@pytest.fixture(scope="module")
def browser(records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Browser:
    path = tmp_path_factory.mktemp("sorts") / "x.ffr"
    with dataformats.create(path, spec=SPEC) as writer:
        writer.extend(records)
    return Browser(path)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.reading.scan._SCAN_RECORDS", 16)


def started(browser: Browser, field: str, condition: str = "") -> int:
    found = browser(f"/secret/api/filter?condition={quote(condition)}", "POST").json["filter"] if condition else ""
    answer = browser(f"/secret/api/sort?field={browser.dataset.fields.index(field)}&filter={found}", "POST")
    assert answer.status == 200, answer.json
    number: int = answer.json["sort"]
    return number


def n_sorts() -> int:
    return [thread.name for thread in threading.enumerate()].count("sort")


def answer_of(browser: Browser, sort: int, descending: bool = False) -> Any:
    query = f"/secret/api/sort?sort={sort}&first=0&count=500&descending={1 if descending else ''}"
    return finished(lambda: browser(query).json, lambda found: found["done"])


def expected(records: list[dict[str, Any]], indices: list[int], field: str, descending: bool) -> list[int]:
    """Return the order by Python's own sort: numbers, then NaN, then missing values."""
    values: dict[int, Any] = {index: records[index].get(field) for index in indices}
    missing = [index for index in indices if values[index] is None]
    nan = [index for index in indices if values[index] is not None and values[index] != values[index]]
    others = [index for index in indices if index not in {*missing, *nan}]
    return sorted(others, key=values.__getitem__, reverse=descending) + nan + missing


@loop_over("descending", [False, True])
@loop_over("field", [name for name in SPEC if name != "many"])
@loop_over("condition", ["", "record % 3 = 1"])
def test_sorts_are_stable_with_missing_values_last(
    browser: Browser, records: list[dict[str, Any]], field: str, condition: str, descending: bool
) -> None:
    indices = list(range(1, N, 3)) if condition else list(range(N))
    found = answer_of(browser, started(browser, field, condition), descending)
    assert found["numbers"] == expected(records, indices, field, descending)
    assert found["found"] == len(indices)


def test_no_match_is_sorted(browser: Browser) -> None:
    assert answer_of(browser, started(browser, "n", "record < 0"))["numbers"] == []


def test_damaged_records_are_last() -> None:
    browser = Browser(DAMAGED)
    name = next(one["name"] for one in browser("/secret/api/dataset?facts=1").json["fields"] if one["ordered"])
    numbers = answer_of(browser, started(browser, name), True)["numbers"]
    assert numbers[-1] == 3
    assert sorted(numbers) == list(range(len(browser.dataset.source)))


def test_only_fields_with_an_order_are_offered(browser: Browser) -> None:
    facts = browser("/secret/api/dataset?facts=1").json["fields"]
    assert [one["name"] for one in facts if not one["ordered"]] == ["many"]
    answer = browser(f"/secret/api/sort?field={browser.dataset.fields.index('many')}", "POST")
    assert "numbers, text or bool" in answer.json["error"]["text"]
    assert browser("/secret/api/sort?field=99", "POST").status == 422
    photos = Browser(PHOTOS, spec={"image": "jpg", "name": "utf8"})("/secret/api/dataset?facts=1").json["fields"]
    assert [one["name"] for one in photos if not one["ordered"]] == ["image"]


def test_sorts_have_limits(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorts, "_MAX_BYTES", 100)
    assert "over 100 bytes to sort: filter first" in answer_of(browser, started(browser, "x"))["error"]["text"]
    monkeypatch.setattr(sorts, "_MAX_RECORDS", N - 1)
    assert "found 300: filter first" in answer_of(browser, started(browser, "x"))["error"]["text"]


def test_failed_filter_ends_its_sort(browser: Browser) -> None:
    assert "the filter did not end" in answer_of(browser, started(browser, "x", "no_field = 3"))["error"]["text"]


def test_canceled_sorts_end(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    going, read = threading.Event(), list[int]()

    def slow(*arguments: Any) -> Iterator[Any]:
        for batch in scan_sound(*arguments):
            read.append(len(batch))
            going.wait(LIMIT_S)
            yield batch

    monkeypatch.setattr(sorts, "scan_sound", slow)
    monkeypatch.setattr(sorts, "_WAIT", 0.001)
    first = started(browser, "x")
    far = finished(lambda: browser(f"/secret/api/sort?sort={first}").json, lambda far: far["total"])
    second = started(browser, "n")
    assert far == {"done": False, "read": 0, "total": N}
    for sort in (first, second):
        browser(f"/secret/api/sort?sort={sort}", "DELETE")
        assert browser(f"/secret/api/sort?sort={sort}").status == 422
    finished(n_sorts, lambda n: n == 1)  # the second one waits for the first, and ends
    going.set()
    finished(n_sorts, lambda n: n == 0)
    assert len(read) == 1
