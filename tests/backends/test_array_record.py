"""ArrayRecord beside the library array_record: golden files, damage, options, copies of remote files, forks."""

from __future__ import annotations

import gzip
import multiprocessing
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.array_record import BACKEND
from dataformats.errors import CorruptRecordError, FormatError, MissingExtraError
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

BLOCK = 2**16
ORIGINAL = pytest.importorskip("array_record.python.array_record_module", reason="array_record has no wheel here")


def record(i: int) -> bytes:
    return b"" if i == 3 else f"record {i} ".encode() * (i * 7 % 11 + 1)


def golden(folder: Path, name: str) -> Path:
    path = folder / f"{name}.array_record"
    path.write_bytes(gzip.decompress((GOLDEN / "array_record" / f"{path.name}.gz").read_bytes()))
    return path


@loop_over("name", ["default", "groups", "plain", "brotli", "snappy", "transposed"])
def test_reads_files_of_the_original(tmp_path: Path, name: str) -> None:
    src = dataformats.open(golden(tmp_path, name))
    assert (src.format, src.payload, len(src)) == ("array_record", "bytes", 20)
    assert list(src) == [record(i) for i in range(20)]
    order = [19, 3, 0, 7, 7, 13]
    assert list(src.read(order)["value"]) == [record(i) for i in order]
    assert src[-1] == record(19)
    assert dataformats.verify(src).ok


def test_empty_file_has_no_records(tmp_path: Path) -> None:
    src = dataformats.open(golden(tmp_path, "empty"))
    assert len(src) == 0
    assert list(src) == []
    with pytest.raises(IndexError):
        src.read([0])


@loop_over(
    "options, said",
    [
        ({}, "group_size:1,transpose:false,pad_to_block_boundary:false,zstd:3"),
        ({"group_size": 7, "compression": "none"}, "group_size:7,transpose:false,pad_to_block_boundary:false,uncompr"),
        ({"compression": "brotli:5"}, "group_size:1,transpose:false,pad_to_block_boundary:false,brotli:5"),
        ({"compression": "snappy"}, "group_size:1,transpose:false,pad_to_block_boundary:false,snappy"),
    ],
)
def test_original_reads_written_files(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    path = tmp_path / "x.array_record"
    with dataformats.create(path, payload="bytes", **options) as writer:
        writer.extend(record(i) for i in range(50))
    reader = ORIGINAL.ArrayRecordReader(str(path))
    assert reader.read_all() == [record(i) for i in range(50)]
    assert reader.writer_options_string().startswith(said)
    merged = tmp_path / "merged.array_record"
    dataformats.merge([path, path], merged)  # with the same options
    assert ORIGINAL.ArrayRecordReader(str(merged)).writer_options_string().startswith(said)
    assert len(dataformats.open(merged)) == 100


@loop_over("options", [{"group_size": 0}, {"compression": "gzip"}, {"compression": "snappy:3"}])
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with (
        pytest.raises(ValueError, match=next(iter(options))),
        dataformats.create(tmp_path / "x.array_record", payload="bytes", **options) as writer,
    ):
        writer.append(b"x")


def test_examples_are_converted_both_ways(tmp_path: Path) -> None:
    photos = dataformats.open(GOLDEN / "real" / "photos.tfrecord")
    path = tmp_path / "photos.array_record"
    assert dataformats.convert(photos, path).copied
    src = dataformats.open(path)
    assert (src.payload, src.spec) == ("example", photos.spec)
    assert dataformats.verify(src, against=photos).ok
    back = tmp_path / "back.tfrecord"
    assert dataformats.convert(path, back).copied
    assert back.read_bytes() == (GOLDEN / "real" / "photos.tfrecord").read_bytes()


# ---- damage


def damaged(path: Path, at: int, data: bytes) -> Path:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)
    return path


def test_impossible_size_is_damage(tmp_path: Path) -> None:
    """The file is of a fuzzer. The library has no message of its own for the size."""
    src = dataformats.open(golden(tmp_path, "too_large_size"), payload="bytes")
    with pytest.raises(CorruptRecordError, match="the chunk of the record cannot be read"):
        src[19]
    assert list(src.read(range(20), on_corrupt="omit").failed) == list(range(20))


def test_damaged_chunk_fails_its_records_only(tmp_path: Path) -> None:
    path = golden(tmp_path, "plain")
    at = path.read_bytes().index(record(5))
    src = dataformats.open(damaged(path, at, b"X"))
    with pytest.raises(CorruptRecordError, match=r"record 5 of '.*plain\.array_record'.*cannot be read.*hash"):
        src[5]
    batch = src.read(range(20), on_corrupt="omit")
    assert list(batch.failed) == [5]
    assert list(batch["value"]) == [record(i) for i in range(20) if i != 5]
    assert [finding.index for finding in dataformats.verify(path).findings] == [5]


