"""Statistics of a loader: where its time goes, the change that would help most, and the report of each minute."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.interfaces import FieldOperation
from dataformats.loaders import prefetch_threads
from dataformats.loaders import stats as module
from dataformats.loaders.adapters import as_readable
from dataformats.loaders.advice import IN_MEMORY, IN_WINDOWS, ON_DISK, LoaderSetup
from dataformats.loaders.prefetcher import BuiltBatch, Timings
from dataformats.loaders.stats import LoaderStats, Totals
from dataformats.reading.blob_source import BlobSource
from dataformats.storage import threads
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.testing.loop_over import loop_over
from tests.loaders.fake_clock import CLOCK
from tests.waiting import LIMIT_S, wait_until

REAL = Path(__file__).parents[1] / "golden" / "real"
STAGES = ("read", "decode", "transform", "collate", "transfer")
SLOW_S = 0.004


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give hints after a moment of the fake clock, as on a machine with 8 processors."""
    CLOCK.install(monkeypatch)
    monkeypatch.setattr(module, "_MIN_S", 0.05)
    monkeypatch.setattr(threads, "N_THREADS", 8)


class SlowItems:
    """A source that sleeps."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        CLOCK.sleep(SLOW_S)
        return {"n": index}


class SlowOperation(FieldOperation):
    name = "SlowOperation"

    def decode_batch(self, blobs: Any, generator: Any) -> Any:
        CLOCK.sleep(SLOW_S * len(blobs))
        return np.array([len(blob) for blob in blobs])


def slow(value: Any) -> Any:
    CLOCK.sleep(SLOW_S)
    return value


def slow_collate(records: list[Any]) -> dict[str, Any]:
    CLOCK.sleep(SLOW_S * len(records))
    return {"n": np.arange(len(records))}


def loader_of(stage: str, workers: int, **more: Any) -> dataformats.Loader:
    """Return a loader whose batches of 4 records take 16 ms in one stage."""
    plain = [{"n": index} for index in range(40)]
    if stage == "read":
        return dataformats.Loader(SlowItems(), 4, workers=workers, **more)
    if stage == "decode":
        blobs = [{"blob": bytes(index)} for index in range(40)]
        return dataformats.Loader(blobs, 4, workers=workers, decode={"blob": SlowOperation()}, **more)
    if stage == "batch_transform":
        several = lambda batch: slow(slow(slow(slow(batch))))  # noqa: E731
        return dataformats.Loader(plain, 4, workers=workers, batch_transform=several, **more)
    functions: dict[str, Any] = {"transform": slow, "collate": slow_collate}
    return dataformats.Loader(plain, 4, workers=workers, **{stage: functions[stage]}, **more)


@pytest.fixture
def builds_when_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads build a batch only when the caller waits for it, which takes the caller as long."""
    awaited, changed = set[Any](), threading.Condition()
    run, wait_for = prefetch_threads._BatchTask.run, prefetch_threads.ThreadPrefetcher._wait_for

    def run_when_awaited(job: Any, build: Any) -> None:
        with changed:
            assert changed.wait_for(lambda: job in awaited, LIMIT_S)
        run(job, build)

    def wait_for_slowly(prefetcher: Any, job: Any) -> None:
        with changed:
            awaited.add(job)
            changed.notify_all()
        wait_for(prefetcher, job)
        CLOCK.sleep(4 * SLOW_S)

    monkeypatch.setattr(prefetch_threads._BatchTask, "run", run_when_awaited)
    monkeypatch.setattr(prefetch_threads.ThreadPrefetcher, "_wait_for", wait_for_slowly)


@pytest.mark.usefixtures("builds_when_awaited")
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("slow_part", ["read", "decode", "transform", "batch_transform", "collate"])
def test_stats_name_the_slow_stage(slow_part: str, workers: int) -> None:
    with loader_of(slow_part, workers) as loader:
        assert sum(1 for _ in loader) == 10
        stats = loader.stats()
    stage = slow_part.removeprefix("batch_")
    assert tuple(stats.shares) == STAGES
    assert stats.shares == pytest.approx(dict.fromkeys(STAGES, 0) | {stage: 1})
    assert stats.built_s == pytest.approx(40 * SLOW_S)
    assert stats.waiting == pytest.approx(1)
    assert stats.queue == 0
    assert f"try workers={max(2, 2 * workers)}" in stats.hint
    assert f"time of a batch: {stage} " in str(stats)
    assert str(stats).endswith(stats.hint)
    assert "\n" not in str(stats)


