"""Data and their sidecar are published together: a kill or an error at any step leaves both sound."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import pytest

import dataformats
from dataformats.storage import rename
from tests.writing.failing_memory import Killed, Remote

STEPS = ("replace", "rename", "unlink")


@dataclass(frozen=True)
class Data:
    """A dataset: the arguments of `create`, and its records."""

    name: str
    format: str
    records: list[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, **options: Any) -> Path:
        path = folder / self.name
        with dataformats.create(path, self.format, **self.options, **options) as writer:
            writer.extend(self.records[len(writer) :])
        return path

    def is_in(self, path: Any) -> bool:
        with dataformats.open(path) as source:
            spec = self.options.get("spec", source.spec)
            return list(source) == self.records and source.spec == spec


def values(name: str, format: str, payload: str, records: list[Any], **options: Any) -> Data:
    return Data(name, format, records, {"payload": payload, **options})


def rows(name: str, format: str, kind: str, records: list[Any], **options: Any) -> Data:
    return Data(name, format, [{"a": value} for value in records], {"spec": {"a": kind}, **options})


# Old and new data have the same sizes, so that the digests alone tell them apart.
NUMBERS, FLOATS, BLOBS = [1, 2, 3], [1.5, 2.5, 3.5], [b"8 bytes.", b"x" * 8, b"y" * 8]
CASES = {
    "file": (values("x.ffr", "ffrecord", "int64", NUMBERS), values("x.ffr", "ffrecord", "float64", FLOATS)),
    "new-needs-none": (values("x.ffr", "ffrecord", "int64", NUMBERS), values("x.ffr", "ffrecord", "bytes", BLOBS)),
    "old-has-none": (values("x.ffr", "ffrecord", "bytes", BLOBS), values("x.ffr", "ffrecord", "int64", NUMBERS)),
    "neither-has-one": (values("x.ffr", "ffrecord", "bytes", BLOBS), values("x.ffr", "ffrecord", "bytes", BLOBS[::-1])),
    "other-format": (values("x", "ffrecord", "int64", NUMBERS), values("x", "tfrecord", "float64", FLOATS)),
    "rows": (rows("x.tfrecord", "tfrecord", "int64", NUMBERS), rows("x.tfrecord", "tfrecord", "utf8", ["a", "b"])),
    "dataset": (rows("x", "granular", "int64", NUMBERS), rows("x", "granular", "float32", FLOATS)),
    "bag": (values("x.bag", "granular", "int64", NUMBERS), values("x.bag", "granular", "float64", FLOATS)),
    "bag-of-one-file": (
        values("x.bag", "granular", "int64", NUMBERS, generation=2),
        values("x.bag", "granular", "float64", FLOATS, generation=2),
    ),
    "older-bag": (
        values("x.bag", "granular", "int64", NUMBERS),
        values("x.bag", "granular", "float64", FLOATS, generation=2),
    ),
    "newer-bag": (
        values("x.bag", "granular", "int64", NUMBERS, generation=2),
        values("x.bag", "granular", "float64", FLOATS),
    ),
    "shards": (
        rows("x", "tfrecord", "int64", NUMBERS, shard_records=1),
        rows("x", "tfrecord", "float32", FLOATS, shard_records=1),
    ),
    "shards-for-file": (
        rows("x", "tfrecord", "int64", NUMBERS),
        rows("x", "tfrecord", "int32", NUMBERS[::-1], shard_records=1),
    ),
    "file-for-shards": (
        rows("x", "tfrecord", "int64", NUMBERS, shard_records=1),
        rows("x", "tfrecord", "int32", NUMBERS[::-1]),
    ),
}
NOT_AT_ONCE = ("bag", "older-bag", "newer-bag")  # the name may be missing for a moment


@contextmanager
def fault(at: int, error: Callable[[], BaseException], stays: bool) -> Iterator[Callable[[], bool]]:
    """Let the `at`-th change of a name fail; if that `stays`, all later ones too. Yields a test if one has failed."""
    count = -1

    def patched(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == at or (count > at and stays):
                raise error()
            return real(*arguments, **named)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, patched(getattr(os, name)))
        patch.setattr(rename, "_rename", patched(rename._rename))
        yield lambda: count >= at


def disk_full() -> BaseException:
    return OSError(errno.ENOSPC, "no space left on the device")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stays", [True, False], ids=["kill", "error"])
def test_data_stay_under_their_own_facts(case: str, stays: bool, tmp_path: Path) -> None:
    old, new = CASES[case]
    at, folder, path = 0, tmp_path, tmp_path
    for at in range(40):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = old.write(folder)
        sidecar = path.with_name(path.name + ".dataformats.json")
        before = sidecar.read_text() if sidecar.exists() else None
        error: Callable[[], BaseException] = Killed if stays else disk_full
        has_failed: Callable[[], bool] = bool
        try:
            with fault(at, error, stays) as has_failed:
                new.write(folder, overwrite=True)
        except (Killed, OSError):
            pass
        if not has_failed():
            break
        if path.exists():
            assert old.is_in(path) or new.is_in(path), f"step {at}"
        else:
            assert stays, f"step {at}: no data"
            assert case in NOT_AT_ONCE, f"step {at}: no data"
            dataformats.create(path, new.format, **new.options, overwrite=True).abort()
            assert old.is_in(path), f"step {at}: not restored"
        if not stays and path.exists() and old.is_in(path):
            assert (sidecar.read_text() if sidecar.exists() else None) == before, f"step {at}"
        new.write(folder, overwrite=True)
        assert new.is_in(path), f"step {at}, written again"
    assert at > 1
    assert new.is_in(path)
    assert "previous" not in "".join(part.read_text() for part in folder.glob("*.json"))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stays", [True, False], ids=["kill", "error"])
def test_new_data_are_never_there_without_their_sidecar(case: str, stays: bool, tmp_path: Path) -> None:
    _, new = CASES[case]
    at, path = 0, tmp_path
    for at in range(40):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / new.name
        has_failed: Callable[[], bool] = bool
        try:
            with fault(at, Killed if stays else disk_full, stays) as has_failed:
                new.write(folder, resume=True)
        except (Killed, OSError):
            pass
        if not has_failed():
            break
        if path.exists():
            assert new.is_in(path), f"step {at}"
        else:
            new.write(folder, resume=True)
            assert new.is_in(path), f"step {at}, resumed"
    assert at > 1
    assert new.is_in(path)


@pytest.mark.parametrize("payload", ["utf8", "bytes"])
def test_interrupted_twice(tmp_path: Path, payload: str) -> None:
    """The sidecar of an interrupted writer is replaced by the metadata that hold, however often that happens."""
    first, second = CASES["file"]
    third = values("x.ffr", "ffrecord", payload, BLOBS if payload == "bytes" else ["8 chars."] * 3)
    path = first.write(tmp_path)
    for data in (second, third):
        with pytest.raises(Killed), killed_before(path):
            data.write(tmp_path, overwrite=True)
        assert first.is_in(path)
        metadata = json.loads((tmp_path / "x.ffr.dataformats.json").read_text())
        assert metadata["previous"]["payload"] == "int64"
        assert "previous" not in metadata["previous"]


@contextmanager
def killed_before(final: Path) -> Iterator[None]:
    """Kill the writer when it is about to give data their final name."""
    is_killed = False

    def replace(path: Path, there: Path) -> None:
        nonlocal is_killed
        is_killed = is_killed or there == final
        if is_killed:
            raise Killed
        real(path, there)

    real = os.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        yield


class Store:
    """A path object without `unlink`, as the contract of `open` has it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str) -> Store:
        return Store(self._path / name)

    @property
    def parent(self) -> Store:
        return Store(self._path.parent)

    def exists(self) -> bool:
        return self._path.exists()

    def open(self, mode: str) -> Any:
        return self._path.open(mode)

    def glob(self, pattern: str) -> list[Store]:
        return [Store(path) for path in self._path.glob(pattern)]


