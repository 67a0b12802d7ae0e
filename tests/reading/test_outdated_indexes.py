"""Indexes of another file with the same name, size and time: sound files are read, damaged ones are scanned once."""

from __future__ import annotations

import gzip
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.backends.framed import reader
from dataformats.backends.framed.file_scan import scan
from dataformats.backends.framed.framing import Framing
from dataformats.codecs.example import EXAMPLE
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.indexing import index_cache
from dataformats.interfaces import OutdatedIndexError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.blob_source import BlobSource
from dataformats.spec import Spec
from dataformats.testing.loop_over import loop_over
from tests.cases import frames

TIME_NS = 10**18


def ofrecord(*blobs: bytes) -> bytes:
    return b"".join(struct.pack("<q", len(blob)) + blob for blob in blobs)


def fixed_gzip(data: bytes) -> bytes:
    return gzip.compress(data, 0, mtime=0)


PACKS: dict[str, Callable[..., bytes]] = {
    "tfrecord": frames,
    "ofrecord": ofrecord,
    "tfrecord.gz": lambda *blobs: fixed_gzip(frames(*blobs)),
}
BEFORE = [b"a" * 100, b"b" * 200, b"c" * 300]
SAME_NUMBER = [[b"x" * 100, b"y" * 200, b"z" * 300], [b"x" * 200, b"y" * 100, b"z" * 300]]


