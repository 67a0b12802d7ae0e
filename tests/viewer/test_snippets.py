"""Copied texts give the records that the page shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.cli import main
from dataformats.display.json_values import as_json
from dataformats.testing.loop_over import loop_over
from dataformats.viewer.dataset import ViewedDataset
from dataformats.viewer.snippets import Snippets
from tests.viewer.browser import GOLDEN, PHOTOS, Browser

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

DIGITS = str(GOLDEN / "real" / "digits-*.tfrecord")
DIGITS_SPEC = {"image": "uint8[8,8]", "label": "int64"}
NAMES = ("Record", "order", 'a"b', "it's", "a.b/c", "\u202ename\nwith\tlines", "größe", "$(touch x)", "-x", "record_")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> ViewedDataset:
    path = tmp_path_factory.mktemp("it's $HOME") / "a b.tfrecord"
    rng = np.random.default_rng(7)
    with dataformats.create(path, spec=dict.fromkeys(NAMES, "float64?") | {"text": "utf8?"}) as writer:
        for _ in range(200):
            numbers = {name: float(rng.choice([-1.5, 0, 2, np.nan, np.inf])) for name in NAMES if rng.random() < 0.7}
            writer.append(numbers | ({"text": str(rng.integers(5))} if rng.random() < 0.9 else {}))
    return ViewedDataset(str(path))


def shown(selection: Snippets) -> list[Any]:
    """Return the records as JSON, in the order of Python's own sort: numbers, then NaN, then missing values."""
    dataset = selection.dataset
    with dataformats.open(dataset.path, **dataset.options) as source:
        found = source.where(selection.condition) if selection.condition else source
        records = list(found.take(list(selection.numbers)) if selection.numbers else found)
    if selection.sort is not None:
        values = [record.get(selection.sort) for record in records]
        missing = [index for index, value in enumerate(values) if value is None]
        nan = [index for index, value in enumerate(values) if value is not None and value != value]
        others = [index for index in range(len(values)) if index not in {*missing, *nan}]
        others.sort(key=values.__getitem__, reverse=selection.descending)
        records = [records[index] for index in others + nan + missing]
    return [as_json({name: record[name] for name in selection.fields if name in record}) for record in records]


def by_python(selection: Snippets) -> list[Any]:
    names: dict[str, Any] = {}
    exec(selection.python(), names)
    return list(map(as_json, names["records"]))


def by_sql(selection: Snippets) -> list[Any]:
    names: dict[str, Any] = {}
    exec(selection.sql(), names)
    rows = names["result"].fetchall()
    pairs = [zip(selection.fields, row, strict=True) for row in rows]
    return [as_json({name: value for name, value in row if value is not None}) for row in pairs]


def words_of(command: str) -> list[str]:
    program, *words = shlex.split(command)
    assert program == "dataformats"
    return words


