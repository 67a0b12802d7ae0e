"""Writing behind URLs: shards go out as they are complete, a name has the data of one writer, and nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dataformats
from dataformats.staging.entries import ShardEntry
from dataformats.staging.paths import area_at
from tests.writing.failing_memory import Killed, Remote

SPEC = {"n": "int64"}
URL = "memory://bucket/x"
FORMATS = ("tfrecord", "ofrecord", "ffrecord", "syrah", "granular")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Remote:
    return Remote(monkeypatch)


def create(format: str = "tfrecord", **options: Any) -> Any:
    return dataformats.create(URL, format, **{"spec": SPEC, "shard_records": 4, **options})


def rows(start: int, stop: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(start, stop)]


def numbers(url: str = URL) -> list[int]:
    with dataformats.open(url) as source:
        return [record["n"] for record in source]


def is_clean(remote: Remote) -> bool:
    return not any(".partial" in path for path in remote.memory.find("/bucket"))


def killed(remote: Remote, at: int, work: Any) -> bool:
    """Run `work` in a process that ends at the change `at` of the file system; return False if it ends before that."""
    remote.fail(at, stays=True)
    try:
        work()
    except Killed:
        return True
    finally:
        remote.at = -1
    return False


# ---- shards go out


@pytest.mark.parametrize("format", FORMATS)
def test_at_most_two_shards_lie_on_the_local_disk(
    format: str, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    most = 0
    with create(format) as writer:
        for number in range(60):
            writer.append({"n": number})
            shards = {path.name[:5] for path in tmp_path.glob("*/[0-9]*.partial")}
            most = max(most, len(shards))
        assert not remote.memory.exists("/bucket/x")
    assert 1 <= most <= 2
    assert numbers() == list(range(60))
    assert is_clean(remote)
    assert not any(tmp_path.iterdir())


def test_only_committed_shards_are_kept(remote: Remote) -> None:
    area = area_at(URL)
    area.begin({"format": "tfrecord"}, resume=False, sharded=True)
    entry = ShardEntry("00000-1.partial", {"name": "00000", "records": 1, "bytes": 3})
    area.write_entry(0, entry)
    (folder,) = remote.memory.ls("/bucket/x.partial", detail=False)
    for name in ("00000-1.partial", "00000-2.partial", "00001-3.partial"):
        remote.memory.pipe_file(f"{folder}/{name}", b"123")
    area.keep_only(area.entries())
    kept = {path.rpartition("/")[2] for path in remote.memory.find(folder)}
    assert kept == {"00000.json", "00000-1.partial", "facts.json"}


@pytest.mark.parametrize("format", FORMATS)
def test_killed_upload_resumes_behind_complete_shards(format: str, remote: Remote) -> None:
    def write() -> None:
        with create(format, resume=True) as writer:
            writer.extend(rows(len(writer), 18))

    at = 0
    for at in itertools.count():
        remote.memory.rm("/bucket", recursive=True) if remote.memory.exists("/bucket") else None
        if not killed(remote, at, write):
            break
        arrived = len([path for path in remote.memory.find("/bucket") if re.search(r"/\d{5}\.json$", path)])
        with contextlib.suppress(FileNotFoundError, dataformats.FormatError):
            assert numbers() == list(range(18))
        try:
            with create(format, resume=True) as writer:
                assert len(writer) >= 4 * min(arrived, 4)
                writer.extend(rows(len(writer), 18))
        except dataformats.TargetExistsError as error:  # the log of the killed writer was there: it is complete
            assert "is complete" in str(error)  # noqa: PT017
        assert numbers() == list(range(18)), at
        assert is_clean(remote), at
    assert at > 12


def test_resume_without_resume_is_found_by_its_facts(remote: Remote) -> None:
    """A writer with resume=True continues a job that began without it."""
    writer = create()
    writer.extend(rows(0, 10))
    writer.flush(sync=True)
    assert killed(remote, 0, writer.abort)
    remote.memory.pipe_file("/bucket/x.partial/0000000000000000/facts.json", b"{}")  # the folder of another job
    with create(resume=True) as writer:
        assert len(writer) == 8


def test_resume_of_other_facts_is_refused(remote: Remote) -> None:
    writer = create(resume=True)
    writer.extend(rows(0, 9))
    writer.abort()
    with pytest.raises(dataformats.StateMismatchError, match="payload"):
        create(resume=True, spec=None, payload="int64")
    with create(resume=True) as writer:
        assert len(writer) == 8


def test_single_file_behind_a_url_is_not_resumed(remote: Remote) -> None:
    with pytest.raises(ValueError, match="expected a local path"):
        dataformats.create("memory://bucket/x.tfrecord", resume=True)


# ---- errors


def test_create_checks_write_access(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(type(remote.memory), "pipe_file", refuse)
    cases: list[dict[str, Any]] = [{}, {"shard_records": None}]
    for options in cases:
        with pytest.raises(PermissionError, match="memory://bucket/x"):
            create(**options)


@pytest.mark.parametrize("options", [{}, {"shard_records": None}], ids=["shards", "file"])
def test_failed_upload_keeps_data_for_another_close(options: dict[str, Any], remote: Remote) -> None:
    """The error names their folder, and another `close` sends them."""
    at = 0
    for at in itertools.count(1):
        remote.memory.rm("/bucket", recursive=True) if remote.memory.exists("/bucket") else None
        writer = create(**options)
        writer.extend(rows(0, 3))
        remote.fail(at - 1, stays=False)
        try:
            writer.close()
            break
        except OSError as error:
            folder = Path(str(error).split("The data stay in '")[1].split("'")[0])
            assert folder.is_dir()
        finally:
            remote.at = -1
        writer.close()
        writer.close()
        assert not folder.exists()
        assert numbers() == [0, 1, 2]
        assert is_clean(remote)
    assert at > 3


def test_failed_upload_of_a_shard_is_repeated(remote: Remote) -> None:
    writer = create()
    writer.extend(rows(0, 3))
    remote.fail(0, stays=False)
    with pytest.raises(OSError, match="refused"):  # noqa: PT012  # some shard is pending
        for row in rows(3, 20):
            writer.append(row)
    remote.at = -1
    writer.extend(rows(len(writer), 22))
    writer.close()
    assert numbers() == list(range(22))


def test_abort_leaves_nothing(remote: Remote) -> None:
    writer = create()
    writer.extend(rows(0, 9))
    writer.abort()
    assert remote.memory.find("/bucket") == []


# ---- two writers


@pytest.mark.parametrize("overwrite", [False, True])
def test_two_writers_do_not_mix(overwrite: bool, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one closes while the first one makes a change, at each of them."""
    monkeypatch.setattr("dataformats.staging.redo_log._PATIENCE_S", 60.0)
    monkeypatch.setattr("dataformats.staging.redo_log._POLL_S", 0.01)
    at = 0
    for at in itertools.count():
        remote.memory.rm("/bucket", recursive=True) if remote.memory.exists("/bucket") else None
        writers = create(overwrite=overwrite), create(overwrite=overwrite)
        for number, writer in enumerate(writers):
            writer.extend(rows(100 * number, 100 * number + 18))
            writer.flush(sync=True)
        remote.fail(at, stays=False)
        with ThreadPoolExecutor(1) as thread:
            closes: list[Future[None]] = []
            remote.before = partial(close_once, thread, writers[1], closes)
            errors = [error_of(writers[0].close), *(error_of(found.result) for found in closes)]
        remote.at, remote.before = -1, None
        if not closes:
            writers[1].abort()
            break
        assert numbers() in (list(range(18)), list(range(100, 118))), at
        failed = [type(error) for error in errors if error is not None]
        assert failed == [dataformats.TargetExistsError] or (overwrite and not failed), at
        assert is_clean(remote), (at, remote.memory.find("/bucket"))
    assert at > 10


