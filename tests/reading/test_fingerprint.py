"""Fingerprints of long records: bounded reads, and the value that earlier versions gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.interfaces import Located
from dataformats.reading import fingerprint
from dataformats.reading.blob_reader import BlobReader

FORMATS = {"": "granular", ".tfrecord": "tfrecord", ".ofrecord": "ofrecord", ".ffr": "ffrecord", ".syr": "syrah"}


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each read of samples, with limits for records of a few bytes."""
    for name, limit in (("_WHOLE_BYTES", 100), ("_PIECE_BYTES", 10), ("_READ_BYTES", 1000)):
        monkeypatch.setattr(fingerprint, name, limit)
    read: list[int] = []
    fetch = BlobReader.fetch_located

    def counted(self: BlobReader, located: Mapping[str, Located]) -> Any:
        read.append(sum(int(one.extents.length.sum()) for one in located.values()))
        return fetch(self, located)

    monkeypatch.setattr(BlobReader, "fetch_located", counted)
    return read


@pytest.mark.parametrize("suffix", FORMATS)
def test_little_is_read_at_once(suffix: str, tmp_path: Path, small_limits: list[int]) -> None:
    with dataformats.create(tmp_path / f"x{suffix}", FORMATS[suffix], spec={"a": "bytes", "b": "bytes"}) as writer:
        writer.extend({"a": b"a" * 5000 * (i % 3), "b": b"b" * 50} for i in range(64))
    source = dataformats.open(tmp_path / f"x{suffix}")
    small_limits.clear()
    assert len(source.fingerprint) == 32
    assert len(small_limits) > 1
    assert max(small_limits) <= 1000


def test_both_ends_and_the_lengths_of_long_records_count(tmp_path: Path, small_limits: list[int]) -> None:
    def print_of(*clips: bytes) -> str:
        with dataformats.create(tmp_path / "x", "granular", spec={"clip": "bytes[]"}, overwrite=True) as writer:
            writer.extend([{"clip": clips}, {"clip": [b"short"]}, {"clip": []}])
        return dataformats.open(tmp_path / "x").fingerprint

    first, last = bytes(range(90)), bytes(range(50, 150))
    prints = [print_of(first, last), print_of(first + b"0", last[1:]), print_of(b"x" + first[1:], last)]
    prints += [print_of(first, last[:-1] + b"x"), print_of(first, b"0", last[1:])]
    assert len(set(prints)) == len(prints)
    assert print_of(first, last) == prints[0]
    assert small_limits


def test_damage_among_long_records(tmp_path: Path, small_limits: list[int]) -> None:
    """An offset outside the file is no reason to read anything, and a sample whose checksum fails is none."""
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord") as writer:
        writer.extend([b"a" * 300, b"b" * 20, b"c" * 300])
    sound = dataformats.open(path).fingerprint
    content = bytearray(path.read_bytes())
    content[-310] ^= 1  # a byte of record 1
    path.write_bytes(content)
    assert dataformats.open(path).fingerprint != sound
    content[12 + 3 * 4 + 7 + 8] = 0x3F  # the offset of record 1
    path.write_bytes(content)
    assert len(dataformats.open(path, verify_checksums=False).fingerprint) == 32
    assert np.max(small_limits) < 1000


def test_short_records_of_a_field_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work by field and record took nine seconds for 5,000 fields."""
    fields = [f"f{number}" for number in range(30)]
    with dataformats.create(tmp_path / "x", "granular", spec=dict.fromkeys(fields, "int64")) as writer:
        writer.extend(dict.fromkeys(fields, row) for row in range(64))
    parts: list[int] = []
    fetch = BlobReader.fetch_located

    def counted(self: BlobReader, located: Mapping[str, Located]) -> Any:
        parts.append(len(located))
        return fetch(self, located)

    monkeypatch.setattr(BlobReader, "fetch_located", counted)
    assert len(dataformats.open(tmp_path / "x").fingerprint) == 32
    assert parts == [30]
