"""`diff`: fields, counts and values of two datasets of any formats, orders and damage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import diff
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

SPEC = {"n": "int64", "text": "utf8", "score": "float32[2]", "image": "uint8[2,2]"}


def written(path: Path, records: Iterable[dict[str, Any]], spec: dict[str, str] | None = None) -> Path:
    format = "granular" if not path.suffix else None
    with dataformats.create(path, format, spec=spec or SPEC) as writer:
        writer.extend(records)
    return path


def records(n: int = 20, **changed: Any) -> list[dict[str, Any]]:
    score, image = np.array([np.nan, 1], np.float32), np.eye(2, dtype=np.uint8)
    return [{"n": i, "text": f"text {i}", "score": score, "image": image} | changed for i in range(n)]


@loop_over("first", ["a.ffr", "a.tfrecord", "a.syr"])
@loop_over("second", ["b.ffr", "b.ofrecord", "granular"])
def test_formats_and_orders_of_fields_do_not_matter(tmp_path: Path, first: str, second: str) -> None:
    turned = dict(reversed(SPEC.items()))
    report = diff(written(tmp_path / first, records()), written(tmp_path / second, records(), turned))
    assert (report.equal, report.compared, report.fields, report.findings) == (True, 20, {}, ())


def test_differences_are_counted_and_few_are_listed(tmp_path: Path) -> None:
    some = records(30)
    for record in some[5:]:
        record["n"] += 1
    some[7]["text"] = "x" * 10**6 + "\x1b[31m\n"
    a, b = written(tmp_path / "a.ffr", records(30)), written(tmp_path / "b.tfrecord", some)
    report = diff(a, b)
    assert (report.equal, report.differences) == (False, {"n": 25, "text": 1})
    listed = [(finding.index, finding.field) for finding in report.findings]
    assert listed == [(5, "n"), (6, "n"), (7, "n"), (7, "text"), *((i, "n") for i in range(8, 15))]
    assert (report.findings[0].expected, report.findings[0].found) == ("5", "6")
    assert len(json.dumps(report.to_json())) < 10_000
    assert len(diff(a, b, max_findings=2).findings) == 2
    assert diff(a, b, limit=5).equal
    assert diff(a, b, fields=["score"]).equal


def test_one_is_longer(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.ffr", records(20)), written(tmp_path / "b.ffr", records(12))
    for one, other, lengths in ((a, b, (20, 12)), (b, a, (12, 20))):
        report = diff(one, other)
        assert (report.equal, report.records, report.compared, report.differences) == (False, lengths, 12, {})


def test_fields_and_types(tmp_path: Path) -> None:
    a = written(tmp_path / "a.ffr", [{"n": 1, "old": 1}], {"n": "int64", "old": "int8"})
    b = written(tmp_path / "b.ffr", [{"n": 1, "new": "x"}], {"n": "int32", "new": "utf8"})
    report = diff(a, b)
    assert report.fields == {"n": ("int64", "int32"), "old": ("int8", None), "new": (None, "utf8")}
    assert (report.differences, str(report.findings[0].expected)) == ({"n": 1}, "int64 1")
    with pytest.raises(dataformats.UnknownNameError, match="unknown field 'old'"):
        diff(a, b, fields=["old"])


def test_diff_ignores_types_declared_on_one_side(tmp_path: Path) -> None:
    photos = GOLDEN / "real" / "photos.tfrecord"
    dataformats.convert(photos, tmp_path / "a.syr", fields=["name", "width"], spec={"name": "utf8", "width": "int32"})
    report = diff(photos, tmp_path / "a.syr")
    assert (report.fields, report.differences) == ({"height": ("int64", None), "image": ("bytes", None)}, {})


def test_damage_on_either_side(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.tfrecord", records()), written(tmp_path / "b.tfrecord", records())
    for path, text in ((a, b"text 3"), (b, b"text 5"), (b, b"text 3")):
        data = bytearray(path.read_bytes())
        data[data.index(text)] ^= 1
        path.write_bytes(data)
        path.with_name(path.name + ".dataformats.json").unlink(missing_ok=True)
    report = diff(a, b)
    assert (report.damaged, report.differences) == (2, {})
    assert [(finding.index, finding.kind) for finding in report.findings] == [
        (3, "ChecksumError"),
        (5, "ChecksumError"),
    ]
    assert report.findings[1].path == str(b)


def test_values_without_fields(tmp_path: Path) -> None:
    for name, last in (("a", b"c"), ("b", b"d")):
        with dataformats.create(tmp_path / f"{name}.ffr") as writer:
            writer.extend([b"a", b"b", last])
    report = diff(tmp_path / "a.ffr", tmp_path / "b.ffr")
    assert (report.differences, report.findings[0].index) == ({"value": 1}, 2)
    one = written(tmp_path / "c.ffr", records(3))
    assert diff(tmp_path / "a.ffr", one).fields["value"] == ("bytes", None)


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,text\n1,a\n2,b\n")
    b = written(tmp_path / "b.ffr", [{"n": 1, "text": "a"}, {"n": 2, "text": "c"}], {"n": "int64", "text": "utf8"})
    assert diff(tmp_path / "a.csv", b).differences == {"text": 1}


def test_progress(tmp_path: Path) -> None:
    a, steps = written(tmp_path / "a.ffr", records()), list[tuple[int, int]]()
    diff(a, a, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (20, 20)
