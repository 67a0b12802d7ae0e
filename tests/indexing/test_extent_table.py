"""The pinned table of all extents: when it is built, and that it hides no damage and no changed file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.indexing import extent_table as tables
from dataformats.indexing.memory_budget import INDEX_MEMORY
from dataformats.interfaces import Reader
from dataformats.kernels import reads_batches
from dataformats.storage.native import fast_read
from dataformats.testing.loop_over import loop_over

pytestmark = pytest.mark.skipif(not reads_batches(), reason="without compiled kernels nothing is looked up by them")
FORMATS = {"tfrecord": "tfrecord", "ffrecord": "ffr", "ofrecord": "ofrecord", "syrah": "syr", "granular": "granular"}


@pytest.fixture(autouse=True)
def _opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files cost nothing: the few records of these tests would never pay for them."""
    monkeypatch.setattr(tables, "_FILE", 0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each read of a pinned table if it took the fast path."""
    found: list[bool] = []
    read = fast_read.read

    def noted(files: Any, located: Any, *arguments: Any) -> Any:
        stored = read(files, located, *arguments)
        if isinstance(located, fast_read.PinnedRows):
            found.append(stored is not None)
        return stored

    monkeypatch.setattr("dataformats.reading.blob_reader.read", noted)
    return found


def write(path: Path, format: str, n: int, first: int = 0) -> Path:
    spec = {"index": "int64", "wave": "float32[5]"}
    with dataformats.create(path, format, spec=spec) as writer:
        writer.extend({"index": i, "wave": np.full(5, i, np.float32)} for i in range(first, first + n))
    return path


@loop_over("format", FORMATS)
@loop_over("options", [{}, {"cache": "memory"}, {"io": "mmap"}])
def test_later_reads_use_the_pinned_table(
    format: str, options: dict[str, Any], tmp_path: Path, seen: list[bool]
) -> None:
    paths = [write(tmp_path / f"{k}.{FORMATS[format]}", format, 20, 20 * k) for k in range(3)]
    source = dataformats.open(paths, **options)
    numbers = np.random.default_rng(0).permutation(60)
    batches = [source.read(numbers) for _ in range(3)]
    for batch in batches:
        assert batch["index"].tolist() == numbers.tolist()
        assert batch["wave"][:, 4].tolist() == numbers.tolist()
        assert batch.indices.tolist() == numbers.tolist()
    assert seen[-1]
    numbers[:] = 0
    assert batches[-1].indices.any()  # a batch copies its numbers


def test_little_is_located_first(tmp_path: Path, seen: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of the records; each call counts as some records more."""
    monkeypatch.setattr(tables, "_CALL", 5)
    source = dataformats.open(write(tmp_path / "a.syr", "syrah", 1600))
    for _ in range(6):
        source.read(np.arange(11))
    assert not seen
    source.read(np.arange(11))
    assert seen == [True]


def test_many_files_are_not_opened_for_a_few_records(
    tmp_path: Path, seen: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_FILE", 256)
    paths = [write(tmp_path / f"{k}.granular", "granular", 2, 2 * k) for k in range(6)]
    source = dataformats.open(paths)
    for _ in range(6):
        assert [source[i]["index"] for i in (11, 4)] == [11, 4]
    assert not seen
    for _ in range(40):
        source.read([3])
    assert seen[-1]


def test_every_file_reaches_the_fast_path_of_single_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second record of each file takes it, although the indexes of later files are not loaded."""
    paths = [write(tmp_path / f"{k}.tfrecord", "tfrecord", 20, 20 * k) for k in range(5)]
    source = dataformats.open(paths)
    batches: list[Any] = []
    read = fast_read.read

    def noted(*arguments: Any) -> Any:
        batches.append(arguments)
        return read(*arguments)

    monkeypatch.setattr("dataformats.reading.blob_reader.read", noted)
    assert [source[i]["index"] for i in range(100)] == [*range(100)]
    assert len(batches) <= 5 + 5  # a batch for the first record of each file, and for the samples


def test_too_large_table_is_not_pinned(tmp_path: Path, seen: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INDEX_MEMORY, "left", 24 * 20 - 1)
    source = dataformats.open(write(tmp_path / "a.syr", "syrah", 20))
    assert source.read([3])["index"].tolist() == [3]
    assert not seen


def test_numbers_outside(tmp_path: Path, seen: list[bool]) -> None:
    source = dataformats.open(write(tmp_path / "a.ffr", "ffrecord", 20))
    for _ in range(2):
        source.read(np.arange(20))
    for wrong in (-1, 20, 2**62, -(2**63)):
        with pytest.raises(IndexError, match=rf"index {wrong} is out of range for 20 records"):
            source.read([0, wrong])
    assert seen == [True] * 2 + [False] * 4


def test_damage_is_still_reported(tmp_path: Path, seen: list[bool]) -> None:
    path = write(tmp_path / "a.tfrecord", "tfrecord", 20)
    data = bytearray(path.read_bytes())
    data[len(data) // 20 * 7 + 20] ^= 1
    path.write_bytes(data[:-3])
    source = dataformats.open(path, payload="example", spec={"index": "int64", "wave": "float32[5]"})
    assert len(source) == 20
    for _ in range(2):
        assert source.read([0, 5, 18])["index"].tolist() == [0, 5, 18]
        with pytest.raises(ChecksumError, match="record 7"):
            source.read(np.arange(19))
        with pytest.raises(TruncatedError, match="record 19"):
            source.read([3, 19])
        batch = source.read(np.arange(20), on_corrupt="omit")
        assert sorted(batch.failed) == [7, 19]
        assert len(batch) == 18
    assert seen[-4:] == [True, False, False, False]


def test_a_changed_file_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ffr", "ffrecord", 20)
    source = dataformats.open(path)
    source.read(np.arange(20))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(FormatError, match="changed"):
        source.read(np.arange(20))


def test_fields_and_sequences(tmp_path: Path, seen: list[bool]) -> None:
    """Fields with several blobs per record are located; other fields are not, in memory or out of it."""
    spec = {"few": "utf8[]", "one": "int64"}
    path = tmp_path / "a.granular"
    with dataformats.create(path, "granular", spec=spec) as writer:
        writer.extend({"few": ["x"] * (i % 3), "one": i} for i in range(20))
    source = dataformats.open(path, cache=["few"])
    assert [len(value) for value in source.read(np.arange(20))["few"]] == [i % 3 for i in range(20)]
    assert seen == []
    assert source.read(np.arange(20), fields=["one"])["one"].tolist() == [*range(20)]
    source.read(np.arange(20), fields=["one"])
    assert seen[-1]


def test_a_field_is_held_once_whichever_others_it_is_read_with(
    tmp_path: Path, seen: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MAX_CHOICES", 2)
    asked: list[str] = []
    source = dataformats.open(write(tmp_path / "a.syr", "syrah", 20))
    every = Reader.all_extents

    def noted(reader: Reader, field: str) -> Any:
        asked.append(field)
        return every(reader, field)

    monkeypatch.setattr(Reader, "all_extents", noted)
    for names in (["index"], ["wave", "index"], ["index", "wave"], ["wave"], ["index"]) * 3:
        batch = source.read(np.arange(20), fields=names)
        assert list(batch.columns) == names
        assert all(np.ravel(batch[name]).tolist()[-1] == 19 for name in names)
    assert sorted(asked) == ["index", "wave"]
    assert len(seen) == 15
    assert all(seen)
