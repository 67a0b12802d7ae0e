"""Fingerprints of long records: bounded reads, and the value that earlier versions gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.interfaces import Located
from dataformats.loaders.state import State
from dataformats.reading import fingerprint
from dataformats.reading.blob_reader import BlobReader
from dataformats.reading.fingerprint import earlier_fingerprint

EARLIER = {
    "long.tfrecord": "4e5f9436c6a3975283c1b714881877cd",
    "long.ofrecord": "0b8297fa7f6a584baf30d45219359edb",
    "long.ffr": "51b1436883920f5b29044d8679169496",
    "long.syr": "26f38fbc77b8b3e6c30171f296f47fcf",
    "long": "79d76a8bcea189b7ba1f4a91958db84e",
    "frames": "03170e4212c868a6f01398f6ee351d4b",
}
"""Of records with more than 1 MiB, by the package when it digested all sampled records whole."""

FORMATS = {"": "granular", ".tfrecord": "tfrecord", ".ofrecord": "ofrecord", ".ffr": "ffrecord", ".syr": "syrah"}


def write_long(path: Path) -> dataformats.RecordSource:
    clips = path.name == "frames"
    spec = {"id": "int64"} | ({"clip": "bytes[]"} if clips else {"text": "bytes"})
    with dataformats.create(path, FORMATS[path.suffix], spec=spec) as writer:
        for i in range(6):
            clip = [bytes([k]) * 100_000 for k in range(30 * (i % 2))]
            writer.append({"id": i} | ({"clip": clip} if clips else {"text": bytes(range(256)) * 5000 * (i % 2)}))
    return dataformats.open(path)


@pytest.mark.parametrize("name", EARLIER)
def test_states_of_earlier_versions_are_accepted(name: str, tmp_path: Path) -> None:
    source = write_long(tmp_path / name)
    assert earlier_fingerprint(source) == EARLIER[name] != source.fingerprint
    loader = dataformats.Loader(source, 2, seed=3)
    state = loader.state_dict()
    assert state["fingerprint"] == source.fingerprint
    earlier = State(4, 3, EARLIER[name], state["shuffle"], state["plan"])
    loader.load_state_dict(earlier.to_json())
    assert loader.position == 4
    with pytest.raises(dataformats.StateMismatchError, match="fingerprint"):
        dataformats.Loader(source.take([0, 1, 3]), 2, seed=3).load_state_dict(earlier.to_json())


def test_sources_made_of_others_have_an_earlier_fingerprint(tmp_path: Path) -> None:
    source = write_long(tmp_path / "frames")
    of_files = fingerprint.samples_are_whole
    for made in (source[1:], dataformats.concat([source, source]), dataformats.mix({"a": source, "b": source[2:]})):
        assert earlier_fingerprint(made) != made.fingerprint
        assert not of_files.get()


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
    small_limits.clear()
    earlier_fingerprint(source)
    assert 5000 <= max(small_limits) < 10_100


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
    content[-310] ^= 1  # in record 1
    path.write_bytes(content)
    assert dataformats.open(path).fingerprint != sound
    content[12 + 3 * 4 + 7 + 8] = 0x3F  # the offset of record 1
    path.write_bytes(content)
    assert len(dataformats.open(path, verify_checksums=False).fingerprint) == 32
    assert np.max(small_limits) < 1000
