"""Conversions: the same bytes however they run, the selected records, and the check of the written data."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
import dataformats.converting.converter
import dataformats.converting.tasks
import dataformats.writing.shard_writer
from dataformats.batch import StoredRecords
from dataformats.registry import backends
from dataformats.sidecars.file_digest import file_checksum
from dataformats.sidecars.sidecar import load_sidecar
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.writing.read_back import check_written, content_of

SPEC = {"n": "int64", "image": "uint8[4,4]", "text": "utf8"}
FORMATS = ("tfrecord", "ofrecord", "ffrecord", "syrah", "granular")
SHARDS: tuple[dict[str, Any], ...] = ({}, {"shard_records": 30})
TWO_WAYS: tuple[tuple[str, dict[str, Any]], ...] = (("a.ffr", {}), ("b", {"format": "ffrecord", "shard_records": 6}))
WAYS = [*((format, shards) for format in FORMATS for shards in SHARDS), ("ffrecord", {"shard_bytes": 3000})]


def record(i: int) -> dict[str, Any]:
    return {"n": i, "image": np.full((4, 4), i % 256, np.uint8), "text": "é" * (i % 7)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> dataformats.RecordSource:
    path = tmp_path_factory.mktemp("source") / "source.tfrecord"
    with dataformats.create(path, "tfrecord", spec=SPEC) as writer:
        writer.extend(map(record, range(100)))
    return dataformats.open(path)


def names(folder: Path) -> list[str]:
    """Return the names in a folder, without indexes, which only some formats have."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".idx"))


def tree(path: Path) -> dict[str, bytes]:
    """Return the content of all files of a target."""
    files = [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


class Backwards(Executor):
    """Completes tasks in the opposite order, five at a time."""

    _max_workers = 3

    def __init__(self) -> None:
        self._n = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._n += 1

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(*arguments, **named))
                except BaseException as error:
                    future.set_exception(error)

        threading.Timer(0.01 * (6 - self._n % 6), run).start()
        return future


@pytest.mark.parametrize(("format", "shards"), WAYS)
def test_bytes_do_not_depend_on_the_executor(
    source: dataformats.RecordSource, format: str, shards: dict[str, Any], tmp_path: Path
) -> None:
    contents = []
    with ThreadPoolExecutor(3) as threads:
        for executor in (None, threads, Backwards()):
            report = dataformats.convert(source, tmp_path / "new", format, executor=executor, overwrite=True, **shards)
            assert (report.records, report.omitted) == (100, 0)
            assert names(tmp_path) == ["new", "new.dataformats.json"]
            contents.append(tree(tmp_path / "new"))
    assert contents[0] == contents[1] == contents[2]
    assert [found["n"] for found in dataformats.open(tmp_path / "new")] == list(range(100))


