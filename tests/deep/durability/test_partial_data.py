"""Partial data: recognition, refusals, and the files that an error or a dropped writer leaves."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataformats
import dataformats.storage.atomic
from dataformats.backends.ffrecord.writer import FFRecordWriter
from dataformats.backends.granular.writer import GranularWriter
from dataformats.backends.tfrecord.writer import TFRecordWriter
from dataformats.spec import Spec
from tests.writing.test_two_writers import CASES, opened, records_in


def value_of(case: str) -> Any:
    return {"v": b"a"} if "spec" in CASES[case][2] else b"a"


def opened_in(folder: Path) -> list[str]:
    """Return the open files in a folder."""
    gc.collect()
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return [name for link in links if os.path.lexists(link) and (name := os.readlink(link)).startswith(str(folder))]


# ---- foreign files called NAME.partial


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_foreign_files_named_partial_are_kept(case: str, resume: bool, tmp_path: Path) -> None:
    path = tmp_path / CASES[case][0]
    partial = path.with_name(path.name + ".partial")
    makers: list[Callable[[], object]] = [
        lambda: partial.write_text("my own file"),
        lambda: shutil.copytree(tmp_path / "mine", partial),
        lambda: shutil.copytree(tmp_path / "hidden", partial),
        lambda: partial.symlink_to(tmp_path / "mine"),
    ]
    for name in ("mine/thesis.tex", "hidden/.hidden"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x")
    for make in makers:
        make()
        with pytest.raises(FileExistsError, match="Delete or rename it") as error:
            opened(path, case, resume=resume)
        assert repr(str(partial)) in str(error.value)
        assert partial.exists()
        assert not path.exists()
        dataformats.storage.atomic.remove(partial)
    assert sorted(name.name for name in tmp_path.iterdir()) == ["hidden", "mine"]


SIDECAR = '{"version": 1, "format": "tfrecord", "payload": "bytes"}'


@pytest.mark.parametrize("resume", [False, True])
def test_links_beside_data_are_not_followed(resume: bool, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"my own file")
    (tmp_path / "x.partial").symlink_to(tmp_path / "mine")
    sidecar = tmp_path / "x.partial.dataformats.json"
    sidecar.write_text(SIDECAR)
    with pytest.raises(dataformats.TargetExistsError, match="in the way"):
        dataformats.create(tmp_path / "x", "tfrecord", payload="bytes", resume=resume)
    for is_link in (True, False):
        dataformats.storage.atomic.remove(sidecar, tmp_path / "x.partial")
        sidecar.symlink_to(tmp_path / "mine") if is_link else sidecar.mkdir()
        with pytest.raises(dataformats.TargetExistsError, match=r"dataformats\.json' is in the way"):
            dataformats.create(tmp_path / "x", "tfrecord", payload="bytes", resume=resume)
    assert (tmp_path / "mine").read_bytes() == b"my own file"


@pytest.mark.parametrize("names", [[], [""], [".."], ["a/b"], ["x", "x.\0"], ["mine", "x"], ["mine", "zzz"]])
def test_a_mark_of_other_files_is_not_believed(names: list[str], tmp_path: Path) -> None:
    """A sidecar from elsewhere could have any file of its folder renamed."""
    (tmp_path / "mine").write_bytes(b"my own file")
    mark = json.dumps({"complete": 1e400 if not names else 7, "names": dict.fromkeys(names, True)})
    (tmp_path / "x.partial.dataformats.json").write_text(f"{SIDECAR}\n{mark}\n")
    with dataformats.create(tmp_path / "x", "tfrecord", payload="bytes") as writer:
        writer.append(b"a")
    assert (tmp_path / "mine").read_bytes() == b"my own file"


@pytest.mark.parametrize("case", CASES)
def test_partial_data_without_resume_are_replaced(case: str, tmp_path: Path) -> None:
    """A killed writer is one whose files are copied while it is open."""
    path = tmp_path / "new" / CASES[case][0]
    (tmp_path / "old").mkdir()
    with opened(tmp_path / "old" / path.name, case) as killed:
        killed.extend([value_of(case)] * 3)
        killed.flush()
        shutil.copytree(tmp_path / "old", tmp_path / "new")
    with opened(path, case) as writer:
        assert len(writer) == 0
        writer.append(value_of(case))
    assert records_in(path, case) == [b"a"]
    assert not any("partial" in name or "journal" in name for name in os.listdir(tmp_path / "new"))


@pytest.mark.parametrize("empty", [Path.touch, Path.mkdir])
def test_an_empty_file_or_folder_is_not_in_the_way(empty: Callable[[Path], object], tmp_path: Path) -> None:
    empty(tmp_path / "x.tfrecord.partial")
    with dataformats.create(tmp_path / "x.tfrecord", "tfrecord") as writer:
        writer.append(b"a")
    assert [name.name for name in tmp_path.iterdir()] == ["x.tfrecord"]


def test_data_of_another_program_are_resumed_if_they_are_of_the_format(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "whole", "tfrecord", payload="bytes") as writer:
        writer.extend([b"a", b"b"])
    (tmp_path / "whole").rename(tmp_path / "x.partial")
    with pytest.raises(FileExistsError, match="in the way"):
        dataformats.create(tmp_path / "x", "tfrecord", payload="bytes")
    with dataformats.create(tmp_path / "x", "tfrecord", payload="bytes", resume=True) as writer:
        writer.append(b"c")
    assert list(dataformats.open(tmp_path / "x", payload="bytes")) == [b"a", b"b", b"c"]


# ---- damage


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", "\x80\xff", '{"version": 2}', "[" * 100_000, "NaN", "0", '"', "1e999"]
)
def test_damaged_sidecar_of_partial_data_raises_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    writer = dataformats.create(path, "ffrecord", resume=True)
    writer.append(b"a")
    writer.abort()
    sidecar = tmp_path / "x.ffr.partial.dataformats.json"
    sidecar.write_text(text, "latin-1")
    with pytest.raises(dataformats.FormatError, match=r"x\.ffr\.partial\.dataformats\.json"):
        dataformats.create(path, "ffrecord", resume=True)
    assert sidecar.read_text("latin-1") == text
    with dataformats.create(path, "ffrecord") as writer:
        writer.append(b"b")
    assert list(dataformats.open(path)) == [b"b"]


@pytest.mark.parametrize("case", ["tfrecord", "ffrecord shards"])
def test_a_writer_killed_before_its_first_record_is_started_again(case: str, tmp_path: Path) -> None:
    """The sidecar is torn, or stands alone, in that case."""
    path = tmp_path / CASES[case][0]
    whole = json.dumps({"version": 1, "format": CASES[case][1], "payload": "another"})
    for text in ("", whole[:20], "\0" * 40, whole):
        path.with_name(path.name + ".partial.dataformats.json").write_text(text)
        writer = opened(path, case, resume=True)
        assert len(writer) == 0
        writer.resumable = False
        writer.abort()
        assert list(tmp_path.iterdir()) == []


# ---- errors


@pytest.mark.parametrize("case", CASES)
def test_an_error_while_cleaning_leaves_as_little_as_possible(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one file cannot be deleted, all others are, and the next writer deletes it."""
    path, original = tmp_path / CASES[case][0], Path.unlink
    deleted: list[str] = []
    for failing in range(1, 40):
        deleted.clear()

        def unlink(self: Path, missing_ok: bool = False, *, failing: int = failing) -> None:
            deleted.append(self.name)
            if len(deleted) == failing:
                raise OSError(5, "Input/output error")
            original(self, missing_ok)

        writer = opened(path, case)
        writer.extend([value_of(case)] * 5)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", unlink)
            with contextlib.suppress(OSError):
                writer.abort()
        left = {entry.name for entry in tmp_path.iterdir()}
        assert left <= {f"{path.name}.partial.dataformats.json", *deleted[failing - 1 : failing]}
        if len(deleted) < failing:
            assert left == set()
            return
        opened(path, case).abort()
        assert list(tmp_path.iterdir()) == []
    pytest.fail("the writer deletes more files than expected")


