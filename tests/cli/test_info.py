"""What `dataformats info` says about data that need attention."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import fsspec

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

DIGITS = GOLDEN / "real" / "digits-00000-of-00003.tfrecord"


def test_torn_last_record(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a b.tfrecord"
    path.write_bytes(DIGITS.read_bytes()[: DIGITS.stat().st_size * 2 // 3])
    facts = run("info", path).facts
    assert facts["problem"].startswith(
        f"record 399 of '{path}' at byte 45087: a record reaches past the end of the file"
    )
    command = shlex.split(facts["all damage"])
    assert command[:2] == ["run", "dataformats"]
    assert run(*command[2:]).code == 1
    assert "all damage" not in run("info", DIGITS).facts


@loop_over(
    "payload, title",
    [
        ("example", "a tf.train.Example"),
        ("sequence_example", "a SequenceExample"),
        ("json_object", "a JSON object"),
        ("msgpack", None),
    ],
)
def test_payload_of_a_missing_sidecar(run: Run, tmp_path: Path, payload: str, title: str | None) -> None:
    path, spec = tmp_path / "a.ffr", {"n": "int64[]"} if title else None
    with dataformats.create(path, payload=payload, spec=spec) as writer:
        writer.extend([{"n": [1]}] * 5)
    path.with_name("a.ffr.dataformats.json").unlink()
    note = run("info", path).facts.get("note")
    assert note == (title and f"each of the first records looks like {title}: pass --payload {payload}")
    assert "note" not in run("info", path, "--payload", "bytes").facts
    assert title is None or run("info", path, "--payload", payload).facts["field n"].startswith("int64")


@loop_over(
    "name, spec, option",
    [
        ("a.tfrecord", {"a/{}": "bytes", "b": "bytes"}, "--spec 'a/{}=jpg'"),
        ("b.tfrecord", {"a": "bytes?"}, "--spec 'a=jpg?'"),
        ("c.tfrecord", None, "--payload jpg"),
        ("d.parquet", {"a": "bytes"}, "--spec a=jpg"),
    ],
)
def test_images_in_bytes(run: Run, tmp_path: Path, name: str, spec: dict[str, str] | None, option: str) -> None:
    jpegs = dataformats.open(GOLDEN / "real/photos.tfrecord").read([0, 1])["image"]
    records = [[jpegs[0], b"other"], [jpegs[1], jpegs[1]], *[[]] * option.count("?")]
    with dataformats.create(tmp_path / name, spec=spec, payload=None if spec else "bytes") as writer:
        writer.extend(dict(zip(spec, record, strict=False)) if spec else record[0] for record in records)
    (tmp_path / f"{name}.dataformats.json").unlink(missing_ok=True)
    note = run("info", tmp_path / name).facts["note"]
    assert f" 'jpg' decodes: pass {option}" in note
    assert "320 x 320" in run("head", tmp_path / name, *shlex.split(option), "-n", 1).out


def test_size_against_the_sidecar(run: Run, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.ffr", payload="utf8") as writer:
        writer.extend(["a", "b"])
    path = tmp_path / "a.ffr"
    path.write_bytes(path.read_bytes()[:-1])
    result = run("info", path)
    assert result.code == 1
    assert f"not as long as the sidecar '{path}.dataformats.json' lists" in result.err
    assert result.err.endswith("to read what is there, pass --payload utf8.\n")
    assert run("info", path, "--payload", "utf8").facts["records"] == "2"


def test_files_without_records(run: Run, tmp_path: Path) -> None:
    shutil.copy(DIGITS, tmp_path)
    (tmp_path / "empty.tfrecord").touch()
    assert (
        run("info", tmp_path).facts["note"] == f"1 of 2 files have no records, such as '{tmp_path / 'empty.tfrecord'}'"
    )


def test_index_beside_data_behind_a_url(run: Run, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    for beside in (False, True):
        folder = tmp_path / f"{beside}"
        folder.mkdir()
        shutil.copy(DIGITS, folder / "a.tfrecord")
        if beside:
            assert run("index", folder, "--beside").code == 0
        system.put(str(folder), f"/info/{beside}", recursive=True)
        assert ("note" in run("info", f"memory://info/{beside}/a.tfrecord").facts) == (not beside)
    system.rm("/info", recursive=True)


def test_one_size_of_the_data(run: Run, tmp_path: Path) -> None:
    options = ("--format", "granular", "--spec", "image=uint8[8,8]", "--spec", "label=int64")
    for more in ((), ("--shard-records", 300)):
        path = tmp_path / f"digits{len(more)}"
        converted = run("convert", DIGITS, path, *options, *more).facts["bytes"]
        about = run("info", path, "--json").json
        on_disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        sizes = {
            about["nbytes"],
            sum(file["nbytes"] for file in about["files"]),
            int(run("verify", path).facts["bytes"]),
        }
        assert sizes | {int(converted)} == {on_disk}
    assert json.dumps(about) == run("info", path, "--json").out.rstrip("\n")  # one line
