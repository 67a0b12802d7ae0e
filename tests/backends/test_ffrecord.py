"""FFRecord: files of the original program, damaged files, and a writer that is killed."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import warnings
from pathlib import Path
from struct import pack
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataformats
from dataformats.backends.ffrecord import BACKEND
from dataformats.backends.ffrecord import reader as ffrecord_reader
from dataformats.backends.ffrecord.layout import build_header
from dataformats.backends.ffrecord.reader import FFRecordReader
from dataformats.backends.ffrecord.writer import FFRecordWriter
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.interfaces import ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import VALUE
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.record_journal import StoredJournal
from dataformats.storage.reference_read import read_blobs
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

GOLDEN = Path(__file__).parents[1] / "golden" / "ffrecord"
ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))["entries"]
GOOD = [entry for entry in ENTRIES if not entry["error"] or entry["stage"] == "packed"]
DAMAGED = [entry for entry in ENTRIES if entry["error"] and entry["stage"] != "packed"]


def files_of(path: Path) -> list[StoredFile]:
    return BACKEND.find(LocalFolder(path)) if path.is_dir() else [LocalFile(path)]


def open_path(path: Path, *, verify: bool = True) -> FFRecordReader:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return BACKEND.open(files_of(path), ReaderOptions(verify_checksums=verify))


def read_all(reader: FFRecordReader) -> list[bytes | FormatError]:
    indices = np.arange(int(reader.counts.sum()))
    extents = reader.locate(indices, {VALUE: True})[VALUE].extents
    fetched = read_blobs(reader.files, [extents], max_bytes=2**40)[0]
    return [fetched.problems.get(position, blob) for position, blob in enumerate(fetched.blobs)]


def read_path(path: Path, *, verify: bool = True) -> list[bytes | FormatError]:
    return read_all(open_path(path, verify=verify))


def blobs_of(path: Path) -> list[bytes]:
    found = read_path(path)
    assert all(isinstance(blob, bytes) for blob in found)
    return found  # type: ignore[return-value]


def hashes(blobs: list[bytes]) -> list[str]:
    return [hashlib.sha256(blob).hexdigest() for blob in blobs]


def plain_file(blobs: list[bytes]) -> bytes:
    """A file by the table in FORMATS, without any of the code under test."""
    n = len(blobs)
    ends = np.cumsum([12 + 12 * n, *map(len, blobs)])
    table = pack("<q", n) + b"".join(pack("<I", crc32(blob)) for blob in blobs)
    table += b"".join(pack("<q", offset) for offset in ends[:-1])
    return pack("<I", crc32(table)) + table + b"".join(blobs)


def write(path: Path, blobs: list[bytes], **options: Any) -> None:
    writer = BACKEND.create(path, **options)
    for blob in blobs:
        writer.append(blob)
    writer.close()


# ---- files of the original


@loop_over("entry", GOOD)
def test_good_files(entry: dict[str, Any]) -> None:
    blobs = blobs_of(GOLDEN / entry["path"])
    assert [len(blob) for blob in blobs] == entry["records"]["length"]
    assert hashes(blobs) == entry["records"]["sha256"]
    assert read_path(GOLDEN / entry["path"], verify=False) == blobs


@loop_over("entry", [entry for entry in GOOD if entry.get("folder")])
def test_folders(entry: dict[str, Any]) -> None:
    reader = open_path(GOLDEN / entry["path"])
    assert [file.basename for file in reader.files] == entry["parts"]
    assert reader.counts.tolist() == entry["part_counts"]


def test_an_old_version_warns_and_names_the_file() -> None:
    with pytest.warns(UserWarning, match=r"old_version\.ffr"):
        BACKEND.open([LocalFile(GOLDEN / "old_version.ffr")], ReaderOptions())


@loop_over("entry", DAMAGED)
@loop_over("verify", [True, False])
def test_damaged_files(entry: dict[str, Any], verify: bool) -> None:
    path = GOLDEN / entry["path"]
    if entry["stage"] == "open" and (verify or entry["id"] != "meta_bit_checksums"):
        with pytest.raises(FormatError, match=path.name):
            open_path(path, verify=verify)
        return
    if not verify:
        read_path(path, verify=False)
        return
    found = read_path(path)
    assert len(found) == entry["n_before_damage"]
    assert [i for i, blob in enumerate(found) if isinstance(blob, bytes)] == entry["readable"]
    assert hashes([blob for blob in found if isinstance(blob, bytes)]) == entry["records"]["sha256"]
    assert all(path.name in str(found[i]) for i in entry["bad"])


def test_offsets_out_of_order_are_refused_without_checksums_too() -> None:
    found = read_path(GOLDEN / "corrupt/offsets_decreasing.ffr", verify=False)
    assert [i for i, blob in enumerate(found) if isinstance(blob, bytes)] == [0, 4, 5]


def test_unfinished_file_raises_with_cause() -> None:
    with pytest.raises(FormatError, match="killed before close"):
        open_path(GOLDEN / "corrupt/unfinished.ffr")


@loop_over("entry", [entry for entry in GOOD if entry.get("rewrite")])
@loop_over("counted", [True, False])
def test_rewrite(entry: dict[str, Any], counted: bool, tmp_path: Path) -> None:
    originals = [Path(file.name) for file in files_of(GOLDEN / entry["path"])]
    names = [path.name for path in originals]
    if entry.get("folder") and entry["id"] == "folder_dump":
        names = BACKEND.shard_names("any", len(originals))
    for original, name in zip(originals, names, strict=True):
        blobs = blobs_of(original)
        write(tmp_path / name, blobs, records=len(blobs) if counted else None)
        assert (tmp_path / name).read_bytes() == original.read_bytes()


# ---- damage


SMALL = [b"first", b"", b"the third record", b"x"]


@loop_over("n", [2**60, 2**62, 2**63 - 1, -1, -(2**63), 2**33, 5])
@loop_over("checksum", [0, 1])
def test_absurd_counts_cost_nothing(tmp_path: Path, n: int, checksum: int) -> None:
    (tmp_path / "a.ffr").write_bytes(pack("<Iq", checksum, n) + bytes(50))
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"expected .* found"):
        open_path(tmp_path / "a.ffr")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * 2**20


def test_a_table_of_wrong_offsets_makes_no_heap_of_errors(tmp_path: Path) -> None:
    n = 200_000
    table = pack("<q", n) + bytes(4 * n) + np.full(n, 2**62, "<i8").tobytes()
    (tmp_path / "a.ffr").write_bytes(pack("<I", crc32(table)) + table)
    tracemalloc.start()
    index = open_path(tmp_path / "a.ffr").part(0, 0, n)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * n
    assert len(index.problems) == n
    assert isinstance(index.problems[n - 1], TruncatedError)


@loop_over(
    "data, message",
    [
        (pack("<Iq", 0x6522DF69, 0) + b"more", "data behind a header of no records"),
        (pack("<Iq", 0, 0) + b"more", "unfinished"),
        (pack("<Iq", 1, 0), "checksum of the header"),
        (b"", "too short for a header"),
    ],
)
def test_no_records(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.ffr").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        open_path(tmp_path / "a.ffr")


def test_twelve_zero_bytes_are_an_empty_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.ffr").write_bytes(bytes(12))
    with pytest.warns(UserWarning, match="old version"):
        assert BACKEND.open([LocalFile(tmp_path / "a.ffr")], ReaderOptions()).counts.tolist() == [0]


def test_a_wrong_first_offset_is_one_bad_record(tmp_path: Path) -> None:
    data = bytearray(plain_file(SMALL))
    data[12 + 16] += 1
    data[:4] = pack("<I", crc32(data[4 : 12 + 48]))
    (tmp_path / "a.ffr").write_bytes(data)
    found = read_path(tmp_path / "a.ffr")
    assert isinstance(found[0], FormatError)
    assert found[1:] == SMALL[1:]


def test_the_fingerprint_is_the_same_with_and_without_checksums() -> None:
    digests: list[list[bytes]] = [[], []]
    for parts, verify in zip(digests, (True, False), strict=True):
        open_path(GOLDEN / "corrupt/offsets_decreasing.ffr", verify=verify).digest(parts.append)
    assert digests[0] == digests[1]


# ---- sniffing


@loop_over("entry", ENTRIES)
def test_sniff_golden(entry: dict[str, Any]) -> None:
    path = GOLDEN / entry["path"]
    verdict = BACKEND.sniff(files_of(path)[0])
    expected = "yes" if entry in GOOD or entry["stage"] in ("read", "either") else "damaged"
    if entry["id"] in ("empty_file", "truncated_header"):  # too few bytes are left to recognize
        expected = "no"
    assert verdict.match == expected, verdict
    assert verdict.match == "yes" or verdict.reason


@loop_over("data", [b"hello, world\n" * 50, b"\x89PNG\r\n\x1a\n" + bytes(100), b"{}"])
def test_sniff_says_no_to_others(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    assert BACKEND.sniff(LocalFile(tmp_path / "a")).match == "no"


def test_sniff_says_no_to_tfrecords() -> None:
    paths = [path for path in (GOLDEN.parent / "tfrecord").glob("*.tfrecord") if path.stat().st_size]
    assert paths
    assert {BACKEND.sniff(LocalFile(path)).match for path in paths} == {"no"}


# ---- writing


@settings(max_examples=share(30), deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=12), st.booleans())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, blobs: list[bytes], counted: bool) -> None:
    path = tmp_path_factory.mktemp("ffr") / "a.ffr"
    write(path, blobs, records=len(blobs) if counted else None)
    assert path.read_bytes() == plain_file(blobs)
    assert blobs_of(path) == blobs


def test_build_header_is_the_plain_one() -> None:
    header = build_header([len(blob) for blob in SMALL], [crc32(blob) for blob in SMALL])
    assert header + b"".join(SMALL) == plain_file(SMALL)


def test_buffers_are_written_whole(tmp_path: Path) -> None:
    numbers: Any = np.arange(10, dtype=np.float32)
    writer: Any = BACKEND.create(tmp_path / "a.ffr")
    for blob in (bytearray(b"abc"), memoryview(b"a?b?c?")[::2], memoryview(numbers), memoryview(b"")):
        writer.append(blob)
    for wrong in ("text", 5, None, numbers):
        with pytest.raises(TypeError, match="expected bytes"):
            writer.append(wrong)
    writer.close()
    assert blobs_of(tmp_path / "a.ffr") == [b"abc", b"abc", numbers.tobytes(), b""]


def test_the_number_of_records_is_held(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "a.ffr", records=2)
    writer.append(b"1")
    with pytest.raises(ValueError, match="cannot close: expected records=2, found 1 records"):
        writer.close()
    writer.append(b"2")
    with pytest.raises(ValueError, match="cannot append record 3: expected records=2"):
        writer.append(b"3")
    writer.close()
    assert blobs_of(tmp_path / "a.ffr") == [b"1", b"2"]


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"an argument of create\(\) or an option of ffrecord \(records\), found 'level'"
    ):
        dataformats.create(tmp_path / "a.ffr", "ffrecord", level=9)
    with pytest.raises(TypeError, match=r"an option of ffrecord \(it has none\), found 'level'"):
        dataformats.open(GOLDEN / "base.ffr", level=9)


def test_discard_leaves_nothing(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "a.ffr")
    writer.append(b"1")
    writer.suspend()
    assert list(tmp_path.iterdir())
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_plain_copy_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError("not here")

    monkeypatch.setattr("os.copy_file_range", refuse, raising=False)
    write(tmp_path / "a.ffr", SMALL)
    assert (tmp_path / "a.ffr").read_bytes() == plain_file(SMALL)


def test_a_failed_write_can_be_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = BACKEND.create(tmp_path / "a.ffr")
    for blob in SMALL:
        writer.append(blob)
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            writer.flush()
    writer.close()
    assert (tmp_path / "a.ffr").read_bytes() == plain_file(SMALL)


def test_an_append_interrupted_halfway_is_not_published(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "a.ffr")
    writer.append(b"1")
    writer._pending.append(b"2")  # an interrupt can hit here: the record is taken and not yet counted
    with pytest.raises(RuntimeError, match="resume=True"):
        writer.close()
    writer.suspend()
    writer = BACKEND.create(tmp_path / "a.ffr", resume=True)
    writer.close()
    assert blobs_of(tmp_path / "a.ffr") == [b"1", b"2"]


# ---- killed, and resumed


def left(path: Path, **options: Any) -> None:
    writer = BACKEND.create(path, **options)
    for blob in SMALL:
        writer.append(blob)
    writer.suspend()


def resumed(path: Path, **options: Any) -> int:
    """Return how many records a resume finds; then complete the file and check it."""
    writer = BACKEND.create(path, resume=True, **options)
    n = writer.n_records
    for blob in [*SMALL, b"last"][n:]:
        writer.append(blob)
    writer.close()
    assert path.read_bytes() == plain_file([*SMALL, b"last"])
    return n


def test_data_behind_the_journal_are_cut_off(tmp_path: Path) -> None:
    path, journal = tmp_path / "a.ffr", tmp_path / "a.ffr.journal"
    left(path)
    journal.write_bytes(journal.read_bytes()[:-1])
    assert resumed(path) == len(SMALL) - 1


@pytest.mark.parametrize("options", [{}, {"records": len(SMALL) + 1}], ids=["unknown", "announced"])
def test_killed_before_the_first_entry_of_the_journal(options: dict[str, Any], tmp_path: Path) -> None:
    path, journal = tmp_path / "a.ffr", tmp_path / "a.ffr.journal"
    left(path, **options)
    stored = StoredJournal.find(journal)
    assert stored is not None
    journal.write_bytes(journal.read_bytes()[: stored.start])
    assert resumed(path, **options) == 0


@pytest.mark.parametrize("records", [None, len(SMALL)])
def test_killed_after_close_before_renaming(tmp_path: Path, records: int | None) -> None:
    path = tmp_path / "a.ffr"
    write(path, SMALL, records=records)
    assert resumed(path) == len(SMALL)


def test_resume_deletes_leftovers_of_interrupted_close(tmp_path: Path) -> None:
    path = tmp_path / "a.ffr"
    left(path)
    (tmp_path / "a.ffr.partial").write_bytes(b"half a file")
    assert resumed(path) == len(SMALL)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.ffr", "a.ffr.journal"]


def test_nothing_to_resume(tmp_path: Path) -> None:
    assert resumed(tmp_path / "a.ffr") == 0


def test_a_lost_journal_is_no_reason_to_delete_data(tmp_path: Path) -> None:
    path = tmp_path / "a.ffr"
    left(path)
    data = path.read_bytes()
    (tmp_path / "a.ffr.journal").unlink()
    with pytest.raises(FormatError, match="without its journal"):
        BACKEND.create(path, resume=True)
    assert path.read_bytes() == data


def test_without_resume_partial_data_are_removed(tmp_path: Path) -> None:
    left(tmp_path / "a.ffr")
    write(tmp_path / "a.ffr", [b"new"])
    assert blobs_of(tmp_path / "a.ffr") == [b"new"]


def test_more_found_than_announced(tmp_path: Path) -> None:
    left(tmp_path / "a.ffr")
    with pytest.raises(ValueError, match="holds 4 records, more than records=3"):
        BACKEND.create(tmp_path / "a.ffr", resume=True, records=3)


def test_errors_say_where(tmp_path: Path) -> None:
    data = bytearray(plain_file(SMALL))
    data[-1] ^= 1
    (tmp_path / "a.ffr").write_bytes(data)
    error = read_path(tmp_path / "a.ffr")[3]
    assert isinstance(error, ChecksumError)
    assert error.stored == crc32(b"x")
    assert error.offset_bytes == len(data) - 1
    writer = BACKEND.create(tmp_path / "b.ffr")
    assert isinstance(writer, FFRecordWriter)
    writer.close()


# ---- many files: headers are verified at the first use of their file


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of four files that counts as large, the header of the third of them broken."""
    monkeypatch.setattr(ffrecord_reader, "_VERIFIED_AT_OPEN", 0)
    for number in range(4):
        data = bytearray(plain_file([f"{number}/{i}".encode() for i in range(5)]))
        data[14] ^= number == 2
        (tmp_path / f"{number}.ffr").write_bytes(data)
    return tmp_path