# ---- dropped writers


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_dropped_writer_is_aborted(case: str, resume: bool, tmp_path: Path) -> None:
    path = tmp_path / CASES[case][0]
    for _ in range(3):
        writer = opened(path, case, resume=resume)
        writer.append(value_of(case))
        with pytest.warns(ResourceWarning, match="unclosed"):
            del writer
        assert opened_in(tmp_path) == []
    assert not path.exists()
    if not resume:
        assert list(tmp_path.iterdir()) == []
        return
    with opened(path, case, resume=True) as writer:
        assert len(writer) == 3


@pytest.mark.parametrize("writer", [FFRecordWriter, TFRecordWriter])
def test_a_dropped_file_writer_closes_its_files(writer: Any, tmp_path: Path) -> None:
    file = writer(tmp_path / "x")
    file.append(b"a")
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del file
    assert opened_in(tmp_path) == []


def test_a_dropped_writer_of_a_folder_closes_its_files(tmp_path: Path) -> None:
    file = GranularWriter(tmp_path / "x", Spec({"a": "bytes", "b": "bytes"}), 3)
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del file
    assert opened_in(tmp_path) == []


def test_open_writer_is_aborted_at_program_end(tmp_path: Path) -> None:
    program = (
        "import dataformats\n"
        "writers = [dataformats.create(name, 'ffrecord', resume=name == 'kept') for name in ('kept', 'x', 'y')]\n"
        "for writer in writers: writer.append(b'a')\n"
        "writers.append(writers)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("ResourceWarning: unclosed <writer of") == 3
    assert "Traceback" not in done.stderr
    left = {entry.name for entry in tmp_path.iterdir()}
    assert left == {"kept.partial", "kept.partial.journal", "kept.partial.dataformats.json"}


def test_undeletable_leftovers_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stubborn(self: Path, missing_ok: bool = False) -> None:
        if self.name.endswith(".partial.dataformats.json"):
            raise OSError(5, "Input/output error")
        original(self, missing_ok)

    original = Path.unlink
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(Path, "unlink", stubborn)
        with dataformats.create(tmp_path / "x", "tfrecord", payload="bytes") as writer:
            writer.append(b"a")
    assert "leftovers" in caplog.text
    with dataformats.create(tmp_path / "x", "tfrecord", payload="bytes", overwrite=True) as writer:
        writer.append(b"b")
    assert list(dataformats.open(tmp_path / "x", payload="bytes")) == [b"b"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
