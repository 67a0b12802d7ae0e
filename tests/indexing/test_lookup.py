"""Lookup of extents by record number: by the kernels or without them, with the same answers, and bounded memory."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dataformats
from dataformats.backends.framed.framing import Framing
from dataformats.backends.ofrecord import layout as ofrecord
from dataformats.backends.tfrecord import layout as tfrecord
from dataformats.errors import FormatError
from dataformats.indexing import lookup
from dataformats.indexing.file_index import ArrayIndex, FieldIndex, LazyProblems, PackedRows
from dataformats.indexing.lookup import Part, RecordLookup, split_by_file
from dataformats.indexing.memory_budget import MemoryBudget
from dataformats.interfaces import Extents
from dataformats.kernels import reads_batches
from dataformats.reading.blob_source import BlobSource
from dataformats.spec import VALUE
from tests.campaign import share


def array_index(file: int, n: int, *, stored: bool = True) -> ArrayIndex:
    """Every number tells the file and the record; each 97th record is a problem."""
    at = np.arange(n)
    wrong = at % 97 == 5
    problems = LazyProblems(wrong, lambda position: FormatError(f"{file}:{position}"))
    checksums = (at * 7 + file).astype(np.uint32) if stored else None
    return ArrayIndex(at + 1000 * file, at % 13 + file, checksums, problems)


def expected(counts: list[int], indices: NDArray[np.int64], stored: bool) -> Extents:
    parts = [array_index(file, n, stored=stored) for file, n in enumerate(counts)]
    pairs = [(file, record) for file, n in enumerate(counts) for record in range(n)]
    found = [pairs[index] for index in indices.tolist()]
    return Extents(
        np.array([file for file, _ in found], np.int32),
        np.array([parts[file].offset[record] for file, record in found], np.int64),
        np.array([parts[file].length[record] for file, record in found], np.int64),
        stored=np.array([parts[file].stored[record] for file, record in found], np.uint32) if stored else None,
        problems={at: parts[f].problems[r] for at, (f, r) in enumerate(found) if r in parts[f].problems},
    )


def assert_same(found: Extents, right: Extents) -> None:
    assert np.array_equal(found.file, right.file)
    assert np.array_equal(found.offset, right.offset)
    assert np.array_equal(found.length, right.length)
    if len(right.file):  # a lookup of no records has no checksums
        assert (found.stored is None) == (right.stored is None)
        assert found.stored is None or right.stored is None or np.array_equal(found.stored, right.stored)
    assert {at: str(error) for at, error in found.problems.items()} == {
        at: str(error) for at, error in right.problems.items()
    }


def starts_of(counts: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class OnDemand:
    """An index that is read in blocks of 64 records."""

    digest = ""

    def __init__(self, index: ArrayIndex) -> None:
        self.part = index.part
        self._n = len(index)

    def __len__(self) -> int:
        return self._n

    def packed(self) -> PackedRows:
        raise NotImplementedError


def find(counts: list[int], indices: NDArray[np.int64], part: Part | None = None) -> Extents:
    tables: list[FieldIndex] = [array_index(file, n) for file, n in enumerate(counts)]
    if part is not None:
        tables = [OnDemand(array_index(file, n)) for file, n in enumerate(counts)]
    read = part or (lambda file, first, stop: tables[file].part(first, stop))
    return RecordLookup(starts_of(counts), tables.__getitem__, None, local=True).find(indices, read)


@settings(max_examples=share(40), deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=5), st.integers(0, 2**32))
def test_arrays_of_several_files(counts: list[int], seed: int) -> None:
    rng, n = np.random.default_rng(seed), sum(counts)
    for size in (0, 1, 40, 3000):
        indices = rng.integers(0, n, size) if n else np.zeros(0, np.int64)
        assert_same(find(counts, indices), expected(counts, indices, True))
        found = find(counts, indices, lambda file, first, stop: array_index(file, counts[file]).part(first, stop))
        assert_same(found, expected(counts, indices, True))


def test_unreadable_index_fails_only_its_own_records() -> None:
    counts = [10, 10, 10]

    def part(file: int, first: int, stop: int) -> ArrayIndex:
        if file == 1:
            raise FormatError("broken")
        return array_index(file, 10).part(first, stop)

    found = find(counts, np.arange(0, 30, 3), part)
    right = expected(counts, np.arange(0, 30, 3), True)
    assert found.problems.keys() == {4, 5, 6}
    others = np.flatnonzero(found.file != 1)
    assert np.array_equal(found.offset[others], right.offset[others])


@settings(max_examples=share(40), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=300), st.integers(0, 2**32))
def test_records_by_file(counts: list[int], seed: int) -> None:
    starts, n = starts_of(counts), sum(counts)
    indices = np.random.default_rng(seed).integers(0, n, 100) if n else np.zeros(0, np.int64)
    where = split_by_file(starts, indices)
    file = np.repeat(np.arange(len(counts)), counts)[indices]
    assert where.file.tolist() == file.tolist()
    assert where.local.tolist() == (indices - starts[file]).tolist()
    rows = {number: np.arange(len(indices))[group].tolist() for number, group in where.groups.items()}
    assert rows == {number: np.flatnonzero(file == number).tolist() for number in sorted(set(file.tolist()))}


# ---- packed indexes, which the kernels look up


FRAMINGS: dict[str, Framing] = {"tfrecord": tfrecord.FRAMING, "ofrecord": ofrecord.FRAMING}


def write(folder: Path, name: str, lengths: list[NDArray[np.int64]]) -> list[Path]:
    paths = [folder / f"{file}.{name}" for file in range(len(lengths))]
    for path, each in zip(paths, lengths, strict=True):
        with dataformats.create(path, name, payload="bytes") as writer:
            writer.extend(bytes([i % 251]) * n for i, n in enumerate(each.tolist()))
    return paths


@pytest.mark.parametrize("place", ["memory", "files"])
@pytest.mark.parametrize("name", ["tfrecord", "ofrecord", "ffrecord"])
@settings(max_examples=share(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.sampled_from([0, 1, 63, 64, 65, 200]), min_size=1, max_size=3),
    longest=st.sampled_from([0, 1, 300, 70_000]),
    seed=st.integers(0, 2**32),
)
def test_packed_indexes(
    counts: list[int],
    longest: int,
    seed: int,
    name: str,
    place: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The offsets are those of back-to-back frames, whatever the width of the columns and wherever they lie."""
    monkeypatch.setattr(lookup, "INDEX_MEMORY", MemoryBudget(2**30 if place == "memory" else 0))
    rng = np.random.default_rng(seed)
    lengths = [rng.integers(1 if longest else 0, longest + 1, n) if longest else np.full(n, 5) for n in counts]
    source = dataformats.open(write(tmp_path_factory.mktemp("data"), name, lengths), format=name, payload="bytes")
    assert isinstance(source, BlobSource)
    n = sum(counts)
    records = rng.integers(0, n, 100) if n else np.zeros(0, np.int64)
    extents = source.reader.locate(records, {VALUE: True})[VALUE].extents
    file = np.repeat(np.arange(len(counts)), counts)[records]
    row = records - starts_of(counts)[file]
    framing = FRAMINGS.get(name)
    head, extra = (framing.head, framing.extra) if framing is not None else (0, 0)
    begins = [
        (12 + 12 * len(each) if framing is None else 0) + head + np.cumsum(each + extra) - each - extra
        for each in lengths
    ]
    assert extents.file.tolist() == file.tolist()
    assert extents.length.tolist() == [int(lengths[f][r]) for f, r in zip(file, row, strict=True)]
    assert extents.offset.tolist() == [int(begins[f][r]) for f, r in zip(file, row, strict=True)]
    assert not extents.problems
    assert [*source.read_bytes(records)] == [
        bytes([r % 251]) * int(lengths[f][r]) for f, r in zip(file, row.tolist(), strict=True)
    ]