@pytest.fixture(params=PACKS)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["cache", "beside"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were scanned."""
    scanned: list[str] = []

    def counted(framing: Framing, file: StoredFile, *rest: Any) -> Any:
        scanned.append(file.name)
        return scan(framing, file, *rest)

    monkeypatch.setattr(reader, "scan", counted)
    return scanned


def replace(path: Path, content: bytes) -> None:
    """Put another file in its place, with the same size and time."""
    assert not path.exists() or path.stat().st_size == len(content)
    path.with_name("new").write_bytes(content)
    os.utime(path.with_name("new"), ns=(TIME_NS, TIME_NS))
    path.with_name("new").replace(path)


def outdated(tmp_path: Path, suffix: str, where: str, after: Sequence[bytes]) -> dict[str, Any]:
    """Return the arguments of `open` for a file whose index is of another one."""
    path = tmp_path / f"x.{suffix}"
    replace(path, PACKS[suffix](*BEFORE))
    source = dataformats.open(path, payload="bytes", index=where)
    assert list(source.read([0, 1, 2])) == BEFORE
    source.close()
    replace(path, PACKS[suffix](*after))
    return {"path": path, "payload": "bytes", "index": where}


@loop_over("after", SAME_NUMBER)
def test_a_sound_file_is_read(after: list[bytes], suffix: str, where: str, tmp_path: Path, scans: list[str]) -> None:
    arguments = outdated(tmp_path, suffix, where, after)
    scans.clear()
    source = dataformats.open(**arguments)
    assert len(source) == 3
    assert [source[i] for i in (2, 0, 1)] == [after[i] for i in (2, 0, 1)]
    assert source.read_bytes([1]) == [after[1]]
    assert list(source) == after
    assert dataformats.verify(**arguments).ok
    assert source.fingerprint == dataformats.open(**arguments).fingerprint == dataformats.info(**arguments).fingerprint
    assert len(scans) == (suffix != "ofrecord" or after is SAME_NUMBER[1])


def test_a_file_of_the_same_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size and its time are those of the file before."""
    monkeypatch.setattr(index_cache, "_TICK_NS", 10**12)  # however long this test takes
    path, now = tmp_path / "x.tar", time.time_ns()
    for sizes in ((1000, 2000), (2000, 1000)):  # both have blocks for as many bytes
        with dataformats.create(path, "webdataset", spec={"a": "bytes"}, overwrite=True) as writer:
            writer.extend({"a": b"x" * size} for size in sizes)
        path.with_name("x.tar.dataformats.json").unlink(missing_ok=True)
        os.utime(path, ns=(now, now))
        assert [len(found["a"]) for found in dataformats.open(path)] == list(sizes)


def test_a_spec_is_inferred_from_all_records(tmp_path: Path) -> None:
    """`verify` and `dataformats index --full` read the records before any other read compares the index."""
    example = EXAMPLE.bind(Spec({"a": "bytes"}), CodecResolver(None, trusted=False)).encode
    before, after = ([example({"a": b"x" * n}) for n in sizes] for sizes in ((10, 30), (30, 10)))
    path = tmp_path / "x.tfrecord"
    for verify in (True, False):
        replace(path, frames(*before))
        assert len(dataformats.open(path)) == 2
        replace(path, frames(*after))
        if verify:
            assert dataformats.verify(path).ok
        else:
            source = dataformats.open(path)
            assert isinstance(source, BlobSource)
            assert source.infer_fully() == {"a": "bytes"}


@loop_over("how", ["read", "iterate", "fingerprint", "verify", "info"])
def test_a_file_with_another_number_of_records(
    how: str, suffix: str, where: str, tmp_path: Path, scans: list[str]
) -> None:
    extra = 8 if suffix == "ofrecord" else 16
    after = [b"x" * 100, b"y" * 200, b"z" * (300 - extra - 1), b"!"]
    arguments = outdated(tmp_path, suffix, where, after)
    scans.clear()
    source = dataformats.open(**arguments)
    if how == "verify":
        assert dataformats.verify(**arguments).ok
    elif how == "info":
        assert dataformats.info(**arguments).records == 4
    else:
        reads: dict[str, Callable[[], Any]] = {
            "read": lambda: source[2],
            "iterate": lambda: list(source),
            "fingerprint": lambda: source.fingerprint,
        }
        assert len(source) == 3
        for _ in range(2):
            with pytest.raises(OutdatedIndexError, match=r"x\..*expected 3 records, found 4.*open the dataset"):
                reads[how]()
    again = dataformats.open(**arguments)
    assert len(again) == 4
    assert list(again.read(range(4))) == after
    assert len(scans) == 1


def test_files_of_a_dataset_are_compared_each(tmp_path: Path, scans: list[str]) -> None:
    paths = [tmp_path / f"{name}.tfrecord" for name in "abc"]
    for path in paths:
        replace(path, frames(*BEFORE))
    assert list(dataformats.open(paths, payload="bytes").read(range(9))) == 3 * BEFORE
    for path, blobs in zip(paths[1:], SAME_NUMBER, strict=True):
        replace(path, frames(*blobs))
    scans.clear()
    source = dataformats.open([*paths, paths[1]], payload="bytes")
    assert list(source.read(range(12))) == [*BEFORE, *SAME_NUMBER[0], *SAME_NUMBER[1], *SAME_NUMBER[0]]
    assert sorted(map(os.path.basename, scans)) == ["b.tfrecord", "b.tfrecord", "c.tfrecord"]


@pytest.mark.parametrize("where", ["cache", "beside"])
def test_a_damaged_file_is_scanned_once_and_its_other_records_are_read(
    where: str, tmp_path: Path, scans: list[str]
) -> None:
    path = tmp_path / "x.tfrecord"
    replace(path, frames(*BEFORE))
    assert len(dataformats.open(path, payload="bytes", index=where)) == 3
    content = bytearray(path.read_bytes())
    content[116] ^= 1  # the length of record 1
    replace(path, bytes(content))
    scans.clear()
    for _ in range(3):
        source = dataformats.open(path, payload="bytes", index=where)
        assert len(source) == 3
        batch = source.read([0, 1, 2], on_corrupt="omit")
        assert list(batch) == [BEFORE[0], BEFORE[2]]
        assert list(batch.failed) == [1]
        with pytest.raises(dataformats.FormatError, match="record 1 of"):
            source[1]
    assert len(scans) == 1


def test_another_thread_compares_the_index_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs with outdated locations are located again: the record is neither damaged nor omitted."""
    after = SAME_NUMBER[1]
    source = dataformats.open(**outdated(tmp_path, "tfrecord", "cache", after))
    assert isinstance(source, BlobSource)
    locate, waiting = source.reader.locate, [True]

    def slow(*arguments: Any) -> Any:
        located = locate(*arguments)
        if waiting:
            waiting.clear()
            other = threading.Thread(target=lambda: source[1])
            other.start()
            other.join()
        return located

    monkeypatch.setattr(source.reader, "locate", slow)
    assert list(source.read([0, 1, 2], on_corrupt="omit")) == after


def test_damage_of_the_data_is_no_reason_to_scan(tmp_path: Path, scans: list[str]) -> None:
    path = tmp_path / "x.tfrecord"
    replace(path, frames(*BEFORE))
    assert len(dataformats.open(path, payload="bytes")) == 3
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    replace(path, bytes(content))
    scans.clear()
    source = dataformats.open(path, payload="bytes")
    with pytest.raises(dataformats.ChecksumError, match="record 2 of"):
        source[2]
    assert not scans


def test_sound_file_replaces_index_of_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    content = bytearray(frames(*BEFORE))
    content[116] ^= 1  # the length of record 1
    replace(path, bytes(content))
    assert len(dataformats.open(path, payload="bytes")) == 2
    assert len(dataformats.open(path, payload="bytes")) == 2
    replace(path, frames(*BEFORE))
    assert list(dataformats.open(path, payload="bytes").read([0, 1, 2])) == BEFORE
