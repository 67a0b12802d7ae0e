"""`dataformats stats`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.cli import stats as command
from dataformats.reading.running_statistics import Histogram
from dataformats.testing.loop_over import loop_over
from tests.cli.conftest import Run

GOLDEN = Path(__file__).parents[1] / "golden"
PHOTOS = GOLDEN / "real" / "photos.tfrecord"


def test_photos(run: Run) -> None:
    found = run("stats", PHOTOS, "--largest", 2)
    assert found.code == 0
    assert found.facts["records"] == "12"
    lines = found.out.splitlines()
    assert "  length: 9488 to 48783, mean 24056.1, std 11759.7" in lines
    assert "  most common: 320 (7), 213 (2), 214 (1), 253 (1), 279 (1)" in lines
    assert [line for line in lines if "JPEG" in line] == [
        "  largest: 48783 in record 10: JPEG image, 320 x 320, RGB",
        "  largest: 45569 in record 11: JPEG image, 320 x 320, RGB",
    ]


def test_json(run: Run) -> None:
    found = run("stats", PHOTOS, "--json", "--fields", "width,name", "--largest", 0).json
    assert list(found["fields"]) == ["width", "name"]
    width = found["fields"]["width"]
    assert (width["count"], width["most_common"], width["largest"]) == (12, [[320, 11], [267, 1]], [])
    assert sum(width["histogram"]["counts"]) == 12
    assert found["fields"]["name"]["most_common"][0] == [{"base64": "YXN0cm9uYXV0"}, 1]


def test_damaged_records(run: Run) -> None:
    damaged = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
    found = run("stats", damaged)
    assert found.code == 1
    assert found.facts["damaged"] == "1 record, left out: 3"
    assert found.facts["finding"].startswith("ChecksumError: record 3 of ")
    as_json = run("stats", damaged, "--json")
    assert (as_json.code, as_json.json["failed"], as_json.json["findings"][0]["index"]) == (1, 1, 3)


def test_names_and_values_cannot_command_a_terminal(run: Run, tmp_path: Path) -> None:
    escape = "\x1b[31m\r\n"
    with dataformats.create(tmp_path / "x.tfrecord", spec={escape: "utf8", "n": "float64"}) as writer:
        writer.extend([{escape: escape, "n": number} for number in (np.nan, np.inf, 1.5, 1.5)])
    lines = run("stats", tmp_path / "x.tfrecord").out.splitlines()
    assert "field \\x1b[31m\\r\\n: utf8" in lines
    assert "  not finite: 1 NaN, 1 infinite" in lines
    assert "  range: 1.5 to 1.5, mean 1.5, std 0" in lines
    assert run("stats", tmp_path / "x.tfrecord", "--fields", "nothing").code == 2


def test_no_records(run: Run) -> None:
    assert run("stats", GOLDEN / "tfrecord" / "empty.tfrecord").facts["records"] == "0"


@loop_over(
    "counts, expected",
    [
        ((1,), "0 |@| 1, at most 1 in a bar"),
        ((0, 100, 1, 50), "0 | @.=| 4, at most 100 in a bar"),
        ((1,) * 41, f"0 |{'@' * 20}=| 42, at most 2 in a bar"),
    ],
)
def test_bars(counts: tuple[int, ...], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_BLOCKS", command._ASCII)
    edges = tuple(map(float, range(len(counts) + 1)))
    assert command._bars(Histogram(edges, counts)) == expected