def test_the_manifest_lists_every_file(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    report = dataformats.convert(source, path, "granular", shard_records=30, limit=70)
    sidecar = load_sidecar(LocalFolder(path))
    assert sidecar is not None
    metadata = sidecar.metadata
    assert (metadata["plan"]["source"], metadata["plan"]["limit"], metadata["omitted"]) == (source.fingerprint, 70, 0)
    assert metadata["dataformats"] == dataformats.__version__
    assert [entry["records"] for entry in metadata["files"]] == [30, 30, 10]
    assert (report.files, report.nbytes) == (3, sum(entry["bytes"] for entry in metadata["files"]))
    listed = {
        f"{entry['name']}/{part['name']}": part["crc32"] for entry in metadata["files"] for part in entry["parts"]
    }
    assert listed == {name: file_checksum(LocalFile(path / name)) for name in tree(path)}


# ---- which records


def test_where_map_shuffle_limit(source: dataformats.RecordSource, tmp_path: Path) -> None:
    def halved(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "n": found["n"] // 2}

    def is_even(found: dict[str, Any]) -> bool:
        return bool(found["n"] % 2 == 0)

    chosen: dict[str, Any] = {"where": is_even, "shuffle_seed": 5, "limit": 20, "map": halved}
    for name, options in TWO_WAYS:
        assert dataformats.convert(source, tmp_path / name, **chosen, **options).records == 20
    numbers = [found["n"] for found in dataformats.open(tmp_path / "a.ffr")]
    assert numbers == [found["n"] for found in dataformats.open(tmp_path / "b")]
    assert len(set(numbers)) == 20
    assert numbers != sorted(numbers)
    assert 20 <= max(numbers) < 50  # drawn from all that match, not from the first 20
    assert dataformats.open(tmp_path / "a.ffr").spec == SPEC


def test_shuffle_is_a_frozen_permutation(source: dataformats.RecordSource, tmp_path: Path) -> None:
    dataformats.convert(source, tmp_path / "a.ffr", shuffle_seed=0)
    numbers = [found["n"] for found in dataformats.open(tmp_path / "a.ffr")]
    assert sorted(numbers) == list(range(100))
    assert numbers[:6] == [9, 21, 0, 19, 71, 29]  # frozen: an interrupted conversion must be resumed in this order


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".tar"])
def test_absent_lists_become_missing_values(suffix: str, tmp_path: Path) -> None:
    if suffix != ".tar":
        pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    with dataformats.create(tmp_path / "x.tfrecord", spec={"id": "int64", "box": "float32[]?"}) as writer:
        writer.extend([{"id": 0, "box": [0.5, 1]}, {"id": 1}, {"id": 2, "box": [2]}])
    (tmp_path / "x.tfrecord.dataformats.json").unlink()
    assert dataformats.open(tmp_path / "x.tfrecord").spec["box"] == dataformats.Type.parse("float32[]")
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / f"y{suffix}")
    copy = dataformats.open(tmp_path / f"y{suffix}")
    assert [record.get("box", np.zeros(0)).tolist() for record in copy] == [[0.5, 1], [], [2]]
    assert "box" not in copy[1]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("workers", [0, 1])
def test_absent_lists_of_bytes_become_nulls(suffix: str, workers: int, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    records: list[dict[str, Any]] = [{"text": [b"a", b""]}, {}, {"text": []}, {"text": [b"c"]}] * 300
    records = [record | {"n": number} for number, record in enumerate(records)]
    with dataformats.create(tmp_path / "x.tfrecord", spec={"text": "bytes[]?", "n": "int64"}) as writer:
        writer.extend(records)
    (tmp_path / "x.tfrecord.dataformats.json").unlink()
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / f"y{suffix}", workers=workers)
    assert list(dataformats.open(tmp_path / f"y{suffix}")) == records
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / f"z{suffix}", spec={"n": "float64"}, workers=workers)
    assert list(dataformats.open(tmp_path / f"z{suffix}")) == records


def test_no_records(source: dataformats.RecordSource, tmp_path: Path) -> None:
    for name, options in TWO_WAYS:
        assert dataformats.convert(source, tmp_path / name, limit=0, shuffle_seed=1, **options).records == 0
        assert len(dataformats.open(tmp_path / name)) == 0


@pytest.mark.parametrize("options", [{}, {"shard_records": 30}], ids=["one", "shards"])
def test_unconvertible_records_raise_or_are_omitted(options: dict[str, Any], tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "old.ffr", "ffrecord", spec={"x": "json"}) as writer:
        writer.extend({"x": {5: "a", 40: 2**70}.get(i, i)} for i in range(100))
    source = dataformats.open(tmp_path / "old.ffr")
    with pytest.raises(dataformats.SpecError) as caught:
        dataformats.convert(source, tmp_path / "new", "tfrecord", spec={"x": "int64"}, **options)
    assert (caught.value.index, caught.value.field) == (5, "x")
    assert not [path for path in tmp_path.iterdir() if "new" in path.name]
    report = dataformats.convert(
        source, tmp_path / "new", "tfrecord", spec={"x": "int64"}, on_corrupt="omit", **options
    )
    assert (report.records, report.omitted, len(report.errors)) == (98, 2, 2)
    assert "record 5" in report.errors[0]
    assert [found["x"] for found in dataformats.open(tmp_path / "new")] == [*range(5), *range(6, 40), *range(41, 100)]


