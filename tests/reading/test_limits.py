"""Limits of reads: record sizes, memory, payloads that do not decode."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.cases import frames


@loop_over("pack", [bytes, gzip.compress])
@loop_over("n_bytes", [5000, 5 * 2**20])
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


@pytest.mark.parametrize("cache", [None, "memory"])
def test_small_compressed_files_have_shorter_records(tmp_path: Path, cache: str | None) -> None:
    path = tmp_path / "x.tfrecord.gz"
    path.write_bytes(gzip.compress(frames(b"first", bytes(200_000), b"last")))  # some 300 bytes
    assert path.stat().st_size < 1000
    for allowed, is_read in ((1_600_000, True), (800_000, False)):
        source = dataformats.open(path, payload="bytes", max_record_bytes=allowed, cache=cache)
        batch = source.read([0, 1, 2], on_corrupt="omit")
        assert [len(blob) for blob in batch] == ([5, 200_000, 4] if is_read else [5, 4])
        if not is_read:
            with pytest.raises(dataformats.FormatError, match=r"<= 100000 bytes.*compressed.*max_record_bytes=1600000"):
                source[1]
            with pytest.raises(dataformats.FormatError, match="max_record_bytes=1600000"):
                list(source)
    plain = tmp_path / "x.tfrecord"
    plain.write_bytes(frames(b"first", bytes(200_000), b"last"))
    assert len(dataformats.open(plain, payload="bytes", max_record_bytes=200_000)[1]) == 200_000
    large = tmp_path / "y.tfrecord.gz"
    large.write_bytes(gzip.compress(frames(bytes(200_000)), 0))  # no smaller than the record
    assert len(dataformats.open(large, payload="bytes", max_record_bytes=200_000)[0]) == 200_000


def test_memory_error_is_not_omitted(tmp_path: Path) -> None:
    def decode(blob: bytes) -> Any:
        raise MemoryError

    with dataformats.create(tmp_path / "x.ffr", "ffrecord") as writer:
        writer.append(b"sound")
    source = dataformats.open(tmp_path / "x.ffr", payload="greedy", codecs={"greedy": (bytes, decode)})
    with pytest.raises(MemoryError):
        source.read([0], on_corrupt="omit")


def test_undecodable_payload_is_a_corrupt_record(tmp_path: Path) -> None:
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


def test_undecodable_field_names_its_file(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "g", "granular", spec={"a": "int64", "meta": "bytes"}) as writer:
        writer.append({"a": 1, "meta": b"{"})
    with pytest.raises(dataformats.CodecError, match=r"meta\.bag"):
        dataformats.open(tmp_path / "g", spec={"a": "int64", "meta": "json"})[0]