def close_once(thread: ThreadPoolExecutor, writer: Any, closes: list[Future[None]]) -> None:
    """Close a writer in another thread, and let it begin."""
    if not closes:
        closes.append(thread.submit(writer.close))
        time.sleep(0.02)


def error_of(work: Any) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("format", FORMATS)
def test_append_extends_published_shards(format: str, remote: Remote) -> None:
    with create(format, append=True) as writer:
        writer.extend(rows(0, 10))
    for start in (10, 17):
        with create(format, append=True) as writer:
            assert len(writer) == start
            writer.extend(rows(start, start + 7))
            assert numbers() == list(range(start))
        assert numbers() == list(range(start + 7))
        assert dataformats.verify(URL).ok
    assert is_clean(remote)
    assert len(remote.memory.ls("/bucket/x")) == 7


def test_append_names_shards_as_on_the_local_disk(remote: Remote, tmp_path: Path) -> None:
    for path in (URL, tmp_path / "x"):
        for start in (0, 6):
            with dataformats.create(path, "tfrecord", spec=SPEC, shard_records=4, append=True) as writer:
                writer.extend(rows(start, start + 6))
    for file in (tmp_path / "x").iterdir():
        assert remote.memory.cat_file(f"/bucket/x/{file.name}") == file.read_bytes()