@pytest.mark.parametrize("place", ["object", "url"])
@pytest.mark.parametrize("case", ["file", "new-needs-none", "old-has-none", "rows"])
def test_other_places(place: str, case: str, tmp_path: Path) -> None:
    """Overwriting behind a URL or through a path object leaves sidecar metadata that describe the data."""
    fsspec.filesystem("memory").store.clear()
    for number, data in enumerate((*CASES[case], CASES[case][0])):
        path: Any = Store(tmp_path / data.name) if place == "object" else f"memory://folder/{data.name}"
        with dataformats.create(path, data.format, **data.options, overwrite=number > 0) as writer:
            writer.extend(data.records)
        assert data.is_in(path)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Remote:
    return Remote(monkeypatch)


def test_failing_send_keeps_the_old_file(remote: Remote) -> None:
    old, new = CASES["file"]
    write_to("memory://a/x.ffr", old)
    remote.fail(1000, stays=False)
    write_to("memory://a/x.ffr", old, overwrite=True)
    steps = [*remote.steps]
    assert [step for step, _ in steps].count("put_file") == 1
    for at, (step, _) in enumerate(steps):
        write_to("memory://a/x.ffr", old, overwrite=True)
        remote.fail(at, stays=False)
        writer = None
        with pytest.raises(OSError, match="refused"):  # noqa: PT012  # the writer is used after it
            writer = dataformats.create("memory://a/x.ffr", new.format, **new.options, overwrite=True)
            writer.extend(new.records)
            writer.close()
        is_published = "cp_file" in [step for step, _ in steps[:at]]
        assert (new if is_published else old).is_in("memory://a/x.ffr"), step
        if writer is not None:
            writer.close()
            assert new.is_in("memory://a/x.ffr")
        remote.at = -1
    assert ".partial" not in "".join(remote.memory.find("/a"))