def test_a_damaged_record_is_left_out_of_a_copy(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "old.tfrecord", "tfrecord") as writer:
        writer.extend(bytes([i]) * 50 for i in range(20))
    damaged = bytearray((tmp_path / "old.tfrecord").read_bytes())
    damaged[7 * 66 + 20] ^= 1
    (tmp_path / "old.tfrecord").write_bytes(damaged)
    source = dataformats.open(tmp_path / "old.tfrecord")
    report = dataformats.convert(source, tmp_path / "new.ffr", on_corrupt="omit", where=lambda found: found[0] != 3)
    assert (report.copied, report.records, report.omitted) == (True, 18, 1)
    assert [found[0] for found in dataformats.open(tmp_path / "new.ffr")] == [*range(3), 4, 5, 6, *range(8, 20)]


def test_an_error_of_a_function_names_the_record(source: dataformats.RecordSource, tmp_path: Path) -> None:
    def fails(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "n": 1 // (found["n"] - 50)}

    with pytest.raises(ZeroDivisionError) as caught:
        dataformats.convert(source, tmp_path / "a.ffr", map=fails)
    assert caught.value.__notes__ == ["record 50 of the source"]


# ---- checks


@pytest.mark.parametrize("kinds", ["height=utf8 image=jpg name=utf8 width=int64", "height=int64 image=png"])
def test_declared_types_are_checked_before_payloads_are_copied(kinds: str, tmp_path: Path) -> None:
    rest = {"height": "int64", "name": "utf8", "width": "int64"}
    spec = {**rest, **dict(kind.split("=") for kind in kinds.split())}
    with pytest.raises(dataformats.DataFormatsError):
        dataformats.convert("tests/golden/real/photos.tfrecord", tmp_path / "a.ffr", spec=spec)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["tfrecord", "webdataset", "mds"])
def test_bytes_are_read_as_declared_numbers(format: str, tmp_path: Path) -> None:
    """Tokens are often stored as their bytes."""
    with dataformats.create(tmp_path / "x", format, spec={"tokens": "bytes", "n": "int64"}) as writer:
        writer.append({"tokens": np.arange(4).tobytes(), "n": 1})
    dataformats.convert(tmp_path / "x", tmp_path / "new.ffr", spec={"tokens": "int64[]"})
    assert dataformats.open(tmp_path / "new.ffr")[0]["tokens"].tolist() == [0, 1, 2, 3]


def test_declared_types_of_a_later_record_are_checked(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "old.ffr", "ffrecord", spec={"x": "bytes"}) as writer:
        writer.extend({"x": b"\xff" if i == 90 else b"a"} for i in range(100))
    source = dataformats.open(tmp_path / "old.ffr", spec={"x": "utf8"}, payload="example")
    with pytest.raises(dataformats.DataFormatsError) as caught:
        dataformats.convert(source, tmp_path / "new.tfrecord")
    assert getattr(caught.value, "index", None) == 90


