"""`dataformats doctor`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats.cli import doctor as module
from dataformats.inspecting import record_profile
from dataformats.storage.threads import N_THREADS
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run


def test_facts(run: Run) -> None:
    facts = run("doctor").facts
    assert facts["kernels"].split(",")[0] in ("native", "reference")
    assert facts["processors"] == f"{N_THREADS} of {os.cpu_count()}"
    assert {"ffrecord", "tfrecord"} <= {*facts["formats"].split(", ")}
    assert {"bytes", "utf8", "jpg", "example"} <= {*facts["codecs"].split(", ")}
    assert f"{os.environ['DATAFORMATS_CACHE']}: 0 MB in 0 files, " in facts["cache folder"]
    as_json = run("doctor", "--json").json["facts"]
    assert [fact["name"] for fact in as_json] == [name for name in facts if name != "  better"]
    assert len(facts) < 25  # one screen


def test_faults_have_remedies(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(module, "_version", lambda name: None if name in ("simplejpeg", "msgspec", "torch") else "1")
    usage = SimpleNamespace(total=64_000_000, used=0, free=64_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    monkeypatch.setattr(module, "_MIN_DESCRIPTORS", 2**62)
    remedies = {fact["name"]: fact["remedy"] for fact in run("doctor", "--json").json["facts"]}
    assert remedies["libjpeg-turbo"] == "pip install simplejpeg"
    assert remedies["JSON"] == "pip install msgspec"
    assert remedies["extras not installed"] == "pip install 'dataformats[torch]'"
    assert remedies["cache folder"].startswith("export DATAFORMATS_CACHE=")
    assert remedies["shared memory"].startswith("docker run --shm-size=8g")


def number(index: int) -> dict[str, Any]:
    return {
        "id": index,
        "text": f"this is the number {index}",
        "label": index % 4,
        "x": [index * 0.5, 1.0],
        "timestamp": index / 10,
    }


def change(index: int, **fields: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda records: records[index].update(fields)


DISEASES: dict[str, tuple[str, str, Callable[[list[dict[str, Any]]], object]]] = {
    "a missing field": ("Missing", "text", lambda records: records[7].pop("text")),
    "no field": ("Missing", "text", lambda records: [record.pop("text") for record in records]),
    "empty text": ("Empty", "text", change(7, text="")),
    "a repeated key": ("DuplicateKey", "id", change(7, id=6)),
    "a repeated record": ("Duplicate", "", lambda records: records.__setitem__(7, {**records[0], "id": 7})),
    "NaN": ("NotFinite", "x", change(7, x=[float("nan"), 1.0])),
    "one value": ("Constant", "label", lambda records: [record.update(label=3) for record in records]),
    "a rare class": (
        "Imbalance",
        "label",
        lambda records: [record.update(label=int(record["id"] == 7)) for record in records],
    ),
    "a long text": ("Outlier", "text", change(7, text="long " * 1000)),
    "a step back": ("Timestamp", "timestamp", change(7, timestamp=0.55)),
}
SPEC = {"id": "int64?", "text": "utf8?", "label": "int64", "x": "float64[]", "timestamp": "float64"}


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    with dataformats.create(path, spec=SPEC) as writer:
        writer.extend(records)
    return path


@loop_over("suffix", ["parquet", "tfrecord"])
def test_each_disease_has_one_finding(run: Run, tmp_path: Path, suffix: str) -> None:
    sound = [number(index) for index in range(1000)]
    assert run("doctor", write(tmp_path / f"sound.{suffix}", sound)).facts["findings"] == "0"
    for name, (kind, field, spoil) in DISEASES.items():
        records = [dict(record) for record in sound]
        spoil(records)
        path = write(tmp_path / f"{name}.{suffix}", records)
        result = run("doctor", path, "--json")
        findings = [one for one in result.json["findings"] if one["kind"] != "CodecError"]
        assert [(one["kind"], one["field"] or "") for one in findings] == [(kind, field)], name
        assert result.code == 1
        line = run(*shlex.split(findings[0]["remedy"])[1:])
        assert line.code == 0, (findings[0]["remedy"], line.err)
        assert findings[0]["index"] is None or "record 7" in line.out or "[7]" in line.out, line.out


def test_broken_and_odd_images_are_found(run: Run, tmp_path: Path) -> None:
    def image(index: int) -> bytes:
        shape = (2, 2, 3) if index == 5 else (40, 50) if index == 6 else (40, 50, 3)
        stream = BytesIO()
        Image.fromarray(np.full(shape, index, np.uint8)).save(stream, "JPEG" if index % 2 else "PNG")
        return stream.getvalue()

    images = [image(index) for index in range(120)]
    images[7], images[8] = images[7][:-40], b"<html>404 Not Found</html>"
    with dataformats.create(tmp_path / "images.tfrecord", spec={"image": "bytes"}) as writer:
        writer.extend({"image": image} for image in images)
    result = run("doctor", tmp_path / "images.tfrecord")
    found = re.findall(r"finding: (\w+): field 'image': (.*)", result.out)
    assert [kind for kind, _ in found] == ["BrokenImage", "BrokenImage", "OddImage", "OddImage"]
    assert [text.rpartition(": ")[2] for _, text in found] == ["record 7", "record 8", "record 5", "record 6"]
    for line in re.findall("next: (.*)", result.out):
        assert run(*shlex.split(line)[1:]).code == 0


def test_images_turned_by_exif_are_found(run: Run, tmp_path: Path) -> None:
    def image(index: int, orientation: int) -> bytes:
        stream, tags = BytesIO(), Image.Exif()
        tags.endian = "<>"[index % 2]
        tags[0x010F], tags[0x0112] = "camera \x12\x01\x03\0\x01\0\0\0\x06", orientation  # no tag, but like one
        Image.new("RGB", (3, 2)).save(stream, ("JPEG", "PNG")[index // 2], exif=tags.tobytes())
        return stream.getvalue()

    with dataformats.create(tmp_path / "images.tfrecord", spec={"image": "bytes"}) as writer:
        writer.extend({"image": image(index, orientation)} for orientation in (1, 6) for index in range(4))
    found = re.findall(r"finding: (\w+): field 'image': (.*)", run("doctor", tmp_path / "images.tfrecord").out)
    assert found == [("TurnedImage", "4 of 8 records are turned by EXIF, which is not applied: records 4, 5, 6, 7")]


def test_short_and_missing_files_are_found(run: Run, tmp_path: Path) -> None:
    for shard, n in ((0, 200), (1, 3), (2, 200), (3, 200)):
        with dataformats.create(tmp_path / f"a-{shard:05}-of-00005.tfrecord", spec={"text": "utf8"}) as writer:
            writer.extend({"text": f"record {index} of shard {shard}"} for index in range(n))
    report = run("doctor", tmp_path, "--json").json
    assert [one["kind"] for one in report["findings"]] == ["IncompleteDataError", "ShortFile"]
    assert report["findings"][1]["path"].endswith("a-00001-of-00005.tfrecord")
    assert run(*shlex.split(report["findings"][1]["remedy"])[1:]).code == 0
    for shard in (0, 1, 3, 4):
        with dataformats.create(tmp_path / f"{shard:03}.tar", spec={"text": "utf8"}) as writer:
            writer.extend({"text": f"record {index} of shard {shard}"} for index in range(3))
    (finding,) = run("doctor", tmp_path / "0*.tar", "--json").json["findings"]
    assert (finding["kind"], finding["path"]) == ("MissingFile", str(tmp_path / "002.tar"))


@loop_over("path", ["tfrecord/corrupt/data_bit.tfrecord", "mds/corrupt/offset", "recordio/corrupt/magic.rec"])
def test_damage_has_a_command_for_sound_records(run: Run, path: str) -> None:
    findings = run("doctor", GOLDEN / path, "--json").json["findings"]
    lines = {one["remedy"] for one in findings}
    assert len(lines) == 1
    assert run(*shlex.split(lines.pop())[1:]).out.startswith("path: sound")


def test_options_stand_in_the_lines(run: Run, tmp_path: Path) -> None:
    values = np.ones((200, 2), np.float32)
    values[3] = np.nan
    np.save(tmp_path / "a b.npy", values)
    options = ("--format", "npy", "--spec", "value=float32[2]")
    (line,) = [one["remedy"] for one in run("doctor", tmp_path / "a b.npy", *options, "--json").json["findings"][:1]]
    assert (
        line
        == f"dataformats head '{tmp_path}/a b.npy' -n 1 --where 'record in (3)' --format=npy '--spec=value=float32[2]'"
    )
    assert run(*shlex.split(line)[1:]).code == 0


@loop_over("path", ["real/digits-*.tfrecord", "real/photos.tfrecord", "webdataset/ustar.tar", "hdf5/rows.h5"])
def test_sound_data_have_no_finding(run: Run, path: str) -> None:
    assert run("doctor", GOLDEN / path).facts["findings"] == "0"


def test_many_records_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_profile, "_COMPARED", 100)
    copies = record_profile._Copies()
    for begin in range(0, 10_000, 50):
        hashes = np.array([(index // 2 * 0x9E3779B97F4A7C15) % 2**63 for index in range(begin, begin + 50)])
        copies.add(hashes, np.arange(begin, begin + 50))
    ((finding, indices),) = copies.findings("Duplicate", None, "are equal to another one", 1)
    assert len(copies._hashes) <= 100
    assert 3000 < int(re.findall(r"about (\d+) of", finding.message)[0]) < 8000
    assert all(indices[at] // 2 == indices[at + 1] // 2 for at in range(0, len(indices), 2))


def test_sparse_records_take_time_for_their_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    items, lengths = record_profile._items, list[int]()

    def counted(column: Any) -> list[bytes | str]:
        lengths.append(len(column))
        return items(column)

    monkeypatch.setattr(record_profile, "_items", counted)
    lines = [f'{{"key{index}": "this is the line {index} of 300"}}\n' for index in range(300)]
    (tmp_path / "a.jsonl").write_text("".join([*lines, lines[7], '{"id": 1}\n']))
    (finding,) = [one for one in dataformats.doctor(tmp_path / "a.jsonl").findings if one.kind.startswith("Duplicate")]
    assert finding.message == "1 of 301 records are equal to another one but for the key: records 7, 300"
    assert sum(lengths) == 302
