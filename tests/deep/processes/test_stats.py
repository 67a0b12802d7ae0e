"""Statistics of a loader whose workers are processes: times travel with the batches."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.loaders import stats as module
from dataformats.loaders.processes.prefetcher import ProcessPrefetcher
from dataformats.loaders.stats import LoaderStats
from dataformats.storage import threads
from tests.loaders.fake_clock import CLOCK
from tests.waiting import wait_until

SLOW_S = 0.005

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # Python 3.12, of a process with threads
]


class SlowItems:
    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> int:
        CLOCK.sleep(SLOW_S)
        return index


def slow(value: Any) -> Any:
    CLOCK.sleep(SLOW_S)
    return value


def slow_collate(records: list[int]) -> dict[str, Any]:
    CLOCK.sleep(SLOW_S * len(records))
    return {"n": np.array(records)}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give hints after a moment of the fake clock, as on a machine with 8 processors."""
    CLOCK.install(monkeypatch)
    monkeypatch.setattr(module, "_MIN_S", 0.05)
    monkeypatch.setattr(threads, "N_THREADS", 8)


def run(source: Any, **arguments: Any) -> LoaderStats:
    with loader_of(source, **arguments) as loader:
        list(loader)
        return loader.stats()


def loader_of(source: Any, **arguments: Any) -> dataformats.Loader:
    options: dict[str, Any] = {"workers": 2, "worker_type": "process", "start_method": "fork", **arguments}
    return dataformats.Loader(source, 4, prefetch=2, **options)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the caller wait for each batch for some time."""
    take = ProcessPrefetcher.take

    def take_slowly(prefetcher: ProcessPrefetcher) -> Any:
        CLOCK.sleep(SLOW_S)
        return take(prefetcher)

    monkeypatch.setattr(ProcessPrefetcher, "take", take_slowly)


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(
    ("stage", "source", "functions"),
    [
        ("read", SlowItems(), {}),
        ("transform", range(80), {"transform": slow}),
        ("collate", range(80), {"collate": slow_collate}),
    ],
)
def test_stats_name_the_slow_stage(stage: str, source: Any, functions: dict[str, Any]) -> None:
    stats = run(source, **functions)
    assert stats.batches == 20
    assert stats.shares == pytest.approx(dict.fromkeys(stats.shares, 0) | {stage: 1})
    assert stats.built_s == pytest.approx(80 * SLOW_S)
    assert stats.waiting == pytest.approx(1)
    assert "try workers=4" in stats.hint


def test_slow_training_finds_a_full_queue() -> None:
    with loader_of(range(80)) as loader:
        for n_taken, _ in enumerate(loader, 1):
            CLOCK.sleep(0.02)
            wait_for_batches(loader._session._prefetcher, min(4, 20 - n_taken))
        stats = loader.stats()
    assert stats.queue > 0.5
    assert (stats.waiting, stats.hint) == (0, "")


def wait_for_batches(prefetcher: Any, n: int) -> None:
    """Wait until so many batches are built ahead."""

    def are_there() -> bool:
        prefetcher._receive(prefetcher._pool, 0.0)
        return len(prefetcher._arrivals) >= n

    wait_until(are_there)


def test_conversion_in_the_process_of_the_caller_is_a_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    from dataformats.loaders.pytorch import device

    converted = device.to_torch
    monkeypatch.setattr(device, "to_torch", lambda batch: converted(slow(batch)))
    stats = run(range(80), to="torch")
    assert stats.transferred_s == pytest.approx(20 * SLOW_S)
    assert stats.shares["transfer"] == pytest.approx(1)