def by_command(selection: Snippets, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    with pytest.raises(SystemExit) as ended:
        main(words_of(selection.command()))
    assert ended.value.code == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


SELECTIONS = [
    (("text",), {}),
    (("text", "größe"), {"condition": "größe > 0 and text != '3' -- a note"}),
    (("it's", 'a"b', "order"), {"condition": '"a""b" = 2 or "order" is null', "sort": 'a"b'}),
    ((NAMES[5], "-x"), {"condition": "record__ < 90", "sort": NAMES[5], "descending": True}),
    (("a.b/c", "$(touch x)", "Record"), {"sort": "text", "descending": True}),
    (("record_", "-x"), {"numbers": (150, 3, 40)}),
]


@loop_over("fields, options", SELECTIONS)
def test_texts_give_the_shown_records(
    hostile: ViewedDataset, fields: tuple[str, ...], options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    selection = Snippets(hostile, fields, **options)
    wanted = shown(selection)
    assert len(wanted) > 2
    assert by_python(selection) == wanted
    unordered = not selection.numbers  # SQL and commands keep the order of the dataset
    assert by_sql(selection) == (wanted if unordered else shown(Snippets(hostile, fields, numbers=(3, 40, 150))))
    if all(one.isprintable() for one in fields):  # other names need the words of bash
        plain = Snippets(hostile, fields, selection.condition, sorted(selection.numbers))
        assert by_command(selection, capsys) == shown(plain)


def test_conversion_writes_the_shown_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    selection = Snippets(ViewedDataset(DIGITS, spec=DIGITS_SPEC), ("label",), "label = 3 and record < 40")
    with pytest.raises(SystemExit) as ended:
        main(words_of(selection.conversion()))
    assert ended.value.code == 0
    assert list(dataformats.open("selection.tfrecord")) == [{"label": 3}] * 3


def test_conversion_of_a_folder_of_images_names_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dataformats.convert(GOLDEN / "real" / "photos.tfrecord", "photos", "images", fields=["image"])
    dataset = ViewedDataset("photos")
    with pytest.raises(SystemExit) as ended:
        main(words_of(Snippets(dataset, dataset.fields, "record < 3").conversion()))
    assert ended.value.code == 0
    assert len(dataformats.open("selection")) == 3


def test_options_of_the_viewer_are_in_all_texts(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"format": "tfrecord", "payload": "example", "spec": DIGITS_SPEC, "io": "threads", "cache_bytes": 2**20}
    dataset = ViewedDataset(DIGITS, **options, verify_checksums=False)
    selection = Snippets(dataset, dataset.fields)
    assert by_python(selection)[:2] == [as_json(record) for record in dataformats.open(DIGITS, spec=DIGITS_SPEC)[:2]]
    assert "verify_checksums=False" in selection.python()
    assert by_command(selection, capsys) == by_python(selection)
    assert words_of(selection.command())[2:] == [
        *("--format=tfrecord", "--payload=example", "--spec=image=uint8[8,8]", "--spec=label=int64"),
        *('--option=io="threads"', "--option=cache_bytes=1048576", "--no-checksums"),
    ]
    assert {"--from-spec=label=int64", '--from-option=io="threads"'} <= {*words_of(selection.conversion())}


def test_several_paths_and_urls_are_kept() -> None:
    paths = [str(GOLDEN / "real" / f"digits-0000{number}-of-00003.tfrecord") for number in range(2)]
    selection = Snippets(ViewedDataset(paths), ("label",))
    assert len(by_python(selection)) == len(dataformats.open(paths))
    assert words_of(selection.command())[1:3] == paths
    url = Snippets(ViewedDataset(f"file://{PHOTOS}"), ("name",))
    assert f"'file://{PHOTOS}'" in url.python()


def test_names_without_a_text_are_errors(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord", spec={"a,b": "int64", "Name": "int64", "name": "int64"}) as out:
        out.append({"a,b": 1, "Name": 2, "name": 3})
    browser = Browser(tmp_path / "x.tfrecord")
    positions = {name: position for position, name in enumerate(browser.dataset.fields)}
    texts = browser(f"/secret/api/snippets?fields={positions['a,b']}").json
    assert "--fields cannot hold" in texts["command"]["error"]
    assert "text" in texts["sql"]
    texts = browser(f"/secret/api/snippets?fields={positions['Name']},{positions['name']}").json
    assert "differ in case only" in texts["sql"]["error"]
    assert "text" in texts["python"]
    assert "no field is shown" in browser("/secret/api/snippets?fields=").json["error"]["text"]
    numbers = ",".join(map(str, range(501)))
    assert "at most 500" in browser(f"/secret/api/snippets?fields=0&numbers={numbers}").json["error"]["text"]


def test_text_of_single_values(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("pear\napple\nfig\n")
    dataset = ViewedDataset(str(tmp_path / "words.txt"))
    selection = Snippets(dataset, dataset.fields, "value != 'fig'", sort=dataset.fields[0])
    assert by_python(selection) == ["apple", "pear"]
    assert by_sql(selection) == [{"value": "apple"}, {"value": "pear"}]
