"""verify: every file of a dataset, sidecars that name unknown codecs, opaque fields."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import SpecError
from dataformats.testing.loop_over import loop_over
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


@pytest.mark.parametrize(
    ("suffix", "late", "kind"),
    [
        (".jsonl", {"n": 1, "x": "a"}, "json"),
        (".jsonl", {"n": 1}, "int64[]?"),
        (".tfrecord", {"n": 1, "x": [2, 3]}, "int64[]"),
        (".ffr", {"n": 1, "x": [2], "more": 0.5}, "float32[]?"),
    ],
)
def test_types_of_late_records_are_findings(suffix: str, late: Any, kind: str, tmp_path: Path) -> None:
    """A loader stops at the record; once verify has kept the types, it reads all."""
    path = tmp_path / f"x{suffix}"
    first = {"n": 0, "x": [1]} if suffix != ".tfrecord" else {"n": 0, "x": 1}
    lines = [first] * 2000 + [late]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        spec = {"n": "int64", "x": "int64[]" if "x" in late else "int64[]?", "more": "float32?"}
        with dataformats.create(path, spec=spec, payload="example") as writer:
            writer.extend({**line, "x": np.atleast_1d(line["x"])} for line in lines)
        path.with_name(f"{path.name}.dataformats.json").unlink()
    options: Any = {"payload": "example"} if suffix == ".ffr" else {}
    source = dataformats.open(path, **options)
    with pytest.raises(SpecError):
        source[2000]
    (finding, *more) = dataformats.verify(path, **options).findings
    field = finding.field or ""
    assert (finding.kind, finding.path, more) == ("SpecError", str(path), [])
    assert finding.remedy is not None
    assert str(dataformats.open(path, **options).spec[field]) == finding.remedy.partition(": '")[2].partition("'")[0]
    assert dataformats.verify(path, **options).ok
    assert dataformats.open(path, spec={field: kind}, **options)[2000].keys() == late.keys()


FORMATS = ("jsonl", "webdataset", "syrah", "granular", "mds", "ofrecord")


@loop_over("format", FORMATS)
def test_listed_hashes_are_compared(format: str, tmp_path: Path) -> None:
    """A byte that no record shows, and that the sampled blocks of a sidecar do not cover."""
    path = tmp_path / format
    texts = [f"{n:06d}" + "x" * 400 for n in range(500)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "source.jsonl").write_text(lines)
    dataformats.convert(tmp_path / "source.jsonl", path, format)
    assert dataformats.verify(path).ok
    file = max((one for one in [path, *path.rglob("*")] if one.is_file()), key=lambda one: one.stat().st_size)
    data = bytearray(file.read_bytes())
    data[data.index(b"x" * 100, len(data) * 2 // 5) + 50] ^= 1
    file.write_bytes(data)
    (finding,) = dataformats.verify(path).findings
    assert finding.path == str(file)
    assert "the content is not as the sidecar" in finding.message


def test_hashes_of_the_index_of_mds_are_compared(tmp_path: Path) -> None:
    assert dataformats.verify(GOLDEN / "mds" / "zstd").ok  # the original program wrote its hashes
    shutil.copytree(GOLDEN / "mds" / "plain", tmp_path / "x")
    file = min((tmp_path / "x").glob("*.mds"))
    index = json.loads((tmp_path / "x" / "index.json").read_bytes())
    index["shards"][0]["raw_data"]["hashes"] = {"sha1": hashlib.sha1(file.read_bytes()).hexdigest(), "xxh3_64": "0"}
    (tmp_path / "x" / "index.json").write_text(json.dumps(index))
    assert dataformats.verify(tmp_path / "x").ok
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))
    assert "the content is not as the dataset lists it" in dataformats.verify(tmp_path / "x").findings[0].message
