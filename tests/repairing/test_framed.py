"""Repaired TFRecords and OFRecords: the report is compared with the damage."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

import pytest

import dataformats
from dataformats import RepairReport
from dataformats.testing.loop_over import loop_over
from tests.cases import frames

GOLDEN = Path(__file__).parents[1] / "golden"
SIZES = (20, 0, 300, 7, 64, 29, 500, 1)
RECORDS = [random.Random(number).randbytes(size) for number, size in enumerate(SIZES)]
STARTS = [0, *accumulate(16 + size for size in SIZES)]
WHOLE = frames(*RECORDS)


def repaired(data: bytes, folder: Path) -> tuple[list[bytes], RepairReport]:
    """Repair a file of these bytes; return the records kept."""
    source = folder / "damaged.tfrecord"
    source.write_bytes(data)
    report = dataformats.repair(source, folder / "repaired.tfrecord", overwrite=True)
    assert source.read_bytes() == data
    kept = list(dataformats.open(folder / "repaired.tfrecord", payload="bytes"))
    assert len(kept) == report.kept
    lost = sum(loss.stop - loss.start for loss in report.losses if loss.start is not None and loss.stop is not None)
    assert lost + sum(16 + len(record) for record in kept) == len(data)  # every byte is kept or reported
    return kept, report


def lost(report: RepairReport) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return [(loss.index, loss.records, loss.start, loss.stop) for loss in report.losses]


def without(*numbers: int) -> list[bytes]:
    return [record for number, record in enumerate(RECORDS) if number not in numbers]


def flipped(data: bytes, *places: int) -> bytes:
    damaged = bytearray(data)
    for place in places:
        damaged[place] ^= 0x10
    return bytes(damaged)


@loop_over("record", [0, 2, 3, 7])
@loop_over("place", ["length", "length checksum", "data", "data checksum"])
def test_a_flipped_bit_costs_its_record(record: int, place: str, tmp_path: Path) -> None:
    start, size = STARTS[record], SIZES[record]
    offset = {"length": 1, "length checksum": 9, "data": 12 + size // 2, "data checksum": 12 + size + 1}[place]
    kept, report = repaired(flipped(WHOLE, start + offset), tmp_path)
    assert kept == without(record)
    assert lost(report) == [(record, 1, start, STARTS[record + 1])]
    assert ("length" in report.losses[0].cause) == place.startswith("length")
    assert (report.kept, report.lost, report.ok) == (7, 1, False)


def test_several_damages(tmp_path: Path) -> None:
    places = [STARTS[1] + 2, STARTS[2] + 50, STARTS[4] + 13, STARTS[5] + 8, STARTS[6] + 30]
    kept, report = repaired(flipped(WHOLE, *places), tmp_path)
    assert kept == without(1, 2, 4, 5, 6)
    assert lost(report) == [
        (1, 1, STARTS[1], STARTS[2]),
        (2, 1, STARTS[2], STARTS[3]),
        (4, 1, STARTS[4], STARTS[5]),
        (5, 1, STARTS[5], STARTS[6]),
        (6, 1, STARTS[6], STARTS[7]),
    ]


def test_neighbors_lost_for_one_cause_are_one_loss(tmp_path: Path) -> None:
    kept, report = repaired(flipped(WHOLE, STARTS[2] + 50, STARTS[3] + 13), tmp_path)
    assert kept == without(2, 3)
    assert lost(report) == [(2, 2, STARTS[2], STARTS[4])]


@loop_over("stop", range(STARTS[6], STARTS[8], 61))
def test_a_cut_tail(stop: int, tmp_path: Path) -> None:
    kept, report = repaired(WHOLE[:stop], tmp_path)
    whole = sum(end <= stop for end in STARTS[1:])
    assert kept == RECORDS[:whole]
    in_header = stop - STARTS[whole] < 12
    expected = [(whole, None if in_header else 1, STARTS[whole], stop)]
    assert lost(report) == (expected if stop > STARTS[whole] else [])
    assert report.ok == (stop in STARTS)


def test_zeroed_ranges(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE)
    damaged[STARTS[2] + 100 : STARTS[5] + 5] = bytes(STARTS[5] + 5 - STARTS[2] - 100)
    kept, report = repaired(bytes(damaged), tmp_path)
    assert kept == without(2, 3, 4, 5)
    assert lost(report) == [(2, None, STARTS[2], STARTS[6])]
    damaged = bytearray(WHOLE)
    damaged[STARTS[3] : STARTS[3] + 12] = bytes(12)  # a header: the data show that it was one record
    assert lost(repaired(bytes(damaged), tmp_path)[1]) == [(3, 1, STARTS[3], STARTS[4])]


@loop_over("place", [0, STARTS[4], STARTS[4] + 5, STARTS[4] + 30, STARTS[8]])
def test_inserted_bytes(place: int, tmp_path: Path) -> None:
    more = random.Random(1).randbytes(9)
    kept, report = repaired(WHOLE[:place] + more + WHOLE[place:], tmp_path)
    hit = [] if place in STARTS else [4]
    assert kept == without(*hit)
    assert (report.losses[0].start, report.losses[-1].stop) == (
        STARTS[4] if hit else place,
        (STARTS[5] if hit else place) + 9,
    )


@loop_over("first, stop, hit", [(3, 9, [0]), (60, 90, [2]), (STARTS[2] + 200, STARTS[4] + 5, [2, 3, 4])])
def test_removed_bytes(first: int, stop: int, hit: list[int], tmp_path: Path) -> None:
    kept, report = repaired(WHOLE[:first] + WHOLE[stop:], tmp_path)
    assert kept == without(*hit)
    assert (report.losses[0].index, report.losses[0].start) == (hit[0], STARTS[hit[0]])
    assert report.losses[-1].stop == STARTS[hit[-1] + 1] - (stop - first)


def test_swapped_headers(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE)
    for one, other in ((2, 6), (6, 2)):
        damaged[STARTS[one] : STARTS[one] + 12] = WHOLE[STARTS[other] : STARTS[other] + 12]
    kept, report = repaired(bytes(damaged), tmp_path)
    assert kept == without(2, 6)
    assert [loss.start for loss in report.losses] == [STARTS[2], STARTS[6]]


def test_swallowed_records_are_kept(tmp_path: Path) -> None:
    """Its end is a header, so only the frames inside show that the length is wrong."""
    swallowing = frames(bytes(STARTS[4] - STARTS[2] - 16))[:12]
    kept, report = repaired(WHOLE[: STARTS[2]] + swallowing + WHOLE[STARTS[2] + 12 :], tmp_path)
    assert kept == without(2)
    assert lost(report) == [(2, 1, STARTS[2], STARTS[3])]


@loop_over("n", [1, 7, 11, 12, 40, 5000])
@loop_over("fill", ["zeros", "noise"])
def test_garbage_behind_the_records(n: int, fill: str, tmp_path: Path) -> None:
    garbage = bytes(n) if fill == "zeros" else random.Random(2).randbytes(n)
    kept, report = repaired(WHOLE + garbage, tmp_path)
    assert kept == RECORDS
    assert lost(report) == [(8, None, STARTS[8], STARTS[8] + n)]
    assert report.lost == 0


def test_an_empty_file_and_nothing_but_garbage(tmp_path: Path) -> None:
    kept, report = repaired(b"", tmp_path)
    assert (kept, report.ok) == ([], True)
    kept, report = repaired(random.Random(3).randbytes(500), tmp_path)
    assert (kept, lost(report)) == ([], [(0, None, 0, 500)])


def test_frames_inside_records_are_not_kept(tmp_path: Path) -> None:
    """Frames in the data of a damaged record are no records."""
    inner = frames(*(b"inner %d" % number * 5 for number in range(4)))
    records = [b"first", inner, b"third"]
    whole = frames(*records)
    for place in (21 + 2, 21 + 9, 21 + 12 + 40, 21 + 12 + len(inner)):  # length, its checksum, data, its checksum
        kept, report = repaired(flipped(whole, place), tmp_path)
        assert (kept, report.lost) == ([b"first", b"third"], 1), place
    for stop in range(21 + 12, 21 + 16 + len(inner), 23):
        assert repaired(whole[:stop], tmp_path)[0] == [b"first"]


def test_records_longer_than_a_window(tmp_path: Path) -> None:
    rng = random.Random(4)
    records = [rng.randbytes(size) for size in (10, 3_000_000, 20, 2_500_000, 30)]
    whole = frames(*records)
    kept, report = repaired(whole, tmp_path)
    assert (kept, report.ok) == (records, True)
    kept, report = repaired(flipped(whole, 2_000_000, len(whole) - 46 - 3), tmp_path)
    assert kept == [records[0], records[2], records[4]]
    assert [(loss.index, loss.records) for loss in report.losses] == [(1, 1), (3, 1)]
    kept, report = repaired(flipped(whole, 26 + 1), tmp_path)
    assert (kept, report.lost) == ([records[0], *records[2:]], 1)


EXPECTED = {
    "absurd_2pow40": [(2, 1, 52, 368)],
    "absurd_2pow62": [(2, 1, 52, 368)],
    "cut_in_data": [(5, 1, 471, 494)],
    "cut_in_footer": [(5, 1, 471, 514)],
    "cut_in_length": [(5, None, 471, 476)],
    "data_bit": [(3, 1, 368, 391)],
    "data_crc": [(3, 1, 368, 391)],
    "garbage_40": [(6, None, 516, 556)],
    "length_bit": [(2, 1, 52, 368)],
    "length_crc": [(2, 1, 52, 368)],
    "not_gzip": [],
}


@loop_over("name", EXPECTED)
def test_golden_tfrecords(name: str, tmp_path: Path) -> None:
    (source,) = (GOLDEN / "tfrecord" / "corrupt").glob(f"{name}.*")
    report = dataformats.repair(source, tmp_path / "x.tfrecord")
    assert lost(report) == EXPECTED[name]
    gone = {loss.index for loss in report.losses}
    whole = dataformats.open(GOLDEN / "tfrecord" / "raw.tfrecord", payload="bytes")
    assert list(dataformats.open(tmp_path / "x.tfrecord", payload="bytes")) == [
        whole[number] for number in range(6) if number not in gone
    ]


def test_compressed_files(tmp_path: Path) -> None:
    """Whole records before the damage; a wrong trailer, behind all data, costs nothing."""
    cut = dataformats.repair(GOLDEN / "tfrecord" / "corrupt" / "gzip_cut.tfrecord.gz", tmp_path / "cut.tfrecord.gz")
    assert (cut.kept, cut.ok) == (2, False)
    assert "compressed data end early" in cut.losses[-1].cause
    assert (tmp_path / "cut.tfrecord.gz").read_bytes().startswith(b"\x1f\x8b")
    trailer = dataformats.repair(GOLDEN / "tfrecord" / "corrupt" / "gzip_crc.tfrecord.gz", tmp_path / "all.tfrecord.gz")
    assert (trailer.kept, trailer.ok) == (5, True)
    assert "incorrect data check" in trailer.notes[0]


OFRECORDS = {
    "cut_in_data": [(4, 1, 310, 389)],
    "cut_in_length": [(4, None, 310, 315)],
    "garbage_20": [(5, None, 393, 413)],
    "garbage_3": [(5, None, 393, 396)],
    "huge_length": [(2, 1, 156, 231)],
    "length_2pow40": [(0, 1, 0, 76)],
    "negative_length": [(2, 1, 156, 231)],
}


@loop_over("name", OFRECORDS)
def test_golden_ofrecords(name: str, tmp_path: Path) -> None:
    """There are no checksums: every OFRecord of the length in its header is kept."""
    report = dataformats.repair(GOLDEN / "ofrecord" / "corrupt" / f"{name}.ofrecord", tmp_path / "x.ofrecord")
    assert lost(report) == OFRECORDS[name]
    gone = {loss.index for loss in report.losses}
    whole = dataformats.open(GOLDEN / "ofrecord" / "base.ofrecord")
    kept = dataformats.open(tmp_path / "x.ofrecord")
    expected = [number for number in range(5) if number not in gone]
    assert kept.read_bytes(range(len(kept))) == whole.read_bytes(expected)


def test_ofrecords_of_another_payload(tmp_path: Path) -> None:
    """Only lengths can be checked: everything before the first impossible one is kept."""
    malformed = GOLDEN / "ofrecord" / "corrupt" / "malformed.ofrecord"
    assert dataformats.repair(malformed, tmp_path / "some.ofrecord").kept == 2
    report = dataformats.repair(malformed, tmp_path / "all.ofrecord", source_options={"payload": "bytes"})
    assert (report.kept, report.ok) == (5, True)
    negative = GOLDEN / "ofrecord" / "corrupt" / "negative_length.ofrecord"
    report = dataformats.repair(negative, tmp_path / "front.ofrecord", source_options={"payload": "bytes"})
    assert (report.kept, lost(report)) == (2, [(2, None, 156, 393)])


def test_length_ending_between_entries_loses_one_record(tmp_path: Path) -> None:
    """The first entries of an OFRecord are an OFRecord, too, but others follow instead of a header."""
    path = tmp_path / "x.ofrecord"
    with dataformats.create(path, spec={"a": "int64", "b": "int64"}) as writer:
        writer.extend({"a": n, "b": n} for n in range(1, 5))
    data = bytearray(path.read_bytes())
    size = data[0] // 2
    whole = len(data) // 4
    data[whole] = size  # the second record ends behind its first entry
    path.write_bytes(data)
    report = dataformats.repair(path, tmp_path / "y.ofrecord", source_options={"payload": "ofrecord"})
    assert [record["a"] for record in dataformats.open(tmp_path / "y.ofrecord")] == [1, 3, 4]
    assert lost(report) == [(1, 1, whole, 2 * whole)]


def test_counts_are_exact_if_there_are_too_many_losses_to_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [bytes([i]) * 8 for i in range(10)]
    data = bytearray(frames(*records))
    for record in (1, 3, 4, 6, 8):
        data[24 * record + 14] ^= 1
    (tmp_path / "damaged.tfrecord").write_bytes(data)
    monkeypatch.setattr("dataformats.repairing._MAX_LOSSES", 2)
    done: list[tuple[int, int]] = []
    report = dataformats.repair(
        tmp_path / "damaged.tfrecord",
        tmp_path / "new.tfrecord",
        dry_run=True,
        progress=lambda *now: done.append(now),
    )
    assert lost(report) == [(1, 1, 24, 48), (3, 2, 72, 120)]
    assert (report.kept, report.lost, report.n_losses, report.n_unknown) == (5, 5, 4, 0)
    assert done == sorted(done)
    assert done[-1] == (len(data), len(data))
