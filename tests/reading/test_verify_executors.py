"""`verify` in executors: the findings, their order and all counts equal the results of one process."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dataformats
from tests.cases import GOLDEN

N = 100
SPEC = {"n": "int64", "text": "utf8"}


class Pickling(Executor):
    """Runs a task on a copy, as another process does."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        copied, arguments = pickle.loads(pickle.dumps((function, args)))
        try:
            future.set_result(pickle.loads(pickle.dumps(copied(*arguments, **named))))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture(autouse=True)
def _short_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.inspecting.checks._TASK_PARTS", 2)
    monkeypatch.setattr("dataformats.reading.scan._SCAN_RECORDS", 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source, and a copy with every 3rd record changed, 15 texts changed, and one byte damaged."""
    folder = tmp_path_factory.mktemp("verify")
    with dataformats.create(folder / "source.tfrecord", spec=SPEC) as writer:
        writer.extend({"n": i, "text": f"text {i}"} for i in range(N))
    with dataformats.create(folder / "copy.ffr", spec=SPEC) as writer:
        writer.extend({"n": i - (i % 3 == 0), "text": f"text {i}"[: 5 if 40 <= i < 55 else None]} for i in range(N))
    data = bytearray((folder / "copy.ffr").read_bytes())
    data[data.index(b"text 77")] ^= 1
    (folder / "copy.ffr").write_bytes(data)
    data = bytearray((folder / "source.tfrecord").read_bytes())
    data[data.index(b"text 30")] ^= 1
    (folder / "damaged.tfrecord").write_bytes(data)
    return folder


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "alone": ("copy.ffr", {}),
    "inferred": ("damaged.tfrecord", {}),
    "against": ("copy.ffr", {"against": "source.tfrecord"}),
    "against damaged": ("copy.ffr", {"against": "damaged.tfrecord"}),
    "fields": ("copy.ffr", {"against": "source.tfrecord", "fields": ["text"]}),
    "shuffled": ("copy.ffr", {"against": "source.tfrecord", "shuffle_seed": 3}),
    "where": ("copy.ffr", {"against": "damaged.tfrecord", "where": lambda record: record["n"] % 2 == 0}),
    "limit": ("copy.ffr", {"against": "source.tfrecord", "limit": 50}),
}


@pytest.mark.parametrize("name", WAYS)
def test_executors_give_the_findings_of_one_process(name: str, folder: Path) -> None:
    path, options = WAYS[name]
    options = {**options, **({"against": str(folder / options["against"])} if "against" in options else {})}
    expected = dataformats.verify(folder / path, **options)
    assert expected.findings
    with ThreadPoolExecutor(3) as threads, Pickling() as copies:
        for executor in (threads, copies):
            report = dataformats.verify(folder / path, executor=executor, **options)
            assert replace(report, seconds=expected.seconds) == expected


def test_executors_find_omitted_records(folder: Path) -> None:
    source, path = folder / "damaged.tfrecord", folder / "omitted.syr"
    dataformats.convert(source, path, on_corrupt="omit")
    expected = dataformats.verify(path, against=source)
    assert [finding.kind for finding in expected.findings] == ["ChecksumError"]
    assert dataformats.verify(path, against=source, executor=Pickling()).findings == expected.findings


def test_executors_find_data_unlike_their_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "cut.tfrecord"
    with dataformats.create(path, spec=SPEC) as writer:
        writer.extend({"n": i, "text": str(i)} for i in range(N))
    path.write_bytes(path.read_bytes()[:-200])
    expected = dataformats.verify(path)
    assert not expected.ok
    assert dataformats.verify(path, executor=Pickling()).findings == expected.findings


def test_executors_check_files_of_different_formats() -> None:
    paths = [str(GOLDEN / "ffrecord" / "corrupt" / "data_bit.ffr"), str(GOLDEN / "real" / "photos.tfrecord")]
    expected = dataformats.verify(paths)
    assert dataformats.verify(paths, executor=Pickling()).findings == expected.findings


def test_an_error_of_a_task_is_raised(folder: Path) -> None:
    class Failing(Pickling):
        def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(MemoryError("none left"))
            return future

    with pytest.raises(MemoryError, match="none left"):
        dataformats.verify(folder / "copy.ffr", executor=Failing())


def test_conflicting_arguments_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray.cloudpickle", raising=False)  # it pickles functions by value
    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match="not both"):
        dataformats.verify(folder / "copy.ffr", executor=threads, workers=2)
    source = dataformats.open(folder / "source.tfrecord").map(lambda record: record)
    with pytest.raises(TypeError, match="cannot send"):
        dataformats.verify(source, workers=2)
