"""`overwrite=True`: the name always has the old or the new data, and only data are replaced."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.staging.local_area import LocalArea
from dataformats.staging.lock import NameLock
from dataformats.storage import atomic, rename
from dataformats.testing.loop_over import loop_over

SPEC = {"n": "int64"}
SHARDS: dict[str, Any] = {"shard_records": 2}


def write(path: Path, numbers: Any, format: str = "tfrecord", **options: Any) -> None:
    with dataformats.create(path, format, spec=SPEC, **options) as writer:
        writer.extend({"n": n} for n in numbers)


def numbers_in(path: Path) -> list[int]:
    # FFRecord has the payload in the sidecar alone, and a writer that is killed may leave none.
    payload = "example" if any(path.rglob("*.ffr")) else None
    return [record["n"] for record in dataformats.open(path, spec=SPEC, payload=payload)]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".idx"))


@pytest.mark.parametrize("sharded", [False, True])
def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path, sharded: bool) -> None:
    write(tmp_path / "folder", range(5), **SHARDS)
    write(tmp_path / "file", range(5))
    for target in ("folder", "file", "missing"):
        link = tmp_path / "latest"
        link.symlink_to(target)
        options = SHARDS if sharded else {}
        with pytest.raises(FileExistsError, match="overwrite=True"):
            write(link, [9], **options)
        write(link, range(100, 103), overwrite=True, **options)
        assert not link.is_symlink()
        assert link.is_dir() == sharded
        assert numbers_in(link) == [100, 101, 102]
        assert numbers_in(tmp_path / "folder") == numbers_in(tmp_path / "file") == list(range(5))
        atomic.remove(link, tmp_path / "latest.dataformats.json")
        assert names_in(tmp_path) == ["file", "file.dataformats.json", "folder", "folder.dataformats.json"]


@loop_over("old", [{}, SHARDS])
@loop_over("new", [{}, SHARDS])
@loop_over("exchanges", [True, False])
def test_files_and_folders_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: dict[str, Any], new: dict[str, Any], exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(rename, "_system_call", lambda: None)
    write(tmp_path / "x", range(3), **old)
    write(tmp_path / "x", range(5), overwrite=True, **new)
    assert numbers_in(tmp_path / "x") == list(range(5))
    assert names_in(tmp_path) == ["x", "x.dataformats.json"]


STEPS: dict[str, tuple[Any, str, bool]] = {  # the killed function, and if the kill comes before or after it
    "before the exchange": (NameLock, "write_mark", True),
    "after the exchange": (atomic, "exchange", True),
    "while old data are deleted": (shutil, "rmtree", False),
    "before the first rename": (os, "rename", False),
    "after the first rename": (os, "rename", True),
}


def killed(step: str, work: Callable[[], None], exchanges: bool) -> None:
    """Run `work` in a forked process that ends at a step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        return
    try:
        owner, name, after = STEPS[step]
        function = getattr(owner, name)

        def deadly(*arguments: Any, **options: Any) -> None:
            if after:
                function(*arguments, **options)
            os._exit(9)

        if not exchanges:
            rename._system_call = lambda: None  # type: ignore[assignment]
        original = LocalArea.publish

        def publish(self: LocalArea, *arguments: Any, **options: Any) -> None:
            setattr(owner, name, deadly)
            original(self, *arguments, **options)

        LocalArea.publish = publish  # type: ignore[method-assign]
        work()
    finally:
        os._exit(1)


@loop_over("step, exchanges", [(step, not step.endswith("first rename")) for step in STEPS])
@loop_over("format", ["tfrecord", "granular", "ffrecord"])
def test_a_killed_overwriting_loses_nothing(tmp_path: Path, format: str, step: str, exchanges: bool) -> None:
    """The name has old or new data, however the writer resumes or starts again; leftovers are deleted."""
    path = tmp_path / "x"

    def overwrite() -> None:
        write(path, range(10, 15), format, overwrite=True, resume=True, **SHARDS)

    for resume in (True, False):
        write(path, range(3), format, overwrite=True, **SHARDS)
        killed(step, overwrite, exchanges)
        is_replaced = step in ("after the exchange", "while old data are deleted")
        if step != "after the first rename":
            assert numbers_in(path) == (list(range(10, 15)) if is_replaced else list(range(3)))
        if not resume:
            with pytest.raises(FileExistsError, match="overwrite"):
                dataformats.create(path, format, spec=SPEC, **SHARDS)
            assert numbers_in(path) == (list(range(10, 15)) if is_replaced else list(range(3)))
        with dataformats.create(path, format, spec=SPEC, overwrite=True, resume=resume, **SHARDS) as writer:
            assert len(writer) == (5 if resume and not is_replaced else 0)
            writer.append({"n": 7})
        assert numbers_in(path) == ([10, 11, 12, 13, 14, 7] if resume and not is_replaced else [7])
        assert names_in(tmp_path)[:2] == ["x", "x.dataformats.json"][: len(names_in(tmp_path))]
        assert [name for name in names_in(tmp_path) if "partial" in name] == []


