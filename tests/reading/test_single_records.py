"""`src[i]` equals a batch of this one record: the same value, of the same types, or the same error."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.columns.batch_decoder import BatchDecoder
from dataformats.errors import DataFormatsError, FormatError, UnknownNameError
from dataformats.indexing import extent_table
from dataformats.interfaces.declared_spec import is_single
from dataformats.kernels import reads_batches
from dataformats.reading import blob_reader
from dataformats.reading.blob_source import BlobSource
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value
from tests.cases import GOLDEN

native = pytest.mark.skipif(not reads_batches(), reason="without compiled kernels each record is a batch of one")
FORMATS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name != "frozen")
MOST_RECORDS = 40


@pytest.fixture(autouse=True)
def _pinned_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent_table, "_CALL", 2**40)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each `src[i]` if its blobs were read by the short path."""
    found: list[bool] = []
    read = blob_reader.BlobReader.read_record

    def noted(self: Any, *arguments: Any) -> Any:
        blobs = read(self, *arguments)
        found.append(blobs is not None)
        return blobs

    monkeypatch.setattr(blob_reader.BlobReader, "read_record", noted)
    return found


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (DataFormatsError, IndexError, ImportError) as error:
        cause = error.__cause__
        return type(error), str(error), vars(error).keys(), type(cause), str(cause)


def agree(source: Any, index: int, *fields: Any) -> None:
    """Fail unless a record equals the record of a batch of one."""
    alone = outcome(lambda: source[(index, *fields)] if fields else source[index])
    batch = outcome(lambda: source.read([index], *fields)[0])
    assert is_same_value(alone, batch) or alone == batch, f"record {index}: {alone!r} and {batch!r}"
    assert not isinstance(alone, dict) or list(alone) == list(batch)


def opened(path: Path, options: dict[str, Any]) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with dataformats.open(path, **options) as source:
                assert source.spec is not None
                yield source
        except (DataFormatsError, ValueError, OSError, ImportError):
            return  # reading it is refused as a whole


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("options", [{}, {"cache": "memory"}, {"verify_checksums": False}], ids=str)
def test_golden_files(format: str, options: dict[str, Any]) -> None:
    files = [path for path in (GOLDEN / format).rglob("*") if path.is_file()]

    @loop_over("path", sorted({path.parent for path in files} if format == "granular" else files))
    def check(path: Path) -> None:
        for source in opened(path, options):
            n = outcome(source.__len__)
            for index in range(min(MOST_RECORDS, n)) if isinstance(n, int) else ():
                for _ in range(2):  # the second time from the pinned table
                    agree(source, index)
                if not is_single(source):
                    agree(source, index, tuple(source.spec)[-1:])

    check()


