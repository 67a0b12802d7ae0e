"""Targets of writers: partial data, other writers, existing folders."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import dataformats
from dataformats.storage import atomic
from dataformats.testing.loop_over import loop_over
from tests.cases import frames

BLOB_FORMATS = ("tfrecord", "ffrecord", "ofrecord")


ALL_FORMATS = (*BLOB_FORMATS, "syrah", "granular")


@loop_over("format", BLOB_FORMATS)
def test_partial_data_are_resumed_only_with_the_same_payload(tmp_path: Path, format: str) -> None:
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


def test_old_data_never_stand_under_a_new_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", payload="int64") as writer:
        writer.append(1)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    writer = dataformats.create(path, "ffrecord", payload="float64", overwrite=True)
    writer.append(1.0)
    with monkeypatch.context() as patched:
        patched.setattr(atomic, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    assert [*dataformats.open(path)] == [1]


@pytest.mark.parametrize("format", ["granular", "tfrecord"])
def test_a_folder_with_anything_but_data_is_not_replaced(tmp_path: Path, format: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"thesis\.tex"):
        dataformats.create(tmp_path / "x", format, spec={"a": "int64"}, overwrite=True)
    assert (tmp_path / "x" / "thesis.tex").read_text() == "years of work"


@loop_over("format", ALL_FORMATS)
def test_len_after_close_counts_every_record_once(tmp_path: Path, format: str) -> None:
    with dataformats.create(tmp_path / "x", format, spec={"a": "int64"}, shard_records=4) as writer:
        writer.extend({"a": i} for i in range(10))
    assert len(writer) == 10
    assert len(dataformats.open(tmp_path / "x")) == 10


def test_gz_suffix_compresses_the_file(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord.gz", "tfrecord") as writer:
        writer.append(b"a")
    assert gzip.decompress((tmp_path / "x.tfrecord.gz").read_bytes()) == frames(b"a")
