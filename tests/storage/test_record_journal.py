"""The journal of a growing file: after any crash or disk error, only correct entries are loaded."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import dataformats
from dataformats.storage import record_journal
from dataformats.storage.atomic import write_all
from dataformats.storage.record_journal import Entries, RecordJournal, StoredJournal, sound_entries
from dataformats.testing.loop_over import loop_over

METADATA = {"a key": "int64"}
N = 5
BLOBS = [bytes([i]) * length for i, length in enumerate([3, 0, 1, 4, 1, 5, 0, 0, 2])]


def entries_of(n: int, k: int, first: int = 0) -> Entries:
    numbers = np.arange(first, first + n, dtype=np.int64)
    sizes = numbers[:, None] * 1000003 + np.arange(k)
    return Entries(sizes, (numbers * 2654435761 % 2**32).astype(np.uint32)[:, None])


def none(k: int) -> Entries:
    return Entries.join([], k)


def same(one: Entries | None, other: Entries) -> bool:
    return one is not None and (
        one.sizes.dtype == np.int64
        and one.checksums.dtype == np.uint32
        and np.array_equal(one.sizes, other.sizes)
        and np.array_equal(one.checksums, other.checksums)
    )


def load(path: Path) -> Entries | None:
    found = StoredJournal.find(path)
    return None if found is None else found.load()


def begun(path: Path, k: int, n: int = 0) -> RecordJournal:
    """A journal of n entries, in front of which the file has seven bytes."""
    path.with_name("data").write_bytes(b"")
    journal = RecordJournal(path, [path.with_name("data")], n_sizes=k, metadata=METADATA, bases=[7])
    journal.begin([7])
    journal.unlisted = [entries_of(n, k)]
    journal.append()
    return journal


def written(path: Path, k: int) -> tuple[bytes, int, int]:
    """A journal of N entries; its bytes, its head's, and an entry's."""
    begun(path, k).close()
    head = path.stat().st_size
    journal = begun(path, k, 2)
    for first, n in ((2, 2), (4, 0), (4, 1)):
        journal.unlisted = [entries_of(n, k, first)]
        journal.append()
    end = 7 + int(entries_of(N, k).sizes.sum())
    assert (journal.n_entries, journal.sizes) == (N, [end])
    journal.sync([end])
    assert same(Entries.join(journal.entries(), k), entries_of(N, k))
    journal.close()
    data = path.read_bytes()
    return data, head, (len(data) - head) // N


@pytest.fixture(params=[1, 3], ids=["one size", "three sizes"])
def k(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_journal_returns_appended_entries(tmp_path: Path, k: int) -> None:
    written(tmp_path / "j", k)
    stored = StoredJournal.find(tmp_path / "j")
    assert stored is not None
    assert (list(stored.metadata.items()), stored.n_sizes, stored.n_listed) == (list(METADATA.items()), k, N)
    assert stored.bases == [7]
    found = stored.load()
    assert same(found, entries_of(N, k))
    assert found.lengths.tolist() == found.sizes.sum(axis=1).tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "j"]


def test_no_entries(tmp_path: Path, k: int) -> None:
    begun(tmp_path / "j", k).close()
    found = load(tmp_path / "j")
    assert same(found, none(k))
    assert found is not None
    assert (len(found), found.sizes.shape) == (0, (0, k))


def test_a_missing_or_empty_journal(tmp_path: Path) -> None:
    assert load(tmp_path / "j") is None
    (tmp_path / "j").write_bytes(bytes(100))
    assert load(tmp_path / "j") is None


def test_cut_at_every_byte(tmp_path: Path, k: int) -> None:
    data, head, entry = written(tmp_path / "j", k)
    for stop in range(len(data) + 1):
        (tmp_path / "j").write_bytes(data[:stop])
        found = load(tmp_path / "j")
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
                assert same(load(tmp_path / "j"), entries_of(i, k))


def test_a_negative_size_ends_the_journal(tmp_path: Path) -> None:
    sizes = np.array([[1, 2], [3, -1], [4, 5]])
    journal = begun(tmp_path / "j", 2)
    journal.unlisted = [Entries(sizes, np.zeros((3, 1), np.uint32))]
    journal.append()
    journal.close()
    assert same(load(tmp_path / "j"), Entries(sizes[:1], np.zeros((1, 1), np.uint32)))


def test_a_failed_append_can_be_done_again(tmp_path: Path, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def torn(descriptor: int, data: bytes, offset: int) -> int:
        pwrite(descriptor, data[:21], offset)
        raise OSError("the disk is full")

    journal = begun(tmp_path / "j", k, 2)
    journal.unlisted = [entries_of(N - 2, k, 2)]
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", torn)
        with pytest.raises(OSError, match="full"):
            journal.append()
    assert journal.n_entries == 2
    journal.append()
    journal.close()
    assert same(load(tmp_path / "j"), entries_of(N, k))


def test_changed_journal_is_not_believed_at_close(tmp_path: Path, k: int) -> None:
    journal = begun(tmp_path / "j", k, N)
    data = (tmp_path / "j").read_bytes()
    for changed in (data[:-1], data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]):
        (tmp_path / "j").write_bytes(changed)
        with pytest.raises(dataformats.FormatError, match="not as it was written"):
            list(journal.entries())
    journal.close()


def test_a_crash_while_it_is_written_anew_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "j", 1)
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{name}", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                begun(tmp_path / "j", 1, 2)
        assert same(load(tmp_path / "j"), entries_of(N, 1))


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
    monkeypatch.setattr(record_journal, "_CHUNK_BYTES", request.param)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[int]:
    """A descriptor of BLOBS behind six other bytes."""
    (tmp_path / "data").write_bytes(b"header" + b"".join(BLOBS))
    descriptor = os.open(tmp_path / "data", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def entries_of_blobs() -> Entries:
    lengths = np.array([len(blob) for blob in BLOBS])
    checksums = np.array([[crc32(blob)] for blob in BLOBS], np.uint32)
    return Entries(np.stack([lengths // 2, lengths - lengths // 2], axis=1), checksums)


def count_sound(descriptor: int, entries: Entries) -> int:
    """The sound records; the entries come in blocks of three."""
    blocks = [Entries(entries.sizes[i : i + 3], entries.checksums[i : i + 3]) for i in range(0, len(entries), 3)]
    return sum(map(len, sound_entries([descriptor], [6], blocks)))


@pytest.mark.usefixtures("pieces")
def test_data_cut_at_every_byte(data: int) -> None:
    entries = entries_of_blobs()
    ends = 6 + np.cumsum(entries.lengths)
    for size in range(int(ends[-1]), -1, -1):
        os.ftruncate(data, size)
        assert count_sound(data, entries) == int((ends <= size).sum())
        assert count_sound(data, entries.first(2)) == int((ends[:2] <= size).sum())
        assert count_sound(data, entries.first(0)) == 0


@pytest.mark.usefixtures("pieces")
def test_data_with_a_flipped_bit(data: int) -> None:
    entries = entries_of_blobs()
    owner = np.repeat(np.arange(len(BLOBS)), entries.lengths)
    for at, number in enumerate(owner.tolist()):
        byte = os.pread(data, 1, 6 + at)
        os.pwrite(data, bytes([byte[0] ^ 0x10]), 6 + at)
        assert count_sound(data, entries) == number
        os.pwrite(data, byte, 6 + at)
    assert count_sound(data, entries) == len(BLOBS)


def head(text: bytes) -> bytes:
    start = struct.pack("<8sI", b"RECJRNL1", len(text)) + text
    return start + crc32(start).to_bytes(4, "little")


@loop_over(
    "facts",
    [
        {"sizes": 0},
        {"sizes": 2**31},
        {"sizes": "1"},
        {"sizes": True},
        {"bases": [-1]},
        {"bases": ["0"]},
        {"metadata": 3},
    ],
)
def test_impossible_head_is_rejected(tmp_path: Path, facts: dict[str, Any]) -> None:
    sound = {"metadata": {}, "sizes": 1, "bases": [0]}
    for one in (sound, {**sound, **facts}):
        (tmp_path / "j").write_bytes(head(json.dumps(one).encode()) + bytes(64))
        assert (load(tmp_path / "j") is not None) == (one is sound)


@loop_over("text", [b"{}", b"[]", b"3", b"{", b"[" * 10_000])
def test_head_without_facts_is_rejected(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "j").write_bytes(head(text) + bytes(64))
    assert load(tmp_path / "j") is None


def test_begin_after_a_full_disk_keeps_all_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = [b"one", b"three"]
    journal = RecordJournal(tmp_path / "j", [tmp_path / "data"])
    journal.begin([0])
    (tmp_path / "data").write_bytes(b"".join(blobs) + b"more")
    journal.unlisted = [Entries.of_records(blobs)]
    journal.append()
    journal.close()
    again = RecordJournal(tmp_path / "j", [tmp_path / "data"])
    again.resume()
    assert (again.n_entries, again.sizes) == (2, [8])
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            again.begin([8])
    again.begin([8])
    assert same(Entries.join(again.entries(), 1), Entries.of_records(blobs))
    again.close()
    other = RecordJournal(tmp_path / "j", [tmp_path / "data"])
    other.resume()
    other.begin([3])  # the writer keeps less than the journal proves
    assert (other.n_entries, other.bases, other.sizes) == (0, [3], [3])
    other.close()


def test_several_files_are_kept_up_to_one_entry(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    journal = RecordJournal(tmp_path / "j", files, n_sizes=2)
    journal.begin([0, 0])
    for parts in ((b"aa", b"b"), (b"", b"bb"), (b"a", b"")):
        for file, part in zip(files, parts, strict=True):
            with file.open("ab") as stream:
                stream.write(part)
        journal.unlisted = [Entries.of_files(*([part] for part in parts))]
        journal.append()
    journal.close()
    for wrong, n in ((b"", 3), (b"x", 1)):
        (tmp_path / "b").write_bytes(b"bb" + (wrong or b"b"))
        again = RecordJournal(tmp_path / "j", files, n_sizes=2)
        again.resume()
        assert (again.n_entries, again.sizes) == (n, [3, 3] if n == 3 else [2, 1])
    assert again.cut()
    assert [file.read_bytes() for file in files] == [b"aa", b"b"]


# ---- tables that are written from the journal, and journals from tables, block by block


@pytest.fixture(params=[1, 100, 2**20])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_journal, "_BLOCK_BYTES", request.param)


SPEC = {"a": "bytes", "b": "utf8"}
ROWS = [{"a": bytes(i % 3), "b": "x" * (i % 5)} for i in range(20)]


@pytest.mark.usefixtures("blocks")
@loop_over("left", ["journal", "journal and table"])
@loop_over("format", ["ffrecord", "syrah"])
def test_files_do_not_depend_on_blocks(format: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(record_journal, "_BLOCK_BYTES", 2**20)
        with dataformats.create(tmp_path / "whole", format, spec=SPEC) as whole:
            whole.extend(ROWS)
    writer = dataformats.create(tmp_path / "x", format, spec=SPEC, resume=True)
    writer.extend(ROWS)
    writer.flush()
    if left == "journal":
        writer.abort()
    else:
        with monkeypatch.context() as patch:
            patch.setattr("dataformats.staging.local_area.LocalArea.publish", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                writer.close()
    with dataformats.create(tmp_path / "x", format, spec=SPEC, resume=True) as writer:
        assert len(writer) == len(ROWS)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("format", ["ffrecord", "syrah"])
def test_empty_records_are_resumed(format: str, tmp_path: Path) -> None:
    options: Any = {"payload": "bytes"} if format == "ffrecord" else {"spec": {"a": "bytes"}}
    for n in range(3):
        writer = dataformats.create(tmp_path / "x", format, resume=True, **options)
        assert len(writer) == n
        writer.append(b"" if format == "ffrecord" else {"a": b""})
        writer.abort()
