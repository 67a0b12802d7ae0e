"""TFRecord against the files of the original programs, against damage, and against wrong indexes."""

import gzip
import hashlib
import itertools
import json
import logging
import os
import shutil
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.framed import reader
from dataformats.backends.framed.file_scan import scan
from dataformats.backends.tfrecord import BACKEND
from dataformats.backends.tfrecord.compression import Compression
from dataformats.backends.tfrecord.layout import FRAMING, FRAMING_BYTES
from dataformats.backends.tfrecord.reader import INDEXES, TFRecordReader
from dataformats.backends.tfrecord.text_index import write_text_index
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.indexing.index_cache import IndexCache
from dataformats.interfaces import OutdatedIndexError, ReaderOptions, SequentialReader
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import masked_crc32c
from dataformats.spec import VALUE
from dataformats.storage.files import LocalFile
from dataformats.storage.path_objects import ObjectFile
from dataformats.storage.reference_read import read_blobs
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "tfrecord"
ENTRIES: list[dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())["entries"]
GOOD = [entry for entry in ENTRIES if not entry["error"]]
DAMAGED = [entry for entry in ENTRIES if entry["error"]]
RECORDS = [b"first", b"", b"the third record", bytes(40)]
SMALL = b"".join(FRAMING.frames([record]) for record in RECORDS)


def ids(entry: dict[str, Any]) -> str:
    return str(entry["id"])


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))


def stored_files(path: Path) -> list[StoredFile]:
    return [LocalFile(part) for part in sorted(path.iterdir())] if path.is_dir() else [LocalFile(path)]


def opened(path: Path, compression: str | None = "auto", **options: Any) -> TFRecordReader:
    name: Any = str(compression or "none").lower()
    return BACKEND.open(stored_files(path), ReaderOptions(**options), compression=name)


def read(source: TFRecordReader) -> list[bytes | FormatError]:
    """Every record, or why it cannot be read, through the index."""
    n = int(source.counts.sum())
    extents = source.locate(np.arange(n), {VALUE: True})[VALUE].extents
    fetched = read_blobs(source.files, [extents], max_bytes=2**30)[0]
    return [fetched.problems.get(number, blob) for number, blob in enumerate(fetched.blobs)]


def streamed(source: TFRecordReader) -> list[bytes | FormatError]:
    """The same without an index."""
    found: list[bytes | FormatError] = []
    for file in range(len(source.files)):
        for stretch in source.iter_chunks(file):
            found += [stretch.problems.get(number, blob) for number, blob in enumerate(stretch.blobs)]
    return found


def close(source: TFRecordReader) -> None:
    for file in source.files:
        getattr(file, "compressed", file).release()


def as_text(found: list[bytes | FormatError]) -> list[object]:
    return [str(item) if isinstance(item, FormatError) else item for item in found]


def expected_records(entry: dict[str, Any]) -> dict[int, tuple[int, str]]:
    records = entry["records"]
    if isinstance(records, dict):
        records = [dict(zip(records, row, strict=True)) for row in zip(*records.values(), strict=True)]
    return {record["index"]: (record["length"], record["sha256"]) for record in records}


def digest(blob: bytes | FormatError) -> tuple[int, str]:
    assert isinstance(blob, bytes), blob
    return len(blob), hashlib.sha256(blob).hexdigest()


# ---- the files of the original programs


@loop_over("compression", ["auto", "named"])
@loop_over("entry", GOOD)
def test_good_files(entry: dict[str, Any], compression: str) -> None:
    source = opened(FOLDER / entry["path"], entry.get("compression") if compression == "named" else "auto")
    assert isinstance(source, SequentialReader)
    found = read(source)
    assert len(found) == entry["n"]
    assert {number: digest(blob) for number, blob in enumerate(found)} == expected_records(entry)
    assert streamed(source) == found
    assert read(opened(FOLDER / entry["path"])) == found  # the second read uses the stored index
    if "offsets" in entry:
        assert (source.part(0, 0, len(source.indexes[0])).offset - 12).tolist() == entry["offsets"]
    if "part_counts" in entry:
        assert source.counts.tolist() == entry["part_counts"]