@pytest.mark.parametrize("place", ["memory", "files"])
def test_damaged_truncated_and_replaced_indexes_mislead_nobody(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte of an index flipped, cut off, or taken from the index of another file, before and between reads."""
    monkeypatch.setattr(lookup, "INDEX_MEMORY", MemoryBudget(2**30 if place == "memory" else 0))
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    lengths = np.arange(150) % 7 + 250
    (path,) = write(tmp_path, "tfrecord", [lengths])
    blobs = [bytes([i % 251]) * n for i, n in enumerate(lengths.tolist())]
    os.utime(path, ns=(10**18, 10**18))
    assert [*dataformats.open(path, payload="bytes").read_bytes(np.arange(150))] == blobs
    (index,) = (tmp_path / "cache").rglob("*.idx")
    sound, records = index.read_bytes(), np.arange(0, 150, 7)
    damaged = [sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :] for at in range(0, len(sound), 5)]
    damaged += [sound[:at] for at in range(0, len(sound), 31)] + [bytes(len(sound)), sound[::-1]]
    for data in damaged:
        index.write_bytes(data)
        source = dataformats.open(path, payload="bytes")
        assert [*source.read_bytes(records)] == [blobs[i] for i in records]
        index.write_bytes(sound)
        source = dataformats.open(path, payload="bytes")
        assert len(source) == 150
        index.write_bytes(data)
        assert [*source.read_bytes(records)] == [blobs[i] for i in records]
        assert [*source.read_bytes(records)] == [blobs[i] for i in records]


@pytest.mark.skipif(not reads_batches(), reason="without compiled kernels no index is in memory")
def test_indexes_of_all_sources_share_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write(tmp_path, "tfrecord", [np.arange(1000)])
    budget = MemoryBudget(20_000)
    monkeypatch.setattr(lookup, "INDEX_MEMORY", budget)
    sources = [dataformats.open(path, payload="bytes") for _ in range(6)]
    assert [len(source.read([3, 999])) for source in sources] == [2] * 6
    assert 0 <= budget.left < 7_000
    sources.clear()
    gc.collect()
    assert budget.left == 20_000


def test_parts_of_an_index_have_its_problems() -> None:
    whole = array_index(3, 200)
    part = whole.part(100, 150)
    assert np.array_equal(part.offset, whole.offset[100:150])
    assert {at: str(error) for at, error in part.problems.items()} == {2: "3:102"}
    plain = ArrayIndex(whole.offset, whole.length, None, dict(whole.problems)).part(100, 150)
    assert {at: str(error) for at, error in plain.problems.items()} == {2: "3:102"}
    assert plain.stored is None


def test_compact_indexes_are_equal() -> None:
    """The smallest integers, and no memory for a number that all records have."""
    offset, length = np.array([300, 2**31, 7]), np.array([-1, 70_000, 9])
    for index in (ArrayIndex(offset, length), ArrayIndex(offset * 4, length % 100), ArrayIndex(offset[:0], length[:0])):
        compact = index.compact()
        assert (compact.offset.tolist(), compact.length.tolist()) == (index.offset.tolist(), index.length.tolist())
        assert compact.digest == index.digest
    kinds = ArrayIndex(offset, length).compact()
    assert [kinds.offset.dtype.name, kinds.length.dtype.name] == ["uint32", "int32"]
    assert ArrayIndex(offset, np.full(3, 8)).compact().length.strides == (0,)


def test_digests_are_of_lengths_and_checksums() -> None:
    offset, length, checksums = np.arange(3), np.array([5, 6, 7]), np.array([1, 2, 3], np.uint32)
    indexes = [
        ArrayIndex(offset, length, checksums),
        ArrayIndex(offset, length, checksums[::-1].copy()),
        ArrayIndex(offset, length),
        ArrayIndex(offset, length[::-1].copy(), checksums),
    ]
    assert len({index.digest for index in indexes}) == 4
    assert ArrayIndex(offset + 9, length, checksums).digest == indexes[0].digest
