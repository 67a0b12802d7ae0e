"""Granular: files of the original programs, damaged files, and datasets that are written, killed and resumed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import tracemalloc
from io import FileIO
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dataformats
import dataformats.interfaces
from dataformats.backends.granular import BACKEND, bag_appender
from dataformats.backends.granular.layout import indexed_layout, parse_limits
from dataformats.backends.granular.refs import parse_refs
from dataformats.errors import CodecError, FormatError, SpecError, TruncatedError, UnknownNameError
from dataformats.reading.blob_source import BlobSource
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile
from dataformats.storage.shared_memory_file import CachedFile
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

GOLDEN = Path(__file__).parents[1] / "golden" / "granular"
REAL = GOLDEN.parent / "real"
ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))["entries"]
GOOD = [entry for entry in ENTRIES if not entry["error"]]
DAMAGED = [entry for entry in ENTRIES if entry["error"]]
SETS = [entry for entry in GOOD if entry["kind"] in ("dataset", "sharded")]
UNREADABLE = {f"{version}/limits_decreasing" for version in ("bags", "v1", "v2")}  # a cut may look the same
AS_IN_GENERATION_2 = {"bags/zero_bytes", "v1/zero_bytes"}  # generation 2 has 0 bytes for a bag without records
INTERRUPTED = [entry for entry in ENTRIES if "resume_to" in entry]
VERSIONS = ("bags", "v1", "v2", "v3")


def path_of(entry: dict[str, Any]) -> Path:
    return GOLDEN / str(entry["path"])


def raw_spec(source: Any) -> dict[str, str]:
    """Every field of a dataset as the blobs that are stored."""
    return {name: "bytes[]" if kind.dims else "bytes" for name, kind in source.spec.items()}


def open_raw(path: Path, **options: Any) -> BlobSource:
    found = dataformats.open(path, format="granular", **options)
    assert isinstance(found, BlobSource)
    if found.reader.spec is None:
        return found
    again = dataformats.open(path, format="granular", spec=raw_spec(found), **options)
    assert isinstance(again, BlobSource)
    return again


def blobs(value: Any) -> list[bytes]:
    return value if isinstance(value, list) else [value]


def joined(record: Any) -> bytes:
    """The bytes that golden hashes are made over."""
    if isinstance(record, bytes):
        return record
    return b"".join(blob for name in sorted(record) for blob in blobs(record[name]))


def read_each(source: Any) -> list[bytes | FormatError]:
    found: list[bytes | FormatError] = []
    for index in range(len(source)):
        try:
            found.append(joined(source[index]))
        except FormatError as error:
            found.append(error)
    return found


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copied(path: Path, to: Path) -> Path:
    shutil.copytree(path, to)
    for part in [to, *to.rglob("*")]:
        part.chmod(0o755 if part.is_dir() else 0o644)
    return to


# ---- files of the originals


@loop_over("entry", GOOD)
def test_stored_bytes(entry: dict[str, Any]) -> None:
    source = open_raw(path_of(entry))
    found = read_each(source)
    assert len(found) == len(source) == entry["n"]
    assert [digest(blob) for blob in found if isinstance(blob, bytes)] == entry["records"]["sha256"]
    assert list(map(joined, source)) == found
    batch = source.read(range(len(source)))
    assert [joined(record) for record in batch] == found


@loop_over("entry", [entry for entry in GOOD if entry["n"] and path_of(entry).name != "bag_all_empty.bag"])
def test_the_format_is_recognized(entry: dict[str, Any]) -> None:
    assert dataformats.open(path_of(entry)).format == "granular"


@loop_over("entry", [entry for entry in SETS if "columns" in entry])
def test_columns(entry: dict[str, Any]) -> None:
    source = open_raw(path_of(entry))
    assert list(source.spec) == sorted(entry["spec"])
    for name, column in entry["columns"].items():
        values = [blob for record in source for blob in blobs(record[name])]
        assert [len(value) for value in values] == column["length"]
        assert [digest(value) for value in values] == column["sha256"]


@loop_over("entry", [entry for entry in SETS if "refs" in entry])
def test_refs_give_available_elements(entry: dict[str, Any]) -> None:
    source = dataformats.open(path_of(entry), format="granular")
    for index, row in enumerate(entry["refs"]):
        for name, ref in zip(sorted(entry["spec"]), row, strict=True):
            expected = True if isinstance(ref, int) else range(ref[1] if ref else 0)
            assert source.present_fields(index)[name] == expected


@loop_over("entry", [entry for entry in SETS if "rows" in entry])
def test_rows(entry: dict[str, Any]) -> None:
    arrays = np.load(GOLDEN / "expected.npz", allow_pickle=False)
    codecs = {"my_type": (bytes, bytes)} if entry.get("raw_only") else None
    source: Any = dataformats.open(path_of(entry), format="granular", codecs=codecs)
    for index, row in enumerate(entry["rows"]):
        record = source[index]
        assert record.keys() == row.keys()
        for name, value in row.items():
            check(record[name], value, arrays, lossy=name in entry.get("lossy", ()))


def check(found: Any, expected: dict[str, Any], arrays: Any, *, lossy: bool = False) -> None:
    """Fail unless a decoded value is the one of expected.json."""
    kind = expected["t"]
    if kind == "list":
        assert len(found) == len(expected["v"])
        for part, wanted in zip(found, expected["v"], strict=True):
            check(part, wanted, arrays, lossy=lossy)
    elif kind == "map":
        assert len(found) == len(expected["v"])
        for (key, value), item in zip(expected["v"], found.items(), strict=True):
            check(item[0], key, arrays)
            check(item[1], value, arrays)
    elif kind == "array":
        check_array(np.asarray(found), expected, arrays, lossy)
    elif kind == "bytes":
        assert digest(found) == expected["sha256"]
    elif kind == "nil":
        assert found is None
    else:
        value = float(expected["v"]) if kind == "float" else expected["v"]
        assert found == value or (found != found and value != value)


def check_array(found: np.ndarray, expected: dict[str, Any], arrays: Any, lossy: bool) -> None:
    assert list(found.shape) == expected["shape"]
    assert found.dtype == np.dtype(expected["dtype"])
    if lossy:
        wanted = arrays[expected["npz"]].astype(int)
        assert np.abs(found.astype(int) - wanted).max() <= 2
    else:
        assert digest(found.astype(found.dtype.newbyteorder("<")).tobytes()) == expected["sha256_le"]


def test_integers_are_unsigned_in_generation_1_and_signed_later(tmp_path: Path) -> None:
    for version, expected in (("v1", 200), ("v2", -56)):
        folder = copied(GOLDEN / version / "base", tmp_path / version)
        bag = (folder / "c.bag").read_bytes()
        (folder / "c.bag").write_bytes(b"\xc8\0" + bag[2:])
        assert dataformats.open(folder)[0]["c"] == 200
        (folder / "c.bag").write_bytes(b"\0\xc8" + bag[2:])
        assert dataformats.open(folder)[0]["c"] == expected * 256


@loop_over("entry", [entry for entry in SETS if entry["kind"] == "sharded"])
def test_shards_and_subsets(entry: dict[str, Any]) -> None:
    whole: Any = open_raw(path_of(entry))
    assert [n for _, n, _ in whole.reader.file_summaries()] == entry["part_counts"]
    records = list(map(joined, whole))
    for subset, rows in entry["subsets"].items():
        start, step = map(int, subset.split("/"))
        part = open_raw(path_of(entry), shard_start=start, shard_step=step)
        assert list(map(joined, part)) == [records[row] for row in rows]
        again = pickle.loads(pickle.dumps(part))
        assert list(map(joined, again)) == list(map(joined, part))
    order = random.Random(1).sample(range(len(whole)), len(whole))
    assert list(map(joined, whole.read(order))) == [records[index] for index in order]


def test_more_readers_than_shards_leave_some_without_rows() -> None:
    source = dataformats.open(GOLDEN / "v3/sharded", shard_start=5, shard_step=8)
    assert len(source) == 0
    assert list(source) == []
    assert list(source.spec) == ["i", "t"]


@pytest.mark.parametrize("options", [{"shard_start": -1}, {"shard_step": 0}])
def test_shard_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="shard_start >= 0"):
        dataformats.open(GOLDEN / "v3/sharded", **options)
    with pytest.raises(TypeError, match="shard_start, shard_step\\), found 'shardstep'"):
        dataformats.open(GOLDEN / "v3/sharded", shardstep=2)


def test_several_data_sets_are_one_after_the_other() -> None:
    paths = [GOLDEN / "v3/base", GOLDEN / "v3/resume_complete", GOLDEN / "v3/base"]
    expected = [record for path in paths for record in dataformats.open(path)]
    assert list(dataformats.open(paths)) == expected
    assert len(dataformats.open([GOLDEN / "v2/sharded", GOLDEN / "v3/sharded"])) == 20
    both = dataformats.open([GOLDEN / "v3/base", GOLDEN / "v2/base"])
    assert (both[4], both[5]) == (
        dataformats.open(GOLDEN / "v3/base")[4] | {"s": []},
        dataformats.open(GOLDEN / "v2/base")[0],
    )


def test_generations_whose_integers_differ_are_not_mixed() -> None:
    mixed = dataformats.open([GOLDEN / "v1/sharded", GOLDEN / "v2/sharded"])
    with pytest.raises(SpecError, match="generation 1, whose 'int' is unsigned"):
        mixed[0]
    assert mixed.read([0], ["t"])[0] == dataformats.open(GOLDEN / "v1/sharded").select("t")[0]


@loop_over("version, generation", [("bags", "1"), ("v1", "1"), ("v2", "2"), ("v3", "3")])
def test_info_tells_the_generation(version: str, generation: str) -> None:
    about = dataformats.info(GOLDEN / version / "base")
    assert (about.format, about.records, about.payload) == ("granular", 5, None)
    assert about.metadata["generation"] == generation
    assert [part.records for part in about.files] == [5]
    assert dataformats.verify(GOLDEN / version / "base").ok


def test_a_bag_alone_is_bytes() -> None:
    source = dataformats.open(GOLDEN / "v3/bag.bag")
    assert (source.payload, source.spec.to_json()) == ("bytes", {"value": "bytes"})
    assert [type(record) for record in source] == [bytes] * 5
    assert source.read_bytes([2, 1]) == [source[2], source[1]]
    both = dataformats.open([GOLDEN / "v2/bag.bag", GOLDEN / "v3/bag.bag"])
    assert len(both) == 10
    assert len(dataformats.open(str(GOLDEN / "v3/bag_one.*"))) == 1  # the .idx belongs to the bag


# ---- damage


@loop_over("entry", DAMAGED)
def test_damaged(entry: dict[str, Any]) -> None:
    path = path_of(entry)
    if entry["id"] in AS_IN_GENERATION_2:
        assert path.read_bytes() == path_of(next(e for e in ENTRIES if e["id"] == "v2/bag_empty")).read_bytes()
        assert len(dataformats.open(path)) == 0
        return
    if entry["stage"] == "open":
        with pytest.raises(FormatError):
            dataformats.open(path)
        return
    try:
        found = read_each(open_raw(path))
    except FormatError:
        assert entry["id"] in UNREADABLE
        return
    right = dict(zip(entry["records"]["index"], entry["records"]["sha256"], strict=True))
    for index, blob in enumerate(found):
        if index in right:
            assert isinstance(blob, bytes)
            assert digest(blob) == right[index]
        elif index in entry["bad"]:
            assert isinstance(blob, FormatError)
            assert blob.index == index
            assert blob.path is not None
            assert str(path) in blob.path
    assert len(found) > max([*right, *entry["bad"]], default=-1)


@loop_over("name", ["offsets_decreasing", "truncated_bag", "empty_bag"])
def test_other_fields_of_a_damaged_row_are_read(name: str) -> None:
    source = dataformats.open(GOLDEN / "v3/corrupt" / name)
    assert len(source.read(range(5), ["b", "c"])) == 5
    kept = source.read(range(5), on_corrupt="omit")
    assert len(kept) + len(kept.failed) == 5
    assert kept.failed


def test_interrupted_dataset_has_whole_rows_and_one_error() -> None:
    for entry in INTERRUPTED:
        source = dataformats.open(path_of(entry), format="granular")
        whole = entry["rows_safe"]
        assert len(source) == whole + (len({*entry["index_entries"].values()}) > 1)
        assert len(source.read(range(len(source)), on_corrupt="omit")) == whole


@pytest.mark.parametrize("name", ["interrupted/column_ahead", "corrupt/column_length_mismatch"])
def test_short_fields_are_named(name: str) -> None:
    source: Any = dataformats.open(GOLDEN / "v3" / name)
    for fields in (None, ["a"], ["b"]):
        with pytest.raises(TruncatedError, match="'b' has 4") as caught:
            source.read([0, 4], fields)
        assert (caught.value.index, caught.value.found) == (4, "4 in 'b'")
    with pytest.raises(TruncatedError):
        source.present_fields(4)
    streamed = []
    with pytest.raises(TruncatedError, match="records, as in 'a'"):
        streamed.extend(source)
    assert streamed == [source[i] for i in range(4)]
    assert "'b' has 4" in dataformats.info(source).metadata["incomplete"]
    report = dataformats.verify(GOLDEN / "v3" / name)
    assert report.records == 5
    assert [(finding.kind, finding.index) for finding in report.findings] == [("TruncatedError", 4)]
    assert "'b' has 4" in report.findings[0].message


def test_short_shard_loses_only_its_own_row(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/sharded", tmp_path / "data")
    whole = list(dataformats.open(folder))
    os.truncate(folder / "000001/t.idx", 3 * 8)
    source = dataformats.open(folder)
    assert len(source) == 10
    kept = source.read(range(10), on_corrupt="omit")
    assert list(kept.failed) == [7]
    assert list(kept) == whole[:7] + whole[8:]


@loop_over("version, name", [("bags", "refs.bag"), ("v1", "refs.bag"), ("v2", "refs.bag")])
def test_an_empty_refs_bag_hides_no_records(version: str, name: str, tmp_path: Path) -> None:
    folder = copied(GOLDEN / version / "base", tmp_path / "data")
    (folder / name).write_bytes(b"")
    source = dataformats.open(folder)
    assert len(source) == 1
    with pytest.raises(TruncatedError, match=r"refs\.bag has fewer rows than the fields have records"):
        source[0]
    assert not dataformats.verify(folder).ok


def test_refs_of_fewer_rows_than_the_fields_have(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v2/base", tmp_path / "data")
    whole = list(dataformats.open(folder))
    rows = [msgpack.packb(row) or b"" for row in ([0, 0, 0, []], [1, 1, 1, [0, 2]])]
    (folder / "refs.bag").write_bytes(bag_of(rows, 2))
    source = dataformats.open(folder)
    assert len(source) == 3
    assert list(source.read(range(3), on_corrupt="omit")) == whole[:2]
    with pytest.raises(TruncatedError, match="expected 5 rows, as 'a' has, found 2"):
        source[2]


@loop_over("stop", [1, 8, 9, 39])
def test_torn_index_entry_is_one_failing_record(stop: int, tmp_path: Path) -> None:
    for name in ("bag.bag", "bag.idx"):
        shutil.copyfile(GOLDEN / "v3" / name, tmp_path / name)
    whole = list(dataformats.open(tmp_path / "bag.bag"))
    os.truncate(tmp_path / "bag.idx", stop)
    source = dataformats.open(tmp_path / "bag.bag")
    assert len(source) == stop // 8 + (stop % 8 > 0)
    assert list(source.read(range(len(source)), on_corrupt="omit")) == whole[: stop // 8]
    if stop % 8:
        with pytest.raises(TruncatedError, match="the index ends within an entry"):
            source[stop // 8]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "spec.json").write_text('{"x": "bytes"}')
    shutil.copy(tmp_path / "bag.bag", folder / "x.bag")
    shutil.copy(tmp_path / "bag.idx", folder / "x.idx")
    assert len(dataformats.open(folder)) == len(source)


@pytest.mark.parametrize("generation", [2, 3])
def test_a_short_field_is_resumed(generation: int, tmp_path: Path) -> None:
    spec = {"a": "utf8", "n": "int64"} | ({"s": "utf8[]"} if generation == 2 else {})
    rows = [{"a": f"row {i}", "n": i, "s": ["x"] * i} for i in range(6)]
    rows = [{name: row[name] for name in spec} for row in rows]
    options: Any = {"spec": spec, "generation": generation, "resume": True}
    writer = dataformats.create(tmp_path / "d", "granular", **options)
    for row in rows[:5]:
        writer.append(row)
        writer.flush()
    writer.abort()
    os.truncate(tmp_path / "d.partial" / "n.idx", 3 * 8)
    with dataformats.create(tmp_path / "d", "granular", **options) as writer:
        assert len(writer) == 3
        writer.extend(rows[3:])
    assert [dict(record) for record in dataformats.open(tmp_path / "d")] == rows


@loop_over("cut", [8, 16, 24])
def test_truncated_bag_returns_no_wrong_values(cut: int, tmp_path: Path) -> None:
    spec = {"id": "int64", "n": "utf8", "b": "bytes"}
    rows = [{"b": bytes([i] * 8), "id": i, "n": f"name {i}"} for i in range(9)]
    with dataformats.create(tmp_path / "x", "granular", spec=spec, generation=2) as writer:
        writer.extend(rows)
    (tmp_path / "x.dataformats.json").unlink()
    for name in spec:
        bag = tmp_path / "x" / f"{name}.bag"
        whole = bag.read_bytes()
        bag.write_bytes(whole[:-cut])
        source: Any = dataformats.open(tmp_path / "x", spec={"id": "i64", "n": "utf8", "b": "bytes"})
        batch = source.read(range(9), [name], on_corrupt="omit")
        found = zip(batch.indices.tolist(), batch[name], strict=True)
        assert [(i, value) for i, value in found if value != rows[i][name]] == []
        assert batch.failed
        others = [other for other in sorted(spec) if other != name]
        assert list(source.read(range(9), others)) == [{other: row[other] for other in others} for row in rows]
        bag.write_bytes(whole)


@loop_over("last", range(10))
def test_records_of_one_size_are_where_their_type_puts_them(last: int, tmp_path: Path) -> None:
    # The last value looks like the end of a record, so that the cut table has no implausible entry.
    values = [10, 20, 30, last]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "spec.json").write_text('{"x": "i64"}')
    (folder / "refs.bag").write_bytes(bag_of([b"\x91" + bytes([i]) for i in range(4)], 2))
    (folder / "x.bag").write_bytes(bag_of([value.to_bytes(8, "little") for value in values], 2)[:-8])
    batch = dataformats.open(folder).read(range(4), on_corrupt="omit")
    assert [values[i] for i in batch.indices] == [row["x"] for row in batch]
    assert batch.failed


def test_a_bag_with_more_records_than_rows_is_not_read(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v2/base", tmp_path / "data")
    records = [struct.pack("<QQ", 1, 2)] * 5  # the last one passes for two ends
    (folder / "b.bag").write_bytes(bag_of(records, 2)[:-8])
    source = dataformats.open(folder)
    assert len(source) == 5
    with pytest.raises(FormatError, match="records that no row uses"):
        source[0]
    assert len(source.read(range(5), ["a", "c", "s"])) == 5


@loop_over(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"a": 5}',
        b'{"../a": "bytes"}',
        b'{"/etc/passwd": "bytes"}',
        b'{"a/b": "bytes"}',
        b'{"a\\\\b": "bytes"}',
        b'{"a\\u0000": "bytes"}',
        b'{"": "bytes"}',
        b'{"..": "bytes"}',
        b'{"refs": "bytes"}',
        b'{"missing": "bytes"}',
        b'{"a": {"b": "bytes"}}',
        b'{"a": ' * 100_000,
        b'{"a": 1' + b"0" * 10_000 + b"}",
        b'{"a": "bytes"}' + b"\xff",
        b'{"a": "' + b"x" * (17 * 2**20) + b'"}',
    ],
)
@loop_over("version", ["v2", "v3"])
def test_a_hostile_spec_opens_nothing(
    text: bytes, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(GOLDEN / version / "base", tmp_path / "data")
    shutil.copy(GOLDEN / "v3/bag.bag", tmp_path / "a.bag")
    (folder / "spec.json").write_bytes(text)
    opened: list[str] = []
    monkeypatch.setattr(LocalFile, "open_descriptor", spying(LocalFile.open_descriptor, opened))
    with pytest.raises(FormatError):
        dataformats.open(folder)
    with pytest.raises(FormatError):
        dataformats.open(folder, format="granular")
    assert {Path(name).parent for name in opened} <= {folder}


def spying(function: Any, opened: list[str]) -> Any:
    def spy(file: Any) -> Any:
        opened.append(file.name)
        return function(file)

    return spy


def test_unknown_type_is_opaque(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v2/base", tmp_path / "data")
    types = {"a": "my type!", "b": "pickle", "c": "float32[2]", "s": "x y[]"}
    (folder / "spec.json").write_text(json.dumps(types))
    source: Any = dataformats.open(folder)
    assert source.spec.to_json() == types
    stored = dataformats.open(folder, spec={"a": "bytes", "b": "bytes", "c": "bytes", "s": "bytes[]"})
    assert source.spec_facts.opaque_fields.keys() == types.keys()
    assert source[1] == stored[1]
    override = (bytes, lambda blob: len(blob))
    named = dataformats.open(folder, codecs={"my type!": override, "x y": override})
    assert named[1, {"a": True, "s": True}] == {"a": 7, "s": [3, 3]}
    assert pickle.loads(pickle.dumps(source)).spec == source.spec


def test_folders_are_not_followed_without_end(tmp_path: Path) -> None:
    (tmp_path / "000000").symlink_to(tmp_path)
    with pytest.raises(FormatError, match="lead in a circle"):
        dataformats.open(tmp_path)


@pytest.mark.parametrize("name", ["b.bag", "b.idx"])
def test_a_link_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/base", tmp_path / "data")
    rows = list(dataformats.open(folder))
    (folder / name).rename(tmp_path / "secret")
    (folder / name).symlink_to("../secret")
    for call in (dataformats.open, dataformats.info):
        with pytest.raises(FormatError, match="a link that leads out of its folder") as caught:
            call(folder)
        assert (caught.value.path, str(tmp_path / "secret") in str(caught.value)) == (str(folder / name), True)
    with pytest.raises(FormatError, match="leads out"):
        dataformats.open(folder, format="granular")
    assert not dataformats.verify(folder).ok
    assert list(dataformats.open(folder, follow_links=True)) == rows
    assert list(dataformats.open([folder / "spec.json", *folder.glob("*.bag"), *folder.glob("*.idx")])) == rows


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/base", tmp_path / "data")
    rows = list(dataformats.open(folder))
    (folder / "files").mkdir()
    (folder / "b.bag").rename(folder / "files" / "x")
    (folder / "b.bag").symlink_to("files/x")
    (tmp_path / "link").symlink_to(folder)  # the caller names this link
    assert list(dataformats.open(folder)) == list(dataformats.open(tmp_path / "link")) == rows


@pytest.mark.parametrize("name", ["base", "sharded"])
def test_a_cache_of_downloads_is_a_folder_of_links_to_one_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    snapshot = tmp_path / "snapshots" / "1a2b" / "data"
    for number, path in enumerate(sorted(path for path in (GOLDEN / "v3" / name).rglob("*") if path.is_file())):
        shutil.copyfile(path, tmp_path / "blobs" / f"{number:x}")
        link = snapshot / path.relative_to(GOLDEN / "v3" / name)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(tmp_path / "blobs" / f"{number:x}", link.parent))
    assert list(dataformats.open(snapshot)) == list(dataformats.open(GOLDEN / "v3" / name))


def test_shard_link_out_of_folder_is_refused(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/sharded", tmp_path / "data")
    rows = list(dataformats.open(folder))
    (folder / "000001").rename(tmp_path / "elsewhere")
    (folder / "000001").symlink_to("../elsewhere")
    with pytest.raises(FormatError, match="a link that leads out of its folder"):
        dataformats.open(folder)
    assert list(dataformats.open(sorted(folder.iterdir()))) == rows


def test_a_shard_without_its_spec_is_no_silent_gap(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/sharded", tmp_path / "data")
    (folder / "000001/spec.json").unlink()
    with pytest.raises(FormatError, match=r"needs spec\.json") as caught:
        dataformats.open(folder)
    assert "000001" in str(caught.value)


def test_folders_of_bags_without_a_spec_say_so(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "v2/bag.bag", tmp_path / "x.bag")
    with pytest.raises(FormatError, match=r"spec\.json"):
        dataformats.open(tmp_path)
    assert len(dataformats.open(tmp_path / "x.bag")) == 5
    assert len(dataformats.open(str(tmp_path / "*.bag"))) == 5


# ---- damage at every place


def bag_of(records: list[bytes], generation: int) -> bytes:
    """A bag of generation 1 or 2 by the table in FORMATS, without any of the code under test."""
    ends = np.cumsum([len(record) for record in records]).astype("<u8").tobytes()
    return b"".join(records) + (bytes(8) if generation == 1 else b"") + ends


def small_set(folder: Path, generation: int) -> Path:
    """A dataset of a column and a sequence, in generation 3 of two columns."""
    folder.mkdir()
    types = {"a": "utf8", "s": "utf8[]" if generation < 3 else "bytes"}
    (folder / "spec.json").write_text(json.dumps(types))
    columns = {"a": [b"ab", b"c", b"def", b"g"], "s": [b"h", b"ij", b"k", b"l"]}
    if generation == 3:
        for name, records in columns.items():
            (folder / f"{name}.bag").write_bytes(b"".join(records))
            (folder / f"{name}.idx").write_bytes(np.cumsum(list(map(len, records))).astype("<u8").tobytes())
        return folder
    columns["refs"] = [msgpack.packb(row) or b"" for row in ([0, [0, 2]], [1, []], [2, [2, 2]], [3, []])]
    for name, records in columns.items():
        (folder / f"{name}.bag").write_bytes(bag_of(records, generation))
    return folder


def limits(ends: list[int], size: int = 1000) -> tuple[list[int], list[int]]:
    """Return the readable and the unreadable records, by a table of ends."""
    table = np.array(ends, "<u8").tobytes()
    found = parse_limits(table, indexed_layout(size, len(table), "x.idx"))
    _, length, wrong = found.extents(np.arange(len(ends)))
    assert (length >= 0).all()
    for record in np.flatnonzero(wrong).tolist():
        assert isinstance(found.problem(record), FormatError)
    return np.flatnonzero(~wrong).tolist(), np.flatnonzero(wrong).tolist()


@loop_over(
    "ends, wrong",
    [
        ([], []),
        ([0, 0, 5], []),
        ([3, 1, 12, 18], [1, 2]),  # two ends changed places: the later one is not believed
        ([10, 20, 500, 40, 50, 60], [2, 3]),  # one that is too high
        ([10, 20, 30, 5, 50, 60], [3, 4]),  # one that is too low
        ([10, 2**40, 30], [1, 2]),  # one outside
        ([10, 2**64 - 1, 30], [1, 2]),
        ([2000, 2000], [0, 1]),
        ([5, 3, 10, 9], [1, 2, 3]),
    ],
)
def test_limits_mark_impossible_ends(ends: list[int], wrong: list[int]) -> None:
    assert limits(ends)[1] == wrong


@given(st.lists(st.integers(0, 40), max_size=30))
def test_believed_ends_are_in_order(ends: list[int]) -> None:
    good, _ = limits(ends, 30)
    kept = [ends[record] for record in good]
    assert kept == sorted(kept)
    assert all(end <= 30 for end in kept)


def test_absurd_tables_cost_nothing(tmp_path: Path) -> None:
    folder = small_set(tmp_path / "data", 2)
    rows = [msgpack.packb(row) or b"" for row in ([0, [0, 2**40]], [2**63 - 1, [2**63 - 1, 2**63 - 1]])]
    rows += [msgpack.packb([0, [0, 4]]) or b""] * 1000
    rows += [b"\xdd\xff\xff\xff\xff", b"\x92\x00\xdd\xff\xff\xff\xff", b"\x92" * 3000, b"\xd4", b"\x92\xd3\xff"]
    (folder / "refs.bag").write_bytes(bag_of(rows, 2))
    source: Any = dataformats.open(folder)
    tracemalloc.start()
    batch = source.read(range(len(rows)), on_corrupt="omit")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batch.indices.tolist() == [2]  # the first of two rows that share elements has them
    assert peak < 20 * 2**20
    with pytest.raises(FormatError, match="belong to another row"):
        source[3]


values = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 300))


@given(st.lists(st.tuples(values, st.one_of(st.just([]), st.lists(values, min_size=2, max_size=2))), max_size=20))
def test_refs_match_msgpack(rows: list[Any]) -> None:
    packed = [msgpack.packb(list(row)) or b"" for row in rows]
    ends = np.cumsum([0, *map(len, packed)])
    refs = parse_refs(b"".join(packed), ends[:-1], ends[1:], [False, True])
    assert not refs.wrong.any()
    assert refs.first[0].tolist() == [row[0] for row in rows]
    assert refs.counts(0).tolist() == [1] * len(rows)
    assert refs.first[1].tolist() == [row[1][0] if row[1] else 0 for row in rows]
    assert refs.counts(1).tolist() == [row[1][1] if row[1] else 0 for row in rows]


@settings(max_examples=share(300))
@given(st.lists(st.binary(max_size=14), max_size=10))
def test_refs_of_anything(rows: list[bytes]) -> None:
    ends = np.cumsum([0, *map(len, rows)])
    refs = parse_refs(b"".join(rows), ends[:-1], ends[1:], [False, True])
    for number, row in enumerate(rows):
        first, part = 0, []
        try:
            first, part = msgpack.unpackb(row)
            good = type(first) is int and first >= 0 and type(part) is list and len(part) in (0, 2)
            good = good and all(type(n) is int and 0 <= n < 2**63 for n in (first, *part))
        except (ValueError, TypeError, msgpack.UnpackException):
            good = False
        assert refs.wrong[number] == (not good)
        if good:
            assert (refs.first[0][number], refs.counts(1)[number]) == (first, part[1] if part else 0)


def test_more_fields_than_a_short_list_has(tmp_path: Path) -> None:
    spec = {f"f{number:05d}": "bytes" for number in range(300)} | {"s": "utf8[]"}
    rows = [{name: name.encode() for name in spec if name != "s"} | {"s": ["x"] * i} for i in range(3)]
    with dataformats.create(tmp_path / "d", "granular", spec=spec) as writer:
        writer.extend(rows)
    assert list(dataformats.open(tmp_path / "d")) == [dict(sorted(row.items())) for row in rows]


# ---- masks, cache, types


@loop_over("version", ["bags", "v1", "v2"])
def test_masks(version: str) -> None:
    source: Any = dataformats.open(GOLDEN / version / "base")
    assert source[1, {"s": range(1, 2), "a": True}] == {"s": ["s11"], "a": "row 1 x"}
    assert source[4, {"s": range(1, -1, -1)}] == {"s": ["s41", "s40"]}
    assert source[0, {"s": range(0), "b": False}] == {"s": []}
    assert source[0, {"a": True}] == {"a": "row 0 "}
    batch = source.read([1, 4, 1], {"s": range(2)})
    assert [list(part) for part in batch["s"]] == [["s10", "s11"], ["s40", "s41"], ["s10", "s11"]]
    with pytest.raises(IndexError, match=r"field 's': range\(0, 2\) goes past the 1 elements"):
        source[2, {"s": range(2)}]
    with pytest.raises(SpecError, match="a range needs a sequence"):
        source[0, {"a": range(2)}]
    assert source.present_fields(4) == {"a": True, "b": True, "c": True, "s": range(2)}


def test_mask_locates_only_its_elements(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v2/base", tmp_path / "data")
    frames: Any = dataformats.open(folder)
    located = frames.reader.locate(np.array([1, 4]), {"s": range(1, 2)})
    assert list(located) == ["s"]
    assert located["s"].extents.length.tolist() == [3, 3]
    assert located["s"].counts.tolist() == [1, 1]


def test_a_mask_leaves_damaged_rows_to_their_own_error() -> None:
    source: Any = dataformats.open(GOLDEN / "v2/corrupt/refs_not_msgpack")
    batch = source.read([1, 3, 4], {"s": range(2)}, on_corrupt="omit")
    assert batch.indices.tolist() == [1, 4]
    assert list(batch.failed) == [3]
    with pytest.raises(FormatError, match="does not parse"):
        source.present_fields(3)


@loop_over("cache", ["memory", ("c",)])
@loop_over("version", VERSIONS)
def test_cache(version: str, cache: Any) -> None:
    path = GOLDEN / version / "sharded"
    cache = cache if cache == "memory" else ("i",)
    source: Any = dataformats.open(path, cache=cache)
    held = {file.name for file in source._blobs.files if isinstance(file, CachedFile)}
    names = {f"{path}/00000{shard}/{field}.bag" for shard in range(3) for field in ("i", "t")}
    assert held == {name for name in names if cache == "memory" or name.endswith("i.bag")}
    assert list(source) == list(dataformats.open(path))
    with pytest.raises(UnknownNameError):
        dataformats.open(path, cache=("nope",))


@loop_over(
    "stored, declared, fits",
    [
        ("utf8", "bytes", True),
        ("utf8[]", "bytes[]", True),
        ("utf8[]", "bytes", False),
        ("bytes", "utf8", True),
        ("mine", "json", True),
        ("jpg", "utf8", False),
        ("bytes", "float32[2,3]", True),
        ("utf8", "float32[2,3]", False),
        ("array", "float32[2,3]", True),
        ("array", "float32[]", True),
        ("array(float32,2,3)", "float32[2,3]", True),
        ("array(float32,2,3)", "float64[2,3]", False),
        ("i64", "int64", True),
        ("i64", "int32", False),
        ("int", "int64", True),
        ("utf8", "utf8?", False),
        ("png[]", "png[3]", True),
        ("png", "png[3]", False),
    ],
)
def test_stored_type_reads_only_as_fitting_types(stored: str, declared: str, fits: bool, tmp_path: Path) -> None:
    folder = small_set(tmp_path / "data", 2)
    (folder / "spec.json").write_text(json.dumps({"a": stored if "[]" not in stored else "utf8"}))
    reader: Any = BACKEND.open([LocalFile(path) for path in folder.iterdir()], dataformats.interfaces.ReaderOptions())
    reader.spec = dataformats.Spec({"a": stored})
    kind = dataformats.Type.parse(declared)
    if fits:
        assert reader.stored_type_for("a", kind).dims in (kind.dims, ())
    else:
        with pytest.raises(SpecError, match="cannot be read as"):
            reader.stored_type_for("a", kind)


def test_missing_field_in_spec_raises() -> None:
    with pytest.raises(SpecError, match="no such field"):
        dataformats.open(GOLDEN / "v3/base", spec={"x": "utf8"})[0]


# ---- writing


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (6, 5, 3), np.uint8)


EVERY = {
    "b": "bytes",
    "t": "utf8",
    "m": "msgpack",
    "j": "json",
    "n": "int",
    "i": "i64",
    "u": "u64",
    "label": "int64",
    "big": "uint64",
    "small": "int32",
    "flag": "bool",
    "half": "float16",
    "score": "float64",
    "matrix": "float32[2,3]",
    "ragged": "float32[]",
    "rows": "int16[][2]",
    "any": "array",
    "tree": "tree",
    "npy": "npy",
    "png": "png",
    "image": "png[]",
    "words": "utf8[]",
    "pair": "utf8[2]",
}


def every(i: int) -> dict[str, Any]:
    """A record of every type, by a short formula from its number."""
    return {
        "b": b"\0" * (i + 1),
        "t": f"row {i}",
        "m": {"a": [i, None, 2.5]},
        "j": {"b": [i, None]},
        "n": i * 40 - 100,
        "i": -i,
        "u": 2**64 - 1 - i,
        "label": -(2**63) + i,
        "big": 2**63 + i,
        "small": -i,
        "flag": i % 2 == 0,
        "half": 0.5 * i,
        "score": 0.1 * i,
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
        "ragged": np.arange(i, dtype=np.float32),
        "rows": np.arange(2 * i, dtype=np.int16).reshape(i, 2),
        "any": np.arange(i, dtype=">i4"),
        "tree": [np.array([i], np.float32), {"x": "text"}],
        "npy": np.arange(i, dtype=np.int64).reshape(1, i),
        "png": picture(i),
        "image": [picture(i * 10 + k) for k in range(i % 3)],
        "words": [f"w{k}" for k in range(i % 4)],
        "pair": [f"{i}", "second"],
    }


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.array_equal(left, right) and np.asarray(left).dtype == np.asarray(right).dtype
    if isinstance(right, list | tuple) or hasattr(right, "offsets"):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in right)
    return bool(left == right)


@pytest.mark.parametrize("generation", [2, 3])
def test_every_type(generation: int, tmp_path: Path) -> None:
    left_out = {"image", "words", "pair"} if generation == 3 else set()
    spec = {name: kind for name, kind in EVERY.items() if name not in left_out}
    rows = [{name: value for name, value in every(i).items() if name not in left_out} for i in range(7)]
    path = tmp_path / "data"
    with dataformats.create(path, "granular", spec=spec) as writer:
        writer.extend(rows)
        assert len(writer) == 7
    assert ("refs.bag" in files_in(path)) == (generation == 2)
    source = dataformats.open(path)
    assert source.spec == spec
    for index, row in enumerate(rows):
        assert all(same(source[index][name], row[name]) for name in spec), index
    assert source.read([0, 3])["matrix"].shape == (2, 2, 3)
    assert source.read([0, 3])["label"].dtype == np.int64
    assert source.read([0, 3])["ragged"].lengths.tolist() == [0, 3]
    assert source[3, {"ragged": range(1, 3)}]["ragged"].tolist() == [1, 2]
    assert dataformats.verify(path).ok
    assert pickle.loads(pickle.dumps(source))[2]["t"] == "row 2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "data.dataformats.json"]


def test_types_are_stored_by_their_own_names(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "d", "granular", spec=EVERY):
        pass
    stored = json.loads((tmp_path / "d/spec.json").read_bytes())
    assert list(stored) == sorted(EVERY)
    names = ("label", "big", "small", "matrix", "ragged", "image", "pair")
    assert [stored[name] for name in names] == ["i64", "u64", "array", "array", "array", "png[]", "utf8[]"]


def test_plain_spec_needs_no_sidecar(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "d", "granular", spec={"a": "utf8", "n": "int"}) as writer:
        writer.append({"a": "", "n": 0})
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@loop_over(
    "spec, generation, words",
    [
        ({"a": "utf8?", "refs": "utf8", "2b": "int", "ok": "utf8"}, None, ["'a'", "'refs'", "rename=", "'_2b'"]),
        ({"a b": "utf8"}, None, ["rename={'a b': 'a_b'}"]),
        ({"a": "utf8[][]"}, None, ["nests sequences"]),
        ({"a": "utf8[0]"}, None, ["is empty"]),
        ({"a": "float32[][3][]"}, None, ["after the first dimension"]),
        ({"a": "utf8[]", "b": "int[]"}, 3, ["'a'", "'b'", "generation=2"]),
    ],
)
def test_unsupported_spec_names_the_wrong_fields(
    spec: dict[str, str], generation: int | None, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as caught:
        dataformats.create(tmp_path / "d", "granular", spec=spec, generation=generation)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "'ok'" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@loop_over("generation", [1, 4, "3"])
def test_other_generations_are_not_written(generation: Any, tmp_path: Path) -> None:
    for spec in ({"a": "utf8"}, None):
        with pytest.raises(ValueError, match="Generation 1 is read-only"):
            dataformats.create(tmp_path / "d.bag", "granular", generation=generation, spec=spec)
    with pytest.raises(TypeError, match=r"option of granular \(generation\), found 'level'"):
        dataformats.create(tmp_path / "d", "granular", spec={"a": "utf8"}, level=3)


def test_a_row_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    spec = {"a": "utf8", "s": "utf8[]"}
    with dataformats.create(tmp_path / "d", "granular", spec=spec) as writer:
        writer.append({"a": "x", "s": ["1", "2"]})
        for wrong in ({"a": "", "s": []}, {"a": "y", "s": ["1", ""]}):
            with pytest.raises(SpecError, match="cannot hold empty"):
                writer.append(wrong)
        misfits: list[Any] = [{"a": "y"}, {"a": "y", "s": [], "t": 1}, {"a": "y", "s": "text"}]
        for misfit in misfits:
            with pytest.raises(SpecError):
                writer.append(misfit)
        with pytest.raises(CodecError):
            writer.append({"a": 5, "s": []})
        writer.append({"a": "z", "s": []})
    assert list(dataformats.open(tmp_path / "d")) == [{"a": "x", "s": ["1", "2"]}, {"a": "z", "s": []}]


@loop_over(
    "entry", [e for e in SETS if e["kind"] == "dataset" and e["layout"] in ("v2", "v3") and e not in INTERRUPTED]
)
def test_data_sets_are_written_byte_for_byte(entry: dict[str, Any], tmp_path: Path) -> None:
    raw = open_raw(path_of(entry))
    stored = dataformats.open(path_of(entry), format="granular").spec
    writer: Any = BACKEND.create(tmp_path / "d", stored=stored, generation=int(entry["layout"][1]))
    for record in raw:
        writer.append({name: blobs(value) for name, value in record.items()})
    writer.close()
    assert files_in(tmp_path / "d") == files_in(path_of(entry))


@loop_over("entry", [entry for entry in GOOD if entry["kind"] == "bag" and entry["layout"] in ("v2", "v3")])
def test_bags_are_written_byte_for_byte(entry: dict[str, Any], tmp_path: Path) -> None:
    original = path_of(entry)
    with dataformats.create(tmp_path / original.name, "granular", generation=int(entry["layout"][1])) as writer:
        writer.extend(open_raw(original))
    names = [original.name] + ([original.with_suffix(".idx").name] if entry["layout"] == "v3" else [])
    assert files_in(tmp_path) == {name: original.with_name(name).read_bytes() for name in names}


@loop_over("entry", [entry for entry in SETS if entry["kind"] == "sharded" and entry["layout"] in ("v2", "v3")])
def test_shards_are_written_byte_for_byte(entry: dict[str, Any], tmp_path: Path) -> None:
    source = dataformats.open(path_of(entry))
    path, generation = tmp_path / "d", int(entry["layout"][1])
    dataformats.convert(source, path, "granular", shard_records=4, generation=generation)
    assert files_in(path) == files_in(path_of(entry))
    assert dataformats.verify(path).ok


# ---- interrupted and resumed


def complete() -> tuple[Path, list[Any]]:
    path = GOLDEN / "v3/resume_complete"
    return path, list(dataformats.open(path))


@loop_over("entry", INTERRUPTED)
@loop_over("place", ["d", "d.partial"])
def test_interrupted_ones_are_completed(entry: dict[str, Any], place: str, tmp_path: Path) -> None:
    wanted, rows = complete()
    copied(path_of(entry), tmp_path / place)
    with dataformats.create(tmp_path / "d", "granular", spec=entry["spec"], resume=True) as writer:
        assert len(writer) == entry["rows_safe"] == entry["resume_row"]
        writer.extend(rows[entry["resume_row"] :])
    assert files_in(tmp_path / "d") == files_in(wanted)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@loop_over("entry", INTERRUPTED)
def test_failed_resume_without_records_changes_nothing(entry: dict[str, Any], tmp_path: Path) -> None:
    folder = copied(path_of(entry), tmp_path / "d")
    with pytest.raises(RuntimeError), dataformats.create(folder, "granular", spec=entry["spec"], resume=True):
        raise RuntimeError
    assert files_in(folder) == files_in(path_of(entry))


def test_a_finished_one_is_appended_to_in_place(tmp_path: Path) -> None:
    wanted, rows = complete()
    folder = tmp_path / "d"
    spec = dataformats.open(wanted).spec
    for row in rows:
        with dataformats.create(folder, "granular", spec=spec, resume=True) as writer:
            writer.append(row)
    assert files_in(folder) == files_in(wanted)
    with pytest.raises(FileExistsError):
        dataformats.create(folder, "granular", spec=spec)
    with pytest.raises(SpecError, match=r"cannot resume .*: expected the spec"):
        dataformats.create(folder, "granular", spec={**spec, "a": "bytes"}, resume=True)
    with pytest.raises(SpecError, match="generation 3"):
        dataformats.create(folder, "granular", spec=spec, resume=True, generation=2)
    with pytest.raises(FileExistsError):
        dataformats.create(folder, "granular", spec=spec, resume=True, shard_records=2)
    assert files_in(folder) == files_in(wanted)


def test_sidecar_follows_appends_in_place(tmp_path: Path) -> None:
    spec = {"x": "float32[2]"}
    for i in range(3):
        with dataformats.create(tmp_path / "d", "granular", spec=spec, resume=True) as writer:
            writer.append({"x": [i, i]})
        source = dataformats.open(tmp_path / "d")
        assert len(source) == i + 1
        assert source.spec == spec
        assert dataformats.verify(tmp_path / "d").ok


def test_a_bag_shorter_than_its_index_is_not_resumed(tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/corrupt/truncated_bag", tmp_path / "d")
    spec = dataformats.open(folder).spec
    before = files_in(folder)
    with pytest.raises(FormatError, match="shorter than its index"):
        dataformats.create(folder, "granular", spec=spec, resume=True)
    for name in ("b.bag", "b.idx"):
        other = copied(GOLDEN / "v3/base", tmp_path / name.replace(".", "-"))
        (other / name).unlink()
        with pytest.raises(FormatError, match="a file is missing"):
            dataformats.create(other, "granular", spec=spec, resume=True)
    assert files_in(folder) == before


@loop_over("sharded", [False, True])
@loop_over("generation", [2, 3])
def test_killed_while_the_files_are_created(
    generation: int, sharded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"a": "utf8", "n": "int64"} | ({"s": "utf8[]"} if generation == 2 else {})
    rows = [{"a": f"row {i}", "n": i} | ({"s": ["x"] * i} if generation == 2 else {}) for i in range(5)]
    options: Any = {"spec": spec, "generation": generation} | ({"shard_records": 2} if sharded else {})
    with dataformats.create(tmp_path / "whole", "granular", **options) as writer:
        writer.extend(rows)
    n_calls = (3 if sharded else 1) * (2 * len(spec) + (2 if generation == 2 else 0) + 1)
    for stop in range(n_calls):
        path = tmp_path / f"d{stop}"
        calls = iter(range(stop))
        with monkeypatch.context() as patch:
            patch.setattr(bag_appender, "open_unbuffered", dying(atomic.open_unbuffered, calls))
            patch.setattr(Path, "write_bytes", dying(Path.write_bytes, calls, torn=Path.touch))
            with pytest.raises(StopIteration):
                write_the_rest(path, rows, options)
        write_the_rest(path, rows, options)
        assert files_in(path) == files_in(tmp_path / "whole")
        assert list(dataformats.open(path)) == list(dataformats.open(tmp_path / "whole"))


def write_the_rest(path: Path, rows: list[Any], options: dict[str, Any]) -> None:
    with dataformats.create(path, "granular", resume=True, **options) as writer:
        writer.extend(rows[len(writer) :])


def dying(function: Any, calls: Any, torn: Any = None) -> Any:
    """Call a function until `calls` ends; then it does as much as `torn` does, and the writer dies."""

    def call(*args: Any, **_: Any) -> Any:
        try:
            next(calls)
        except StopIteration:
            if torn is not None:
                torn(args[0])
            raise
        return function(*args)

    return call


@loop_over("spec", [b"", b'{"a": "ut', b'{"a": "utf8", "n": "i64"}'])
def test_any_empty_files_of_a_new_data_set_are_resumed(spec: bytes, tmp_path: Path) -> None:
    names = ("a.bag", "a.idx", "n.bag", "n.idx")
    for chosen in range(2 ** len(names)):
        folder = tmp_path / str(chosen)  # the original's writer leaves it under its final name
        folder.mkdir()
        (folder / "spec.json").write_bytes(spec)
        for bit, name in enumerate(names):
            if chosen >> bit & 1:
                (folder / name).touch()
        with dataformats.create(folder, "granular", spec={"a": "utf8", "n": "int64"}, resume=True) as writer:
            assert len(writer) == 0
            writer.append({"a": "x", "n": 1})
        assert list(dataformats.open(folder)) == [{"a": "x", "n": 1}]


@loop_over("names", [["b.bag"], ["b.idx"], ["b.bag", "b.idx"]])
def test_a_lost_field_is_not_cut_to(names: list[str], tmp_path: Path) -> None:
    folder = copied(GOLDEN / "v3/base", tmp_path / "d")
    spec = dataformats.open(folder).spec
    for name in names:
        (folder / name).unlink()
    before = files_in(folder)
    with pytest.raises(FormatError, match="cannot resume: a file is missing"):
        dataformats.create(folder, "granular", spec=spec, resume=True)
    assert files_in(folder) == before


def test_an_empty_data_set_killed_before_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: Any = {"spec": {"a": "utf8", "s": "utf8[]"}, "resume": True}
    with monkeypatch.context() as patch:
        patch.setattr("dataformats.staging.local_area.LocalArea.publish", dying(None, iter(())))
        writer = dataformats.create(tmp_path / "d", "granular", **options)
        with pytest.raises(StopIteration):
            writer.close()
    assert sorted(files_in(tmp_path / "d.partial")) == ["a.bag", "refs.bag", "s.bag", "spec.json"]
    with dataformats.create(tmp_path / "d", "granular", **options) as writer:
        assert len(writer) == 0
        writer.append({"a": "x", "s": []})
    assert list(dataformats.open(tmp_path / "d")) == [{"a": "x", "s": []}]


@loop_over("present", [[], ["x.idx"], ["x.bag"], ["x.bag", "x.idx"]])
@loop_over("generation", [2, 3])
def test_any_empty_files_of_a_new_bag_are_resumed(generation: int, present: list[str], tmp_path: Path) -> None:
    options: Any = {"generation": generation, "resume": True}
    dataformats.create(tmp_path / "x.bag", "granular", **options).abort()
    for name in ("x.idx", "x.bag"):
        if name not in present:
            (tmp_path / f"{name}.partial").unlink()
    with dataformats.create(tmp_path / "x.bag", "granular", **options) as writer:
        assert len(writer) == 0
        writer.append(b"x")
    assert list(dataformats.open(tmp_path / "x.bag")) == [b"x"]


def test_resume_refuses_far_shorter_column(tmp_path: Path) -> None:
    path = tmp_path / "d"
    with dataformats.create(path, "granular", spec={"a": "int", "b": "int"}) as writer:
        writer.extend({"a": i, "b": i} for i in range(6000))
    (path / "a.idx").write_bytes(b"")
    with pytest.raises(FormatError, match="far fewer records"):
        dataformats.create(path, "granular", spec={"a": "int", "b": "int"}, resume=True)


def test_generation_2_killed_while_it_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dataformats.Spec({"a": "utf8", "s": "utf8[]"})
    rows = [{"a": [b"row %d" % i], "s": [b"x"] * i} for i in range(4)]

    def write(path: Path, steps: int) -> None:
        """Write, with a crash after this many steps of close."""
        left = iter(range(steps))

        def step(function: Any) -> Any:
            def guarded(bag: Any) -> None:
                next(left)
                function(bag)

            return guarded

        from dataformats.backends.granular.bag_appender import BagAppender

        with monkeypatch.context() as patch:
            patch.setattr(BagAppender, "append_index", step(BagAppender.append_index))
            patch.setattr(BagAppender, "drop_index", step(BagAppender.drop_index))
            writer: Any = BACKEND.create(path, stored=spec)
            for row in rows:
                writer.append(row)
            try:
                writer.close()
            except StopIteration:
                writer._close_files()

    write(tmp_path / "whole", 100)
    assert len(dataformats.open(tmp_path / "whole")) == 4
    for steps in range(7):
        path = tmp_path / f"d{steps}"
        write(path, steps)
        again: Any = BACKEND.create(path, stored=spec, resume=True)
        assert again.n_records == 4
        again.close()
        assert files_in(path) == files_in(tmp_path / "whole")


def test_a_failed_write_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer: Any = BACKEND.create(tmp_path / "d", stored=dataformats.Spec({"a": "utf8", "s": "utf8[]"}))
    writer.append({"a": [b"x"], "s": [b"1", b"2"]})
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            writer.flush()
    writer.append({"a": [b"y"], "s": []})
    writer.close()
    assert list(dataformats.open(tmp_path / "d")) == [{"a": "x", "s": ["1", "2"]}, {"a": "y", "s": []}]


def test_an_append_interrupted_halfway_is_not_published(tmp_path: Path) -> None:
    writer: Any = BACKEND.create(tmp_path / "d", stored=dataformats.Spec({"a": "utf8", "b": "utf8"}))
    writer.append({"a": [b"x"], "b": [b"y"]})
    writer.flush()
    writer._bags["a"].append(b"z")  # an interrupt can hit here
    with pytest.raises(RuntimeError, match="resume=True"):
        writer.close()

    def append_and_flush() -> None:
        writer.append({"a": [b"x"], "b": [b"y"]})
        writer.flush()

    with pytest.raises(RuntimeError, match="resume=True"):
        append_and_flush()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


# ---- single bags


def test_a_bag_and_its_index_are_published_together(tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    with dataformats.create(path, "granular", payload="utf8") as writer:
        writer.extend(["a", "", "c"])
        assert not (tmp_path / "x.idx").exists()
    assert list(dataformats.open(path)) == ["a", "", "c"]
    with dataformats.create(path, "granular", generation=2, overwrite=True) as writer:
        writer.extend([b"a", b"b"])
        with pytest.raises(SpecError, match="cannot hold empty"):
            writer.append(b"")
    # An .idx that is left would make it a bag of generation 3.
    assert [part.name for part in tmp_path.iterdir()] == ["x.bag"]
    assert list(dataformats.open(path)) == [b"a", b"b"]
    given_up = dataformats.create(path, "granular", overwrite=True)
    given_up.append(b"1")
    given_up.abort()
    assert list(dataformats.open(path)) == [b"a", b"b"]
    assert [part.name for part in tmp_path.iterdir()] == ["x.bag"]


@pytest.mark.parametrize("generation", [2, 3])
def test_a_bag_is_resumed(generation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.bag"
    killed = dataformats.create(path, "granular", generation=generation, resume=True)
    killed.extend([b"a", b"bb"])
    killed.abort()
    killed = dataformats.create(path, "granular", generation=generation, resume=True)
    assert len(killed) == 2
    killed.append(b"ccc")
    killed.flush()
    with monkeypatch.context() as patch:
        publish = "publish_together" if generation == 3 else "publish"
        patch.setattr(f"dataformats.storage.atomic.{publish}", only_the_index)
        with pytest.raises(RuntimeError):
            killed.close()
    assert (tmp_path / "x.idx").exists() == (generation == 3)
    assert not path.exists()
    with dataformats.create(path, "granular", generation=generation, resume=True) as writer:
        assert len(writer) == 3
        writer.append(b"d")
    assert list(dataformats.open(path)) == [b"a", b"bb", b"ccc", b"d"]
    assert len(list(tmp_path.iterdir())) == generation - 1


def only_the_index(now: dict[Path, Path] | Path, *_: object, **__: object) -> None:
    if isinstance(now, dict):
        idx, partial = next(iter(now.items()))
        partial.rename(idx)
    raise RuntimeError("killed")


def test_bags_have_names_and_no_shards(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"ends in \.bag"):
        dataformats.create(tmp_path / "x", "granular")
    with pytest.raises(SpecError, match="only datasets have shards"):
        dataformats.create(tmp_path / "x.bag", "granular", shard_records=3)
    with pytest.raises(SpecError, match=r"a \.bag file holds single values, not fields"):
        dataformats.create(tmp_path / "x.bag", "granular", spec={"a": "int64"})
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=share(30), deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=12))
def test_round_trip_of_bags(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("bag") / "x.bag"
    with dataformats.create(path, "granular") as writer:
        writer.extend(records)
    assert list(dataformats.open(path, format="granular")) == records
    if all(records):
        with dataformats.create(path, "granular", generation=2, overwrite=True) as writer:
            writer.extend(records)
        assert path.read_bytes() == (bag_of(records, 2) if records else b"")


# ---- from format to format, from place to place


def test_digits_there_and_back(tmp_path: Path) -> None:
    digits = str(REAL / "digits-*.tfrecord")
    dataformats.convert(digits, tmp_path / "d", "granular")
    dataformats.convert(tmp_path / "d", tmp_path / "x.tfrecord", "tfrecord")
    first, there, back = (dataformats.open(path) for path in (digits, tmp_path / "d", tmp_path / "x.tfrecord"))
    assert len(first) == len(there) == len(back) == 1797
    for index in range(0, 1797, 50):
        assert same(there[index], dict(sorted(first[index].items()))) or same(there[index], first[index])
        assert same(back[index], first[index])


def test_photos_are_copied_byte_for_byte(tmp_path: Path) -> None:
    photos: Any = dataformats.open(REAL / "photos.tfrecord")
    spec = {name: "jpg" if name == "image" else kind for name, kind in photos.spec.to_json().items()}
    typed: Any = dataformats.open(REAL / "photos.tfrecord", spec=spec)
    dataformats.convert(typed, tmp_path / "d", "granular")
    raw: Any = open_raw(tmp_path / "d")
    stored = dataformats.open(tmp_path / "d")
    for index in range(len(photos)):
        assert raw[index]["image"] == photos[index]["image"]
        assert same(stored[index]["image"], np.asarray(Image.open(io.BytesIO(photos[index]["image"]))))
    dataformats.convert(tmp_path / "d", tmp_path / "x.tfrecord", "tfrecord")
    back: Any = dataformats.open(tmp_path / "x.tfrecord", spec=photos.spec)
    assert all(same(back[index], photos[index]) for index in range(len(photos)))


@loop_over("version", VERSIONS)
def test_single_bags_and_raw_tfrecords(version: str, tmp_path: Path) -> None:
    bag = GOLDEN / version / "bag_1000.bag"
    dataformats.convert(bag, tmp_path / "x.tfrecord", "tfrecord")
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / "y.bag", "granular")
    assert list(dataformats.open(tmp_path / "y.bag")) == list(dataformats.open(bag))
    assert dataformats.verify(tmp_path / "y.bag").ok


@loop_over("version", VERSIONS)
def test_every_generation_becomes_tfrecords(version: str, tmp_path: Path) -> None:
    source: Any = dataformats.open(GOLDEN / version / "base")
    dataformats.convert(source, tmp_path / "x.tfrecord", "tfrecord")
    found = dataformats.open(tmp_path / "x.tfrecord")
    assert found.spec["c"] == dataformats.Type.parse("int64")
    for index in range(5):
        assert same(dict(found[index]), {name: value for name, value in source[index].items() if name in found[index]})


@loop_over("version", VERSIONS)
def test_every_generation_becomes_the_last_two(version: str, tmp_path: Path) -> None:
    source: Any = dataformats.open(GOLDEN / version / "base")
    dataformats.convert(source, tmp_path / "d", "granular")
    assert all(same(left, right) for left, right in zip(dataformats.open(tmp_path / "d"), source, strict=True))
    with pytest.raises(SpecError, match="the name of the format's own file"):
        dataformats.convert(source, tmp_path / "e", "granular", rename={"a": "refs"})


def test_remote(tmp_path: Path) -> None:
    import fsspec

    url = "memory://granular-test"
    for path, generation in (("two", 2), ("three", 3)):
        with dataformats.create(f"{url}/{path}", "granular", spec={"a": "utf8"}, generation=generation) as writer:
            writer.extend([{"a": "x"}, {"a": "y"}])
        assert list(dataformats.open(f"{url}/{path}")) == [{"a": "x"}, {"a": "y"}]
    for generation, names in ((3, {"x.bag", "x.idx"}), (2, {"x.bag"})):
        with dataformats.create(f"{url}/b/x.bag", "granular", generation=generation, overwrite=True) as writer:
            writer.extend([b"1", b"22"])
        assert list(dataformats.open(f"{url}/b/x.bag")) == [b"1", b"22"]
        assert {name.rsplit("/", 1)[-1] for name in fsspec.filesystem("memory").ls("/granular-test/b", False)} == names
    with dataformats.create(f"{url}/s", "granular", spec={"a": "utf8"}, shard_records=1) as writer:
        writer.extend([{"a": "x"}, {"a": "y"}])
    assert list(dataformats.open(f"{url}/s")) == [{"a": "x"}, {"a": "y"}]


@loop_over("data", [b"hello, world\n" * 50, bytes(64), b"{}", b"\x89PNG" + bytes(100)])
def test_sniff_says_no_to_others(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    assert BACKEND.sniff(LocalFile(tmp_path / "a")).match == "no"
    for other in ("tfrecord", "ffrecord", "syrah", "ofrecord"):
        for path in (GOLDEN.parent / other).rglob("*"):
            if path.is_file() and path.stat().st_size and path.suffix not in (".bag", ".json"):
                assert BACKEND.sniff(LocalFile(path)).match == "no", path


def test_sniff_knows_a_bag_by_its_content_alone(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "v2/bag.bag", tmp_path / "a")
    assert dataformats.open(tmp_path / "a").format == "granular"


def test_a_bag_cut_short_names_the_place() -> None:
    with pytest.raises(TruncatedError, match=r"a\.idx' at byte 32"):
        dataformats.open(GOLDEN / "v3/corrupt/truncated_bag")[4]


def test_a_glob_of_data_sets_takes_them_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 2):
        with dataformats.create(tmp_path / f"run-{number}", "granular", spec={"n": "int64"}) as writer:
            writer.append({"n": number})
    assert dataformats.open(str(tmp_path / "run-*")).read([0, 1])["n"].tolist() == [2, 10]


def test_no_index_is_left_if_its_bag_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> FileIO:
        if path.name == "x.bag.partial":
            raise OSError(errno.ENOSPC, "full")
        return atomic.open_unbuffered(path)

    monkeypatch.setattr(bag_appender, "open_unbuffered", refuse)
    with pytest.raises(OSError, match="full"):
        dataformats.create(tmp_path / "x.bag", "granular", generation=3)
    assert list(tmp_path.iterdir()) == []
