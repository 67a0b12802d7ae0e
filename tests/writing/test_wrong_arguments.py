"""Wrong arguments of writers and views are refused before anything is written, and errors of the disk name the data."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import dataformats


@pytest.mark.parametrize("kind", ["flaot32", "str", "jpgg[]?"])
@pytest.mark.parametrize("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular"])
def test_an_unknown_codec(tmp_path: Path, format: str, kind: str) -> None:
    with pytest.raises((dataformats.UnknownNameError, dataformats.SpecError)):
        dataformats.create(tmp_path / "x", format, spec={"x": kind})
    assert list(tmp_path.iterdir()) == []


def test_a_spec_that_is_no_mapping(tmp_path: Path) -> None:
    spec: Any = ["x"]
    for call in (dataformats.Spec, lambda spec: dataformats.create(tmp_path / "x.ffr", "ffrecord", spec=spec)):
        with pytest.raises(dataformats.SpecError, match="expected a mapping of field to type, found list"):
            call(spec)


def test_a_bag_that_should_hold_fields(tmp_path: Path) -> None:
    with pytest.raises(dataformats.SpecError, match=r"found 'x\.bag'"):
        dataformats.create(tmp_path / "x.bag", "granular", spec={"x": "int64"})


def test_views(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"x": "int64", "y": "utf8"}) as writer:
        writer.append({"x": 1, "y": "a"})
    source = dataformats.open(tmp_path / "x.ffr")
    fields: Any = ["x"]
    with pytest.raises(TypeError, match=r"expected names of fields, found \['x'\]"):
        source.select(fields)
    for view in (source, source[:1], source.select("x"), dataformats.concat([source, source])):
        assert view.with_spec({"x": "int32"})[0] == {"x": 1}


def write(path: Path) -> None:
    with dataformats.create(path, "ffrecord") as writer:
        writer.append(b"x")
        writer.flush()


@pytest.mark.parametrize("step", ["append", "flush", "finish"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "x.ffr"
    monkeypatch.setattr(f"dataformats.writing.shards.SingleFile.{step}", fail)
    with pytest.raises(OSError, match=r"No space left on device: .*x\.ffr'"):
        write(path)
    assert list(tmp_path.iterdir()) == []
