"""Statistics of a loader whose workers are processes: times travel with the batches."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.loaders import stats as module
from dataformats.loaders.stats import LoaderStats
from dataformats.storage import threads

SLOW_S = 0.005

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # Python 3.12, of a process with threads
]


class SlowItems:
    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> int:
        time.sleep(SLOW_S)
        return index


def slow(value: Any) -> Any:
    time.sleep(SLOW_S)
    return value


def slow_collate(records: list[int]) -> dict[str, Any]:
    time.sleep(SLOW_S * len(records))
    return {"n": np.array(records)}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give hints after a moment, as on a machine with 8 processors."""
    monkeypatch.setattr(module, "_MIN_S", 0.05)
    monkeypatch.setattr(threads, "N_THREADS", 8)


def run(source: Any, training_s: float = 0.0, **arguments: Any) -> LoaderStats:
    with dataformats.Loader(source, 4, workers=2, worker_type="process", start_method="fork", **arguments) as loader:
        for _ in loader:
            time.sleep(training_s)
        return loader.stats()


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
    assert stats.shares[stage] > 0.6
    assert sum(stats.shares.values()) <= 1 + 1e-9
    assert stats.built_s >= 80 * SLOW_S
    assert stats.waiting > 0.3
    assert "try workers=4" in stats.hint


def test_slow_training_finds_a_full_queue() -> None:
    stats = run(range(80), training_s=0.02)
    assert (stats.waiting < 0.1, stats.queue > 0.5, stats.hint) == (True, True, "")


def test_conversion_in_the_process_of_the_caller_is_a_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    from dataformats.loaders.pytorch import device

    converted = device.to_torch
    monkeypatch.setattr(device, "to_torch", lambda batch: converted(slow(batch)))
    stats = run(range(80), to="torch")
    assert stats.transferred_s >= 20 * SLOW_S
    assert stats.shares["transfer"] > 0.5
    assert stats.waiting > 0.5