def test_old_objects_stay_until_all_new_ones_are_sent(remote: Remote) -> None:
    old, new = CASES["shards"]
    write_to("memory://a/x", old)
    remote.fail(1000, stays=False)
    write_to("memory://a/x", new, overwrite=True)
    sent = [path for step, path in remote.steps if step == "put_file"]
    assert len(sent) == 7  # the shards, their indexes, and these in one object
    assert all(path.startswith("/a/x.partial/") for path in sent)
    first = remote.steps.index(("pipe_file", "/a/x.dataformats.json"))
    assert first > remote.steps.index(("put_file", sent[-1]))
    assert not any(path.startswith("/a/x/") for _, path in remote.steps[:first])
    assert [step for step, _ in remote.steps].count("cp_file") == 4


def test_leftovers_are_deleted_and_other_objects_are_not(remote: Remote) -> None:
    """`NAME.partial/` may come from an interrupted writer, or from the user."""
    old, new = CASES["shards"]
    write_to("memory://a/x", old)
    remote.memory.pipe_file("/a/x.partial/00000000cafef00d/facts.json", b"{}")
    remote.memory.pipe_file("/a/x.partial/00000000cafef00d/00000-f00d.partial", b"")
    write_to("memory://a/x", new, overwrite=True)
    assert not remote.memory.exists("/a/x.partial")
    remote.memory.pipe_file("/a/x.partial/notes.txt", b"mine")
    write_to("memory://a/x", old, overwrite=True)
    assert remote.memory.find("/a/x.partial") == ["/a/x.partial/notes.txt"]
    with pytest.raises(ValueError, match=r"x\.partial"):
        dataformats.create("memory://a/x.partial", "ffrecord")


def test_other_objects_are_not_deleted(remote: Remote) -> None:
    """An overwritten folder must hold only data."""
    write_to("memory://a/x", CASES["shards"][0])
    remote.memory.pipe_file("/a/x/notes.txt", b"mine")
    with pytest.raises(dataformats.TargetExistsError, match=r"notes\.txt"):
        write_to("memory://a/x", CASES["shards"][1], overwrite=True)
    assert remote.memory.cat_file("/a/x/notes.txt") == b"mine"


def write_to(path: str, data: Data, **options: Any) -> None:
    with dataformats.create(path, data.format, **data.options, **options) as writer:
        writer.extend(data.records)


# ---- data that grow under their final name


def test_growing_data_have_no_file_list(tmp_path: Path) -> None:
    path = tmp_path / "x"
    sidecar = tmp_path / "x.dataformats.json"
    options: dict[str, Any] = {"spec": {"a": "int64"}, "resume": True}
    with dataformats.create(path, "granular", **options) as writer:
        writer.extend({"a": i} for i in range(3))
    assert "files" in json.loads(sidecar.read_text())
    killed = dataformats.create(path, "granular", **options)
    killed.append({"a": 3})
    killed.flush()
    assert "files" not in json.loads(sidecar.read_text())
    assert [record["a"] for record in dataformats.open(path)] == [0, 1, 2, 3]
    killed.abort()
    assert [record["a"] for record in dataformats.open(path)] == [0, 1, 2, 3]
    with dataformats.create(path, "granular", **options) as writer:
        writer.append({"a": 4})
    (entry,) = json.loads(sidecar.read_text())["files"]
    assert (entry["records"], len(dataformats.open(path))) == (5, 5)
    with pytest.raises(dataformats.StateMismatchError, match=r"x\.dataformats\.json"):
        dataformats.create(path, "granular", spec={"a": "array"}, resume=True)


# ---- resume=True with data under the final name


@pytest.mark.parametrize("case", ["file", "new-needs-none", "rows", "shards", "newer-bag"])
def test_resume_says_complete_only_of_complete_data(case: str, tmp_path: Path) -> None:
    old, new = CASES[case]
    path = new.write(tmp_path)
    with pytest.raises(FileExistsError, match="is complete"):
        new.write(tmp_path, resume=True)
    with pytest.raises(FileExistsError, match="exists, with another format, payload or spec"):
        old.write(tmp_path, resume=True)
    begun = dataformats.create(path, old.format, **old.options, resume=True, overwrite=True)
    begun.append(old.records[0])
    begun.abort()
    with pytest.raises(FileExistsError, match=r"partial data .*partial'"):
        old.write(tmp_path, resume=True)
    assert new.is_in(path)
    old.write(tmp_path, resume=True, overwrite=True)
    assert old.is_in(path)
    file = next(path.iterdir()) if path.is_dir() else path
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(FileExistsError, match="other files than its sidecar lists"):
        old.write(tmp_path, resume=True)


def test_resume_ends_the_work_of_a_writer_killed_after_the_rename(tmp_path: Path) -> None:
    _, new = CASES["file"]
    clean = new.write(tmp_path / "clean")
    for at in range(1, 40):
        folder = tmp_path / str(at)
        try:
            with fault(at, Killed, stays=True):
                new.write(folder, resume=True)
        except Killed:
            pass
        else:
            break
        if (folder / new.name).exists():
            with pytest.raises(FileExistsError, match="is complete"):
                new.write(folder, resume=True)
            left = {part.name for part in folder.iterdir()} - {part.name for part in clean.parent.iterdir()}
            assert not any(name.endswith(".json") for name in left)
            assert "previous" not in json.loads((folder / f"{new.name}.dataformats.json").read_text())
