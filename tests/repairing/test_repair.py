"""Shards, sidecars, the new data and the report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dataformats
from dataformats.errors import FormatError, TargetExistsError
from dataformats.interfaces import BlobBackend
from dataformats.registry import backends
from dataformats.storage.files import LocalFile
from dataformats.storage.spliced_file import SplicedFile
from dataformats.testing.loop_over import loop_over
from tests.cases import frames
from tests.cli.conftest import Run, run  # noqa: F401  # a fixture

GOLDEN = Path(__file__).parents[1] / "golden"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
SPEC = {"n": "int64", "pixels": "uint8[4]"}


def shards(folder: Path, format: str, n_shards: int = 3) -> list[Path]:
    """A dataset of two records a shard, with its sidecar."""
    with dataformats.create(folder, format, spec=SPEC, shard_records=2) as writer:
        writer.extend({"n": number, "pixels": [number] * 4} for number in range(2 * n_shards))
    return sorted(folder.iterdir())


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular"])
def test_shards_keep_their_places_payload_and_spec(format: str, tmp_path: Path) -> None:
    paths = shards(tmp_path / "train", format)
    file = paths[1] if paths[1].is_file() else paths[1] / "n.bag"
    data = file.read_bytes()
    file.write_bytes(data[:-1] if format != "syrah" else data[:6] + bytes(8) + data[14:])
    report = dataformats.repair(tmp_path / "train", tmp_path / "new")
    n_lost = 0 if format == "syrah" else 1
    assert (report.kept, report.lost, report.missing_files) == (6 - n_lost, n_lost, ())
    assert all(Path(loss.path).is_relative_to(paths[1]) for loss in report.losses)
    assert [loss.index for loss in report.losses if loss.records] == [1] * n_lost
    assert any("not as long as the sidecar" in note or "content differs" in note for note in report.notes)
    kept = dataformats.open(tmp_path / "new")
    assert kept.spec == dataformats.Spec(SPEC)
    assert len(list((tmp_path / "new").iterdir())) == 3
    assert [record["n"] for record in kept] == [n for n in range(6) if n != 3 or not n_lost]
    assert kept[0]["pixels"].tolist() == [0] * 4


def test_unrepairable_shard_is_one_loss(tmp_path: Path) -> None:
    paths = shards(tmp_path / "train", "ffrecord")
    paths[1].write_bytes(bytes(40))
    report = dataformats.repair(tmp_path / "train", tmp_path / "new")
    assert (report.kept, report.lost) == (4, 0)
    (loss,) = report.losses
    assert (loss.path, loss.start, loss.stop, loss.records) == (str(paths[1]), 0, 40, None)
    assert "no header locates the records" in loss.cause
    for path in paths:
        path.write_bytes(bytes(40))
    with pytest.raises(FormatError, match="PART_00000"):
        dataformats.repair(tmp_path / "train", tmp_path / "other")


@pytest.mark.parametrize("has_sidecar", [True, False])
def test_missing_shards(has_sidecar: bool, tmp_path: Path) -> None:
    paths = shards(tmp_path / "train", "tfrecord")
    paths[1].unlink()
    if not has_sidecar:
        (tmp_path / "train.dataformats.json").unlink()
    report = dataformats.repair(tmp_path / "train", tmp_path / "new")
    assert (report.missing_files, report.kept, report.ok) == ((str(paths[1]),), 4, False)


def test_missing_parts(tmp_path: Path) -> None:
    paths = shards(tmp_path / "parts", "ofrecord", 4)
    paths[2].unlink()
    (tmp_path / "parts.dataformats.json").unlink()
    assert dataformats.repair(tmp_path / "parts", tmp_path / "new").missing_files == (str(paths[2]),)
    named = [tmp_path / f"{date}.tfrecord" for date in (20240101, 20240301)]
    for path in named:
        path.write_bytes(frames(b"x"))
    assert dataformats.repair(named, tmp_path / "dates").missing_files == ()


def test_repair_notes_ignored_sidecars_and_indexes(tmp_path: Path) -> None:
    source = tmp_path / "x.tfrecord"
    with dataformats.create(source, spec=SPEC) as writer:
        writer.extend({"n": number, "pixels": [number] * 4} for number in range(3))
    len(dataformats.open(source, index="beside"))
    source.write_bytes(source.read_bytes()[:-3])
    report = dataformats.repair(source, tmp_path / "y.tfrecord")
    assert dataformats.open(tmp_path / "y.tfrecord").spec == SPEC
    assert [note.rpartition(": ")[2] for note in report.notes][-1] == "not used"
    (tmp_path / "x.tfrecord.dataformats.json").write_text("{")
    report = dataformats.repair(source, tmp_path / "z.tfrecord")
    assert "ignored, because the sidecar is not JSON" in report.notes[0]
    assert not (tmp_path / "z.tfrecord.dataformats.json").exists()
    assert [record["n"] for record in dataformats.open(tmp_path / "z.tfrecord")] == [0, 1]
    facts = {"version": 1, "format": "syrah", "spec": {"a": "int64"}}
    (tmp_path / "x.tfrecord.dataformats.json").write_text(json.dumps(facts))
    report = dataformats.repair(source, tmp_path / "w.tfrecord", source_options={"format": "tfrecord"})
    assert (report.kept, report.notes[0]) == (2, "the sidecar was ignored: it is of the format syrah")


def test_a_spec_of_other_fields_is_ignored(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "syrah" / "corrupt" / "size_odd.syr", tmp_path / "x.syr")
    facts = {"version": 1, "format": "syrah", "spec": {"other": "int64"}}
    (tmp_path / "x.syr.dataformats.json").write_text(json.dumps(facts))
    report = dataformats.repair(tmp_path / "x.syr", tmp_path / "y.syr")
    assert "the spec of the sidecar was ignored: it does not fit the files" in report.notes
    assert set(dataformats.open(tmp_path / "y.syr").spec) == {"id", "x", "s"}


def test_the_name_decides_if_the_content_is_damaged(tmp_path: Path) -> None:
    source = tmp_path / "x.tfrecord"
    source.write_bytes(b"\xff" * 40 + frames(b"one", b"two"))
    with pytest.raises(FormatError):
        dataformats.open(source)
    report = dataformats.repair(source, tmp_path / "y.tfrecord")
    assert (report.format, report.kept, report.losses[0].stop) == ("tfrecord", 2, 40)
    with pytest.raises(FormatError, match="format="):
        dataformats.repair(source.rename(tmp_path / "x"), tmp_path / "z")


def test_the_source_is_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    paths = shards(folder, "tfrecord")
    before = {path: path.read_bytes() for path in paths}
    for target in (paths[0], folder, folder / "new.tfrecord", tmp_path):
        with pytest.raises(TargetExistsError, match="the source"):
            dataformats.repair(folder, target, overwrite=True)
    partial = paths[0].rename(tmp_path / "x.tfrecord.partial")
    with pytest.raises(TargetExistsError, match="the source"):
        dataformats.repair(partial, tmp_path / "x.tfrecord")
    partial.rename(paths[0])
    assert {path: path.read_bytes() for path in paths} == before


def test_the_target_exists(tmp_path: Path) -> None:
    target = tmp_path / "x.tfrecord"
    target.write_bytes(frames(b"old"))
    with pytest.raises(TargetExistsError, match="exists"):
        dataformats.repair(DAMAGED, target)
    dataformats.repair(DAMAGED, target, overwrite=True)
    assert len(dataformats.open(target)) == 5


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    dry = dataformats.repair(DAMAGED, tmp_path / "x.tfrecord", dry_run=True)
    assert list(tmp_path.iterdir()) == []
    wet = dataformats.repair(DAMAGED, tmp_path / "x.tfrecord")
    assert (dry.kept, dry.losses, dry.is_written) == (wet.kept, wet.losses, False)


def test_repair_raises_if_new_data_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backends.get("tfrecord")
    assert isinstance(backend, BlobBackend)
    create = type(backend).create

    def broken(self, path, **options):  # type: ignore[no-untyped-def]
        writer = create(self, path, **options)
        extend = writer.extend
        monkeypatch.setattr(writer, "extend", lambda blobs: extend([blob[::-1] for blob in blobs]), raising=False)
        return writer

    monkeypatch.setattr(type(backend), "create", broken)
    with pytest.raises(FormatError, match="read back otherwise"):
        dataformats.repair(DAMAGED, tmp_path / "x.tfrecord")
    assert list(tmp_path.iterdir()) == []


def test_spliced_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    spliced = SplicedFile(LocalFile(tmp_path / "x"), [b"head", range(2, 5), b"", range(8, 10), b"!"])
    assert (spliced.size, spliced.pread(0, 99)) == (10, b"head23489!")
    assert [spliced.pread(at, 4) for at in (3, 5, 9, 10)] == [b"d234", b"3489", b"!", b""]
    assert [spliced.origin(at) for at in (0, 3, 4, 6, 7, 9)] == [0, 1, 2, 4, 8, 10]


# ---- the command


def test_the_command(run: Run, tmp_path: Path) -> None:  # noqa: F811
    target = tmp_path / "x.tfrecord"
    dry = run("repair", DAMAGED, target, "--dry-run")
    assert dry.code == 1
    assert dry.facts["path"] == f"{target}, not written: this is a dry run"
    assert dry.facts["loss"] == f"{DAMAGED}, bytes 368 to 391, record 3: the checksum of a record's data is wrong"
    assert (dry.facts["records kept"], dry.facts["records lost"]) == ("5", "1")
    assert list(tmp_path.iterdir()) == []
    report = run("repair", DAMAGED, target, "--json")
    assert (report.code, report.json["ok"], report.json["losses"][0]["index"]) == (1, False, 3)
    again = run("repair", target, tmp_path / "y.tfrecord")
    assert (again.code, again.facts["records kept"], again.facts["records lost"]) == (0, "5", "0")
    assert run("repair", DAMAGED, target).code == 2
    assert run("repair", DAMAGED, target, "--overwrite").code == 1
    garbage = run("repair", GOLDEN / "tfrecord" / "corrupt" / "garbage_7.tfrecord", target, "--overwrite")
    assert garbage.facts["records lost"] == "0, and an unknown number"
    refused = run("repair", GOLDEN / "ffrecord" / "corrupt" / "unfinished.ffr", tmp_path / "x.ffr")
    assert (refused.code, "nothing can be saved" in refused.err) == (1, True)