@pytest.mark.parametrize("case", ["tfrecord", "granular", "bytes"])
def test_readers_of_an_append_see_old_or_new_data(case: str, remote: Remote) -> None:
    """The writer is killed at each change; the same call then completes the data."""
    options: dict[str, Any] = {"spec": None} if case == "bytes" else {"format": case}
    records: list[Any] = [b"%d" % n for n in range(14)] if case == "bytes" else rows(0, 14)

    def append() -> None:
        with create(append=True, resume=True, **options) as writer:
            writer.extend(records[len(writer) :])

    at = 0
    for at in itertools.count():
        remote.memory.rm("/bucket", recursive=True) if remote.memory.exists("/bucket") else None
        with create(**options) as writer:
            writer.extend(records[:10])
        was_killed = killed(remote, at, append)
        assert list(dataformats.open(URL)) in (records[:10], records), at
        append()
        assert list(dataformats.open(URL)) == records, at
        assert is_clean(remote), at
        if not was_killed:
            break
    assert at > 10


def test_two_appends_at_once_get_one_error(remote: Remote) -> None:
    with create() as writer:
        writer.extend(rows(0, 10))
    first, second = create(append=True), create(append=True)
    first.extend(rows(10, 12))
    second.extend(rows(20, 22))
    second.close()
    with pytest.raises(dataformats.TargetExistsError, match="another writer"):
        first.close()
    assert numbers() == [*range(10), 20, 21]
    assert is_clean(remote)


def test_single_object_is_not_extended(remote: Remote) -> None:
    url = "memory://bucket/x.tfrecord"
    with dataformats.create(url, spec=SPEC) as writer:
        writer.extend(rows(0, 3))
    with pytest.raises(ValueError, match="expected a local path"):
        dataformats.create(url, spec=SPEC, append=True)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"id": "a", "metadata": {"files": []}, "kept": [], "beside": [], "moves": {"/bucket/mine": "/bucket/x/a"}}',
        b'{"id": "a", "metadata": {"files": []}, "kept": [], "beside": [], "moves": {"/bucket/x/y": "/bucket/mine"}}',
        b'{"id": "a", "metadata": {"files": []}, "kept": [], "beside": ["/bucket/mine"], "moves": {}}',
        b'{"id": "../a", "metadata": {"files": []}, "kept": [], "beside": [], "moves": {}}',
    ],
    ids=range(7),
)
def test_log_from_elsewhere_is_not_believed(text: bytes, remote: Remote) -> None:
    remote.memory.pipe_file("/bucket/mine", b"my own object")
    remote.memory.pipe_file("/bucket/x.partial.dataformats.json", text)
    with pytest.raises(dataformats.TargetExistsError, match="in the way"):
        create()
    assert remote.memory.cat_file("/bucket/mine") == b"my own object"


def test_writer_with_a_heartbeat_is_not_taken_for_killed(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    n_beats, pipe = 0, type(remote.memory).pipe_file

    def pipe_file(memory: Any, path: str, *more: Any, **options: Any) -> Any:
        nonlocal n_beats
        done = pipe(memory, path, *more, **options)
        n_beats += path.endswith("/heartbeat")
        return done

    monkeypatch.setattr(type(remote.memory), "pipe_file", pipe_file)
    clock = SimpleNamespace(monotonic=lambda: 0.1 * n_beats, sleep=time.sleep)  # passes with the heartbeats alone
    monkeypatch.setattr("dataformats.staging.redo_log.time", clock)
    monkeypatch.setattr("dataformats.staging.redo_log._PATIENCE_S", 0.4)
    monkeypatch.setattr("dataformats.staging.redo_log._POLL_S", 0.01)
    writers = create(shard_records=None), create(shard_records=None, overwrite=True)
    for number, writer in enumerate(writers):
        writer.extend(rows(100 * number, 100 * number + 18))
    errors: list[Exception | None] = []
    first, copy = itertools.count(), type(remote.memory).cp_file

    def copy_slowly(memory: Any, *names: str, **options: Any) -> None:
        if next(first) == 0:
            errors.append(error_of(writers[1].close))
        copy(memory, *names, **options)

    monkeypatch.setattr(type(remote.memory), "cp_file", copy_slowly)
    writers[0].close()
    assert [type(error) for error in errors] == [dataformats.TargetInUseError]
    assert numbers() == list(range(18))
    writers[1].close()
    assert numbers() == list(range(100, 118))
    assert is_clean(remote)