def test_a_broken_header_in_a_large_set_hurts_its_own_records(large: Path) -> None:
    found = read_path(large)
    for index, blob in enumerate(found):
        if index // 5 == 2:
            assert isinstance(blob, ChecksumError)
            assert "2.ffr" in str(blob)
            assert "header" in str(blob)
        else:
            assert blob == f"{index // 5}/{index % 5}".encode()
    sound = read_path(large, verify=False)
    assert all(isinstance(blob, bytes) for blob in sound)


def test_a_broken_header_in_a_small_set_fails_at_open(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffrecord_reader, "_VERIFIED_AT_OPEN", 20)
    with pytest.raises(ChecksumError, match=r"2\.ffr"):
        open_path(large)


def test_truncated_file_fails_at_open_of_large_set(large: Path) -> None:
    (large / "4.ffr").write_bytes(plain_file(SMALL)[:20])
    with pytest.raises(TruncatedError, match=r"4\.ffr"):
        open_path(large)


def test_verify_looks_at_each_file(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray((large / "3.ffr").read_bytes())
    data[-1] ^= 1
    (large / "3.ffr").write_bytes(data)
    expected = [("2.ffr", "ChecksumError"), ("3.ffr", "ChecksumError")]
    for most, header_findings in ((0, 5), (20, 1)):
        monkeypatch.setattr(ffrecord_reader, "_VERIFIED_AT_OPEN", most)
        findings = dataformats.verify(large, format="ffrecord").findings
        found = [(Path(finding.path or "").name, finding.kind) for finding in findings]
        assert found == expected[:1] * header_findings + expected[1:]


@loop_over("size", [1, 2, 3, 7, 100])
@loop_over("check", [True, False])
def test_parts_of_a_table_are_judged_as_the_whole(tmp_path: Path, size: int, check: bool) -> None:
    blobs = [bytes(i % 5) for i in range(23)]
    data = bytearray(plain_file(blobs))
    at = 12 + 4 * 23
    for record, offset in ((4, 0), (9, 2**40), (15, 12 + 12 * 23)):  # offsets inside the header, far behind, backwards
        data[at + 8 * record : at + 8 * record + 8] = pack("<q", offset)
    data[:4] = pack("<I", crc32(data[4 : 12 + 12 * 23]))
    (tmp_path / "a.ffr").write_bytes(data)
    reader = open_path(tmp_path / "a.ffr", verify=check)
    whole = reader.part(0, 0, 23)
    assert whole.problems
    for first in range(0, 23, size):
        part = reader.part(0, first, min(first + size, 23))
        assert np.array_equal(part.offset, whole.offset[first : first + size])
        assert np.array_equal(part.length, whole.length[first : first + size])
        expected = {i - first: str(error) for i, error in whole.problems.items() if first <= i < first + size}
        assert {i: str(error) for i, error in part.problems.items()} == expected
