"""Records that were flushed and not synced: all of them after a kill, after a loss of power those that are as written.

The formats have no checksums, so only the journal of the flushes shows zeros in a record.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.backends.granular.bag_appender import BagAppender
from dataformats.errors import FormatError
from dataformats.storage.record_journal import StoredJournal
from dataformats.testing.loop_over import loop_over

SPEC = {"id": "int64", "data": "bytes"}
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "ofrecord": ("d.ofrecord", {"format": "ofrecord", "spec": SPEC}),
    "ofrecord shards": ("d", {"format": "ofrecord", "spec": SPEC, "shard_records": 100}),
    "granular 2": ("d", {"format": "granular", "spec": SPEC, "generation": 2}),
    "granular 3": ("d", {"format": "granular", "spec": SPEC, "generation": 3}),
    "bag 2": ("d.bag", {"format": "granular", "payload": "bytes", "generation": 2}),
    "bag 3": ("d.bag", {"format": "granular", "payload": "bytes", "generation": 3}),
    "in place": ("d", {"format": "granular", "spec": SPEC, "append": True}),
}
N_SYNCED, N_FLUSHED = 6, 10


def record(i: int, options: dict[str, Any]) -> Any:
    data = bytes([i + 1]) * 50
    return data if "payload" in options else {"id": i + 1, "data": data}


def killed(path: Path, options: dict[str, Any]) -> tuple[Path, dict[Path, int]]:
    """Write records and end without `close`; return the folder of the data, and the size of each at the sync."""
    if options.get("append"):
        with dataformats.create(path, "granular", spec=SPEC) as writer:
            writer.extend([record(i, options) for i in range(3)])
    writer = dataformats.create(path, resume=True, **options)
    writer.extend([record(i, options) for i in range(len(writer), N_SYNCED)])
    writer.flush(sync=True)
    sizes = {file: file.stat().st_size for file in path.parent.rglob("*") if file.is_file()}
    for i in range(N_SYNCED, N_FLUSHED):
        writer.append(record(i, options))
        writer.flush()
    writer.abort()
    return path, {file: size for file, size in sizes.items() if file.suffix == ".journal" or "json" not in file.name}


def data_files(sizes: dict[Path, int]) -> dict[Path, int]:
    return {file: size for file, size in sizes.items() if file.suffix != ".journal"}


def zero(file: Path, start: int) -> None:
    """Put zeros behind a byte; the size stays, as after a loss of power."""
    data = file.read_bytes()
    assert len(data) > start
    file.write_bytes(data[:start].ljust(len(data), b"\0"))


def resumed(path: Path, options: dict[str, Any]) -> int:
    """Resume and complete the data, and check them; return the number of records that were kept."""
    with dataformats.create(path, resume=True, **options) as writer:
        n = len(writer)
        writer.extend([record(i, options) for i in range(n, N_FLUSHED + 2)])
    expected = [record(i, options) for i in range(N_FLUSHED + 2)]
    found = dataformats.open(path, payload=options.get("payload"))
    assert [one if isinstance(one, bytes) else dict(one) for one in found] == expected
    assert not [*path.parent.rglob("*.journal*")]
    return n


@loop_over("name", FORMATS)
def test_killed_writer_keeps_flushed_records(name: str, tmp_path: Path) -> None:
    file, options = FORMATS[name]
    path, _ = killed(tmp_path / file, options)
    assert resumed(path, options) == N_FLUSHED


@loop_over("name", FORMATS)
def test_zeros_behind_the_last_sync_are_dropped(name: str, tmp_path: Path) -> None:
    file, options = FORMATS[name]
    path, sizes = killed(tmp_path / file, options)
    # The ends and the headers stay: only the data of the records are lost.
    for data, size in data_files(sizes).items():
        if data.suffix != ".idx" and ".idx." not in data.name:
            zero(data, size + 20 if "ofrecord" in name else size)
    assert resumed(path, options) == N_SYNCED


@loop_over("name", FORMATS)
def test_whole_flushes_before_the_damage_are_kept(name: str, tmp_path: Path) -> None:
    file, options = FORMATS[name]
    path, sizes = killed(tmp_path / file, options)
    data = next(
        data for data in data_files(sizes) if "data.bag" in data.name or "d.bag" in data.name or ".idx" not in data.name
    )
    zero(data, data.stat().st_size - 1)
    assert resumed(path, options) == N_FLUSHED - 1


@loop_over("name", FORMATS)
def test_synced_records_need_no_later_entry_of_the_journal(name: str, tmp_path: Path) -> None:
    file, options = FORMATS[name]
    path, sizes = killed(tmp_path / file, options)
    (journal,) = tmp_path.rglob("*.journal")
    synced = sizes[journal]
    zero(journal, synced)
    assert resumed(path, options) == N_SYNCED


@pytest.mark.parametrize("name", ["ofrecord", "granular 3"])
def test_resumed_records_are_proven_again(name: str, tmp_path: Path) -> None:
    file, options = FORMATS[name]
    path, sizes = killed(tmp_path / file, options)
    writer = dataformats.create(path, resume=True, **options)
    writer.append(record(N_FLUSHED, options))
    writer.abort()
    for data, size in data_files(sizes).items():
        if data.suffix != ".idx":
            zero(data, size + 20 if "ofrecord" in name else size)
    assert resumed(path, options) == N_SYNCED


def test_rows_seen_in_place_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, options = tmp_path / "d", FORMATS["in place"][1]
    with dataformats.create(path, "granular", spec=SPEC) as writer:
        writer.append(record(0, options))
    writer = dataformats.create(path, **options)
    writer.append(record(1, options))

    def fail(_: BagAppender) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(BagAppender, "sync_ends", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        writer.close()
    assert len(dataformats.open(path)) == 2
    shutil.copytree(path, tmp_path / "as killed")
    writer.abort()
    monkeypatch.undo()
    with dataformats.create(tmp_path / "as killed", **options) as writer:
        assert len(writer) == 2


def test_damaged_journal_is_refused(tmp_path: Path) -> None:
    file, options = FORMATS["ofrecord"]
    path, _ = killed(tmp_path / file, options)
    (journal,) = tmp_path.rglob("*.journal")
    journal.write_bytes(b"x" + journal.read_bytes()[1:])
    with pytest.raises(FormatError, match="the journal of the unfinished data is damaged"):
        dataformats.create(path, resume=True, **options)
    journal.unlink()
    assert resumed(path, options) == N_FLUSHED


def test_head_without_entries(tmp_path: Path) -> None:
    """The first entry of a journal was lost: no record was synced."""
    file, options = FORMATS["ofrecord"]
    path, _ = killed(tmp_path / file, options)
    (journal,) = tmp_path.rglob("*.journal")
    stored = StoredJournal.find(journal)
    assert stored is not None
    journal.write_bytes(journal.read_bytes()[: stored.start + 5])
    assert resumed(path, options) == 0
