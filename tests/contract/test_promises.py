"""Promises that hold across formats: bounds, whose data a partial name holds, what verify tells."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.kernels import masked_crc32c
from dataformats.storage import atomic

BLOB_FORMATS = ("tfrecord", "ffrecord", "ofrecord")
GOLDEN = Path(__file__).parents[1] / "golden"
ALL_FORMATS = (*BLOB_FORMATS, "syrah", "granular")


def frames(*blobs: bytes) -> bytes:
    """A TFRecord, by the format's text alone."""
    return b"".join(_framed(struct.pack("<Q", len(blob))) + _framed(blob) for blob in blobs)


def _framed(data: bytes) -> bytes:
    return data + masked_crc32c(data).to_bytes(4, "little")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("n_bytes", [5000, 5 * 2**20])
def test_a_longer_record_than_allowed_is_refused_and_passed_over(
    tmp_path: Path, n_bytes: int, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(pack(frames(b"first", bytes(n_bytes), b"last")))
    source = dataformats.open(path, payload="bytes", max_record_bytes=1000)
    found: list[bytes] = []
    with pytest.raises(dataformats.FormatError, match="max_record_bytes") as streamed:
        found.extend(iter(source))
    assert [*source.read([0, 1, 2], on_corrupt="omit")] == [b"first", b"last"]
    with pytest.raises(dataformats.FormatError, match="max_record_bytes") as read:
        source[1]
    assert str(streamed.value) == str(read.value)
    report = dataformats.verify(path, payload="bytes", max_record_bytes=1000)
    assert [finding.index for finding in report.findings] == [1]


def test_memory_that_runs_out_is_not_corruption(tmp_path: Path) -> None:
    def decode(blob: bytes) -> Any:
        raise MemoryError

    with dataformats.create(tmp_path / "x.ffr", "ffrecord") as writer:
        writer.append(b"sound")
    source = dataformats.open(tmp_path / "x.ffr", payload="greedy", codecs={"greedy": (bytes, decode)})
    with pytest.raises(MemoryError):
        source.read([0], on_corrupt="omit")


def test_a_payload_that_does_not_decode_is_a_corrupt_record(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord") as writer:
        writer.extend([b"[1]", b"[1", b"[2]"])
    source = dataformats.open(tmp_path / "x.ffr", payload="json")
    with pytest.raises(dataformats.CorruptRecordError, match=r"record 1 of .*x\.ffr' at byte 51: .*json"):
        source[1]
    assert [*source.read([0, 1, 2], on_corrupt="omit")] == [[1], [2]]


def test_unknown_fields_of_an_example_are_skipped(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord", "tfrecord", spec={"a": "int64"}) as writer:
        writer.append({"a": 3})
    blob = dataformats.open(tmp_path / "x.tfrecord").read_bytes([0])[0] + b"\x28\x05"
    (tmp_path / "y.tfrecord").write_bytes(frames(blob))
    assert dataformats.open(tmp_path / "y.tfrecord", payload="example")[0] == {"a": 3}


@pytest.mark.parametrize("format", BLOB_FORMATS)
def test_what_was_left_is_gone_on_with_only_as_it_was_begun(tmp_path: Path, format: str) -> None:
    path = tmp_path / "x"
    begun = dataformats.create(path, format, payload="int64", resume=True)
    begun.append(1)
    begun.abort()
    with pytest.raises(dataformats.StateMismatchError, match="int64"):
        dataformats.create(path, format, payload="float64", resume=True)
    with dataformats.create(path, format, payload="int64", resume=True) as writer:
        writer.append(2)
    assert [*dataformats.open(path, format=format)] == [1, 2]
    assert sorted(part.name for part in tmp_path.iterdir()) == ["x", "x.dataformats.json"]


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_two_writers_of_one_name_never_publish_the_records_of_each_other(tmp_path: Path, format: str) -> None:
    path = tmp_path / "x"
    spec = {"a": "int64"}
    first = dataformats.create(path, format, spec=spec)
    first.extend({"a": 1} for _ in range(5))
    second = dataformats.create(path, format, spec=spec)
    second.extend({"a": 2} for _ in range(3))
    with pytest.raises(RuntimeError, match="another writer"):
        first.close()
    second.close()
    assert [record["a"] for record in dataformats.open(path, format=format, spec=spec)] == [2, 2, 2]


def test_old_data_never_stand_under_a_new_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", payload="int64") as writer:
        writer.append(1)

    def killed(partial: Path, final: Path) -> None:
        raise KeyboardInterrupt

    writer = dataformats.create(path, "ffrecord", payload="float64", overwrite=True)
    writer.append(1.0)
    with monkeypatch.context() as patched:
        patched.setattr(atomic, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    assert [*dataformats.open(path)] == [b"\1" + bytes(7)]


def test_verify_looks_at_every_file_of_a_set_that_cannot_be_opened(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "ffrecord", shard_records=2) as writer:
        writer.extend([b"a", b"b", b"c", b"d", b"e"])
    for name in ("PART_00000.ffr", "PART_00002.ffr"):
        data = bytearray((tmp_path / "x" / name).read_bytes())
        data[13] ^= 1
        (tmp_path / "x" / name).write_bytes(data)
    report = dataformats.verify(tmp_path / "x")
    assert [Path(str(finding.path)).name for finding in report.findings] == ["PART_00000.ffr", "PART_00002.ffr"]
    assert report.records == 2


def test_a_sibling_that_names_what_is_not_there_is_a_finding(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord") as writer:
        writer.append(b"a")
    (tmp_path / "x.ffr.dataformats.json").write_text(json.dumps({"version": 1, "payload": "nope"}))
    assert [finding.kind for finding in dataformats.verify(tmp_path / "x.ffr").findings] == ["UnknownNameError"]
    with pytest.raises(dataformats.UnknownNameError):
        dataformats.verify(tmp_path / "x.ffr", payload="nope")


def test_verify_takes_fields_that_nothing_decodes_as_bytes() -> None:
    report = dataformats.verify(GOLDEN / "granular" / "v3" / "custom_type")
    assert (report.ok, report.records) == (True, 3)


def test_the_file_of_the_field_that_does_not_decode_is_named(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "g", "granular", spec={"a": "int64", "meta": "bytes"}) as writer:
        writer.append({"a": 1, "meta": b"{"})
    with pytest.raises(dataformats.CodecError, match=r"meta\.bag"):
        dataformats.open(tmp_path / "g", spec={"a": "int64", "meta": "json"})[0]


def test_renaming_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dataformats.UnknownNameError, match="nearest: label"):
        dataformats.convert("tests/golden/real/digits-*.tfrecord", tmp_path / "x", "ffrecord", rename={"labels": "y"})


@pytest.mark.parametrize("format", ["granular", "tfrecord"])
def test_a_folder_with_anything_but_data_is_not_replaced(tmp_path: Path, format: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"thesis\.tex"):
        dataformats.create(tmp_path / "x", format, spec={"a": "int64"}, overwrite=True)
    assert (tmp_path / "x" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_len_after_close_counts_every_record_once(tmp_path: Path, format: str) -> None:
    with dataformats.create(tmp_path / "x", format, spec={"a": "int64"}, shard_records=4) as writer:
        writer.extend({"a": i} for i in range(10))
    assert len(writer) == 10
    assert len(dataformats.open(tmp_path / "x")) == 10


def test_a_conversion_leaves_no_field_out_unasked(tmp_path: Path) -> None:
    photos = GOLDEN / "real" / "photos.tfrecord"
    with pytest.raises(dataformats.SpecError, match="height, name, width"):
        dataformats.convert(photos, tmp_path / "x.syr", "syrah", spec={"image": "jpg"})
    report = dataformats.convert(photos, tmp_path / "x.syr", "syrah", spec={"image": "jpg"}, fields=["image"])
    assert (report.records, report.left_out) == (12, ("height", "name", "width"))


@pytest.mark.parametrize("format", ["tfrecord", "ofrecord"])
def test_our_own_empty_files_open(tmp_path: Path, format: str) -> None:
    dataformats.create(tmp_path / "x", format, spec={"a": "int64"}).close()
    assert len(dataformats.open(tmp_path / "x")) == 0
    assert dataformats.verify(tmp_path / "x").ok


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord.gz", "tfrecord") as writer:
        writer.append(b"a")
    assert gzip.decompress((tmp_path / "x.tfrecord.gz").read_bytes()) == frames(b"a")


def test_files_of_ours_in_a_folder_keep_their_siblings(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"a": "int64"}) as writer:
        writer.append({"a": 1})
    assert dataformats.open(tmp_path)[0] == {"a": 1}


class _Loud:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle in data was run",)


def test_only_the_call_can_name_pickle(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", spec={"x": "bytes"}) as writer:
        writer.append({"x": pickle.dumps(_Loud())})
    sibling = tmp_path / "x.ffr.dataformats.json"
    sibling.write_text(json.dumps(json.loads(sibling.read_text()) | {"spec": {"x": "pickle"}}))
    for payload in (None, "example"):
        with pytest.raises(dataformats.UnknownNameError, match="file may name"):
            dataformats.open(path, payload=payload)[0]
    assert dataformats.convert(path, tmp_path / "y.tfrecord", "tfrecord").copied


def test_a_description_of_one_kind_of_name() -> None:
    with pytest.raises(dataformats.UnknownNameError, match="'5'"):
        dataformats.open("tests", format=5)  # type: ignore[arg-type]  # what a caller without types may do
    with pytest.raises(FileNotFoundError):
        dataformats.open("")