@loop_over("entry", [entry for entry in GOOD if entry.get("rewrite")])
def test_written_again_byte_for_byte(entry: dict[str, Any], tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "again")
    for blob in read(opened(FOLDER / entry["path"])):
        assert isinstance(blob, bytes)
        writer.append(blob)
    writer.close()
    assert (tmp_path / "again").read_bytes() == (FOLDER / entry["path"]).read_bytes()
    assert writer.n_bytes == (tmp_path / "again").stat().st_size


@loop_over("entry", DAMAGED)
def test_damaged_files(entry: dict[str, Any]) -> None:
    def found(way: Any) -> list[bytes | FormatError]:
        try:
            return way(opened(FOLDER / entry["path"], entry.get("compression")))  # type: ignore[no-any-return]
        except FormatError as error:
            assert entry["stage"] == "either"
            return [error]

    expected = expected_records(entry)
    for records in (found(read), found(streamed), found(read)):
        assert any(isinstance(blob, FormatError) for blob in records) or entry["stage"] == "decode"
        for number in entry["readable"]:
            assert digest(records[number]) == expected[number]
        for number in entry["bad"]:
            assert number >= len(records) or isinstance(records[number], FormatError)
        sound = list(itertools.takewhile(lambda blob: isinstance(blob, bytes), records))
        assert len(sound) <= entry["stream_prefix"] or entry.get("lenient")
        for error in records:
            if isinstance(error, FormatError):
                assert error.path == str(FOLDER / entry["path"])
                assert error.offset_bytes is not None
    assert as_text(found(read)) == as_text(found(read))


def test_a_gzip_file_with_a_wrong_checksum_has_all_records_and_one_error() -> None:
    *records, last = read(opened(FOLDER / "corrupt/gzip_crc.tfrecord.gz"))
    assert records == read(opened(FOLDER / "raw.tfrecord.gz"))
    assert "incorrect data check" in str(last)


def test_real_data_end_to_end() -> None:
    expected = json.loads((GOLDEN / "real/expected.json").read_text())
    assert expected
    source = dataformats.open(str(GOLDEN / "real/digits-*.tfrecord"), payload="bytes")
    assert len(source) == 1797
    assert list(source) == list(source[:])
    with pytest.raises(ChecksumError, match=r"record 3 of .*data_bit"):
        dataformats.open(FOLDER / "corrupt/data_bit.tfrecord", payload="bytes")[3]


# ---- sniffing


@loop_over("path", sorted(path for path in FOLDER.rglob("*tfrecord*") if path.stat().st_size))
def test_tfrecords_are_recognized(path: Path) -> None:
    file = LocalFile(path)
    damaged = path.stem in ("cut_in_length", "absurd")
    assert BACKEND.sniff(file).match == "yes" or damaged


