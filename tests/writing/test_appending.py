"""`append=True` extends finished data, which stay as they are for every reader until `close`."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.sidecars.file_digest import file_checksum
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over

SPEC = {"n": "int64", "t": "utf8"}
SHARDS = {"shard_records": 4}
# name, format, options of create, options of append
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "tfrecord": ("x.tfrecord", "tfrecord", {}, {}),
    "ofrecord": ("x.ofrecord", "ofrecord", {}, {}),
    "granular": ("x", "granular", {}, {}),
    "tfrecord shards": ("x", "tfrecord", SHARDS, SHARDS),
    "gzip shards": ("x", "tfrecord", SHARDS | {"compression": "gzip"}, SHARDS | {"compression": "gzip"}),
    "ffrecord shards": ("x", "ffrecord", SHARDS, {"shard_records": 3}),
    "ofrecord shards": ("x", "ofrecord", SHARDS, {"shard_bytes": 80}),
    "syrah shards": ("x", "syrah", SHARDS, {}),
    "granular shards": ("x", "granular", SHARDS, SHARDS),
}
COPIES = [case for case in CASES if case != "granular"]


def record(n: int) -> dict[str, Any]:
    return {"n": n, "t": f"record {n}"}


def create(path: Path, case: str, numbers: range, **more: Any) -> Path:
    name, format, options, _ = CASES[case]
    with dataformats.create(path / name, format, spec=SPEC, **options, **more) as writer:
        writer.extend(map(record, numbers))
    return path / name


def appending(path: Path, case: str, **more: Any) -> Any:
    _, format, _, options = CASES[case]
    return dataformats.create(path, format, spec=SPEC, append=True, **options, **more)


def fail_after(writer: Any, numbers: range) -> None:
    with writer:
        writer.extend(map(record, numbers))
        raise ZeroDivisionError


def numbers(path: Path) -> list[int]:
    with dataformats.open(path) as src:
        return [record["n"] for record in src]


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if "partial" in path.name]


@loop_over("case", CASES)
def test_append_keeps_data_readable(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(10))
    for start in (10, 15):
        with appending(path, case) as writer:
            assert len(writer) == start
            writer.extend(map(record, range(start, start + 5)))
            writer.flush(sync=True)
            assert len(numbers(path)) == (start if case in COPIES else start + 5)
        assert [dict(found) for found in dataformats.open(path)] == [record(n) for n in range(start + 5)]
        assert dataformats.verify(path).ok
        assert leftovers(tmp_path) == []


@loop_over("case", [case for case in CASES if case != "syrah shards"])  # they are appended to without limits
def test_append_creates_missing_data(case: str, tmp_path: Path) -> None:
    path = tmp_path / CASES[case][0]
    for n in range(2):
        with appending(path, case) as writer:
            writer.append(record(n))
    assert numbers(path) == [0, 1]


@loop_over("case", COPIES)
def test_an_error_leaves_the_data_as_they_were(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(10))
    before = {file: file.stat().st_ino for file in tmp_path.rglob("*")}
    with pytest.raises(ZeroDivisionError):
        fail_after(appending(path, case), range(10, 20))
    assert {file: file.stat().st_ino for file in tmp_path.rglob("*")} == before
    assert numbers(path) == list(range(10))


def test_rows_of_granular_stay_after_an_error(tmp_path: Path) -> None:
    path = create(tmp_path, "granular", range(3))
    with pytest.raises(ZeroDivisionError):
        fail_after(appending(path, "granular"), range(3, 4))
    assert numbers(path) == [0, 1, 2, 3]


@loop_over("case", CASES)
def test_an_interrupted_append_is_resumed(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(10))
    for last in (13, 17):
        writer = appending(path, case, resume=True)
        writer.extend(map(record, range(len(writer), last)))
        writer.abort()
        if case in COPIES:
            assert numbers(path) == list(range(10))
    with appending(path, case, resume=True) as writer:
        assert len(writer) == 17
        writer.append(record(17))
    assert numbers(path) == list(range(18))
    assert leftovers(tmp_path) == []


@loop_over("case", COPIES)
def test_resumed_append_needs_its_original_data(case: str, tmp_path: Path) -> None:
    path = create(tmp_path / "a", case, range(10))
    writer = appending(path, case, resume=True)
    writer.append(record(10))
    writer.abort()
    other = create(tmp_path / "b", case, range(11))
    atomic.remove(path, path.with_name(f"{path.name}.dataformats.json"))
    shutil.move(other, path)
    shutil.move(other.with_name(f"{path.name}.dataformats.json"), path.with_name(f"{path.name}.dataformats.json"))
    with pytest.raises(dataformats.StateMismatchError, match="extends"):
        appending(path, case, resume=True)
    with appending(path, case) as writer:
        assert len(writer) == 11


@loop_over("step", range(3))
def test_interrupted_links_are_made_again(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = create(tmp_path, "tfrecord shards", range(10))
    calls, link = itertools.count(), os.link

    def interrupted(source: Any, target: Any) -> None:
        if next(calls) == step:
            raise KeyboardInterrupt
        link(source, target)

    writer = appending(path, "tfrecord shards", resume=True)
    writer.append(record(10))
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    assert numbers(path) == list(range(10))
    with appending(path, "tfrecord shards", resume=True) as writer:
        assert len(writer) == 11
    assert numbers(path) == list(range(11))


def test_a_file_of_a_conversion_is_extended(tmp_path: Path) -> None:
    source = create(tmp_path, "granular", range(3))
    dataformats.convert(source, tmp_path / "x.tfrecord")
    with appending(tmp_path / "x.tfrecord", "tfrecord") as writer:
        writer.append(record(3))
    assert numbers(tmp_path / "x.tfrecord") == [0, 1, 2, 3]
    assert "plan" not in json.loads((tmp_path / "x.tfrecord.dataformats.json").read_text())
    assert dataformats.verify(tmp_path / "x.tfrecord").ok


@pytest.mark.parametrize("format", ["ffrecord", "granular"])
def test_shards_of_a_conversion_keep_the_checksums_of_their_files(format: str, tmp_path: Path) -> None:
    source = create(tmp_path, "tfrecord", range(10))
    path = tmp_path / "shards"
    dataformats.convert(source, path, format, shard_records=4)
    before = json.loads((tmp_path / "shards.dataformats.json").read_text())
    for stop in (12, 18):
        writer = dataformats.create(path, format, spec=SPEC, append=True, resume=True, shard_records=4)
        writer.extend(map(record, range(len(writer), stop - 1)))
        writer.abort()
        with dataformats.create(path, format, spec=SPEC, append=True, resume=True, shard_records=4) as writer:
            writer.extend(map(record, range(len(writer), stop)))
    after = json.loads((tmp_path / "shards.dataformats.json").read_text())
    assert after["files"][:3] == before["files"]
    assert len(after["files"]) == 6
    assert "plan" not in after
    for file in after["files"]:
        folder = path / file["name"] if "parts" in file else path
        assert all(
            file_checksum(LocalFile(folder / part["name"])) == part["crc32"] for part in file.get("parts", [file])
        )
    assert [found["n"] for found in dataformats.open(path)] == list(range(18))


def test_without_hard_links_shards_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = create(tmp_path, "granular shards", range(10))

    def refused(*_: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refused)
    with appending(path, "granular shards") as writer:
        writer.append(record(10))
    assert numbers(path) == list(range(11))


def test_new_shards_have_the_formats_names(tmp_path: Path) -> None:
    path = create(tmp_path, "tfrecord shards", range(5))
    with appending(path, "tfrecord shards") as writer:
        writer.append(record(5))
    assert sorted(file.name for file in path.iterdir()) == [f"x-0000{n}-of-00003.tfrecord" for n in range(3)]
    with appending(path, "tfrecord shards"):
        pass
    assert len(list(path.iterdir())) == 3


@loop_over(
    "name, format, options, problem",
    [
        ("x.ffr", "ffrecord", {}, "table of its records"),
        ("x.syr", "syrah", {}, "table of its records"),
        ("x.tfrecord.gz", "tfrecord", {}, "is compressed"),
        ("x.tfrecord", "tfrecord", {"compression": "zlib"}, "is compressed"),
        ("x", "granular", {"generation": 2}, "one dataset, not a folder of shards"),
    ],
)
def test_append_refuses_unextendable_data(name: str, format: str, options: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with dataformats.create(path, format, spec=SPEC, **options) as writer:
        writer.append(record(0))
    with pytest.raises(dataformats.TargetExistsError, match=problem) as error:
        dataformats.create(path, format, spec=SPEC, append=True)
    assert "shard_records=" in str(error.value.remedy)
    assert numbers(path) == [0]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("case", ["tfrecord", "granular"])
def test_one_file_or_dataset_gets_no_shards(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(3))
    with pytest.raises(dataformats.TargetExistsError, match=r"single file|one dataset"):
        dataformats.create(path, CASES[case][1], spec=SPEC, append=True, shard_records=2)


@pytest.mark.parametrize("more", [{"overwrite": True}, {"shard_start": 0}])
def test_append_excludes(more: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        dataformats.create(tmp_path / "x", "tfrecord", append=True, **more)


@loop_over("case", CASES)
def test_other_types_are_refused(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(3))
    with pytest.raises((dataformats.StateMismatchError, dataformats.SpecError)):
        dataformats.create(path, CASES[case][1], spec={"n": "int64"}, append=True)
    assert numbers(path) == [0, 1, 2]


@pytest.mark.parametrize("at", [-1, 20])
def test_damaged_data_are_not_cut(at: int, tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with dataformats.create(path, payload="bytes") as writer:
        writer.extend([b"some bytes"] * 3)
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(dataformats.FormatError, match="sound records"):
        dataformats.create(path, payload="bytes", append=True)
    assert path.read_bytes() == damaged
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("shards", [False, True])
def test_data_without_a_sidecar_get_none(shards: bool, tmp_path: Path) -> None:
    """The types of the new records are no statement about the old ones."""
    path = create(tmp_path, "tfrecord shards" if shards else "tfrecord", range(6))
    sidecar = path.with_name(f"{path.name}.dataformats.json")
    sidecar.unlink()
    with dataformats.create(path, "tfrecord", spec=SPEC, append=True) as writer:
        writer.append(record(6))
    assert not sidecar.exists()
    assert numbers(path) == list(range(7))


def test_append_refuses_a_dataset_of_mds_without_a_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with dataformats.create(path, "mds", spec=SPEC) as writer:
        writer.append(record(0))
    (tmp_path / "x.dataformats.json").unlink()
    with pytest.raises(dataformats.TargetExistsError, match="one dataset, not a folder of shards"):
        dataformats.create(path, "mds", spec=SPEC, append=True)
    assert numbers(path) == [0]


def test_append_refuses_data_with_a_missing_shard(tmp_path: Path) -> None:
    path = create(tmp_path, "ffrecord shards", range(10))
    next(iter(sorted(path.iterdir()))).unlink()
    with pytest.raises(dataformats.FormatError, match="missing"):
        appending(path, "ffrecord shards")


@loop_over("case", ["tfrecord", "tfrecord shards", "granular"])
def test_a_link_stays_and_its_data_grow(case: str, tmp_path: Path) -> None:
    path = create(tmp_path / "there", case, range(3))
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    with appending(link, case) as writer:
        writer.append(record(3))
    assert link.is_symlink()
    assert numbers(path) == [0, 1, 2, 3]


@loop_over("case", CASES)
def test_one_writer_at_a_time(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(3))
    with appending(path, case):
        options: list[dict[str, Any]] = [{"append": True}, {"overwrite": True}]
        for more in options:
            with pytest.raises(dataformats.TargetInUseError):
                dataformats.create(path, CASES[case][1], spec=SPEC, **more)


def test_rows_appended_by_another_program_are_read(tmp_path: Path) -> None:
    """The sidecar lists fewer bytes, and still refuses other data, and data that were cut."""
    path, spec = tmp_path / "x", {"x": "uint8[2]"}
    sidecar = path.with_name("x.dataformats.json")
    with dataformats.create(path, "granular", spec=spec) as writer:
        writer.extend([{"x": [n, n]} for n in range(3)])
    ours = sidecar.read_bytes()
    with dataformats.create(path, "granular", spec=spec, append=True) as writer:
        writer.extend([{"x": [n, n]} for n in range(3, 200)])
    sidecar.write_bytes(ours)
    assert dataformats.open(path).spec == dataformats.Spec(spec)
    assert [record["x"].tolist() for record in dataformats.open(path)] == [[n, n] for n in range(200)]
    assert dataformats.verify(path).ok
    bag = path / "x.bag"
    data = bag.read_bytes()
    for other in (b"\0" + data[1:], data[:5]):
        bag.write_bytes(other)
        with pytest.raises(dataformats.FormatError, match=r"content differs|not as long"):
            dataformats.open(path)


def test_other_files_in_the_folder_are_not_lost(tmp_path: Path) -> None:
    path = create(tmp_path, "ofrecord shards", range(3))
    (path / "README").write_text("read me")
    with pytest.raises(dataformats.TargetExistsError, match="README"):
        appending(path, "ofrecord shards")
    assert (path / "README").exists()


def test_growth_in_place_lists_no_other_files(tmp_path: Path) -> None:
    path, spec = tmp_path / "x", {"x": "uint8[2]"}
    for n in range(2):
        with dataformats.create(path, "granular", spec=spec, append=True) as writer:
            writer.append({"x": [n, n]})
        (path / "README").write_text("read me")
    assert [record["x"].tolist() for record in dataformats.open(path)] == [[0, 0], [1, 1]]
    assert dataformats.verify(path).ok


def test_damaged_data_do_not_grow_in_place(tmp_path: Path) -> None:
    path, spec = tmp_path / "x", {"x": "uint8[2]"}
    with dataformats.create(path, "granular", spec=spec) as writer:
        writer.append({"x": [0, 0]})
    (path / "x.bag").write_bytes(b"\0" * (path / "x.bag").stat().st_size)
    with pytest.raises(dataformats.FormatError, match="content differs"):
        dataformats.create(path, "granular", spec=spec, append=True)


def test_only_local_data_can_be_extended() -> None:
    with pytest.raises(ValueError, match="expected a local path"):
        dataformats.create("memory://x.tfrecord", append=True)
