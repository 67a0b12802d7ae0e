"""A name has one writer at a time: the others are refused, and the published data come from one writer."""

from __future__ import annotations

import itertools
import os
import signal
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import dataformats
import dataformats.storage.atomic
from dataformats.testing.loop_over import loop_over

FIELDS = {"spec": {"v": "bytes"}}
SHARDS: dict[str, Any] = {"shard_records": 2}
# name, format, options, True if a complete dataset grows in place
CASES: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    "tfrecord": ("x.tfrecord", "tfrecord", {}, False),
    "tfrecord.gz": ("x.tfrecord.gz", "tfrecord", {}, False),
    "tfrecord shards": ("x", "tfrecord", SHARDS, False),
    "ffrecord": ("x.ffr", "ffrecord", {}, False),
    "ffrecord shards": ("x", "ffrecord", SHARDS, False),
    "ofrecord": ("x.ofrecord", "ofrecord", {"payload": "bytes"}, False),
    "ofrecord shards": ("x", "ofrecord", {"payload": "bytes", **SHARDS}, False),
    "syrah": ("x.syr", "syrah", FIELDS, False),
    "syrah shards": ("x", "syrah", FIELDS | SHARDS, False),
    "granular 2": ("x", "granular", FIELDS | {"generation": 2}, False),
    "granular 3": ("x", "granular", FIELDS, True),
    "granular shards": ("x", "granular", FIELDS | SHARDS, False),
    "bag 2": ("x.bag", "granular", {"generation": 2}, False),
    "bag 3": ("x.bag", "granular", {}, False),
}


@dataclass
class Model:
    """The expected records of each name, from the documentation of `create` alone."""

    resumes: tuple[bool, bool]
    grows: bool
    open: dict[int, list[bytes]] = field(default_factory=dict)
    safe: list[bytes] = field(default_factory=list)  # kept by an aborted writer
    published: list[bytes] | None = None

    def refuses(self, who: int) -> type[Exception] | None:
        if self.open:
            return dataformats.TargetInUseError
        if self.published is not None and not (self.resumes[who] and self.grows):
            return FileExistsError
        return None

    def begin(self, who: int) -> None:
        kept = self.safe if self.published is None else self.published
        self.open[who] = list(kept) if self.resumes[who] else []

    def finish(self, who: int, closes: bool) -> None:
        records = self.open.pop(who)
        if closes or self.published is not None:
            self.published, self.safe = records, []
        else:
            self.safe = records if self.resumes[who] else []


def opened(path: Path, case: str, **more: Any) -> Any:
    _, format, options, _ = CASES[case]
    return dataformats.create(path, format, **{**options, **more})


def records_in(path: Path, case: str) -> list[bytes]:
    _, format, options, _ = CASES[case]
    kind = {key: options[key] for key in ("spec", "payload") if key in options} or {"payload": "bytes"}
    with dataformats.open(path, format=format, **kind) as source:
        return [bytes(record["v"] if isinstance(record, dict) else record) for record in source]


def play(path: Path, case: str, resumes: tuple[bool, bool], steps: tuple[str, ...]) -> None:
    """Run the steps of two writers; after each, the published data must be the model's."""
    model = Model(resumes, CASES[case][3])
    writers: dict[int, Any] = {}
    as_record = (lambda blob: {"v": blob}) if "spec" in CASES[case][2] else (lambda blob: blob)
    numbers = itertools.count()
    for action, who in ((step[0], int(step[1])) for step in steps):
        if action == "o" and who not in model.open:
            refused = model.refuses(who)
            if refused is None:
                model.begin(who)
                writers[who] = opened(path, case, resume=resumes[who])
                assert len(writers[who]) == len(model.open[who])
            else:
                with pytest.raises(refused):
                    opened(path, case, resume=resumes[who])
        elif action == "a" and who in model.open:
            for _ in range(3):
                blob = b"%d %d" % (who, next(numbers))
                writers[who].append(as_record(blob))
                model.open[who].append(blob)
            writers[who].flush()
        elif action in "cx" and who in model.open:
            model.finish(who, action == "c")
            writers[who].close() if action == "c" else writers[who].abort()
        assert path.exists() == (model.published is not None)
        if model.published is not None and not model.open:
            assert records_in(path, case) == model.published
    for who in list(model.open):
        model.finish(who, closes=True)
        writers[who].close()
        assert records_in(path, case) == model.published


def plays(length: int) -> Iterator[tuple[str, ...]]:
    """Yield the steps: the first writer is open and has records when the second comes."""
    for rest in itertools.product(("a0", "c0", "x0", "o1", "a1", "c1", "x1"), repeat=length):
        yield ("o0", "a0", "o1", *rest)


@loop_over("case", CASES)
@loop_over("resumes", list(itertools.product((False, True), repeat=2)))
def test_every_interleaving(case: str, resumes: tuple[bool, bool], tmp_path: Path) -> None:
    """The longer ones are in tests/deep/durability/test_two_writers.py."""
    for number, steps in enumerate(plays(1)):
        (tmp_path / str(number)).mkdir()
        play(tmp_path / str(number) / CASES[case][0], case, resumes, steps)


def test_a_url_of_a_local_file_is_the_same_name(tmp_path: Path) -> None:
    first = dataformats.create(tmp_path / "x.tfrecord", "tfrecord", payload="bytes")
    first.append(b"a")
    first.flush()
    for resume in (False, True):
        with pytest.raises(dataformats.TargetInUseError):
            dataformats.create(
                f"file://{tmp_path}/x.tfrecord", "tfrecord", payload="bytes", overwrite=True, resume=resume
            )
    first.append(b"b")
    first.close()
    assert list(dataformats.open(tmp_path / "x.tfrecord")) == [b"a", b"b"]


