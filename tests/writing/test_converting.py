"""Conversions: renamed fields, and fields that a target format cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN


def test_renaming_a_missing_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dataformats.UnknownNameError, match="nearest: label"):
        dataformats.convert("tests/golden/real/digits-*.tfrecord", tmp_path / "x", "ffrecord", rename={"labels": "y"})


def test_a_conversion_leaves_no_field_out_unasked(tmp_path: Path) -> None:
    photos = GOLDEN / "real" / "photos.tfrecord"
    dataformats.convert(photos, tmp_path / "all.tfrecord", spec={"image": "jpg"})
    assert list(dataformats.open(tmp_path / "all.tfrecord").spec) == ["height", "image", "name", "width"]
    report = dataformats.convert(photos, tmp_path / "x.syr", "syrah", spec={"image": "jpg"}, fields=["image"])
    assert (report.records, report.left_out) == (12, ("height", "name", "width"))


def test_fields_of_a_path_are_read_with_the_new_types(tmp_path: Path) -> None:
    spec = {"image": "uint8[8,8]", "label": "int32"}
    report = dataformats.convert("tests/golden/real/digits-*.tfrecord", tmp_path / "digits.ofrecord", spec=spec)
    assert (report.format, report.records) == ("ofrecord", 1797)
    record = dataformats.open(tmp_path / "digits.ofrecord")[5]
    assert (record["image"].shape, record["label"]) == ((8, 8), 5)


def test_convert_changes_only_compatible_stored_types(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a", "granular", spec={"x": "bytes", "n": "int64", "words": "utf8[]"}) as writer:
        writer.append({"x": b"[1]", "n": 3, "words": ["a"]})
    spec = {"x": "json", "n": "int8", "words": "utf8[]"}
    dataformats.convert(tmp_path / "a", tmp_path / "b.tfrecord", spec=spec)
    assert dataformats.open(tmp_path / "b.tfrecord")[0] == {"x": [1], "n": 3, "words": ["a"]}
    with pytest.raises(dataformats.DataFormatsError, match="'words'"):
        dataformats.convert(tmp_path / "a", tmp_path / "c.tfrecord", spec=spec | {"words": "jpg[]"})


def test_options_of_the_source(tmp_path: Path) -> None:
    options = {"spec": {"image": "uint8[8,8]", "label": "int64"}}
    spec = {"image": "float32[8,8]", "label": "uint8"}
    digits = "tests/golden/real/digits-*.tfrecord"
    dataformats.convert(digits, tmp_path / "digits.syr", spec=spec, source_options=options)
    assert dataformats.open(tmp_path / "digits.syr")[5]["image"].dtype == "float32"


@loop_over("name", ["copy", "copy.log", "a.ffr/b"])
def test_a_name_of_no_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(dataformats.UnknownNameError, match=r"Pass format=\."):
        dataformats.convert("tests/golden/real/photos.tfrecord", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# ---- intact bytes that do not decode


def of_payload(folder: Path, payload: str, garbage: bytes) -> Path:
    """Four records of a payload; the third does not decode."""
    spec = None if payload == "msgpack" else {"a": "int64"}
    with dataformats.create(folder / "sound.ffr", "ffrecord", payload=payload, spec=spec) as writer:
        writer.extend({"a": i} for i in range(4))
    blobs = dataformats.open(folder / "sound.ffr").read_bytes(range(4))
    with dataformats.create(folder / "old.ffr", "ffrecord", payload="bytes") as writer:
        writer.extend([*blobs[:2], garbage, blobs[3]])
    return folder / "old.ffr"


@loop_over(
    "payload, garbage, format, options",
    [
        ("example", b"\xff no example", "ofrecord", {}),
        ("example", b"\xff no example", "granular", {}),
        ("example", b"\xff no example", "syrah", {}),
        ("example", b"\xff no example", "tfrecord", {"rename": {"a": "b"}}),
        ("ofrecord", b"\xff no record", "tfrecord", {}),
        ("msgpack", b"\xc1 no msgpack", "tfrecord", {"payload": "json"}),
        ("msgpack", b"\xc1 no msgpack", "ofrecord", {"payload": "json"}),
    ],
)
def test_undecodable_payload_ends_the_conversion(
    payload: str, garbage: bytes, format: str, options: dict[str, Any], tmp_path: Path
) -> None:
    old = of_payload(tmp_path, payload, garbage)
    spec = None if payload == "msgpack" else {"a": "int64"}
    source = dataformats.open(old, payload=payload, spec=spec)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(dataformats.CorruptRecordError) as caught:
        dataformats.convert(source, tmp_path / "new", format, **options)
    assert (caught.value.index, caught.value.path) == (2, str(old))
    assert sorted(tmp_path.iterdir()) == before


def test_undecodable_field_ends_the_conversion(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "old", "granular", spec={"x": "bytes"}) as writer:
        writer.extend({"x": b"{" if i == 2 else b"1"} for i in range(4))
    source = dataformats.open(tmp_path / "old", spec={"x": "json"})
    with pytest.raises(dataformats.CodecError) as caught:
        dataformats.convert(source, tmp_path / "new.ffr", spec={"x": "msgpack"})
    assert (caught.value.index, caught.value.field) == (2, "x")
    assert not (tmp_path / "new.ffr").exists()


def test_copied_payloads_are_not_decoded_and_verify_finds_them(tmp_path: Path) -> None:
    old = of_payload(tmp_path, "msgpack", b"\xc1 no msgpack")
    report = dataformats.convert(old, tmp_path / "new.tfrecord", source_options={"payload": "msgpack"})
    assert (report.copied, report.records, report.payload) == (True, 4, "msgpack")
    assert dataformats.open(report.path).read_bytes(range(4)) == dataformats.open(old).read_bytes(range(4))
    assert [finding.index for finding in dataformats.verify(report.path).findings] == [2]


def test_fields_found_only_in_late_samples_are_kept(tmp_path: Path) -> None:
    records = [{"x": 1}] * 100 + [{"x": 2, "extra": 3}]
    with dataformats.create(tmp_path / "a.tfrecord", spec={"x": "int64", "extra": "int64?"}) as writer:
        writer.extend(records)
    (tmp_path / "a.tfrecord.dataformats.json").unlink(missing_ok=True)
    options: dict[str, Any] = {"spec": {"x": "int32"}, "payload": "example"}
    assert dataformats.open(tmp_path / "a.tfrecord", **options).spec == {"x": "int32", "extra": "int64?"}
    report = dataformats.convert(tmp_path / "a.tfrecord", tmp_path / "b.jsonl", source_options=options)
    assert (report.left_out, list(dataformats.open(report.path))) == ((), records)