@loop_over(
    "content",
    [
        b"a line of text and another one",
        b"short",
        bytes(1),
        bytes(9),
        bytes(200),
        b"name,value\n" * 1000,
        struct.pack("<q", 14) + b"an ofrecord :)" + struct.pack("<q", 3) + b"xyz",
        gzip.compress(b"name,value\n" * 1000, mtime=0),
        zlib.compress(b"name,value\n" * 1000),
        b"\x1f\x8b",
        *(path.read_bytes()[:100_000] for path in sorted((GOLDEN / "ffrecord").rglob("*.ffr"))),
    ],
)
def test_other_files_are_not(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(content or b"\n")
    verdict = BACKEND.sniff(LocalFile(tmp_path / "x.bin"))
    assert verdict.match == "no"
    assert verdict.reason


def flipped(data: bytes, bit: int) -> bytes:
    broken = bytearray(data)
    broken[bit // 8] ^= 1 << bit % 8
    return bytes(broken)


def test_a_first_header_with_one_bit_flipped_is_a_damaged_tfrecord(tmp_path: Path) -> None:
    for bit in range(96):
        path = tmp_path / f"{bit}.bin"
        path.write_bytes(flipped(SMALL, bit))
        assert BACKEND.sniff(LocalFile(path)).match == "damaged"


@pytest.mark.parametrize("position", [5, 8])
def test_a_broken_length_checksum_is_recognized_by_its_context(position: int, tmp_path: Path) -> None:
    for data in (SMALL, FRAMING.frames([b"a record alone"])):
        path = tmp_path / f"{len(data)}.bin"
        path.write_bytes(data[:8] + b"\xff\x00\x12\x34" + data[12:])
        assert BACKEND.sniff(LocalFile(path)).match == "damaged"


@loop_over("cut", [5, 7, 8, 9, 11, 12, 15, 16])
def test_a_cut_first_record_is_a_damaged_tfrecord(cut: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(SMALL[:cut])
    assert BACKEND.sniff(LocalFile(tmp_path / "x")).match == "damaged"


def test_a_cut_gzip_file_is_recognized_by_its_name_alone(tmp_path: Path) -> None:
    for name, fits in (("x.tfrecord.gz", "damaged"), ("x.csv.gz", "no")):
        (tmp_path / name).write_bytes(gzip.compress(SMALL)[:12])
        assert BACKEND.sniff(LocalFile(tmp_path / name)).match == fits


def test_names() -> None:
    for name in (
        "a.tfrecord",
        "a.tfrec",
        "a.tfrecords.gz",
        "a-00000-of-00003",
        "a.tfrecord-00000-of-00003",
        "a-1-of-2.gz",
    ):
        assert BACKEND.matches_name(name)
    for name in ("a.tfrecord.index", "a.ffr", "a-00000-of-00003.json", "part-0"):
        assert not BACKEND.matches_name(name)
    assert BACKEND.shard_names("digits", 3) == [f"digits-0000{number}-of-00003.tfrecord" for number in range(3)]
    assert BACKEND.shard_names("x", 1, compression="gzip") == ["x-00000-of-00001.tfrecord.gz"]
    assert BACKEND.shard_name("x", 7, compression="zlib") == "x-00007.tfrecord.zlib"
    assert BACKEND.order(["x-10", "x-2"]) == ["x-2", "x-10"]


# ---- compression


def test_plain_file_with_gzip_magic_is_read_plain(tmp_path: Path) -> None:
    for length in (0x8B1F, 0x088B1F):
        path = tmp_path / f"{length}"
        path.write_bytes(FRAMING.frames([bytes(length)]))
        assert path.read_bytes()[:2] == b"\x1f\x8b"
        assert read(opened(path)) == [bytes(length)]


def test_compression_is_named_as_here_or_as_tensorflow_does() -> None:
    for name in ("GZIP", "gzip", "Gzip"):
        assert len(dataformats.open(FOLDER / "raw.tfrecord.gz", compression=name)) == 5
    for none in (None, "", "none", "NONE"):
        assert len(dataformats.open(FOLDER / "raw.tfrecord", compression=none)) == 6
    with pytest.raises(
        TypeError, match=r"an argument of open\(\) or an option of tfrecord \(compression\), found 'level'"
    ):
        dataformats.open(FOLDER / "raw.tfrecord", level=3)


@loop_over(
    "name, compression",
    [
        ("raw.tfrecord", "gzip"),
        ("raw.tfrecord", "zlib"),
        ("raw.tfrecord.gz", "zlib"),
        ("raw.tfrecord.zlib", "none"),
    ],
)
def test_wrong_compression_error_names_the_option(name: str, compression: Compression) -> None:
    with pytest.raises(FormatError, match="compression="):
        opened(FOLDER / name, compression)


def test_each_file_of_a_data_set_may_be_compressed_differently() -> None:
    names = ["raw.tfrecord", "raw.tfrecord.gz", "raw.tfrecord.zlib"] * 4
    source = BACKEND.open([LocalFile(FOLDER / name) for name in names], ReaderOptions())
    assert source.counts.tolist() == [6, 5, 5] * 4
    assert read(source) == streamed(source)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_output_is_deterministic(compression: Compression, tmp_path: Path) -> None:
    for name in ("a", "b"):
        writer = BACKEND.create(tmp_path / name, compression=compression)
        for record in RECORDS:
            writer.append(record)
        writer.close()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert zlib.decompress((tmp_path / "a").read_bytes(), 47) == SMALL
    assert read(opened(tmp_path / "a")) == RECORDS


# ---- damage


def test_without_checksums_the_structure_is_still_checked(tmp_path: Path) -> None:
    for bit in range(8 * 21):
        path = tmp_path / f"{bit}"
        path.write_bytes(flipped(SMALL, bit))
        source = opened(path, verify_checksums=False)
        found = read(source)
        assert as_text(streamed(source)) == as_text(found)
        assert isinstance(found[0], FormatError) == (bit < 96)
        close(source)


@loop_over("name", ["a.tfrecord", "a", "a.tfrecord.gz"])
def test_a_file_without_checksums(name: str, tmp_path: Path) -> None:
    blobs = [bytes([i + 1]) * (50_000 * i + 1) for i in range(9)]
    data = b"".join(struct.pack("<QI", len(blob), 0) + blob + bytes(4) for blob in blobs)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    options: dict[str, Any] = {"format": "tfrecord"} if name.endswith(".gz") else {}
    with pytest.raises(ChecksumError, match="pass verify_checksums=False"):
        dataformats.open(tmp_path / name, **options)[0]
    for _ in range(2):  # by a scan, and by the index that is kept
        source = dataformats.open(tmp_path / name, verify_checksums=False, **options)
        assert (list(source), source[8]) == (blobs, blobs[8])
    (tmp_path / name).write_bytes(data[:-9])
    source = dataformats.open(tmp_path / name, verify_checksums=False, format="tfrecord", payload="bytes")
    assert source[7] == blobs[7]
    with pytest.raises(TruncatedError):
        source[8]


def test_a_compressed_file_is_replaced_by_one_of_the_same_size(tmp_path: Path) -> None:
    """The index of the old one does not tell the size of the new one."""
    paths = []
    for n in (3, 300):
        paths.append(tmp_path / f"{n}.tfrecord.gz")
        with dataformats.create(paths[-1], payload="bytes") as writer:
            writer.extend([b""] * n)
    longer = max(path.stat().st_size for path in paths)
    for path in paths:  # one more member, of a comment, makes them equal
        lacking = longer + 40 - path.stat().st_size
        member = b"\x1f\x8b\x08\x10" + bytes(5) + b"\xff" + b"c" * (lacking - 21) + b"\0\x03\0" + bytes(8)
        path.write_bytes(path.read_bytes() + member)
    small, large = paths
    assert small.stat().st_size == large.stat().st_size
    assert len(dataformats.open(large)) == 300
    os.utime(small, ns=(1, 1))
    small.replace(large)
    assert len(dataformats.open(large)) == 3


@loop_over("compress", [bytes, gzip.compress, zlib.compress])
@loop_over("length", [2**20, 2**31, 2**40, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 5, 2**64 - 1])
def test_absurd_lengths_cost_nothing(length: int, compress: Any, tmp_path: Path) -> None:
    octets = struct.pack("<Q", length)
    path = tmp_path / "x"
    path.write_bytes(compress(SMALL + octets + struct.pack("<I", masked_crc32c(octets)) + bytes(100)))
    tracemalloc.start()
    try:
        source = opened(path)
        for found in (read(source), streamed(source)):
            assert found[:4] == RECORDS
            assert isinstance(found[4], TruncatedError)
            assert found[4].offset_bytes == len(SMALL)
            assert len(found) == 5
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_large_records_are_skipped_by_the_scan_and_streamed_in_steps(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    records = [noise.bytes(n) for n in (3, 5_000_000, 0, 200_000, 2**20, 300_000, 7, 2_097_140, 9_000_000)]
    data = FRAMING.frames(records)
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "gzip").write_bytes(gzip.compress(data, 1))
    (tmp_path / "cut").write_bytes(data[:-5])
    for name in ("plain", "gzip"):
        source = opened(tmp_path / name)
        assert read(source) == records
        assert streamed(source) == records
    *found, last = read(opened(tmp_path / "cut"))
    assert found == records[:-1]
    assert isinstance(last, TruncatedError)


def test_changed_data_make_index_outdated(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SMALL)
    os.utime(path, (10**9, 10**9))  # long before its index is made
    times = path.stat()
    assert read(opened(path)) == RECORDS
    swapped = FRAMING.frames([b"FIRST", b"", b"the third record", bytes(40)])
    path.write_bytes(swapped)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = read(opened(path))
    assert isinstance(found[0], OutdatedIndexError)
    path.write_bytes(FRAMING.frames([b"", b"first", b"the third record", bytes(40)]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = read(opened(path, verify_checksums=False))
    assert isinstance(found[0], OutdatedIndexError)


# ---- indexes


def never(*_: object) -> Any:
    raise AssertionError("scanned")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    shutil.copy(FOLDER / "many_1000.tfrecord", tmp_path / "many.tfrecord")
    return tmp_path / "many.tfrecord"


def test_the_index_of_the_tfrecord_package_is_written_byte_for_byte(tmp_path: Path) -> None:
    assert write_text_index(FOLDER / "vahidk.tfrecord", tmp_path / "x.index") == 7
    assert (tmp_path / "x.index").read_bytes() == (FOLDER / "vahidk.index").read_bytes()
    for name in ("raw.tfrecord.gz", "corrupt/cut_in_data.tfrecord"):
        with pytest.raises(FormatError):
            write_text_index(FOLDER / name, tmp_path / "y.index")


@pytest.mark.parametrize("name", ["many.tfrecord.index", "many.index", "many.tfindex"])
def test_a_text_index_spares_the_scan(name: str, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text_index(plain, plain.with_name(name))
    by_scan = opened(FOLDER / "many_1000.tfrecord").part(0, 0, 1000)
    monkeypatch.setattr(reader, "scan", never)
    by_hint = opened(plain).part(0, 0, 1000)
    for column in ("offset", "length", "stored"):
        assert np.array_equal(getattr(by_scan, column), getattr(by_hint, column))


LINES = [(0, 21), (21, 16), (37, 32), (69, 56)]


@loop_over(
    "text",
    [
        "",
        "0 125\n",
        "0 21\n21 16\n37 32\n",
        "0 21\n21 16\n37 32\n69 56\n125 16\n",
        "0 20\n20 17\n37 32\n69 56\n",  # fills the file, and no header stands there
        "0 37\n37 32\n69 56\n",
        "0 21\n21 16\n37 88\n",
        "21 16\n0 21\n37 32\n69 56\n",
        "0 21\n21 16\n37 32\n69 -56\n",
        "0 21\n21 16\n37 32\n69 56 7\n",
        "0 21\nx 16\n37 32\n69 56\n",
        "0 15\n15 110\n",
        "0 9223372036854775807\n9223372036854775807 9223372036854775807\n",
        "0 99999999999999999999999999\n",
        f"0 {2**64 - 100}\n",
        "1" * 300,
        "0 21\n" * 100_000,
        "\x00\xff\n",
    ],
)
def test_wrong_text_index_is_ignored_with_a_warning(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x.tfrecord").write_bytes(SMALL)
    (tmp_path / "x.index").write_text(text, encoding="latin-1")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "dataformats"):
        assert read(opened(tmp_path / "x.tfrecord")) == RECORDS
    assert "x.index" in caplog.text
    assert str(tmp_path / "x.tfrecord") in caplog.text


def test_correct_text_index_replaces_scan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "scan", never)
    (tmp_path / "x.tfrecord").write_bytes(SMALL)
    (tmp_path / "x.index").write_text("".join(f"{offset} {length}\n" for offset, length in LINES))
    assert read(opened(tmp_path / "x.tfrecord")) == RECORDS
    assert not caplog.text


def forged_index(file: StoredFile, n: int, **others: Any) -> bytes:
    """An index of n empty records, of this very file, in some 200 bytes."""
    columns = [["length", "|u1", 0], ["crc", "|u1", 0]]
    header = {"kind": "tfrecord", "identity": file.identity, "made_ns": 2**62, "n": n, "columns": columns, "total": 0}
    metadata = {"compression": "none", "size": 16 * n, "rest": None, "damage": None}
    text = json.dumps({**header, "digest": "", "facts": metadata | others}).encode()
    return struct.pack("<8sII", b"DFINDEX3", len(text), zlib.crc32(text)) + text


@loop_over("kind", ["hint", "index", "index of gzip", "text"])
def test_an_index_of_more_records_than_fit_takes_no_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(gzip.compress(SMALL) if "gzip" in kind else SMALL)
    n = 10**8
    forged = forged_index(LocalFile(path), n, compression="gzip" if "gzip" in kind else "none")
    if kind == "text":
        path.with_name("x.tfrecord.index").write_text("0 16\n" + "".join(f"{16 * i} 16\n" for i in range(1, 200_000)))
    else:
        path.with_name("x.tfrecord.dataformats.idx").write_bytes(forged)
    source = opened(path, index="beside" if "index" in kind else "cache")
    tracemalloc.start()
    assert source.counts.tolist() == [len(RECORDS)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
    assert read(source) == RECORDS


@loop_over("where", ["cache", "beside", "folder"])
@loop_over(
    "name", ["many_1000.tfrecord", "raw.tfrecord.gz", "corrupt/garbage_40.tfrecord", "corrupt/gzip_cut.tfrecord.gz"]
)
def test_the_second_opening_scans_nothing(
    where: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / Path(name).name
    shutil.copy(FOLDER / name, path)
    os.utime(path, (10**9, 10**9))  # long before its index is made
    place = str(tmp_path / "indexes") if where == "folder" else where
    found = read(opened(path, index=place))
    monkeypatch.setattr(reader, "scan", never)
    monkeypatch.setattr("dataformats.storage.compressed.seekable_gzip.DecompressedFile._measure", never)
    source = opened(path, index=place)
    assert as_text(read(source)) == as_text(found)


def test_an_index_copied_with_the_data_is_looked_at_frame_by_frame(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = read(opened(plain, index="beside"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tmp_path.glob("many*"):
        shutil.copyfile(path, copy / path.name)
    os.utime(copy / plain.name, (1, 1))
    with monkeypatch.context() as patched:
        patched.setattr(reader, "scan", never)
        assert read(opened(copy / plain.name)) == found
    other = [bytes(len(blob)) for blob in reversed(found) if isinstance(blob, bytes)]
    (copy / plain.name).write_bytes(FRAMING.frames(other))
    os.utime(copy / plain.name, (2, 2))
    assert read(opened(copy / plain.name)) == other
    assert "does not fit" in caplog.text


def test_a_damaged_index_is_made_again(plain: Path) -> None:
    found = read(opened(plain, index="beside"))
    sidecar = next(plain.parent.glob("*.idx"))
    whole = sidecar.read_bytes()
    for at in range(0, len(whole), 97):
        sidecar.write_bytes(flipped(whole, 8 * at))
        source = opened(plain, index="beside")
        assert read(source) == found
    sidecar.write_bytes(whole[:-9])
    assert read(opened(plain, index="beside")) == found


@pytest.mark.parametrize(
    "forged",
    [
        {"rest": "text"},
        {"rest": ["list"]},
        {"rest": {"type": "FormatError"}},
        {"rest": {"type": [], "what": ""}},
        {"rest": {"type": "FormatError", "what": "", "no such fact": 1}},
        {"compression": {}},
    ],
)
def test_an_index_with_forged_facts_is_ignored(plain: Path, forged: dict[str, Any]) -> None:
    os.utime(plain, (10**9, 10**9))  # long before its index is made
    file, frames = LocalFile(plain), scan(INDEXES.framing, LocalFile(plain))
    assert frames.stored is not None
    columns: dict[str, Any] = {"length": frames.lengths, "crc": frames.stored}
    metadata = {"compression": "none", "size": file.size, "rest": None, "damage": None}
    IndexCache("beside").save(file, "tfrecord", columns, metadata)
    assert INDEXES.load_exact(file, IndexCache("beside")) is not None
    IndexCache("beside").save(file, "tfrecord", columns, metadata | forged)
    assert INDEXES.load_exact(file, IndexCache("beside")) is None


def test_an_index_made_for_another_compression_is_not_taken(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "raw.tfrecord.gz", tmp_path / "x.gz")
    os.utime(tmp_path / "x.gz", (10**9, 10**9))  # long before its index is made
    found = read(opened(tmp_path / "x.gz"))
    original = INDEXES.load_exact(opened(tmp_path / "x.gz").files[0], IndexCache("cache"))
    assert original is not None
    assert INDEXES.load_exact(LocalFile(tmp_path / "x.gz"), IndexCache("cache")) is None
    assert len(found) == 5


def test_index_of_file_without_mtime_is_only_a_hint(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame in the middle must be where a hint says; other frames are checked when they are read."""
    found, data = read(opened(plain)), plain.read_bytes()
    file = ObjectFile(plain)
    INDEXES.save(file, IndexCache("cache"), scan(INDEXES.framing, file))
    with monkeypatch.context() as patch:
        patch.setattr(reader, "scan", never)
        assert read(BACKEND.open([file], ReaderOptions())) == found
    file._handle.close()
    first = FRAMING_BYTES + int.from_bytes(data[:8], "little")
    plain.write_bytes(data[first:] + data[:first])
    file = ObjectFile(plain)
    assert INDEXES.load_exact(file, IndexCache("cache")) is None
    assert read(BACKEND.open([file], ReaderOptions())) == [*found[1:], found[0]]
    file._handle.close()


def test_the_fingerprint_does_not_depend_on_where_the_index_came_from(plain: Path, tmp_path: Path) -> None:
    def fingerprint() -> bytes:
        parts: list[bytes] = []
        opened(plain).digest(parts.append)
        return b"".join(parts)

    scanned = fingerprint()
    kept = fingerprint()
    shutil.rmtree(tmp_path / "cache")
    write_text_index(plain, tmp_path / "many.index")
    assert scanned == kept == fingerprint()


def test_an_index_holds_a_few_bytes_a_record_and_on_disk_none(tmp_path: Path) -> None:
    n = 300_000
    (tmp_path / "a.tfrecord").write_bytes(FRAMING.frames([b"", b"x", b"yz"]) * (n // 3))
    for place, most in (("cache", 100_000), (str(tmp_path / "a.tfrecord" / "no folder"), 6 * n)):
        source = opened(tmp_path / "a.tfrecord", index=place)
        tracemalloc.start()
        assert source.counts.tolist() == [n]
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < most
        assert source.part(0, n - 2, n).length.tolist() == [1, 2]


def test_progress_ends_at_the_size_of_all_files() -> None:
    names = ["raw.tfrecord", "raw.tfrecord.gz", "many_1000.tfrecord", "corrupt/absurd_2pow62.tfrecord"]
    files = [LocalFile(FOLDER / name) for name in [*names, "empty.tfrecord"]]
    steps: list[tuple[int, int]] = []
    for _ in range(2):  # the first turn scans the files, the second uses the indexes
        steps.clear()
        options = ReaderOptions(progress=lambda done, total: steps.append((done, total)))
        assert len(BACKEND.open(files, options).counts) == 5
        total = sum(file.size for file in files)
        assert steps[-1] == (total, total)
        assert steps == sorted(steps)


# ---- writing


@pytest.fixture(params=["none", "gzip", "zlib"])
def compression(request: pytest.FixtureRequest) -> Compression:
    return request.param  # type: ignore[no-any-return]


def test_flushed_records_survive_unclosed_writer(tmp_path: Path, compression: Compression) -> None:
    path = tmp_path / "x"
    writer = BACKEND.create(path, compression=compression)
    for record in RECORDS:
        writer.append(record)
    writer.flush(sync=True)
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    writer.append(b"not confirmed")
    writer.suspend()
    again = BACKEND.create(copy, resume=True, compression=compression)
    assert (again.n_records, again.n_bytes) == (4, len(SMALL))
    again.append(b"fifth")
    again.close()
    assert read(opened(copy)) == [*RECORDS, b"fifth"]
    left = BACKEND.create(path, resume=True, compression=compression)
    assert left.n_records == 5
    left.close()
    assert not list(tmp_path.glob("*.partial"))


@loop_over("kept", [1.0, 0.4])
def test_resumed_file_equals_uninterrupted_file(tmp_path: Path, compression: Compression, kept: float) -> None:
    records = [b"%d" % (i * i) * (i % 50) for i in range(9000)]
    whole = BACKEND.create(tmp_path / "whole", compression=compression)
    whole.extend(records)
    whole.close()
    path = tmp_path / "x"
    for n in (4000, 8000):
        writer = BACKEND.create(path, resume=True, compression=compression)
        writer.extend(records[writer.n_records : n])
        writer.suspend()
        os.truncate(path, int(kept * path.stat().st_size))
    writer = BACKEND.create(path, resume=True, compression=compression)
    assert 0 < writer.n_records <= 8000
    writer.extend(records[writer.n_records :])
    writer.close()
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_resumed_records_stay_while_they_are_compressed_again(tmp_path: Path) -> None:
    """A compressor holds back the most of records that it compresses best."""
    path, record = tmp_path / "x", bytes(2**20)
    first = BACKEND.create(path, compression="gzip")
    first.extend([record] * 3)
    first.suspend()
    writer = BACKEND.create(path, resume=True, compression="gzip")
    while (tmp_path / "x.partial").exists():
        writer.append(record)
        shutil.copy(path, tmp_path / "killed")
        again = BACKEND.create(tmp_path / "killed", resume=True, compression="gzip")
        assert again.n_records >= 3
        again.discard()
    assert writer.n_records < 20
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_resumed_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(flipped(SMALL, 8 * (21 + 16 + 14)))
    writer = BACKEND.create(path, resume=True)
    assert writer.n_records == 2
    writer.append(b"other")
    writer.close()
    assert read(opened(path)) == [*RECORDS[:2], b"other"]


def test_resume_without_data_starts_new_file(tmp_path: Path, compression: Compression) -> None:
    for existing in (False, True):
        path = tmp_path / f"{existing}"
        if existing:
            path.touch()
        writer = BACKEND.create(path, resume=True, compression=compression)
        assert writer.n_records == 0
        writer.append(b"one")
        writer.close()
        assert read(opened(path)) == [b"one"]


def test_records_are_bytes_and_are_copied(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "x")
    buffer = bytearray(b"as it was")
    writer.append(buffer)
    writer.append(memoryview(buffer)[::2])
    buffer[:] = b"something"
    for wrong in ("text", 3, None, [1], {"a": 1}):
        with pytest.raises(TypeError, match="bytes"):
            writer.append(wrong)
    writer.close()
    assert read(opened(tmp_path / "x")) == [b"as it was", b"as it was"[::2]]
    assert writer.n_records == 2
    with pytest.raises(ValueError, match="closed"):
        writer.flush()
    with pytest.raises(ValueError, match="closed"):
        writer.append(b"late")
    writer.close()
    writer.suspend()


def test_discard_deletes_the_file(tmp_path: Path, compression: Compression) -> None:
    writer = BACKEND.create(tmp_path / "x", compression=compression)
    writer.append(b"one")
    writer.flush()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


@loop_over("name, begins", [("x.tfrecord", b"\1\0"), ("x.gz.partial", b"\x1f\x8b"), ("x.zlib", b"\x78")])
def test_the_name_tells_whether_to_compress(tmp_path: Path, name: str, begins: bytes) -> None:
    writer = BACKEND.create(tmp_path / name)
    writer.append(b"1")
    writer.close()
    assert (tmp_path / name).read_bytes().startswith(begins)


# ---- payloads


def test_payload_is_guessed_from_nonempty_records() -> None:
    def sample(name: str) -> list[bytes]:
        return [blob for blob in read(opened(FOLDER / name)) if isinstance(blob, bytes)]

    assert BACKEND.guess_payload(sample("examples.tfrecord")) == "example"
    assert BACKEND.guess_payload(sample("sequence.tfrecord")) == "sequence_example"
    assert BACKEND.guess_payload(sample("raw.tfrecord")) == "bytes"
    assert BACKEND.guess_payload([b"", b""]) == "bytes"
    assert BACKEND.guess_payload([]) == "bytes"


def test_an_index_made_in_the_same_tick_as_its_file_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SMALL)
    tick = path.stat().st_mtime_ns + 10**10  # 10 s ahead, so that the index is never made later
    os.utime(path, ns=(tick, tick))
    assert read(opened(path)) == RECORDS
    swapped = [b"FIRST", b"", b"the third record", bytes(40)]
    path.write_bytes(FRAMING.frames(swapped))
    os.utime(path, ns=(tick, tick))
    assert read(opened(path)) == swapped