@loop_over("case", CASES)
def test_overwriting_is_refused_too(case: str, tmp_path: Path) -> None:
    path = tmp_path / CASES[case][0]
    opened(path, case).close()
    first = opened(path, case, overwrite=True)
    for resume in (False, True):
        with pytest.raises(dataformats.TargetInUseError, match="another writer") as error:
            opened(path, case, overwrite=True, resume=resume)
        assert repr(str(path)) in str(error.value)
    first.abort()
    assert records_in(path, case) == []
    sidecars = {f"{path.name}.dataformats.json", f"{path.name}.dataformats.idx", "x.idx"}
    assert {entry.name for entry in tmp_path.iterdir()} <= {path.name, *sidecars}


def test_data_growing_in_place_are_not_overwritten(tmp_path: Path) -> None:
    path, case = tmp_path / "x", "granular 3"
    opened(path, case).close()
    growing = opened(path, case, resume=True)
    growing.append({"v": b"a"})
    with pytest.raises(dataformats.TargetInUseError):
        opened(path, case, overwrite=True)
    growing.close()
    overwriting = opened(path, case, overwrite=True)
    with pytest.raises(dataformats.TargetInUseError):
        opened(path, case, resume=True)
    overwriting.abort()
    assert records_in(path, case) == [b"a"]


def test_growth_in_place_leaves_nothing_beside_the_data(tmp_path: Path) -> None:
    """Leftovers of a writer that was killed after it had published the data are deleted, too."""
    path, case = tmp_path / "x", "granular 3"
    opened(path, case).close()
    before = sorted(entry.name for entry in tmp_path.iterdir())
    for left in ("", '{"version": 1, "format": "granular"}'):
        (tmp_path / "x.partial.dataformats.json").write_text(left)
        growing = opened(path, case, resume=True)
        growing.append({"v": b"a"})
        growing.close()
        assert sorted(entry.name for entry in tmp_path.iterdir()) == before
    assert records_in(path, case) == [b"a", b"a"]


def test_growth_through_a_link_updates_the_sidecar_of_the_data(tmp_path: Path) -> None:
    """The sidecar that describes them lies beside the folder, not beside the link."""
    with dataformats.create(tmp_path / "x", "granular", spec={"v": "bytes"}) as writer:
        writer.append({"v": b"a"})
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "y"
    link.symlink_to("../x")
    with dataformats.create(link, "granular", spec={"v": "bytes"}, resume=True) as writer:
        writer.append({"v": b"b"})
        with pytest.raises(dataformats.TargetInUseError):
            dataformats.create(tmp_path / "x", "granular", spec={"v": "bytes"}, resume=True)
    assert [path.name for path in link.parent.iterdir()] == ["y"]
    for path in (link, tmp_path / "x"):
        assert records_in(path, "granular 3") == [b"a", b"b"]
        assert dataformats.verify(path).ok


def test_a_name_of_partial_data_is_refused(tmp_path: Path) -> None:
    """`create("x")` would delete the complete dataset `x.partial`."""
    for name in ("x.partial", "x.partial.journal", "x.dataformats.json"):
        with pytest.raises(ValueError, match="beside its data"):
            dataformats.create(tmp_path / name, "tfrecord")
    assert not [*tmp_path.iterdir()]


def test_file_of_another_program_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    writer = dataformats.create(path, "tfrecord", payload="bytes")
    writer.append(b"a")
    path.write_bytes(b"of another program")
    with pytest.raises(FileExistsError):
        writer.close()
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"of another program"]


@pytest.mark.parametrize("sharded", [False, True])
def test_deleted_partial_data_are_not_published(tmp_path: Path, sharded: bool) -> None:
    """The writer raises, and leaves alone the writer that came after it."""
    options = SHARDS if sharded else {}
    path = tmp_path / "x"
    first = dataformats.create(path, "tfrecord", payload="bytes", **options)
    first.extend([b"1"])
    dataformats.storage.atomic.remove(*tmp_path.iterdir())
    second = dataformats.create(path, "tfrecord", payload="bytes", **options)
    second.extend([b"2", b"2"])
    with pytest.raises(RuntimeError, match="another program"):
        first.close() if not sharded else first.extend([b"1"] * 4)
    first.abort()
    second.close()
    assert list(dataformats.open(path, payload="bytes")) == [b"2", b"2"]


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        return os.fork()


@loop_over("case", CASES)
def test_the_name_is_free_when_the_process_is_killed(case: str, tmp_path: Path) -> None:
    path = tmp_path / CASES[case][0]
    value: Any = {"v": b"a"} if "spec" in CASES[case][2] else b"a"
    reader, writer = os.pipe()
    child = fork()
    if not child:
        try:
            other = opened(path, case, resume=True)
            other.append(value)
            other.flush(sync=True)
            os.write(writer, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    with pytest.raises(dataformats.TargetInUseError):
        opened(path, case, resume=True)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with opened(path, case, resume=True) as resumed:
        resumed.append(value)
    assert records_in(path, case)[-1:] == [b"a"]
    assert len(records_in(path, case)) == 2


@loop_over("case", CASES)
def test_a_forked_child_leaves_the_data_to_its_parent(case: str, tmp_path: Path) -> None:
    path = tmp_path / CASES[case][0]
    value: Any = {"v": b"a"} if "spec" in CASES[case][2] else b"a"
    writer = opened(path, case)
    writer.extend([value] * 3)
    child = fork()
    if not child:
        try:
            with pytest.raises(ValueError, match="forked"):
                writer.append(value)
            writer.abort()
            del writer
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    writer.append(value)
    writer.close()
    assert records_in(path, case) == [b"a"] * 4
