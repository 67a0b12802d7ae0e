"""OFRecord against the golden files, against damage without checksums, and against other formats."""

import hashlib
import itertools
import json
import os
import shutil
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.framed import reader
from dataformats.backends.ofrecord import BACKEND
from dataformats.backends.ofrecord.layout import FRAMING
from dataformats.backends.ofrecord.reader import OFRecordReader
from dataformats.codecs.ofrecord import OFRECORD
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.interfaces import OutdatedIndexError, ReaderOptions, SequentialReader
from dataformats.interfaces.stored_file import StoredFile
from dataformats.registry import backends
from dataformats.spec import VALUE
from dataformats.storage.files import LocalFile
from dataformats.storage.reference_read import read_blobs
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "ofrecord"
ENTRIES: list[dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())["entries"]
GOOD = [entry for entry in ENTRIES if not entry["error"]]
DAMAGED = [entry for entry in ENTRIES if entry["error"]]
ARRAYS = np.load(FOLDER / "expected.npz", allow_pickle=False)
SPEC = {"name": "utf8", "n": "int32[]", "x": "float64?"}
VALUES: list[dict[str, Any]] = [
    {"name": "a", "n": [1, -1]},
    {"name": "", "n": [], "x": 0.5},
    {"name": "the third", "n": [7] * 9},
]


def ids(entry: dict[str, Any]) -> str:
    return str(entry["id"])


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))


def encoded() -> list[bytes]:
    from dataformats.columns.codec_resolver import CodecResolver
    from dataformats.spec import Spec

    return [OFRECORD.bind(Spec(SPEC), CodecResolver(trusted=True)).encode(value) for value in VALUES]


RECORDS = encoded()
SMALL = FRAMING.frames(RECORDS)


def opened(path: Path, **options: Any) -> OFRecordReader:
    files: list[StoredFile] = [LocalFile(path)]
    return BACKEND.open(files, ReaderOptions(**options))


def read(source: OFRecordReader) -> list[bytes | FormatError]:
    """Every record, or why it cannot be read, through the index."""
    n = int(source.counts.sum())
    extents = source.locate(np.arange(n), {VALUE: True})[VALUE].extents
    fetched = read_blobs(source.files, [extents], max_bytes=2**30)[0]
    return [fetched.problems.get(number, blob) for number, blob in enumerate(fetched.blobs)]


def streamed(source: OFRecordReader) -> list[bytes | FormatError]:
    """The same without an index."""
    found: list[bytes | FormatError] = []
    for stretch in source.iter_chunks(0):
        found += [stretch.problems.get(number, blob) for number, blob in enumerate(stretch.blobs)]
    return found


def as_text(found: list[bytes | FormatError]) -> list[object]:
    return [str(item) if isinstance(item, FormatError) else item for item in found]


def both_ways(path: Path, **options: Any) -> list[bytes | FormatError]:
    """Return the records through the index; a stream and the stored index must give the same."""
    source = opened(path, **options)
    found = read(source)
    assert as_text(streamed(source)) == as_text(found) == as_text(read(opened(path, **options)))
    for file in source.files:
        file.release()
    return found


def expected_records(entry: dict[str, Any]) -> dict[int, tuple[int, str]]:
    records = entry["records"]
    if isinstance(records, dict):
        records = [dict(zip(records, row, strict=True)) for row in zip(*records.values(), strict=True)]
    return {record["index"]: (record["length"], record["sha256"]) for record in records}


def digest(blob: object) -> tuple[int, str]:
    assert isinstance(blob, bytes), blob
    return len(blob), hashlib.sha256(blob).hexdigest()


def same(expected: dict[str, Any], found: Any) -> bool:
    """Return True if stored values match expected.json."""
    if expected["kind"] == "bytes_list":
        return [digest(item) for item in found] == [(item["length"], item["sha256"]) for item in expected["bytes"]]
    if "npz" in expected and not np.array_equal(ARRAYS[expected["npz"]], found, equal_nan=True):
        return False
    right_type = found.dtype == np.dtype(expected["dtype"]) and list(found.shape) == expected["shape"]
    return bool(right_type) and digest(found.tobytes())[1] == expected["sha256_le"]