@native
@pytest.mark.parametrize("options", [{}, {"cache": "memory"}, {"io": "mmap"}, {"io": "threads"}], ids=str)
@pytest.mark.parametrize(
    "name",
    ["ffrecord/many_1000.ffr", "tfrecord/many_1000.tfrecord", "real", "ofrecord/many_1000.ofrecord", "syrah/base.syr"],
)
def test_sound_records_take_the_short_path(name: str, options: dict[str, Any], short: list[bool]) -> None:
    path = str(GOLDEN / name) if name != "real" else str(GOLDEN / "real" / "digits-*")
    with dataformats.open(path, **options) as source:
        for _ in range(2):
            source.read(range(len(source)))  # loads the indexes of all files, and then pins their extents
        short.clear()
        for index in range(len(source) - 1, -1, -max(1, len(source) // 20)):
            agree(source, index)
        assert short
        assert all(short)


SPEC = {"x": "float32", "n": "int64", "text": "utf8?", "tokens": "int32[]", "image": "uint8[2,2]", "raw": "bytes"}


def record(i: int) -> dict[str, Any]:
    whole = {"x": i / 2, "n": -i, "tokens": range(i), "image": np.full((2, 2), i, np.uint8), "raw": bytes(i)}
    return whole | ({} if i % 3 else {"text": "é" * i})


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "data.tfrecord"
    with dataformats.create(path, "tfrecord", spec=SPEC) as writer:
        writer.extend(map(record, range(30)))
    return path


def test_any_kind_of_index_and_view(many: Path) -> None:
    source = dataformats.open(many)
    views = {
        "slice": (source[3:20:2], range(3, 20, 2)),
        "taken": (source.take([5, 5, 29]), [5, 5, 29]),
        "shard": (source.shard(1, 3), range(10, 20)),
        "joined": (dataformats.concat([source[:4], source[9:11]]), [0, 1, 2, 3, 9, 10]),
        "taken twice": (source[::-1].take(np.array([0, 3])), [29, 26]),
    }
    for _ in range(2):
        for view, numbers in views.values():
            for position, number in enumerate(numbers):
                for index in (position, position - len(view), np.int32(position), np.uint64(position)):
                    assert is_same_value(view[index], source.read([number])[0])
                    assert is_same_value(view.select("n", "text")[index], source.read([number], ["n", "text"])[0])
                    assert is_same_value(view[index, {"tokens": range(0)}]["tokens"], np.zeros(0, np.int32))
            for index in (len(view), -len(view) - 1, 2**70):
                with pytest.raises(IndexError, match=f"index {index} is out of range for {len(view)} records"):
                    view[index]
            mapped = view.map(lambda found: {"n": np.int64(found["n"]), "more": found.get("text")})
            assert [is_same_value(mapped[i], mapped.read([i])[0]) for i in range(len(view))] == [True] * len(view)
    wrong: Any
    for wrong in ("n", 1.0, None, [1], np.bool_(True)):
        with pytest.raises(TypeError, match="expected an index or a slice"):
            source[wrong]
    with pytest.raises(UnknownNameError, match="unknown field 'm'"):
        source["m"]


def test_arrays_belong_to_the_caller(many: Path) -> None:
    source = dataformats.open(many)
    for _ in range(3):
        found = source[7]
        for name in ("tokens", "image"):
            assert found[name].flags.writeable
            found[name][:] = 9
        assert is_same_value(source[7], source.read([7])[0])
        assert pickle.loads(pickle.dumps(found))["image"].tolist() == [[9, 9], [9, 9]]


@native
def test_unfitting_values_raise_the_error_of_a_batch(many: Path) -> None:
    wrong: list[dict[str, Any]] = [
        *({"spec": SPEC | {name: kind}} for name, kind in [("n", "uint8"), ("x", "int64"), ("tokens", "int32[3]")]),
        {"spec": SPEC | {"raw": "utf8", "image": "uint8[2,3]"}},
        {"spec": SPEC | {"raw": "json"}},
        {"spec": SPEC | {"text": "utf8"}},
        {"payload": "bytes", "max_record_bytes": 90},
        {"payload": "utf8"},
        {"payload": "msgpack"},
    ]
    for options in wrong:
        source = dataformats.open(many, **options)
        for _ in range(2):
            for index in range(30):
                agree(source, index)


@native
@pytest.mark.parametrize("change", ["cut", "flip", "touch", "replace", "delete"])
def test_changed_file_raises_for_single_records(change: str, tmp_path: Path) -> None:
    path = tmp_path / "data.ffr"
    with dataformats.create(path, "ffrecord", payload="bytes") as writer:
        writer.extend(bytes([i]) * 1000 for i in range(20))
    source = dataformats.open(path)
    assert source[0] == source[0] == bytes(1000)
    stat = path.stat()
    if change == "cut":
        os.truncate(path, stat.st_size - 1)
    elif change == "flip":
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    elif change == "touch":
        os.utime(path, ns=(1, 1))
    elif change == "replace":
        path.rename(tmp_path / "old")
        path.write_bytes(b"other")
        (tmp_path / "old").unlink()
    else:
        path.unlink()
    with pytest.raises(FormatError):
        source[19]
    agree(source, 19)
    agree(source, 0)


@pytest.mark.parametrize("options", [{}, {"cache": "memory"}, {"io": "mmap"}], ids=str)
def test_closed_sources_threads_and_forks(options: dict[str, Any], many: Path) -> None:
    source = dataformats.open(many, **options)
    expected = list(source)

    def read(_: Any) -> bool:
        return all(is_same_value(source[i], expected[i]) for i in range(-30, 30))

    assert read(0)
    source.close()
    assert read(0)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(12)))
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(0 if read(0) else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert pickle.loads(pickle.dumps(source))[4]["n"] == -4


def calls(work: Callable[[], Any]) -> int:
    """Return the number of Python functions that a call runs."""
    n = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal n
        n += event == "call"

    gc.collect()  # else what other tests left may be finalized meanwhile
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return n


@native
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("ffrecord/many_1000.ffr", 22),
        ("tfrecord/many_1000.tfrecord", 22),
        ("real/digits-00000-of-00003.tfrecord", 22),
        ("syrah/many_2000.syr", 30),
    ],
)
def test_a_record_takes_few_python_calls(name: str, most: int) -> None:
    with dataformats.open(GOLDEN / name) as source:
        for _ in range(3):
            assert source[5] is not None
        assert calls(lambda: source[5]) <= most
        assert calls(lambda: source[2:9][3]) <= most + 12  # a finalizer may run, too


def test_errors_of_memory_pass_through(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = dataformats.open(many)
    assert source[0]["n"] == source[0]["n"] == 0

    def refuse(*arguments: Any) -> Any:
        raise MemoryError

    for name in ("decode_record", "decode"):
        for kind in (BatchDecoder, *BatchDecoder.__subclasses__()):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, refuse)
    with pytest.raises(MemoryError):
        source[0]


@pytest.mark.parametrize("name", ["ffrecord/base.ffr", "ffrecord/corrupt/data_bit.ffr", "tfrecord/many_1000.tfrecord"])
def test_stored_records_are_the_stored_bytes_by_either_path(name: str) -> None:
    with dataformats.open(GOLDEN / name, payload="bytes") as source:
        assert isinstance(source, BlobSource)
        for number in range(min(len(source), MOST_RECORDS)):
            expected = outcome(lambda number=number: [source.read_bytes([number])[0]])  # type: ignore[misc]
            for _ in range(2):  # the second call has a table of extents
                assert outcome(lambda number=number: [*map(bytes, source.stored_record(number))]) == expected  # type: ignore[misc]


def test_stored_records_have_the_blobs_of_fields() -> None:
    with dataformats.open(GOLDEN / "syrah" / "base.syr") as source:
        assert isinstance(source, BlobSource)
        for _ in range(2):
            text, number = source.stored_record(2, ("s", "id"))
            assert (bytes(text).decode(), int.from_bytes(bytes(number), "little")) == ("text 2 é", 2)