def spoil(folder: Path, what: str) -> None:
    {
        "a hidden file": lambda: (folder / ".precious").write_text("x"),
        "an empty folder": lambda: (folder / "mine").mkdir(),
        "a folder with a file": lambda: shutil.copytree(Path(__file__).parent, folder / "mine"),
        "a file that is only called .ffr": lambda: (folder / "notes.ffr").write_text("my notes, no FFRecord"),
        "a file that is only called .tfrecord": lambda: (folder / "notes.tfrecord").write_text("my notes" * 9),
        "a part of another program": lambda: (folder / "part-00077").write_text("not ours"),
        "a bag that is none": lambda: (folder / "notes.bag").write_text("my notes"),
        "a link": lambda: (folder / "link").symlink_to(folder.parent),
    }[what]()  # type: ignore[no-untyped-call]


SPOILS = [
    "a hidden file",
    "an empty folder",
    "a folder with a file",
    "a file that is only called .ffr",
    "a file that is only called .tfrecord",
    "a part of another program",
    "a bag that is none",
    "a link",
]


@loop_over("what", SPOILS)
@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular", None])
def test_a_folder_with_anything_else_is_not_replaced(tmp_path: Path, format: str | None, what: str) -> None:
    folder = tmp_path / "x"
    if format is None:
        folder.mkdir()
    else:
        write(folder, range(5), format, **SHARDS)
    spoil(folder, what)
    before = sorted(folder.rglob("*"))
    with pytest.raises(FileExistsError, match="holds other files than data"):
        dataformats.create(folder, "tfrecord", spec=SPEC, overwrite=True)
    assert sorted(folder.rglob("*")) == before
    assert [name for name in names_in(tmp_path) if "partial" in name] == []


@loop_over("what", SPOILS)
def test_a_dataset_of_one_folder_with_anything_else_is_not_replaced(tmp_path: Path, what: str) -> None:
    write(tmp_path / "x", range(5), "granular")
    spoil(tmp_path / "x", what)
    with pytest.raises(FileExistsError, match="holds other files than data"):
        write(tmp_path / "x", range(5), overwrite=True)


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular"])
@loop_over("has_sidecar", [True, False])
def test_data_are_replaced_with_or_without_a_sidecar(tmp_path: Path, format: str, has_sidecar: bool) -> None:
    folder = tmp_path / "x"
    write(folder, range(5), format, **SHARDS)
    if not has_sidecar:
        (tmp_path / "x.dataformats.json").unlink(missing_ok=True)
    if format == "tfrecord":
        list(dataformats.open(folder, index="beside"))
        (folder / "x-00000-of-00003.tfrecord.dataformats.idx").touch()
    write(folder, [7], format, overwrite=True)
    assert numbers_in(folder) == [7]


def test_damaged_listed_data_are_replaced(tmp_path: Path) -> None:
    write(tmp_path / "x", range(5), **SHARDS)
    for file in (tmp_path / "x").iterdir():
        file.write_bytes(b"damaged" * 9)
    write(tmp_path / "x", [7], overwrite=True)
    assert numbers_in(tmp_path / "x") == [7]


def test_journal_brought_back_by_a_crash_is_replaced(tmp_path: Path) -> None:
    for records in ([b"old"], [b"new"]):
        with dataformats.create(tmp_path / "x", "ffrecord", shard_records=2, overwrite=True) as writer:
            writer.extend(records)
        assert list(dataformats.open(tmp_path / "x")) == records
        (tmp_path / "x" / "PART_00003.ffr.partial.journal").write_bytes(b"")
