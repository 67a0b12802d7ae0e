"""Downloads of the viewer: what the files hold, and what is reported."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.cli import main
from dataformats.reading.scan import scan_sound
from dataformats.testing.loop_over import loop_over
from dataformats.viewer import downloads
from tests.viewer.browser import DAMAGED, GOLDEN, PHOTOS, Answer, Browser, finished
from tests.waiting import LIMIT_S

DIGITS = GOLDEN / "real" / "digits-00000-of-00003.tfrecord"


@pytest.fixture(scope="module")
def photos() -> Browser:
    return Browser(PHOTOS)


def downloaded(browser: Browser, query: str, taken: int | None = None) -> tuple[Answer, Any]:
    """Return the answer with the file, and the report."""
    number = browser(f"/secret/api/download?{query}", "POST").json["download"]
    answer = browser(f"/secret/download/{number}", taken=taken)
    return answer, browser(f"/secret/api/download?download={number}").json


def test_json_lines_equal_cat(photos: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    answer, report = downloaded(photos, "kind=jsonl&fields=1,2,3")
    with pytest.raises(SystemExit):
        main(["cat", str(PHOTOS), "--fields", "image,name,width"])
    assert answer.complete
    assert answer.body.decode() == capsys.readouterr().out
    assert report == {"state": "done", "written": 12, "failed": {"count": 0, "records": []}}
    assert answer.headers["content-disposition"] == 'attachment; filename="records.jsonl"'
    assert "sandbox" in answer.headers["content-security-policy"]


def test_parquet_has_the_sorted_matches(photos: Browser) -> None:
    pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    found = photos("/secret/api/filter?condition=width>300", "POST").json["filter"]
    finished(lambda: photos(f"/secret/api/filter?filter={found}").json, lambda answer: answer["done"])
    sort = photos(f"/secret/api/sort?field=2&filter={found}", "POST").json["sort"]
    finished(lambda: photos(f"/secret/api/sort?sort={sort}").json, lambda answer: answer["done"])
    wide = [record for record in dataformats.open(PHOTOS) if record["width"] > 300]
    for query, names in (
        (f"filter={found}", [record["name"] for record in wide]),
        (f"sort={sort}&descending=1", sorted((record["name"] for record in wide), reverse=True)),
        ("numbers=5,2", [dataformats.open(PHOTOS)[index]["name"] for index in (5, 2)]),
    ):
        answer, _ = downloaded(photos, f"kind=parquet&fields=3,2&{query}")
        table = parquet.read_table(io.BytesIO(answer.body))
        assert table.column_names == ["width", "name"]
        assert table["name"].to_pylist() == names


def test_zip_has_images_as_they_are_stored(photos: Browser) -> None:
    answer, report = downloaded(photos, "kind=zip&fields=0,1")
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.testzip() is None
        images = {name: archive.read(name) for name in archive.namelist()}
    stored = dataformats.open(PHOTOS)
    assert images == {f"record-{index}-field-1.jpeg": stored[index]["image"] for index in range(12)}
    assert report["written"] == 12


def test_zip_has_image_arrays() -> None:
    browser = Browser(DIGITS, spec={"image": "uint8[8,8]", "label": "int64"})
    answer, _ = downloaded(browser, "kind=zip&fields=0,1&numbers=7")
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.namelist() == ["record-7-field-0.png"]
        from PIL import Image

        pixels = Image.open(io.BytesIO(archive.read("record-7-field-0.png")))
    assert pixels.tobytes() == browser.dataset.source[7]["image"].tobytes()


@loop_over("kind", ["jsonl", "parquet", "zip"])
def test_damaged_records_are_reported(kind: str) -> None:
    browser = Browser(DAMAGED)
    answer, report = downloaded(browser, f"kind={kind}&fields=0")
    assert report["failed"]["count"] == 1
    assert report["failed"]["records"][0]["record"] == 3
    assert "ChecksumError" in str(report["failed"]["records"][0]["error"])
    if kind == "jsonl":
        assert len(answer.body.splitlines()) == len(browser.dataset.source) - 1
    if kind == "zip":
        with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
            assert json.loads(archive.read("damaged.json")) == report["failed"]


def test_other_errors_end_the_response(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_MAX_IMAGES", 3)
    answer, report = downloaded(photos, "kind=zip&fields=1")
    assert (answer.complete, report["state"], report["written"]) == (False, "failed", 3)
    assert "at most 3 images" in report["error"]["text"]


def test_canceled_download_stops_reading(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.reading.scan._SCAN_RECORDS", 1)
    _, report = downloaded(photos, "kind=jsonl&fields=2&numbers=0,1,2,3,4,5,6,7,8,9", taken=2)
    assert report["state"] == "canceled"
    assert report["written"] < 5


def test_a_canceled_download_ends(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.reading.scan._SCAN_RECORDS", 1)
    made = downloads.Download(photos.dataset, "jsonl", [2], None)
    parts = made.chunks()
    next(parts)
    made.cancel()
    with pytest.raises(ValueError, match="the download was canceled"):
        list(parts)


def test_few_downloads_run_at_once(photos: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def slow(*arguments: Any) -> Iterator[Any]:
        going.wait(LIMIT_S)
        yield from scan_sound(*arguments)

    monkeypatch.setattr(downloads, "scan_sound", slow)
    start = "/secret/api/download?kind=jsonl&fields=2"
    numbers = [photos(start, "POST").json["download"] for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        files = [pool.submit(photos, f"/secret/download/{number}") for number in numbers]
        for number in numbers:
            report = f"/secret/api/download?download={number}"
            finished(lambda report=report: photos(report).json["state"], lambda state: state == "running")  # type: ignore[misc]
        assert "2 downloads run" in photos(start, "POST").json["error"]["text"]
        going.set()
        assert {len(file.result().body.splitlines()) for file in files} == {12}
    assert photos(start, "POST").status == 200


@loop_over("query", ["kind=exe&fields=0", "kind=jsonl&fields=0&sort=5", "kind=jsonl&fields=0&filter=5"])
def test_wrong_downloads_are_refused(photos: Browser, query: str) -> None:
    assert photos(f"/secret/api/download?{query}", "POST").status == 422
    assert photos("/secret/download/5").status == 422


def test_file_is_sent_once(photos: Browser) -> None:
    number = photos("/secret/api/download?kind=jsonl&fields=2", "POST").json["download"]
    assert photos(f"/secret/download/{number}").body
    again = photos(f"/secret/download/{number}")
    assert (again.status, b"sent before" in again.body) == (422, True)


def test_changed_file_ends_downloads_and_sorts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    copy = tmp_path / "photos.tfrecord"
    copy.write_bytes(PHOTOS.read_bytes())
    browser = Browser(copy)
    copy.write_bytes(DAMAGED.read_bytes())
    answer, report = downloaded(browser, "kind=jsonl&fields=2")
    assert (answer.complete, report["state"], report["failed"]["count"]) == (False, "failed", 1)
    assert "has changed since it was opened" in report["error"]["text"]
    for kind, query in (("sort", "field=2"), ("filter", "condition=width>3")):
        number = browser(f"/secret/api/{kind}?{query}", "POST").json[kind]
        found = finished(
            lambda path=f"/secret/api/{kind}?{kind}={number}": browser(path).json,  # type: ignore[misc]
            lambda found: found["done"],
        )
        assert "has changed since it was opened" in found["error"]["text"]
