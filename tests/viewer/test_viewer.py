"""The viewer without a browser: its answers, and whom it answers."""

from __future__ import annotations

import base64
import json
import math
import os
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats.display.cells import DETAIL, TABLE, cell
from dataformats.reading.file_source import FileSource
from dataformats.reading.stats import scan_stats
from dataformats.testing.loop_over import loop_over
from dataformats.viewer.field_scan import FieldScan
from dataformats.viewer.recent import Recent
from dataformats.viewer.run import ViewedRun
from tests.viewer.browser import DAMAGED, PHOTOS, Browser, finished
from tests.waiting import LIMIT_S


@pytest.fixture(scope="module")
def photos() -> Browser:
    return Browser(PHOTOS)


def test_only_the_token_and_names_of_this_machine_are_answered(photos: Browser) -> None:
    assert photos("/secret/").status == 200
    assert photos("/secret/", host="localhost:99").status == 200
    for path in (
        "/",
        "/wrong/",
        "/secre/",
        "/wrong/api/dataset",
        "/static/main.js",
        "/favicon.ico",
        "//secret/",
        "/sécret/",
        "*",  # the target of an OPTIONS request
    ):
        assert photos(path).status == 404, path
    for host in (
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "evil.example",
        "[::1]:8080",
        "127.0.0.1:8080@evil.example",
        "",
    ):
        assert photos("/secret/", host=host).status == 403, host
    assert photos("/secret/", host=["127.0.0.1:8080", "evil.example"]).status == 403
    assert photos("/secret").headers["location"] == "/secret/"


def test_every_answer_is_protected(photos: Browser) -> None:
    paths = ("/secret/", "/secret/static/main.js", "/secret/api/dataset", "/secret/value/0/1", "/secret/none", "/wrong")
    for headers in (photos(path).headers for path in paths):
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


@loop_over("path", ["..%2fapp.py", "../app.py", "%2e%2e/app.py", "static", "index.html/../../app.py"])
def test_no_request_opens_a_file(photos: Browser, path: str) -> None:
    assert photos(f"/secret/static/{path}").status == 404


def test_facts_and_records(photos: Browser) -> None:
    facts = photos("/secret/api/dataset?facts=1").json
    assert (facts["format"], facts["records"], facts["state"]) == ("tfrecord", 12, "ready")
    assert [field["name"] for field in facts["fields"]] == ["height", "image", "name", "width"]
    rows = photos("/secret/api/records?numbers=11,0,99&fields=2,1,99").json["rows"]
    assert [row["record"] for row in rows] == [11, 0]
    name, image = rows[1]["cells"]
    assert (name["kind"], name["text"]) == ("text", "astronaut")
    assert (image["kind"], image["name"], image["width"]) == ("image", "JPEG", 320)


def test_the_first_records_are_shown_before_the_index_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    index = threading.Event()
    monkeypatch.setattr("dataformats.reading.blob_source._DECODED_RECORDS", 1)
    monkeypatch.setattr(FileSource, "__len__", lambda source: 12 if index.wait(LIMIT_S) else 0)
    browser = Browser(PHOTOS, ready=False)
    rows = browser("/secret/api/records?numbers=0,11&fields=3").json["rows"]
    assert [row["record"] for row in rows] == [0, 11]
    assert browser("/secret/api/dataset").json["state"] == "indexing"
    assert browser("/secret/value/11/2").body == b"gravel"
    assert browser("/secret/value/12/2").status == 422
    index.set()
    assert browser.dataset.wait(LIMIT_S)


def test_statistics_and_damage_of_all_records() -> None:
    browser = Browser(DAMAGED)
    found = finished(lambda: browser("/secret/api/statistics?fields=0").json, lambda found: found["state"] == "done")
    assert found["done"] == found["total"]
    assert [one["record"] for one in found["failed"]["records"]] == [3]
    assert found["fields"]["0"]["count"] == found["total"] - 1


def test_stopped_statistics_are_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.viewer.field_scan._SMALL", 0)  # it scans if it is asked to
    browser, going = Browser(PHOTOS), threading.Event()

    def scan_when_told(source: Any, names: Any) -> Iterator[Any]:
        going.wait(LIMIT_S)
        yield from scan_stats(source, names)

    monkeypatch.setattr("dataformats.viewer.field_scan.scan_stats", scan_when_told)
    browser("/secret/api/statistics?fields=0&run=1", "POST")
    browser("/secret/api/statistics?fields=0", "POST")
    going.set()
    finished(lambda: browser("/secret/api/statistics?fields=0").json, lambda found: found["state"] == "stopped")
    browser("/secret/api/statistics?fields=0&run=1", "POST")
    assert browser("/secret/api/statistics?fields=0").json["state"] in ("running", "done")