@pytest.mark.usefixtures("builds_when_awaited")
def test_hint_if_threads_wait_for_the_interpreter() -> None:
    def busy(value: int) -> int:
        CLOCK.sleep(SLOW_S)
        CLOCK.worked_s += SLOW_S / 3
        return value

    with dataformats.Loader(list(range(40)), 4, workers=3, transform=busy) as loader:
        list(loader)
        assert 'transform limits the speed: try worker_type="process"' in loader.stats().hint


def wait_for_batches(loader: dataformats.Loader, n: int) -> None:
    """Wait until so many batches are built ahead."""
    prefetcher: Any = loader._session._prefetcher
    wait_until(lambda: sum(job.is_done for job in prefetcher._jobs.copy()) >= n)


@pytest.mark.parametrize("workers", [1, 2])
def test_slow_training_gets_no_hint(workers: int) -> None:
    with dataformats.Loader(list(range(60)), 4, workers=workers, prefetch=2) as loader:
        for n_taken, _ in enumerate(loader, 1):
            CLOCK.sleep(0.2)
            wait_for_batches(loader, min(2 * workers, 15 - n_taken))
        stats = loader.stats()
    assert stats.waiting == 0
    assert stats.queue > 0.5
    assert stats.hint == ""
    assert str(stats).endswith("training limits the speed")


def test_short_runs_get_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MIN_S", 60.0)
    with loader_of("transform", 0) as loader:
        list(loader)
        assert loader.stats().hint == ""
        assert str(loader.stats()).endswith("too short for a hint")
    unused = dataformats.Loader([1], 1).stats()
    assert (unused.waiting, unused.queue, sum(unused.shares.values())) == (0, 0, 0)


def test_slow_images_get_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MIN_S", 0.0)
    read = BlobSource.read

    def decode_slowly(*arguments: Any, **named: Any) -> Any:
        READ_CONTEXT.waited_s += SLOW_S
        CLOCK.sleep(4 * SLOW_S)
        return read(*arguments, **named)

    monkeypatch.setattr(BlobSource, "read", decode_slowly)
    photos = dataformats.open(REAL / "photos.tfrecord", spec={"image": "jpg"})
    with dataformats.Loader(photos, 4, workers=0, collate=lambda records: {"n": len(records)}) as loader:
        list(loader)
        stats = loader.stats()
    assert stats.shares["decode"] == pytest.approx(0.75)
    assert "decoding limits the speed: try decode={'image': ...}" in stats.hint


def test_conversion_is_a_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    from dataformats.loaders.pytorch import device

    converted = device.to_torch
    monkeypatch.setattr(device, "to_torch", lambda batch: converted(slow(batch)))
    loader = dataformats.Loader(list(range(40)), 4, workers=0, to="torch")
    assert [batch["value"].shape for batch in loader] == [(4,)] * 10
    assert loader.stats().transferred_s == pytest.approx(10 * SLOW_S)
    assert loader.stats().shares["transfer"] == pytest.approx(1)


# ---- the best change, without a run

DIGITS = dataformats.open(REAL / "digits-*.tfrecord")
READING = {"read": 0.8, "decode": 0.1, "transform": 0.0, "collate": 0.1, "transfer": 0.0}
NUMBERS = list(range(10))
ITEMS = as_readable(NUMBERS)


def remote_digits() -> Any:
    """Return the digits behind a URL."""
    with dataformats.create("memory://stats/digits.tfrecord", "tfrecord", spec=DIGITS.spec) as writer:
        writer.extend(DIGITS.read(range(10)))
    return dataformats.open("memory://stats/digits.tfrecord")