# ---- the golden files


@loop_over("entry", GOOD)
def test_good_files(entry: dict[str, Any]) -> None:
    source = dataformats.open(FOLDER / entry["path"], format="ofrecord")
    raw = source.read_bytes(range(len(source)))
    assert len(source) == entry["n"]
    assert source.payload == "ofrecord"
    assert {number: digest(blob) for number, blob in enumerate(raw)} == expected_records(entry)
    assert list(dataformats.open(FOLDER / entry["path"], format="ofrecord", payload="bytes")) == raw
    if "parts" in entry:
        assert [Path(path).name for path in source.paths] == entry["parts"]
    if "offsets" in entry:
        reader = opened(FOLDER / entry["path"])
        assert isinstance(reader, SequentialReader)
        assert (reader.part(0, 0, len(reader.indexes[0])).offset - 8).tolist() == entry["offsets"]


@loop_over("entry", [entry for entry in GOOD if entry["n"]])
def test_good_values(entry: dict[str, Any]) -> None:
    source = dataformats.open(FOLDER / entry["path"])
    streamed_records = list(source)
    for number, expected in enumerate(entry["records_decoded"]):
        features = {name: value for name, value in expected["features"].items() if value["kind"]}
        plain = OFRECORD.decode(source.read_bytes([number])[0])
        record = source[number]
        assert sorted(plain) == sorted(record) == sorted(features)
        for name, value in features.items():
            assert same(value, plain[name])
            np.testing.assert_array_equal(np.asarray(plain[name]), np.atleast_1d(np.asarray(record[name])))
            np.testing.assert_array_equal(np.asarray(record[name]), np.asarray(streamed_records[number][name]))


@loop_over("entry", [entry for entry in GOOD if entry.get("rewrite")])
def test_written_again_byte_for_byte(entry: dict[str, Any], tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "again")
    for blob in read(opened(FOLDER / entry["path"])):
        assert isinstance(blob, bytes)
        if not blob:  # the one thing that is read and not written
            with pytest.raises(SpecError, match="cannot hold empty records"):
                writer.append(blob)
            break
        writer.append(blob)
    writer.close()
    whole = (FOLDER / entry["path"]).read_bytes()
    if entry["id"] != "empty_records":
        assert (tmp_path / "again").read_bytes() == whole
    assert writer.n_bytes == (tmp_path / "again").stat().st_size


@loop_over("name", ["part-0", "one.ofrecord", "base.ofrecord", "many_1000.ofrecord"])
def test_values_are_written_again_byte_for_byte(name: str, tmp_path: Path) -> None:
    source = dataformats.open(FOLDER / name)
    with dataformats.create(tmp_path / "again", "ofrecord", spec=source.spec) as writer:
        writer.extend(source)
    assert (tmp_path / "again").read_bytes() == (FOLDER / name).read_bytes()


@loop_over("entry", DAMAGED)
def test_damaged_files(entry: dict[str, Any]) -> None:
    source = dataformats.open(FOLDER / entry["path"])
    expected = expected_records(entry)
    for number in entry["readable"]:
        assert digest(source.read_bytes([number])[0]) == expected[number]
    undecodable = {error["index"] for error in entry.get("decode_errors", [])}
    for number in {*entry["bad"], *undecodable}:
        with pytest.raises(FormatError) as caught:
            source[number]
        assert (caught.value.index, caught.value.path) == (number, str(FOLDER / entry["path"]))
        assert caught.value.offset_bytes is not None
    assert all(source[number] for number in {*entry["readable"]} - undecodable)
    got: list[Any] = []
    with pytest.raises(FormatError):
        got.extend(iter(source))
    found = both_ways(FOLDER / entry["path"])
    sound = list(itertools.takewhile(lambda blob: isinstance(blob, bytes), found))
    assert len(sound) <= entry["stream_prefix"]