def test_common_values_are_conditions_in_quotes(tmp_path: Path) -> None:
    matching = pytest.importorskip("dataformats.interop.duckdb").matching
    with dataformats.create(tmp_path / "x.syr", spec={"a word": "utf8"}) as writer:
        writer.extend({"a word": word} for word in ("it's", "its"))
    browser = Browser(tmp_path / "x.syr")
    statistics = finished(
        lambda: browser("/secret/api/statistics?fields=0").json, lambda found: found["state"] == "done"
    )
    found = {one["text"]: one["where"] for one in statistics["fields"]["0"]["common"]}
    assert next(matching(browser.dataset.source, found["it's"])).tolist() == [0]


def test_bars_of_histograms_are_conditions(tmp_path: Path) -> None:
    matching = pytest.importorskip("dataformats.interop.duckdb").matching
    rng = np.random.default_rng(2)
    spec = {
        "id": "int64",
        "a b": "int64",
        "order": "float32?",
        "x": "float64",
        "flag": "bool",
        "word": "utf8",
        "blob": "bytes",
    }
    with dataformats.create(tmp_path / "x.ffr", spec=spec | {"many": "int64[]", "fixed": "int64[2]"}) as writer:
        for index in range(500):
            record: dict[str, Any] = {
                "id": 2**62 + index,
                "a b": int(rng.integers(2**62)),
                "x": float(rng.normal() * 1e-7),
            }
            record |= {"flag": bool(index % 3), "word": "é" * int(rng.integers(9)), "blob": bytes(rng.integers(300))}
            record |= {"many": [1] * int(rng.integers(7)), "fixed": [index, 2]}
            if index % 4:
                record["order"] = [float("nan"), float("inf"), 0.1, float(rng.normal())][min(index % 40, 3)]
            writer.append(record)
    browser = Browser(tmp_path / "x.ffr")
    query = f"/secret/api/statistics?fields={','.join(map(str, range(len(browser.dataset.fields))))}"
    statistics = finished(lambda: browser(query).json, lambda found: found["state"] == "done")
    for field, name in enumerate(browser.dataset.fields):
        bins = statistics["fields"][str(field)]["histogram"]
        assert (bins.get("measure") is None) == (name in ("fixed", "id"))
        for first, last in ((0, 0), (1, len(bins["counts"]) - 1)) if name not in ("fixed", "id") else ():
            condition = (
                f"{bins['measure']} >= {bins['bounds'][first]} and {bins['measure']} < {bins['bounds'][last + 1]}"
            )
            found = sum(map(len, matching(browser.dataset.source, condition)))
            assert found == sum(bins["counts"][first : last + 1]), condition


def test_filters_give_numbers_of_records_and_errors(photos: Browser) -> None:
    pytest.importorskip("duckdb")

    def matches(condition: str) -> Any:
        number = photos(f"/secret/api/filter?condition={quote(condition)}", "POST").json["filter"]
        return finished(
            lambda: photos(f"/secret/api/filter?filter={number}&first=0&count=9").json, lambda found: found["done"]
        )

    statistics = finished(
        lambda: photos("/secret/api/statistics?fields=2,3").json, lambda found: found["state"] == "done"
    )
    (only,) = (one for one in statistics["fields"]["3"]["common"] if one["text"] == "267")
    assert matches(only["where"])["numbers"] == [7]
    (coffee,) = (one for one in statistics["fields"]["2"]["common"] if one["text"] == "coffee")
    assert matches(coffee["where"])["numbers"] == [2]
    assert matches("record > 3")["left_out"] == 0
    assert "widht" in matches("widht > 3")["error"]["text"]
    assert matches("width >")["error"]["text"].startswith("the condition 'width >' does not parse")
    assert matches("width in (select 1)")["numbers"] == []
    assert photos(f"/secret/api/filter?condition={'1' * 10_001}", "POST").status == 422


