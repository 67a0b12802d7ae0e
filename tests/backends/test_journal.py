"""The journal of a growing file: after any crash or disk error, only correct entries are loaded."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import dataformats
from dataformats.backends.journaled import journal as journal_module
from dataformats.backends.journaled.journal import Entries, Journal, count_sound, read_checksums
from dataformats.storage.atomic import write_all

MAGIC = b"TESTJRNL"
FACTS = {"base": 7, "a key": "int64"}
N = 5
BLOBS = [bytes([i]) * length for i, length in enumerate([3, 0, 1, 4, 1, 5, 0, 0, 2])]


def entries_of(n: int, k: int, first: int = 0) -> Entries:
    numbers = np.arange(first, first + n, dtype=np.int64)
    sizes = numbers[:, None] * 1000003 + np.arange(k)
    return Entries(FACTS, sizes, (numbers * 2654435761 % 2**32).astype(np.uint32))


def same(one: Entries | None, other: Entries) -> bool:
    return one is not None and (
        list(one.facts.items()) == list(other.facts.items())
        and one.sizes.dtype == np.int64
        and one.checksums.dtype == np.uint32
        and np.array_equal(one.sizes, other.sizes)
        and np.array_equal(one.checksums, other.checksums)
    )


def written(path: Path, k: int) -> tuple[bytes, int, int]:
    """A journal of N entries, some there from the start and some appended; its head's bytes, and an entry's."""
    Journal(path, MAGIC, Entries.none(FACTS, k)).close()
    head = path.stat().st_size
    journal = Journal(path, MAGIC, entries_of(2, k))
    for first, n in ((2, 2), (4, 0), (4, 1)):
        added = entries_of(n, k, first)
        journal.append(added.sizes, added.checksums)
    assert journal.n_entries == N
    journal.sync()
    journal.close()
    data = path.read_bytes()
    return data, head, (len(data) - head) // N


@pytest.fixture(params=[1, 3], ids=["one size", "three sizes"])
def k(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_what_was_appended_comes_out(tmp_path: Path, k: int) -> None:
    written(tmp_path / "j", k)
    found = Journal.load(tmp_path / "j", MAGIC)
    assert same(found, entries_of(N, k))
    assert found is not None
    assert found.lengths.tolist() == found.sizes.sum(axis=1).tolist()
    assert found.n_bytes == found.sizes.sum()
    assert [path.name for path in tmp_path.iterdir()] == ["j"]


def test_no_entries(tmp_path: Path, k: int) -> None:
    Journal(tmp_path / "j", MAGIC, Entries.none(FACTS, k)).close()
    found = Journal.load(tmp_path / "j", MAGIC)
    assert same(found, Entries.none(FACTS, k))
    assert found is not None
    assert (len(found), found.n_bytes, found.sizes.shape) == (0, 0, (0, k))


def test_a_missing_or_empty_journal(tmp_path: Path) -> None:
    assert Journal.load(tmp_path / "j", MAGIC) is None
    (tmp_path / "j").write_bytes(bytes(100))
    assert Journal.load(tmp_path / "j", MAGIC) is None


def test_the_journal_of_another_format(tmp_path: Path) -> None:
    written(tmp_path / "j", 1)
    assert Journal.load(tmp_path / "j", b"ANOTHER1") is None


def test_cut_at_every_byte(tmp_path: Path, k: int) -> None:
    data, head, entry = written(tmp_path / "j", k)
    for stop in range(len(data) + 1):
        (tmp_path / "j").write_bytes(data[:stop])
        found = Journal.load(tmp_path / "j", MAGIC)
        if stop < head:
            assert found is None
        else:
            assert same(found, entries_of((stop - head) // entry, k))


def test_a_moved_entry_ends_the_journal(tmp_path: Path, k: int) -> None:
    data, head, entry = written(tmp_path / "j", k)
    rows = [data[head + i * entry : head + (i + 1) * entry] for i in range(N)]
    for i in range(N):
        for moved in range(N):
            if moved != i:
                (tmp_path / "j").write_bytes(data[:head] + b"".join([*rows[:i], rows[moved], *rows[i + 1 :]]))
                assert same(Journal.load(tmp_path / "j", MAGIC), entries_of(i, k))


def test_a_negative_size_ends_the_journal(tmp_path: Path) -> None:
    sizes = np.array([[1, 2], [3, -1], [4, 5]])
    Journal(tmp_path / "j", MAGIC, Entries({}, sizes, np.zeros(3, np.uint32))).close()
    assert same(Journal.load(tmp_path / "j", MAGIC), Entries({}, sizes[:1], np.zeros(1, np.uint32)))


def test_a_failed_append_can_be_done_again(tmp_path: Path, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def torn(descriptor: int, data: bytes, offset: int) -> int:
        pwrite(descriptor, data[:21], offset)
        raise OSError("the disk is full")

    journal = Journal(tmp_path / "j", MAGIC, entries_of(2, k))
    added = entries_of(N - 2, k, 2)
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", torn)
        with pytest.raises(OSError, match="full"):
            journal.append(added.sizes, added.checksums)
    assert journal.n_entries == 2
    journal.append(added.sizes, added.checksums)
    journal.close()
    assert same(Journal.load(tmp_path / "j", MAGIC), entries_of(N, k))


def test_a_crash_while_it_is_written_anew_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "j", 1)
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{name}", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                Journal(tmp_path / "j", MAGIC, entries_of(2, 1))
        assert same(Journal.load(tmp_path / "j", MAGIC), entries_of(N, 1))


def test_the_system_may_take_less_than_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr("os.pwrite", lambda descriptor, data, offset: pwrite(descriptor, data[:2], offset))
    with (tmp_path / "a").open("wb") as file:
        write_all(file.fileno(), b"abcdefg", 3)
        write_all(file.fileno(), b"", 0)
    assert (tmp_path / "a").read_bytes() == bytes(3) + b"abcdefg"


# ---- the data that a journal speaks of


@pytest.fixture(params=[1, 3, 8, 2**20])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_CHUNK_BYTES", request.param)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[int]:
    """A descriptor of BLOBS behind six other bytes."""
    (tmp_path / "data").write_bytes(b"header" + b"".join(BLOBS))
    descriptor = os.open(tmp_path / "data", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def entries_of_blobs() -> Entries:
    lengths = np.array([len(blob) for blob in BLOBS])
    checksums = np.array([crc32(blob) for blob in BLOBS], np.uint32)
    return Entries({}, np.stack([lengths // 2, lengths - lengths // 2], axis=1), checksums)


@pytest.mark.usefixtures("pieces")
def test_checksums_of_neighbors(data: int) -> None:
    parts = list(read_checksums(data, 6, entries_of_blobs().lengths))
    assert np.concatenate(parts).tolist() == [crc32(blob) for blob in BLOBS]
    assert list(read_checksums(data, 6, np.zeros(0, np.int64))) == []


@pytest.mark.usefixtures("pieces")
def test_data_cut_at_every_byte(data: int) -> None:
    entries = entries_of_blobs()
    ends = 6 + np.cumsum(entries.lengths)
    for size in range(int(ends[-1]), -1, -1):
        os.ftruncate(data, size)
        assert count_sound(data, 6, entries) == int((ends <= size).sum())
        assert count_sound(data, 6, entries.first(2)) == int((ends[:2] <= size).sum())
        assert count_sound(data, 6, entries.first(0)) == 0


@pytest.mark.usefixtures("pieces")
def test_data_with_a_flipped_bit(data: int) -> None:
    entries = entries_of_blobs()
    owner = np.repeat(np.arange(len(BLOBS)), entries.lengths)
    for at, number in enumerate(owner.tolist()):
        byte = os.pread(data, 1, 6 + at)
        os.pwrite(data, bytes([byte[0] ^ 0x10]), 6 + at)
        assert count_sound(data, 6, entries) == number
        os.pwrite(data, byte, 6 + at)
    assert count_sound(data, 6, entries) == len(BLOBS)


@pytest.mark.parametrize("n_sizes", [0, 2**31, 2**32 - 1])
@pytest.mark.parametrize("text", [b"{}", b"[]", b"3", b"{", b"[" * 10_000])
def test_a_head_that_no_writer_writes_is_not_sound(tmp_path: Path, n_sizes: int, text: bytes) -> None:
    for n in {n_sizes, 1} - ({1} if text == b"{}" else set()):
        head = struct.pack("<8sII", MAGIC, n, len(text)) + text
        (tmp_path / "j").write_bytes(head + crc32(head).to_bytes(4, "little") + bytes(64))
        assert Journal.load(tmp_path / "j", MAGIC) is None


def test_facts_of_another_format_are_not_sound(tmp_path: Path) -> None:
    Journal(tmp_path / "j", MAGIC, entries_of(2, 3)).close()
    assert Journal.load(tmp_path / "j", MAGIC, lambda facts, n: (facts, n) == (FACTS, 3)) is not None
    assert Journal.load(tmp_path / "j", MAGIC, lambda facts, n: n == len(facts)) is None


@pytest.mark.parametrize("facts", [{}, {"base": "0"}, {"base": None}, {"base": -1}, {"base": 2**62}])
@pytest.mark.parametrize("format", ["ffrecord", "syrah"])
def test_data_with_forged_facts_are_not_resumed(tmp_path: Path, format: str, facts: dict[str, Any]) -> None:
    spec = {"a": "int64", "b": "int64"}
    writer = dataformats.create(tmp_path / "x", format, spec=spec, resume=True)
    writer.extend([{"a": 1, "b": 2}] * 3)
    writer.flush()
    writer.abort()
    journal = next(tmp_path.glob("*.journal"))
    loaded = Journal.load(journal, journal.read_bytes()[:8])
    assert loaded is not None
    Journal(journal, journal.read_bytes()[:8], replace(loaded, facts=facts)).close()
    with pytest.raises(dataformats.FormatError, match="without its journal"):
        dataformats.create(tmp_path / "x", format, spec=spec, resume=True)