@pytest.mark.parametrize("shards", SHARDS, ids=["one", "shards"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_flipped_bit_is_found_when_records_are_read_back(
    source: dataformats.RecordSource,
    format: str,
    shards: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check_damaged(backend: Any, files: dict[str, Path], *written: Any) -> None:
        path = next(iter(files.values()))
        path = path / "image.bag" if path.is_dir() else path
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        check(backend, files, *written)

    check = check_written
    monkeypatch.setattr(dataformats.writing.shard_writer, "check_written", check_damaged)
    with pytest.raises(dataformats.FormatError):
        dataformats.convert(source, tmp_path / "new", format, **shards)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", [2, 8192])
def test_more_records_than_were_written_are_found(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if they begin another step of the read."""
    monkeypatch.setattr("dataformats.writing.read_back._MAX_STEP", step)
    with dataformats.create(tmp_path / "x.ffr", payload="bytes") as writer:
        writer.extend([b"a", b"b", b"c"])
    expected = content_of(StoredRecords.join("ffrecord", [b"a", b"b"]), {})
    files = {"x.ffr": tmp_path / "x.ffr"}
    with pytest.raises(dataformats.FormatError, match="read back otherwise, as 3"):
        check_written(backends.get("ffrecord"), files, 2, expected)


def test_content_counts_the_values_of_each_record() -> None:
    """The same values in other records are other content."""
    one, other = ([{"x": [b"a"] * n} for n in counts] for counts in ((1, 2), (2, 1)))
    contents = [content_of(StoredRecords.join("granular", records), {}) for records in (one, other)]
    assert contents[0] != contents[1]


def test_a_dry_run_writes_nothing(source: dataformats.RecordSource, tmp_path: Path) -> None:
    report = dataformats.convert(source, tmp_path / "a.syr", limit=30, dry_run=True)
    assert (report.format, report.records, report.copied) == ("syrah", 30, False)
    with pytest.raises(dataformats.SpecError):
        dataformats.convert(source, tmp_path / "a.syr", spec=SPEC | {"text": "utf8?"}, dry_run=True)
    assert list(tmp_path.iterdir()) == []


def test_changed_source_stops_the_conversion(tmp_path: Path) -> None:
    path = tmp_path / "old.ffr"
    with dataformats.create(path, "ffrecord") as writer:
        writer.extend([b"a"] * 100)

    def touch(done: int, _: int) -> None:
        if done == 7:
            (tmp_path / "old.ffr").touch()

    with pytest.raises(dataformats.DataFormatsError, match="changed"):
        dataformats.convert(path, tmp_path / "new.tfrecord", progress=touch)
    assert not (tmp_path / "new.tfrecord").exists()


def test_conflicting_arguments_are_refused(source: dataformats.RecordSource, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="executor= or workers="):
        dataformats.convert(source, tmp_path / "a.ffr", executor=Backwards(), workers=2)
    with pytest.raises(ValueError, match="map= or rename="):
        dataformats.convert(source, tmp_path / "a.ffr", map=dict, rename={"n": "m"})
    with pytest.raises(ValueError, match="limit"):
        dataformats.convert(source, tmp_path / "a.ffr", limit=-1)


def test_unpicklable_map_is_refused(
    source: dataformats.RecordSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ray.cloudpickle", raising=False)  # it could send them
    with pytest.raises(TypeError, match="cannot send"):
        dataformats.convert(source, tmp_path / "a.ffr", map=lambda found: found, workers=2)
    assert list(tmp_path.iterdir()) == []


def test_a_single_bag_is_read_back(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "old.ffr", "ffrecord") as writer:
        writer.extend(bytes([i]) * i for i in range(1, 30))
    report = dataformats.convert(tmp_path / "old.ffr", tmp_path / "new.bag", "granular")
    assert (report.records, [*dataformats.open(report.path)][3]) == (29, b"\4" * 4)
    sidecar = load_sidecar(LocalFile(tmp_path / "new.bag"))
    assert sidecar is not None
    assert sidecar.metadata["files"][0]["parts"][0]["crc32"] == file_checksum(LocalFile(tmp_path / "new.idx"))


@pytest.mark.parametrize("format", ["arrow", "mds", "webdataset", "jsonl"])
def test_single_values_become_a_field(tmp_path: Path, format: str) -> None:
    (tmp_path / "x.txt").write_text("one\ntwo\n")
    spec = {"value": "utf8"} if format == "jsonl" else None
    dataformats.convert(tmp_path / "x.txt", tmp_path / "new", format, spec=spec)
    source = dataformats.open(tmp_path / "new", format=format).select("value")
    assert list(source) == [{"value": "one"}, {"value": "two"}]