# ---- damage


@loop_over("length", [-1, -5, -(2**63), 2**20, 2**31, 2**40, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1])
def test_absurd_lengths_cost_nothing(length: int, tmp_path: Path) -> None:
    path = tmp_path / "x.ofrecord"
    path.write_bytes(SMALL + struct.pack("<q", length) + bytes(100))
    tracemalloc.start()
    try:
        found = both_ways(path)
        assert found[:3] == RECORDS
        (rest,) = found[3:]
        assert isinstance(rest, FormatError)
        assert rest.offset_bytes == len(SMALL)
        assert BACKEND.sniff(LocalFile(path)).match == "damaged"
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_large_records_are_skipped_by_the_scan_and_streamed_in_steps(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    records = [noise.bytes(n) for n in (3, 5_000_000, 0, 200_000, 2**20, 300_000, 7, 2_097_144, 9_000_000)]
    path = tmp_path / "x"
    path.write_bytes(FRAMING.frames(records))
    assert both_ways(path) == records
    path.write_bytes(FRAMING.frames(records)[:-1])
    *found, last = both_ways(path)
    assert found == records[:-1]
    assert isinstance(last, TruncatedError)


def test_a_record_in_another_place_than_its_index_says(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(FRAMING.frames([b"first", b"one more"]))
    os.utime(path, (10**9, 10**9))  # long before its index is made
    assert both_ways(path) == [b"first", b"one more"]
    path.write_bytes(FRAMING.frames([b"a first", b"second"]))
    os.utime(path, (10**9, 10**9))
    found = read(opened(path))
    assert all(isinstance(problem, OutdatedIndexError) for problem in found)


# ---- indexes


def never(*_: object) -> Any:
    raise AssertionError("scanned")


@loop_over("where", ["cache", "beside"])
@loop_over("name", ["many_1000.ofrecord", "empty_records.ofrecord", "corrupt/garbage_20.ofrecord"])
def test_the_second_opening_scans_nothing(
    where: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / Path(name).name
    shutil.copy(FOLDER / name, path)
    os.utime(path, (10**9, 10**9))  # long before its index is made
    found = read(opened(path, index=where))
    monkeypatch.setattr(reader, "scan", never)
    assert as_text(read(opened(path, index=where))) == as_text(found)


def test_an_index_copied_with_the_data_is_looked_at_frame_by_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.ofrecord"
    shutil.copy(FOLDER / "many_1000.ofrecord", path)
    found = read(opened(path, index="beside"))
    os.utime(path, (1, 1))
    with monkeypatch.context() as patched:
        patched.setattr(reader, "scan", never)
        assert read(opened(path)) == found
    other = [bytes(len(blob)) for blob in reversed(found) if isinstance(blob, bytes)]
    path.write_bytes(FRAMING.frames(other))
    os.utime(path, (2, 2))
    assert read(opened(path)) == other
    assert "does not fit" in caplog.text


# ---- recognition of files


def test_any_name_is_recognized_by_content(tmp_path: Path) -> None:
    for entry in (
        entry for entry in ENTRIES if not entry.get("folder") and entry["n_before_damage" if entry["error"] else "n"]
    ):
        path = tmp_path / "data.bin"
        shutil.copy(FOLDER / entry["path"], path)
        assert BACKEND.sniff(LocalFile(path)).match == ("damaged" if entry["error"] else "yes")
        if not entry["error"]:
            assert dataformats.open(path).format == "ofrecord"
            continue
        # Damaged files of other formats may look like this, and there is no checksum that would tell.
        with pytest.raises(FormatError, match="may be of a format without checksums: pass format='ofrecord'"):
            dataformats.open(path)
        assert len(dataformats.open(path, format="ofrecord")) > 0


def other_files() -> Iterator[Path]:
    for folder in ("ffrecord", "tfrecord", "syrah", "granular", "real"):
        yield from (path for path in sorted((GOLDEN / folder).rglob("*")) if path.is_file() and path.stat().st_size)


def test_other_formats_are_not() -> None:
    paths = list(other_files())
    assert len(paths) > 50
    for path in paths:
        verdict = BACKEND.sniff(LocalFile(path))
        assert verdict.match == "no", path
        assert verdict.reason


@loop_over(
    "content",
    [
        b"a line of text and another one",
        b"short",
        bytes(1),
        bytes(8),
        bytes(200),
        b"name,value\n" * 1000,
        b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
        b"\x1f\x8b\x08" + bytes(30),
        struct.pack("<q", 14) + b"not a message!",
        struct.pack("<q", 2**40) + b"no message either",
        struct.pack("<q", 2**40) + b"\n\x05\n\x01\xff\x12\x00",
    ],
)
def test_other_files_are_taken_at_their_name_alone(content: bytes, tmp_path: Path) -> None:
    for name, fits in (("x.bin", "no"), ("x.ofrecord", "damaged"), ("part-7", "damaged")):
        (tmp_path / name).write_bytes(content)
        verdict = BACKEND.sniff(LocalFile(tmp_path / name))
        assert verdict.match == fits
        assert verdict.reason


def test_records_longer_than_the_look(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with dataformats.create(path, "ofrecord", spec={"image": "bytes", "label": "int32"}) as writer:
        writer.extend({"image": bytes(1_000_000), "label": number} for number in range(3))
    assert BACKEND.sniff(LocalFile(path)).match == "yes"
    path.write_bytes(path.read_bytes()[:900_000])
    assert BACKEND.sniff(LocalFile(path)).match == "damaged"


def test_names(tmp_path: Path) -> None:
    for name in ("a.ofrecord", "part-0", "part-00000", "part-10"):
        assert BACKEND.matches_name(name)
    for name in ("part-", "part-0.crc", "part-r-00000", "xpart-0", "a.tfrecord", "part-1²"):
        assert not BACKEND.matches_name(name)
    assert BACKEND.shard_names("digits", 2) == ["part-00000", "part-00001"]
    assert BACKEND.order(["part-10", "part-002", "part-1"]) == ["part-1", "part-002", "part-10"]
    with pytest.raises(TypeError, match="compression"):
        dataformats.open(FOLDER / "base.ofrecord", compression="gzip")
    with pytest.raises(TypeError, match="level"):
        dataformats.create(tmp_path / "x", "ofrecord", level=3)


# ---- folders


def parts(folder: Path, names: list[str]) -> list[int]:
    """Write a part of each name whose one record is its place in the list; return the order of reading."""
    folder.mkdir()
    for number, name in enumerate(names):
        with dataformats.create(folder / name, "ofrecord", spec={"n": "int64"}) as writer:
            writer.append({"n": number})
        folder.joinpath(name + ".dataformats.json").unlink()
    return [record["n"] for record in dataformats.open(folder)]


def test_parts_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    assert parts(tmp_path / "mixed", ["part-10", "part-2", "part-00001", "part-0"]) == [3, 2, 1, 0]
    (tmp_path / "mixed/_SUCCESS").touch()
    (tmp_path / "mixed/x.ofrecord").write_bytes(b"ignored")
    (tmp_path / "mixed/part-3.crc").write_bytes(b"ignored")
    assert [record["n"] for record in dataformats.open(tmp_path / "mixed")] == [3, 2, 1, 0]
    assert [record["n"] for record in dataformats.open(tmp_path / "mixed/part-*[0-9]")] == [3, 2, 1, 0]
    in_list = [tmp_path / "mixed/part-10", tmp_path / "mixed/part-0"]
    assert [record["n"] for record in dataformats.open(in_list)] == [0, 3]
    assert parts(tmp_path / "named", ["b-10.ofrecord", "b-2.ofrecord"]) == [1, 0]


def test_two_files_of_one_number_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"part-1 and part-00001|part-00001 and part-1"):
        parts(tmp_path / "twice", ["part-0", "part-1", "part-00001"])


def test_part_files_of_tfrecord_open_as_tfrecord(tmp_path: Path) -> None:
    tmp_path.joinpath("x").mkdir()
    for number in (10, 9):
        shutil.copy(GOLDEN / "tfrecord/raw.tfrecord", tmp_path / f"x/part-{number}")
    source = dataformats.open(tmp_path / "x")
    assert (source.format, [Path(path).name for path in source.paths]) == ("tfrecord", ["part-9", "part-10"])


# ---- writing


def test_a_data_set_in_shards(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "set", "ofrecord", spec=SPEC, shard_records=2) as writer:
        writer.extend(VALUES)
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["part-00000", "part-00001"]
    source = dataformats.open(tmp_path / "set")
    assert source.spec == SPEC
    assert [record["name"] for record in source] == [value["name"] for value in VALUES]


def test_no_empty_records(tmp_path: Path) -> None:
    writer = dataformats.create(tmp_path / "x", "ofrecord", spec={"a": "int64?", "b": "utf8[]"})
    with pytest.raises(SpecError, match=r"cannot hold empty records.*field that has a value"):
        writer.append({})
    writer.append({"b": []})
    writer.close()
    assert [len(record["b"]) for record in dataformats.open(tmp_path / "x")] == [0]


def test_the_sidecar_names_other_payloads(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ofrecord", "ofrecord") as writer:
        writer.extend([b"one", b"two"])
    assert list(dataformats.open(tmp_path / "x.ofrecord")) == [b"one", b"two"]
    tmp_path.joinpath("x.ofrecord.dataformats.json").unlink()
    assert list(dataformats.open(tmp_path / "x.ofrecord", payload="bytes")) == [b"one", b"two"]


def test_conversion_to_and_from_tfrecord(tmp_path: Path) -> None:
    source = dataformats.open(FOLDER / "kinds.ofrecord").take([0, 2, 4]).select("d", "f", "i", "l", "b")
    there = dataformats.convert(source, tmp_path / "x.tfrecord", "tfrecord")
    assert (there.payload, there.copied) == ("example", False)
    back = dataformats.convert(tmp_path / "x.tfrecord", tmp_path / "x.ofrecord", "ofrecord", spec=source.spec)
    assert (back.payload, back.copied) == ("ofrecord", False)
    assert dataformats.convert(FOLDER / "one.ofrecord", tmp_path / "y", "ofrecord").copied
    assert dataformats.convert(FOLDER / "one.ofrecord", tmp_path / "z.tfrecord", "tfrecord").payload == "example"
    tfrecord = backends.get("tfrecord")
    assert [tfrecord.accepts_payload(name) for name in ("example", "sequence_example", "msgpack", "ofrecord")] == [  # type: ignore[attr-defined]
        *(True, True, True, False)
    ]


def test_flushed_records_survive_unclosed_writer(tmp_path: Path) -> None:
    path = tmp_path / "x"
    writer = BACKEND.create(path)
    for record in RECORDS:
        writer.append(record)
    writer.flush(sync=True)
    assert path.read_bytes() == SMALL
    writer.append(b"not confirmed")
    writer.suspend()
    again = BACKEND.create(path, resume=True)
    assert again.n_records == 4
    again.close()


@loop_over("rest", [bytes(100), b"\xff" * 100, struct.pack("<q", 2**40) + bytes(50)])
def test_resume_replaces_foreign_tail(rest: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SMALL + rest)
    writer = BACKEND.create(path, resume=True)
    assert (writer.n_records, writer.n_bytes) == (3, len(SMALL))
    writer.append(b"fourth")
    writer.close()
    assert read(opened(path)) == [*RECORDS, b"fourth"]


def test_records_are_bytes(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "x")
    for wrong in ("text", 3, None, [1]):
        with pytest.raises(TypeError, match=r"cannot append a record to .*: expected bytes"):
            writer.append(wrong)
    writer.discard()
    assert list(tmp_path.iterdir()) == []