def test_filters_count_damaged_records() -> None:
    pytest.importorskip("duckdb")
    browser = Browser(DAMAGED)
    number = browser("/secret/api/filter?condition=record>=0", "POST").json["filter"]
    found = finished(lambda: browser(f"/secret/api/filter?filter={number}").json, lambda found: found["done"])
    assert (found["found"], found["left_out"]) == (len(browser.dataset.source) - 1, 1)


def test_newer_filters_cancel_older_ones(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    canceled: list[str] = []
    monkeypatch.setattr("dataformats.interop.duckdb.Matches.cancel", lambda found: canceled.append(str(found)))
    monkeypatch.setattr("dataformats.viewer.filters._MAX_MATCHES", 3)
    filters = [photos("/secret/api/filter?condition=record>=0", "POST").json["filter"] for _ in range(5)]
    found = finished(lambda: photos(f"/secret/api/filter?filter={filters[4]}").json, lambda found: found["done"])
    assert found["is_cut"]
    assert [photos(f"/secret/api/filter?filter={number}").status for number in filters[:2]] == [422, 200]
    finished(lambda: canceled, bool)


def test_slow_filter_is_interrupted(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr("dataformats.viewer.filters._TIMEOUT_S", 0.0)
    condition = quote("upper(" * 90 + "decode(name)" + ")" * 90 + " = 'A'")
    number = photos(f"/secret/api/filter?condition={condition}", "POST").json["filter"]
    found = finished(lambda: photos(f"/secret/api/filter?filter={number}").json, lambda found: found["done"])
    assert found["error"]["type"] == "TimeoutError"


@loop_over(
    "path",
    [
        *("value/99999/0", "value/-1/0", f"value/{10**30}/0", f"value/{'9' * 5000}/0", "value/0/99", "value/0/-1"),
        *("thumbnail/x/0", "api/filter?filter=999", "api/filter?filter=x"),
    ],
)
def test_wrong_requests_are_answered_in_words(photos: Browser, path: str) -> None:
    answer = photos(f"/secret/{path}")
    assert answer.status == 422
    assert b"a bug" not in answer.body


def test_numbers_of_rows_and_sizes_of_thumbnails_are_limited(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.viewer.app._MAX_ROWS", 2)
    monkeypatch.setattr("dataformats.viewer.app._MAX_SIDE", 64)
    rows = photos("/secret/api/records?numbers=0,1,2&fields=0").json["rows"]
    assert [row["record"] for row in rows] == [0, 1]
    assert max(Image.open(BytesIO(photos("/secret/thumbnail/0/1?size=300").body)).size) == 64


def test_missing_values_are_marked(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord", spec={"n": "int64?"}) as writer:
        writer.extend([{"n": 5}, {}])
    rows = Browser(tmp_path / "x.tfrecord")("/secret/api/records?numbers=0,1&fields=0").json["rows"]
    assert [row["cells"][0]["kind"] for row in rows] == ["number", "missing"]


def test_damaged_records_are_marked_among_sound_ones() -> None:
    rows = Browser(DAMAGED)("/secret/api/records?numbers=2,3,4&fields=0").json["rows"]
    assert [row["record"] for row in rows] == [2, 3, 4]
    assert ["error" in row for row in rows] == [False, True, False]
    assert rows[1]["error"]["type"] == "ChecksumError"
    assert "at byte 368" in rows[1]["error"]["text"]


def test_values_never_run(photos: Browser) -> None:
    thumbnail = photos("/secret/thumbnail/0/1?size=64")
    assert (thumbnail.status, thumbnail.headers["content-type"]) == (200, "image/jpeg")
    whole = photos("/secret/value/0/1")
    assert whole.headers["content-type"] == "image/jpeg"
    assert whole.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in whole.headers["content-security-policy"]
    part = photos("/secret/value/0/1", range="bytes=10-19")
    assert (part.status, part.body) == (206, whole.body[10:20])
    assert photos("/secret/value/0/1", range="bytes=19-10").status == 200
    for open_range in ("bytes=10-99999999", "bytes=10-"):
        rest = photos("/secret/value/0/1", range=open_range)
        assert rest.headers["content-range"] == f"bytes 10-{len(whole.body) - 1}/{len(whole.body)}"
        assert rest.body == whole.body[10:]
    assert photos("/secret/value/0/2").headers["content-type"] == "application/octet-stream"
    assert photos("/secret/value/99/1").status == 422


def test_items_of_a_list(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord", spec={"words": "utf8[]"}) as writer:
        writer.append({"words": ["first", "second"]})
    browser = Browser(tmp_path / "x.tfrecord")
    assert [browser(f"/secret/value/0/0?item={item}").body for item in range(2)] == [b"first", b"second"]
    assert browser("/secret/value/0/0?item=2").status == 422


def test_pictures_in_documents(tmp_path: Path) -> None:
    pictures = [dataformats.open(PHOTOS)[index]["image"] for index in range(5)]
    lengths = [bytes([len(one) & 127 | 128, len(one) >> 7 & 127 | 128, len(one) >> 14]) for one in pictures]
    message = b"".join(b"\x22" + length + one for length, one in zip(lengths, pictures, strict=True))
    for payload, document in (("msgpack", {"views": [{"file": one} for one in pictures]}), ("bytes", message)):
        with dataformats.create(tmp_path / payload, "tfrecord", payload=payload) as writer:
            writer.append(document)
        browser = Browser(tmp_path / payload)
        (shown,) = browser("/secret/api/records?numbers=0&fields=0").json["rows"][0]["cells"]
        assert [item["kind"] for item in shown["items"]] == ["image"] * 3
        assert browser("/secret/value/0/0?item=4").body == pictures[4]
        assert browser("/secret/thumbnail/0/0?item=4&size=64").body.startswith(b"\xff\xd8\xff")
    assert any("media inside" in note for note in dataformats.info(tmp_path / "bytes").notes)


@loop_over(
    "value, kind",
    [
        (b"<script>alert(1)</script>", "text"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "text"),
        (b"\xff\xd8\xff" + b"<script>" * 9, "image"),
        (bytes(range(256)), "bytes"),
        ("x" * 10**7, "text"),
        ("\ud800", "text"),
        (np.zeros((8, 8), np.uint8), "image"),
        (np.zeros((3, 2, 2), np.float32), "array"),
        (np.full((40, 40), np.nan), "array"),
        (np.arange(10**6), "array"),
        (np.zeros((0, 3)), "array"),
        (np.array(["a", "b"]), "array"),
        (np.float32(0.1), "number"),
        (2**70, "number"),
        (float("inf"), "number"),
        ([b"a", b"bc"], "list"),
        ({"a": [1, {"b": None}]}, "json"),
        ([], "json"),
        ({b"key": float("nan"), 3: np.zeros(3)}, "json"),
        ([[1.5] * 1000] * 1000, "json"),
        (None, "null"),
    ],
)
def test_cells_are_bounded(value: Any, kind: str) -> None:
    for limits, most in ((TABLE, 3000), (DETAIL, 250_000)):
        made = cell(value, limits)
        assert made["kind"] == kind
        assert len(json.dumps(made, allow_nan=False)) < most


def test_charts_of_the_widest_range() -> None:
    """A difference of two float64 may be infinite."""
    grid = np.array([[1.7e308, -1.7e308]] * 2)
    high, low = cell(grid[0], TABLE)["line"]
    assert math.isfinite(high - low)
    assert base64.b64decode(cell(grid, TABLE)["map"]["levels"]) == b"\xff\0\xff\0"


def test_changed_file_is_reported_and_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "photos.tfrecord"
    copy.write_bytes(PHOTOS.read_bytes())
    browser = Browser(copy)
    assert browser("/secret/api/dataset").json["changed"] is None
    copy.write_bytes(DAMAGED.read_bytes())
    assert browser("/secret/api/dataset").json["changed"] == str(copy)
    ended: list[str] = []
    monkeypatch.setattr(FieldScan, "stop", lambda scan: ended.append("scan"))
    monkeypatch.setattr(Recent, "stop", lambda tasks: ended.append(tasks._noun))
    monkeypatch.setattr(browser.dataset.source, "close", lambda: ended.append("source"))
    browser("/secret/api/open", "POST")
    assert ended == ["scan", "filter", "sort", "download", "source"]
    assert browser("/secret/api/dataset?facts=1").json["changed"] is None
    os.utime(copy, ns=(1, 1))
    assert browser("/secret/api/dataset").json["changed"] == str(copy)


def test_steps_of_a_run_have_ranks_and_positions(photos: Browser) -> None:
    loader = dataformats.Loader(dataformats.open(PHOTOS), 2, world_size=2, seed=5)
    loader.advance(2)
    browser = Browser(PHOTOS, run=ViewedRun(loader.state_dict(), None))
    assert browser("/secret/api/dataset?facts=1").json["has_run"] is True
    for query, number in (("", 1), ("?step=0", 0), ("?step=4", 4)):
        step = browser(f"/secret/api/step{query}").json
        assert step["step"] == number
        assert step["records"] == [[one.rank, one.position, one.index] for one in loader.trace(number)]
    assert step["fingerprint"] == loader.state_dict()["fingerprint"]
    browser("/secret/api/open", "POST")
    assert browser("/secret/api/step").json["step"] == 1
    assert Browser(PHOTOS, run=ViewedRun(loader.state_dict(), 3))("/secret/api/step").json["step"] == 3

    assert photos("/secret/api/dataset?facts=1").json["has_run"] is False
    assert photos("/secret/api/step").status == 422
    other = Browser(DAMAGED, run=ViewedRun(loader.state_dict(), None))("/secret/api/step")
    assert "fingerprint of the first 12 records differs" in other.json["error"]["text"]
    assert (
        "not an unchanged result"
        in Browser(PHOTOS, run=ViewedRun({"version": 1}, 0))("/secret/api/step").json["error"]["text"]
    )


# ---- comparisons


def compared(browser: Browser, place: str = "first=0&count=9") -> Any:
    return finished(
        lambda: browser(f"/secret/api/comparison?{place}").json, lambda found: found["state"] in ("done", "failed")
    )


def write_versions(folder: Path) -> tuple[Path, Path]:
    """Write a dataset and another version of it: two values and a type differ, and a field and records are missing."""
    first, second = folder / "a.tfrecord", folder / "b.ffr"
    with dataformats.create(first, spec={"label": "int64", "text": "utf8", "pixels": "uint8[4,4]"}) as writer:
        writer.extend({"label": i, "text": "same", "pixels": np.full((4, 4), i, np.uint8)} for i in range(9))
    with dataformats.create(second, spec={"label": "float32", "text": "utf8", "more": "int64"}) as writer:
        writer.extend({"label": i, "text": "<b>" if i in (3, 5) else "same", "more": i} for i in range(7))
    return first, second


def test_comparison_lists_types_and_records(tmp_path: Path) -> None:
    first, second = write_versions(tmp_path)
    browser = Browser(first, against=second)
    found = compared(browser)
    report = dataformats.diff(first, second)
    assert found["records"] == list(report.records)
    assert {name: tuple(types) for name, *types in found["types"]} == report.fields
    assert dict(found["counts"]) == report.differences == {"label": 7, "text": 2}
    assert [row["record"] for row in found["rows"]] == [*range(9)]
    assert found["found"] == 9
    assert [field["name"] for field in found["rows"][3]["fields"]] == ["label", "text"]
    assert found["rows"][3]["fields"][1] == {"name": "text", "places": [1, 1], "texts": ["'same'", "'<b>'"]}
    assert [row["n_fields"] for row in found["rows"]] == [1, 1, 1, 2, 1, 2, 1, 0, 0]
    assert [row["record"] for row in compared(browser, "first=6&count=2")["rows"]] == [6, 7]
    assert browser("/secret/second/api/records?numbers=3&fields=1").json["rows"][0]["cells"][0]["text"] == "<b>"
    assert browser("/secret/first/thumbnail/3/2?size=64").headers["content-type"] == "image/png"
    assert b"compare.js" in browser("/secret/").body
    for path in ("/wrong/first/api/dataset", "/first/api/dataset", "/secret/third/api/dataset"):
        assert browser(path).status == 404


def test_comparison_of_equal_and_of_damaged_data() -> None:
    found = compared(Browser(PHOTOS, against=PHOTOS))
    assert (found["state"], found["found"], found["types"], found["done"]) == ("done", 0, [], 12)
    found = compared(Browser(DAMAGED, against=DAMAGED))
    assert [row["record"] for row in found["rows"]] == [3]
    assert (found["found"], found["damaged"]) == (1, 1)


def test_comparison_keeps_a_limited_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.viewer.comparison._MAX_ROWS", 2)
    found = compared(Browser(write_versions(tmp_path)[0], against=tmp_path / "b.ffr"))
    assert (found["is_cut"], [row["record"] for row in found["rows"]]) == (True, [0, 1, 7, 8])
