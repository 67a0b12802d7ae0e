"""The index that writers leave beside shards: readers need no other one, and never believe it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import dataformats
from dataformats.backends.ofrecord.layout import FRAMING as OFRECORD
from dataformats.backends.tfrecord.layout import FRAMING as TFRECORD
from dataformats.indexing import index_cache
from dataformats.writing.appending_writer import AppendingWriter

FRAMINGS = {"tfrecord": TFRECORD, "ofrecord": OFRECORD}
RECORDS = [b"%03d" % i + b"x" * (i * i % 11) for i in range(100)]


@pytest.fixture(params=["tfrecord", "ofrecord"])
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["local", "remote"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index_cache, "_TICK_NS", 0)  # the indexes of new files count, too
    return str(tmp_path / "data") if request.param == "local" else f"memory://{uuid.uuid4().hex}/data"


def write(path: str, format: str, records: list[bytes] = RECORDS, **options: Any) -> None:
    with dataformats.create(path, format, payload="bytes", **{"shard_records": 30, **options}) as writer:
        writer.extend(records[len(writer) if options.get("resume") else 0 :])


def append(path: str, format: str) -> None:
    write(path, format, RECORDS[:70])
    write(path, format, RECORDS[70:], append=True)


def resume(path: str, format: str) -> None:
    writer = dataformats.create(path, format, payload="bytes", shard_records=30, resume=True)
    writer.extend(RECORDS[:70])
    writer.flush()
    writer.abort()  # which keeps what can be resumed
    write(path, format, resume=True)


def convert(path: str, format: str) -> None:
    write(f"{path}-source", format, shard_records=50)
    dataformats.convert(dataformats.open(f"{path}-source"), path, format, shard_records=30)


def merge(path: str, format: str) -> None:
    write(f"{path}-1", format, RECORDS[:50])
    write(f"{path}-2", format, RECORDS[50:])
    dataformats.merge([f"{path}-1", f"{path}-2"], path, shards=4)


def split(path: str, format: str) -> None:
    write(f"{path}-source", format, shard_records=50)
    dataformats.split(f"{path}-source", path, shard_records=30)


def repair(path: str, format: str) -> None:
    write(f"{path}-source", format)
    dataformats.repair(f"{path}-source", path)


def overwrite(path: str, format: str) -> None:
    write(path, format, RECORDS[::-1])
    write(path, format, overwrite=True)


def never(*_: object) -> Any:
    raise AssertionError("scanned, or compared with all headers")


@pytest.mark.parametrize(
    "make", [write, append, resume, convert, merge, split, repair, overwrite], ids=lambda make: make.__name__
)
def test_shards_need_no_scan(
    make: Callable[[str, str], None], path: str, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path, format)
    monkeypatch.setattr("dataformats.backends.framed.reader.scan", never)
    monkeypatch.setattr("dataformats.backends.framed.frame_index.FrameIndexStore.load_hinted", never)
    source = dataformats.open(path)
    assert len(source) == len(RECORDS)
    assert list(source.read_bytes(np.arange(len(RECORDS))[::-1])) == RECORDS[::-1]


@pytest.mark.parametrize("format", ["jsonl", "text"])
@pytest.mark.parametrize("path", ["local"], indirect=True)  # without checksums, an index behind a URL is not believed
def test_shards_of_lines_need_no_scan(format: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Any] = [f"{n}" * (n % 5) if format == "text" else {"n": n} for n in range(70)]
    options: dict[str, Any] = {"payload": "utf8"} if format == "text" else {"spec": {"n": "int64"}}
    with dataformats.create(path, format, shard_records=30, **options) as writer:
        writer.extend(records)
    monkeypatch.setattr("dataformats.backends.lines.line_index.find_lines", never)
    assert list(dataformats.open(path)) == records


def test_shards_of_many_records_and_repeated_calls_get_none(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dataformats.backends.framed.writer._MAX_ROWS", 20)
        write(str(tmp_path / "many"), format, shard_records=50)
        for _ in range(2):
            writer: Any = dataformats.create(tmp_path / "long", format, payload="bytes", shard_records=200, resume=True)
            assert (writer.shard_writer.file._index is None) == (len(writer) > 0)  # a resume holds no more rows
            writer.extend(RECORDS)
            writer.abort()
    add = AppendingWriter._add

    def interrupt(*_: Any) -> None:
        monkeypatch.setattr(AppendingWriter, "_add", add)
        raise KeyboardInterrupt

    with dataformats.create(tmp_path / "again", format, payload="bytes", shard_records=200) as writer:
        writer.extend(RECORDS)
        monkeypatch.setattr(AppendingWriter, "_add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            writer.flush()
    for name in ("many", "again"):
        assert not (tmp_path / f"{name}.dataformats.idx").exists()
        assert list(dataformats.open(tmp_path / name)) == RECORDS


def test_formats_without_it_leave_none(path: str, format: str) -> None:
    write(path, format)
    fs, name = fsspec.core.url_to_fs(f"{path}.dataformats.idx")
    assert fs.exists(name)
    write(path, "ffrecord", overwrite=True)
    assert not fs.exists(name)
    write(f"{path}.gz", "tfrecord", compression="gzip")
    assert not fs.exists(f"{name.removesuffix('.dataformats.idx')}.gz.dataformats.idx")


@pytest.mark.parametrize("order", ["reversed", "ends swapped", "two merged"])
def test_rewritten_shard_is_read_anew(path: str, format: str, order: str) -> None:
    """Another program writes a file of equal size; it may have equal frames at some places."""
    write(path, format, shard_records=100)
    records = RECORDS[::-1] if order == "reversed" else [RECORDS[-1], *RECORDS[1:-1], RECORDS[0]]
    if order == "two merged":
        records = [RECORDS[0] + bytes(FRAMINGS[format].extra) + RECORDS[1], *RECORDS[2:]]
    shard = dataformats.open(path, payload="bytes").paths[0]  # the sidecar of OFRecord finds it, too
    files, name = fsspec.core.url_to_fs(shard)
    before = files.cat_file(name)
    files.pipe_file(name, FRAMINGS[format].frames(records))
    assert len(FRAMINGS[format].frames(records)) == len(before)
    source = dataformats.open(path, payload="bytes")
    if len(source) != len(records):  # the index has another number, and a frame differs from it
        with pytest.raises(dataformats.FormatError, match="open the dataset again"):
            source.read_bytes(np.arange(len(source)))
        source = dataformats.open(path, payload="bytes")
    assert list(source.read_bytes(np.arange(len(records)))) == records


def test_damaged_or_missing_index_is_replaced(path: str, format: str) -> None:
    write(path, format)
    fs, name = fsspec.core.url_to_fs(f"{path}.dataformats.idx")
    sound = fs.cat_file(name)
    damaged = [sound[:at] + bytes([sound[at] ^ 16]) + sound[at + 1 :] for at in range(0, len(sound), 101)]
    for content in (*damaged, *(sound[:at] for at in range(0, len(sound), 301)), sound + b"x", None):
        fs.rm_file(name) if content is None else fs.pipe_file(name, content)
        assert list(dataformats.open(path).read_bytes(np.arange(len(RECORDS)))) == RECORDS
