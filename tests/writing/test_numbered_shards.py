"""`shard_start` and `shard_step`: independent writers of one folder, whose complete shards are seen at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.storage import atomic
from dataformats.testing.loop_over import loop_over

SPEC = {"n": "int64"}
NAMES = {
    "tfrecord": "x-{:05d}.tfrecord",
    "ffrecord": "PART_{:05d}.ffr",
    "ofrecord": "part-{:05d}",
    "syrah": "x-{:05d}.syr",
    "granular": "{:06d}",
}


def one_of_two(path: Path, format: str, number: int, **more: Any) -> Any:
    options = {"spec": SPEC, "shard_records": 2, "shard_start": number, "shard_step": 2, **more}
    return dataformats.create(path, format, **options)


def numbers(path: Path) -> list[int]:
    with dataformats.open(path) as src:
        return [record["n"] for record in src]


def shards(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if "partial" not in entry.name)


@loop_over("format", NAMES)
def test_each_complete_shard_is_seen(format: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    with one_of_two(path, format, 0) as even, one_of_two(path, format, 1) as odd:
        assert shards(path) == []
        odd.extend({"n": n} for n in (10, 11, 12))
        assert numbers(path) == [10, 11]
        even.extend({"n": n} for n in range(5))
        assert numbers(path) == [0, 1, 10, 11, 2, 3]
        assert (len(even), len(odd)) == (5, 3)
    assert shards(path) == [NAMES[format].format(number) for number in range(5) if number != 5]
    assert numbers(path) == [0, 1, 10, 11, 2, 3, 12, 4]
    assert dataformats.open(path).spec == dataformats.Spec(SPEC)
    assert [entry for entry in path.rglob("*") if "partial" in entry.name] == []


def test_a_writer_resumes_its_own_shards(tmp_path: Path) -> None:
    path = tmp_path / "x"
    writer = one_of_two(path, "tfrecord", 1, resume=True)
    writer.extend({"n": n} for n in range(5))
    writer.abort()
    assert numbers(path) == [0, 1, 2, 3]
    with one_of_two(path, "tfrecord", 1, resume=True) as writer:
        assert len(writer) == 5
        writer.append({"n": 5})
    assert numbers(path) == list(range(6))
    with pytest.raises(dataformats.TargetExistsError, match="x-00001") as error:
        one_of_two(path, "tfrecord", 1)
    assert "resume=True" in str(error.value.remedy)


def test_an_error_keeps_the_complete_shards(tmp_path: Path) -> None:
    def fail() -> None:
        with one_of_two(path, "ffrecord", 0) as writer:
            writer.extend({"n": n} for n in range(3))
            raise ZeroDivisionError

    path = tmp_path / "x"
    with pytest.raises(ZeroDivisionError):
        fail()
    assert numbers(path) == [0, 1]
    assert [entry.name for entry in path.iterdir()] == ["PART_00000.ffr"]


def test_no_two_writers_have_one_number(tmp_path: Path) -> None:
    with one_of_two(tmp_path / "x", "tfrecord", 0), pytest.raises(dataformats.TargetInUseError):
        one_of_two(tmp_path / "x", "tfrecord", 0)


def test_writers_agree_on_the_spec(tmp_path: Path) -> None:
    with one_of_two(tmp_path / "x", "tfrecord", 0) as writer:
        with pytest.raises(dataformats.StateMismatchError):
            one_of_two(tmp_path / "x", "tfrecord", 1, spec={"m": "int64"})
        writer.append({"n": 1})
    assert numbers(tmp_path / "x") == [1]


def test_a_complete_dataset_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with dataformats.create(path, "syrah", spec=SPEC, shard_records=2) as writer:
        writer.append({"n": 0})
    with pytest.raises(dataformats.TargetExistsError, match="complete") as error:
        one_of_two(path, "syrah", 1)
    assert "append=True" in str(error.value.remedy)
    path.with_name("x.dataformats.json").unlink()
    with pytest.raises(dataformats.TargetExistsError, match="without a sidecar"):
        one_of_two(path, "syrah", 1)


@loop_over("format, name", [("tfrecord", "x-{}-of-00002.tfrecord"), ("text", "x-{}-of-00002.txt"), ("mds", "0{}")])
def test_append_completes_the_folder(format: str, name: str, tmp_path: Path) -> None:
    """When all writers have ended, an append of no records gives the shards their names, and lists them."""
    path = tmp_path / "x"
    for number in range(2):
        with one_of_two(path, format, number) as writer:
            writer.append({"n": number})
    with dataformats.create(path, format, spec=SPEC, append=True) as writer:
        assert len(writer) == 2
    assert shards(path) == [name.format("00000"), name.format("00001")]
    assert numbers(path) == [0, 1]
    atomic.remove(path / name.format("00001"))
    with pytest.raises(dataformats.FormatError, match="missing"):
        dataformats.open(path)


@pytest.mark.parametrize("wrong", [{"shard_start": -1}, {"shard_start": 0, "shard_step": 0}])
def test_wrong_numbers(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        dataformats.create(tmp_path / "x", "tfrecord", **wrong)
