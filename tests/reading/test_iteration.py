"""Iteration equals indexing: it gives every record before the first one that raises, then its error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.interfaces.declared_spec import is_single
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading import scan
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value

N = 12
BLOBS = ("tfrecord", "tfrecord.gz", "ofrecord", "ffrecord")
FORMATS = (*BLOBS, "syrah", "granular-2", "granular-3")


def write(folder: Path, format: str, records: list[Any], **options: Any) -> Path:
    name, _, variant = format.replace(".gz", "-gz").partition("-")
    more: dict[str, Any] = {"generation": int(variant)} if variant in ("2", "3") else {}
    more |= {"compression": "gzip"} if variant == "gz" else {}
    path = folder / f"data-{format}"
    with dataformats.create(path, name, **options, **more) as writer:
        writer.extend(records)
    folder.joinpath(f"{path.name}.dataformats.json").unlink(missing_ok=True)
    return path


def of_another_shape(folder: Path, format: str, bad: int) -> tuple[Path, dict[str, Any]]:
    """Every record has two numbers, and the bad one three."""
    rows = [{"x": np.arange(3 if i == bad else 2, dtype=np.float32) + i} for i in range(N)]
    payload = {"payload": "example"} if format in BLOBS else {}
    return write(folder, format, rows, spec={"x": "float32[]"}, **payload), {"spec": {"x": "float32[2]"}, **payload}


def of_another_field(folder: Path, format: str, bad: int) -> tuple[Path, dict[str, Any]]:
    """The bad record lacks the field."""
    rows = [{} if i == bad else {"x": i} for i in range(N)]
    return write(folder, format, rows, spec={"x": "int64?"}, payload="example"), {
        "spec": {"x": "int64"},
        "payload": "example",
    }


def undecodable_field(folder: Path, format: str, bad: int) -> tuple[Path, dict[str, Any]]:
    rows = [{"x": b"\xff{" if i == bad else b"%d" % i} for i in range(N)]
    payload = {"payload": "example"} if format in BLOBS else {}
    return write(folder, format, rows, spec={"x": "bytes"}, **payload), {"spec": {"x": "json"}, **payload}


def undecodable_record(folder: Path, format: str, bad: int) -> tuple[Path, dict[str, Any]]:
    rows = [b"\xc1 no msgpack" if i == bad else bytes([i]) for i in range(N)]
    return write(folder, format, rows, payload="bytes"), {"payload": "msgpack"}


def damaged(folder: Path, format: str, bad: int) -> tuple[Path, dict[str, Any]]:
    """A byte of the bad record's data differs, or in Granular an end is out of order."""
    texts = [b"%03d" % i * 3 for i in range(N)]
    if format == "granular-3":
        path = write(folder, format, [{"x": text} for text in texts], spec={"x": "bytes"})
        ends = np.fromfile(path / "x.idx", "<u8")
        ends[bad] = 2**40
        ends.tofile(path / "x.idx")
        return path, {}
    path = write(folder, format, texts, payload="bytes")
    data = bytearray(path.read_bytes())
    data[data.index(texts[bad])] ^= 1
    path.write_bytes(data)
    return path, {"payload": "bytes"}


KINDS: dict[Callable[..., tuple[Path, dict[str, Any]]], tuple[str, ...]] = {
    of_another_shape: FORMATS,
    of_another_field: ("tfrecord", "tfrecord.gz", "ffrecord"),
    undecodable_field: (*BLOBS, "granular-2", "granular-3"),
    undecodable_record: BLOBS,
    damaged: ("tfrecord", "ffrecord", "granular-3"),
}
CASES = [(kind, format) for kind, formats in KINDS.items() for format in formats]


def views(source: Any) -> Iterator[Any]:
    yield source
    yield source.take(range(N))
    yield dataformats.concat([source])
    yield source.map(lambda record: record)
    if not is_single(source):
        yield source.select(*source.spec)


def check(source: Any, bad: int) -> None:
    with pytest.raises(dataformats.DataFormatsError) as wanted:
        source[bad]
    streamed: list[Any] = []
    with pytest.raises(type(wanted.value)) as found:
        streamed.extend(source)
    assert str(found.value) == str(wanted.value)
    assert len(streamed) == bad
    assert all(is_same_value(record, source[i]) for i, record in enumerate(streamed))


@pytest.mark.parametrize("bad", [0, 1, 7, N - 1])
@loop_over("kind, format", CASES)
def test_every_record_before_an_error_is_given(kind: Any, format: str, bad: int, tmp_path: Path) -> None:
    path, options = kind(tmp_path, format, bad)
    ways: list[dict[str, Any]] = [{}, {"cache": "memory"}] + ([] if format.endswith("gz") else [{"io": "mmap"}])
    for way in ways:
        source = dataformats.open(path, format=format.partition("-")[0].partition(".")[0], **options, **way)
        assert len(source) == N
        for view in views(source):
            check(view, bad)