@pytest.mark.parametrize("part", ["postscript", "table"])
def test_damaged_end_is_an_error_of_the_file(tmp_path: Path, part: str) -> None:
    path = golden(tmp_path, "plain")
    content = path.read_bytes()
    place = len(content) - BLOCK + 64 if part == "postscript" else content.rindex(b"group_size")
    with pytest.raises(FormatError, match=r"plain\.array_record"):
        len(dataformats.open(damaged(path, place, b"damage")))


@loop_over("size", [1, 64, 1000, BLOCK, 2 * BLOCK - 1])
def test_cut_file_is_an_error(tmp_path: Path, size: int) -> None:
    path = golden(tmp_path, "default")
    path.write_bytes(path.read_bytes()[:size])
    said = "the file was cut, or its writer was not closed" if size >= 64 else "no known format"
    with pytest.raises(FormatError, match=rf"default\.array_record.*{said}.*(R|r)un dataformats repair"):
        len(dataformats.open(path))


def test_mutated_files_give_right_records_or_errors(tmp_path: Path) -> None:
    """The library verifies all hashes: no damage crashes it, or gives another record."""
    contents = [golden(tmp_path, name).read_bytes() for name in ("default", "groups", "plain", "transposed")]
    wrong = 0
    for seed in range(60):
        dice = random.Random(seed)
        content = bytearray(contents[seed % 4])
        used = [at for at, byte in enumerate(content) if byte]
        at = dice.choice(used)
        content[at : at + 8] = dice.choice([bytes([content[at] ^ 1 << dice.randrange(8)]), b"\xff" * 8, bytes(8)])
        path = tmp_path / f"{seed}.array_record"
        path.write_bytes(content[: len(content) if seed % 5 else at])
        try:
            batch = dataformats.open(path, format="array_record", payload="bytes").read(range(20), on_corrupt="omit")
        except FormatError:
            wrong += 1
            continue
        wrong += len(batch.failed)
        assert list(batch["value"]) == [record(i) for i in batch.indices.tolist()]
    assert wrong > 20


@loop_over(
    "begins, ends, match",
    [(True, True, "yes"), (True, False, "damaged"), (False, True, "damaged"), (False, False, "no")],
)
def test_files_are_recognized_at_both_ends(tmp_path: Path, begins: bool, ends: bool, match: str) -> None:
    path = golden(tmp_path, "default")
    content = bytearray(path.read_bytes())
    content[:8] = content[:8] if begins else bytes(8)
    content[-BLOCK:] = content[-BLOCK:] if ends else bytes(BLOCK)
    path.write_bytes(content)
    assert BACKEND.sniff(LocalFile(path)).match == match


def test_record_beyond_the_limit_is_a_problem(tmp_path: Path) -> None:
    src = dataformats.open(golden(tmp_path, "default"), max_record_bytes=60)
    long = [i for i in range(20) if len(record(i)) > 60]
    assert list(src.read(range(20), on_corrupt="omit").failed) == long


# ---- places, threads, processes


def test_bytes_are_copied_to_a_temporary_file(tmp_path: Path) -> None:
    src = dataformats.open(golden(tmp_path, "groups").read_bytes())
    assert list(src) == [record(i) for i in range(20)]


def test_large_batches_are_read_by_threads(tmp_path: Path) -> None:
    path = tmp_path / "large.array_record"
    data = [np.random.default_rng(i).bytes(2**17) for i in range(40)]
    with dataformats.create(path, payload="bytes") as writer:
        writer.extend(data)
    src = dataformats.open(path)
    order = [39, *range(39), 5, 5]
    assert list(src.read(order)["value"]) == [data[i] for i in order]
    at = path.read_bytes().index(data[7][:1000])
    with pytest.raises(FormatError, match=r"large\.array_record"):
        dataformats.open(damaged(path, at + 10, b"XYZ")).read(order)


def _loaded(src: Any, out: Any) -> None:
    out.put([list(src.read([i, 0])["value"]) for i in range(20)])


def test_a_spawned_process_reads_an_opened_source(tmp_path: Path) -> None:
    src = dataformats.open(golden(tmp_path, "groups"))
    assert src[3] == b""  # the library has its threads now
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=_loaded, args=(src, out))
    process.start()
    assert out.get(timeout=240) == [[record(i), record(0)] for i in range(20)]
    process.join(240)
    assert process.exitcode == 0


def _refused(src: Any, out: Any) -> None:
    try:
        src.read([1])
    except RuntimeError as error:
        out.put(str(error))


def test_a_forked_process_gets_an_error(tmp_path: Path) -> None:
    src = dataformats.open(golden(tmp_path, "groups"))
    assert src[3] == b""
    context: Any = multiprocessing.get_context("fork")
    out = context.Queue()
    process = context.Process(target=_refused, args=(src, out))
    process.start()
    assert "array_record cannot be used after a fork" in out.get(timeout=240)
    process.join(240)


def test_error_of_the_system_keeps_its_number(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "missing" / "x")
    with pytest.raises(FileNotFoundError, match="No such file"):
        writer.append(b"x")


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden(tmp_path, "default")
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dataformats\[arrayrecord\]'"):
        len(dataformats.open(path))