@loop_over(
    "workers, order, huge, change",
    [
        (2, "global", False, "workers=4"),
        (0, "global", False, "workers=2"),
        (8, "global", False, IN_MEMORY),
        (8, "global", True, IN_WINDOWS),
        (8, "window", True, "workers=16"),
    ],
)
def test_local_files_are_held_in_memory_or_read_in_windows(
    workers: int, order: str, huge: bool, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if huge:
        monkeypatch.setattr("dataformats.loaders.advice._MEMORY_BYTES", 1)
    setup = LoaderSetup((DIGITS[:50], DIGITS), workers, "thread", 4, order)
    assert setup.best_change(READING, 0.0) == change


def test_files_in_memory_get_more_workers() -> None:
    held = dataformats.open(REAL / "photos.tfrecord", cache="memory")
    assert LoaderSetup((held,), 8, "thread", 4, "window").best_change(READING, 0.0) == "workers=16"
    assert LoaderSetup((ITEMS,), 8, "thread", 4, "global").best_change(READING, 0.0) == "workers=16"


def test_remote_files_are_read_in_windows_and_then_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = remote_digits()
    assert LoaderSetup((remote,), 2, "thread", 4, "global").best_change(READING, 0.0) == IN_WINDOWS
    assert LoaderSetup((remote,), 2, "thread", 4, "window").best_change(READING, 0.0) == IN_MEMORY
    monkeypatch.setattr("dataformats.loaders.advice._MEMORY_BYTES", 1)
    assert LoaderSetup((remote,), 2, "thread", 4, "window").best_change(READING, 0.0) == ON_DISK


@loop_over("stage", ["decode", "transform", "collate", "transfer"])
def test_busy_processors_need_less_work(stage: str) -> None:
    shares = dict.fromkeys(STAGES, 0.0) | {stage: 1.0}
    change = LoaderSetup((ITEMS,), 8, "process", 16, "none").best_change(shares, 0.95)
    assert "workers" not in change
    assert any(word in change for word in ("smaller", "less"))


@loop_over("cpu, change", [(0.3, 'worker_type="process"'), (0.01, "workers=8"), (0.9, "workers=8")])
def test_threads_of_a_busy_interpreter_become_processes(cpu: float, change: str) -> None:
    shares = dict.fromkeys(STAGES, 0.0) | {"transform": 1.0}
    assert LoaderSetup((ITEMS,), 4, "thread", 8, "none").best_change(shares, cpu).startswith(change)


# ---- the report of each minute


def test_report_gets_each_interval_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REPORT_S", 0.03)
    reported: list[LoaderStats] = []
    callers: set[threading.Thread] = set()

    def report(stats: LoaderStats) -> None:
        reported.append(stats)
        callers.add(threading.current_thread())

    with dataformats.Loader(list(range(40)), 4, workers=1, report=report) as loader:
        for _ in loader:
            CLOCK.sleep(0.01)
        CLOCK.sleep(0.03)
        next(iter(loader))
        whole = loader.stats()
    assert len(reported) == 4
    assert callers == {threading.current_thread()}
    assert sum(stats.batches for stats in reported) == whole.batches - 1
    assert sum(stats.records for stats in reported) == whole.records - 4
    assert 0 < sum(stats.spent_s for stats in reported) < whole.spent_s
    assert all(0 <= stats.waiting <= 1 and sum(stats.shares.values()) <= 1 + 1e-9 for stats in reported)


def test_report_tells_nothing_before_a_minute() -> None:
    def fail(stats: LoaderStats) -> None:
        raise AssertionError

    assert len(list(dataformats.Loader(NUMBERS, 2, report=fail))) == 5


def test_exception_of_report_loses_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REPORT_S", 0.0)

    def fail(stats: LoaderStats) -> None:
        raise OSError("the server is gone")

    loader = dataformats.Loader(NUMBERS, 2, shuffle=False, report=fail)
    batches = iter(loader)
    found = next(batches)["value"].tolist()
    with pytest.raises(OSError, match="is gone"):
        next(batches)
    assert loader.position == 2
    monkeypatch.setattr(module, "_REPORT_S", 60.0)
    assert found + [value for batch in batches for value in batch["value"].tolist()] == NUMBERS


def test_report_is_a_function() -> None:
    with pytest.raises(TypeError, match=r"report: expected a function .* found 'wandb'"):
        dataformats.Loader(NUMBERS, 2, report="wandb")  # type: ignore[arg-type]


def test_totals_of_two_moments_subtract() -> None:
    totals = Totals()
    totals.add(BuiltBatch({}, 4, 32, [(1, ValueError())], Timings(1, 2, 3, 4, 5, 16, 6), 4, 2), 5.0, 9.0)
    before = totals - Totals()
    totals.add(BuiltBatch({}, 3, 24, [], Timings(0.5, 0, 0.25, 0, 0, 1, 0), 7, 1), 0.5, 2.0)
    assert totals - before == Totals(1, 3, 24, 0, 2.0, 0.5, 0.0, 1, Timings(0.5, 0, 0.25, 0, 0, 1, 0))
    setup = LoaderSetup((ITEMS,), 2, "thread", 4, "none")
    minute = (totals - before).stats(setup)
    assert (minute.waiting, minute.queue, minute.spent_s) == (0.25, 0.25, 2.0)
    assert minute.shares == {"read": 0.5, "decode": 0, "transform": 0.25, "collate": 0, "transfer": 0}
    assert "try workers=4" in minute.hint
    assert totals.stats(setup).waiting == 0.25  # without the first batch