@loop_over("format", ["tfrecord", "ffrecord", "granular-3"])
def test_of_several_errors_the_first_is_raised(format: str, tmp_path: Path) -> None:
    """A damaged record before one that does not fit the spec, and the other way round."""
    for damage, misfit in ((3, 8), (8, 3)):
        path, options = of_another_shape(tmp_path, format, misfit)
        if format == "granular-3":
            ends = np.fromfile(path / "x.idx", "<u8")
            ends[damage] = 2**40
            ends.tofile(path / "x.idx")
        else:
            data = bytearray(path.read_bytes())
            data[data.index((np.arange(2, dtype="<f4") + damage).tobytes())] ^= 1
            path.write_bytes(data)
        check(dataformats.open(path, **options), 3)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_records_before_an_error_of_a_function_are_given(tmp_path: Path) -> None:
    path = write(tmp_path, "ffrecord", [bytes([i]) for i in range(N)], payload="bytes")
    source = dataformats.open(path).map(lambda record: 1 // (7 - record[0]))
    streamed: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        streamed.extend(source)
    assert streamed == [source[i] for i in range(7)]


@pytest.mark.parametrize("format", ["tfrecord", "ffrecord"])
def test_records_before_an_error_of_a_large_step_are_given(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that fails as a whole, for any reason, is repeated record by record."""
    path = write(tmp_path, format, [bytes([i]) for i in range(N)], payload="bytes")
    source = dataformats.open(path, payload="bytes")
    decoder = type(source._schema.decoder)  # type: ignore[attr-defined]  # a BlobSource
    decode = decoder.decode

    def short_of_memory(self: Any, stored: Any, mask: Any) -> Any:
        found = decode(self, stored, mask)
        if bytes([7]) in list(found["value"]):
            raise MemoryError
        return found

    monkeypatch.setattr(decoder, "decode", short_of_memory)
    streamed: list[Any] = []
    with pytest.raises(MemoryError):
        streamed.extend(source)
    assert streamed == [bytes([i]) for i in range(7)]


def test_steps_end_with_the_blocks_of_tables(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    with dataformats.create(path, spec={"n": "int64"}, row_group_records=100) as writer:
        writer.extend({"n": n} for n in range(250))
    source = dataformats.open(path)
    assert list(scan.steps(source)) == [range(100), range(100, 200), range(200, 250)]
    assert list(scan.steps(source[50:150])) == [range(50), range(50, 100)]
    assert list(scan.steps(source.take([3, 1]))) == [range(2)]


def stored_bytes(source: Any) -> Iterator[bytes]:
    return (blob for records in source.scan_stored() for blob in records.blobs)


@loop_over("format", BLOBS)
def test_stored_bytes_before_damage_are_given(format: str, tmp_path: Path) -> None:
    path, options = undecodable_record(tmp_path, format, 5)
    if format in ("tfrecord", "ffrecord"):
        path.unlink()
        path, options = damaged(tmp_path, format, 5)
        source = dataformats.open(path, **options)
        streamed: list[Any] = []
        with pytest.raises(dataformats.ChecksumError):
            streamed.extend(stored_bytes(source))
        assert streamed == source.read_bytes(range(5))
        return
    source = dataformats.open(path, format=format.partition(".")[0], **options)
    assert list(stored_bytes(source)) == source.read_bytes(range(N))


def test_a_step_is_read_again_only_if_it_raises() -> None:
    asked: list[range] = []

    def read(part: range) -> list[int]:
        asked.append(part)
        if 5 in part:
            raise ValueError("five")
        return list(part)

    found: list[Any] = []
    with pytest.raises(ValueError, match="five"):
        found.extend(scan.read_parts(read, [range(3), range(3, 8), range(8, 9)]))
    assert found == [[0, 1, 2], [3], [4]]
    assert asked == [range(3), range(3, 8), range(3, 4), range(4, 5), range(5, 6)]


@loop_over("format", ["tfrecord", "tfrecord.gz", "ofrecord", "ffrecord"])
def test_files_in_memory_are_iterated_there(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [bytes([i]) * 20 for i in range(N)]
    path = write(tmp_path, format, rows, payload="bytes")
    source = dataformats.open(path, format=format.partition(".")[0], payload="bytes", cache="memory")
    assert source[0] == rows[0]
    os.truncate(path, 10)
    assert list(source) == list(stored_bytes(source)) == rows
    path.unlink()
    read: list[StoredFile] = []
    monkeypatch.setattr(LocalFile, "read_into", lambda file, *_: read.append(file))
    assert list(source) == list(stored_bytes(source)) == rows
    assert read == []


@loop_over("format", ["tfrecord", "tfrecord.gz", "ofrecord"])
def test_an_error_behind_the_first_window_has_its_place(format: str, tmp_path: Path) -> None:
    blobs = [b'"%0998d"' % i if i != 250 else b"no JSON" for i in range(300)]
    path = write(tmp_path, format, blobs, payload="bytes")
    src = dataformats.open(path, payload="json", format=format.removesuffix(".gz"))
    with pytest.raises(dataformats.FormatError) as expected:
        src[250]
    with pytest.raises(dataformats.FormatError) as found:
        list(src)
    place = 250 * (8 + 1000) + 8 if format == "ofrecord" else 250 * (12 + 1000 + 4) + 12
    assert found.value.offset_bytes == expected.value.offset_bytes == place
