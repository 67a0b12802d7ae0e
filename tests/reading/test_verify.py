"""verify: every file of a dataset, sidecars that name unknown codecs, opaque fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dataformats
from tests.cases import GOLDEN


def test_verify_checks_every_file_of_unopenable_dataset(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "ffrecord", shard_records=2) as writer:
        writer.extend([b"a", b"b", b"c", b"d", b"e"])
    for name in ("PART_00000.ffr", "PART_00002.ffr"):
        data = bytearray((tmp_path / "x" / name).read_bytes())
        data[13] ^= 1
        (tmp_path / "x" / name).write_bytes(data)
    report = dataformats.verify(tmp_path / "x")
    assert [Path(str(finding.path)).name for finding in report.findings] == ["PART_00000.ffr", "PART_00002.ffr"]
    assert report.records == 2


def test_findings_of_unopenable_datasets_are_listed_once(tmp_path: Path) -> None:
    """Each file is verified separately then, also against its sidecar."""
    for name in ("a.ffr", "b.ffr"):
        with dataformats.create(tmp_path / name, spec={"n": "int64"}) as writer:
            writer.append({"n": 1})
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:10])
    messages = [finding.message for finding in dataformats.verify(str(tmp_path / "*.ffr")).findings]
    assert len(messages) == len(set(messages)) == 4


def test_unknown_payload_in_sidecar_is_a_finding(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord") as writer:
        writer.append(b"a")
    (tmp_path / "x.ffr.dataformats.json").write_text(json.dumps({"version": 1, "payload": "nope"}))
    assert [finding.kind for finding in dataformats.verify(tmp_path / "x.ffr").findings] == ["UnknownNameError"]
    with pytest.raises(dataformats.UnknownNameError):
        dataformats.verify(tmp_path / "x.ffr", payload="nope")


def test_verify_reads_opaque_fields_as_bytes() -> None:
    report = dataformats.verify(GOLDEN / "granular" / "v3" / "custom_type")
    assert (report.ok, report.records) == (True, 3)
