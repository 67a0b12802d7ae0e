"""Wrong arguments of writers and views are refused before anything is written, and errors of the disk name the data."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.errors import SpecError
from dataformats.images import CenterCrop, RandomResizedCrop, Resize
from dataformats.interfaces import Backend, Reader, ReaderOptions, SniffResult, StoredFile, backends
from dataformats.testing.loop_over import loop_over


@loop_over("kind", ["flaot32", "str", "jpgg[]?"])
@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular"])
def test_an_unknown_codec(tmp_path: Path, format: str, kind: str) -> None:
    with pytest.raises((dataformats.UnknownNameError, dataformats.SpecError)):
        dataformats.create(tmp_path / "x", format, spec={"x": kind})
    assert list(tmp_path.iterdir()) == []


def test_spec_other_than_a_mapping_is_refused(tmp_path: Path) -> None:
    spec: Any = ["x"]
    for call in (dataformats.Spec, lambda spec: dataformats.create(tmp_path / "x.ffr", "ffrecord", spec=spec)):
        with pytest.raises(dataformats.SpecError, match="expected a mapping of field to type, found list"):
            call(spec)


def test_fields_in_a_bag_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dataformats.SpecError, match=r"found 'x\.bag'"):
        dataformats.create(tmp_path / "x.bag", "granular", spec={"x": "int64"})


def test_views(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"x": "int64", "y": "utf8"}) as writer:
        writer.append({"x": 1, "y": "a"})
    source = dataformats.open(tmp_path / "x.ffr")
    fields: Any = {"x": True}
    with pytest.raises(TypeError, match=r"select takes names of fields, found \(\{'x': True\},\)"):
        source.select(fields)
    with pytest.raises(ValueError, match=r"expected bool\[1\], found int64\[\] in where="):
        source.where(3)
    for view in (source, source[:1], source.select("x", "y"), dataformats.concat([source, source])):
        assert view.with_spec({"x": "int32"}).spec == {"x": "int32", "y": "utf8"}
        assert view.with_spec({"x": "int32"})[0] == {"x": 1, "y": "a"}


def write(path: Path) -> None:
    with dataformats.create(path, "ffrecord") as writer:
        writer.append(b"x")
        writer.flush()


@loop_over(
    "step",
    [
        "writing.shard_writer.ShardWriter.append",
        "writing.shard_writer.ShardWriter.flush",
        "writing.shard_writer.ShardWriter.finish",
        "staging.local_area.LocalArea.begin",
        "staging.lock.NameLock.write",
    ],
)
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "x.ffr"
    monkeypatch.setattr(f"dataformats.{step}", fail)
    with pytest.raises(OSError, match=r"No space left on device: .*x\.ffr'"):
        write(path)
    assert list(tmp_path.iterdir()) == []


@loop_over("workers", [0, 2])
@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular"])
def test_an_error_names_the_record_and_the_field(tmp_path: Path, format: str, workers: int) -> None:
    records: list[dict[str, Any]] = [{"x": n, "y": "a"} for n in range(20)]
    running = set(threading.enumerate())
    for wrong in ({"x": 1.5, "y": "a"}, {"x": 1, "y": 2}):
        field = "x" if wrong["x"] == 1.5 else "y"
        spec = {"x": "int64", "y": "utf8"}
        writer = dataformats.create(tmp_path / "x", format, spec=spec, workers=workers, overwrite=True)
        with pytest.raises(
            (dataformats.SpecError, dataformats.CodecError), match=f"record 20, field '{field}'"
        ) as error:
            writer.extend([*records, wrong, wrong])
        assert set(threading.enumerate()) <= running
        found: Any = error.value
        assert (found.index, found.field) == (20, field)
        writer.abort()


def test_an_error_counts_the_records_before_a_resume(tmp_path: Path) -> None:
    for n in range(3):
        writer = dataformats.create(tmp_path / "x.tfrecord", payload="json", resume=True)
        writer.append(n)
        with pytest.raises(dataformats.CodecError, match=f"record {n + 1}, codec 'json'"):
            writer.append({1, 2})
        writer.abort()


@loop_over(
    "name, format",
    [
        ("x.ffr", "ffrecord"),
        ("X.TFRecord.gz", "tfrecord"),
        ("part-3", "ofrecord"),
        ("x.syr", "syrah"),
        ("x.bag", "granular"),
    ],
)
def test_the_name_gives_the_format(tmp_path: Path, name: str, format: str) -> None:
    options: dict[str, Any] = {"spec": {"x": "int64"}} if format == "syrah" else {"payload": "bytes"}
    with dataformats.create(tmp_path / name, **options) as writer:
        writer.append({"x": 1} if format == "syrah" else b"x")
    assert dataformats.open(tmp_path / name, payload=options.get("payload")).format == format


@loop_over("name", ["x", "x.log", "x.gz"])
def test_name_without_a_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(dataformats.UnknownNameError, match=r"format for the name.*Pass format="):
        dataformats.create(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


class ReadOnly(Backend):
    name = "readonly"
    suffixes = (".readonly", ".ffr")

    def sniff(self, file: StoredFile) -> SniffResult:
        return SniffResult("no")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> Reader:
        raise NotImplementedError


def test_read_only_formats_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends._objects, "readonly", ReadOnly())
    source = dataformats.open("tests/golden/real/digits-*.tfrecord")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("x.readonly", {}),
        ("x", {"format": "readonly"}),
        ("x.readonly", {"y": 1}),
    ]
    for path, options in calls:
        message = r"^readonly files are read, not written\. Pass another format=\.$"
        with pytest.raises(SpecError, match=message):
            dataformats.create(tmp_path / path, **options)
        with pytest.raises(SpecError, match=message):
            dataformats.convert(source, tmp_path / path, **options)
    with pytest.raises(dataformats.UnknownNameError) as unknown:
        dataformats.create(tmp_path / "x.unknown")
    assert {"ffrecord", "readonly"} & {*unknown.value.known} == {"ffrecord"}
    assert list(tmp_path.iterdir()) == []
    dataformats.create(tmp_path / "x.ffr").close()  # of the two formats with this suffix, the one that is written
    assert dataformats.open(tmp_path / "x.ffr", format="ffrecord").format == "ffrecord"


@loop_over("value", [True, 2.0, "2", -1])
def test_integers(tmp_path: Path, value: Any) -> None:
    for name in ("shard_records", "shard_bytes", "shard_step", "workers"):
        with pytest.raises(ValueError, match=f"{name}: expected a whole number"):
            dataformats.create(tmp_path / "x", "ffrecord", **{name: value})
    write(tmp_path / "x.ffr")
    with pytest.raises(ValueError, match="max_record_bytes: expected a whole number"):
        dataformats.open(tmp_path / "x.ffr", max_record_bytes=value)
    with pytest.raises(ValueError, match="count: expected a whole number"):
        dataformats.open(tmp_path / "x.ffr").shard(0, value)
    for make in (RandomResizedCrop, CenterCrop, Resize):
        with pytest.raises(ValueError, match="size: expected one whole number"):
            make(value)
