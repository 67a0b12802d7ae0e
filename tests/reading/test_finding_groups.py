"""Findings that differ only in places and numbers are one group; all are counted, and few are kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.inspecting.finding import Finding
from dataformats.inspecting.finding_groups import Findings
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

DIGITS = str(GOLDEN / "real" / "digits-*.tfrecord")


def test_a_wrong_spec_is_one_group_of_all_files() -> None:
    report = dataformats.verify(DIGITS, spec={"label": "utf8"}, max_findings=20)
    assert (report.ok, report.n_findings, len(report.findings)) == (False, 1797, 20)
    (group,) = report.groups
    assert (group.kind, group.field, group.count, group.indices) == ("SpecError", "label", 1797, tuple(range(10)))
    assert (len(group.paths), group.example) == (3, report.findings[0])
    assert len(json.dumps(report.to_json())) < 20_000


def test_kinds_and_fields_are_groups_of_their_own(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.tfrecord", spec={"a": "feature", "b": "int64"}) as writer:
        writer.extend({"a": np.array([i]) if i % 2 else [b"text"], "b": i} for i in range(10))
    spec = {"a": "int64", "b": "int64"}
    report = dataformats.verify(tmp_path / "a.tfrecord", spec=spec)
    assert [(group.field, group.indices) for group in report.groups] == [("a", (0, 2, 4, 6, 8))]
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[-5] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    (tmp_path / "a.tfrecord.dataformats.json").unlink()
    report = dataformats.verify(tmp_path / "a.tfrecord", spec=spec, max_findings=1)
    assert (report.n_findings, [group.count for group in report.groups]) == (6, [5])


def test_damaged_records_of_a_source_are_counted(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.tfrecord", "tfrecord", payload="bytes") as writer:
        writer.extend(bytes([i]) * 20 for i in range(30))
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    for i in range(7):
        data[36 * i + 20] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    with dataformats.create(tmp_path / "b.tfrecord", "tfrecord", payload="bytes") as writer:
        writer.extend(bytes([i]) * 20 for i in range(7, 30))
    report = dataformats.verify(tmp_path / "b.tfrecord", against=tmp_path / "a.tfrecord", max_findings=2)
    assert (report.n_findings, len(report.findings), [group.count for group in report.groups]) == (7, 2, [7])


@loop_over(
    "first, second, same",
    [
        ("record 1 of 'a': at 0x1f, found -3", "record 22 of 'b': at 0x2e, found -0.5", True),
        ("expected int64, found int32", "expected int64, found int16", False),
        ("can't decode byte 0xff in 'a'", "can't decode byte 0xfe in 'it\\'s'", True),
        ("found 'one'. Say so", "found 'two'. Say no", False),
        ("found '" + "a" * 10**6, "found '" + "b" * 10**6, False),
    ],
)
def test_messages(first: str, second: str, same: bool) -> None:
    findings = Findings(10)
    findings.add([Finding("E", first), Finding("E", second)])
    assert (findings.n_findings, len(findings.groups)) == (2, 1 if same else 2)


def test_a_long_message_is_cut() -> None:
    finding = Finding.of(dataformats.FormatError("x" * 10**7, found="y" * 10**7, remedy="Do it."))
    assert len(finding.message) < 2100 > len(str(finding.found))
    assert finding.remedy is None


def test_no_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1, found 0"):
        dataformats.verify(DIGITS, max_findings=0)
