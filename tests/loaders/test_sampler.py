"""`PlanSampler`: the order and the states of a loader, for a `DataLoader`."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import pytest

from dataformats import Loader, StateMismatchError, WorkerError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
from torch.utils.data import DataLoader  # noqa: E402

from dataformats.loaders.pytorch import BatchDataset, PlanSampler, RecordDataset  # noqa: E402
from dataformats.loaders.state import State  # noqa: E402
from dataformats.loaders.step_sizes import StepSizes  # noqa: E402
from dataformats.testing.loop_over import loop_over  # noqa: E402

RECORDS = np.arange(50)


def order(epoch: int, **options: Any) -> list[int]:
    loader = Loader(RECORDS, 7, workers=0, **options)
    loader.set_epoch(epoch)
    return [int(value) for batch in loader for value in batch["value"]]


@loop_over("shuffle", [True, False, "window"])
def test_each_iteration_is_the_next_epoch_of_a_loader(shuffle: bool | Literal["window"]) -> None:
    sampler = PlanSampler(RECORDS, shuffle=shuffle, seed=3, block_records=4, window_blocks=2)
    options: Any = {"shuffle": shuffle, "seed": 3, "block_records": 4, "window_blocks": 2}
    assert [list(sampler), list(sampler)] == [order(0, **options), order(1, **options)]
    sampler.set_epoch(7)
    assert list(sampler) == order(7, **options)
    assert len(sampler) == 50


def test_iterator_without_records_advances_nothing() -> None:
    sampler = PlanSampler(RECORDS)
    _ = iter(sampler)
    assert list(sampler) == order(0)


def test_sampler_states_match_loader_states() -> None:
    sampler, loader = PlanSampler(RECORDS, seed=3), Loader(RECORDS, 7, seed=3, workers=0)
    next(iter(loader))
    assert list(islice(sampler, 7)) == order(0, seed=3)[:7]
    state = State.from_json(loader.state_dict())
    counted = replace(state, step=0, epoch=0, step_sizes=StepSizes())  # a sampler knows no batches
    assert sampler.state_dict() == sampler.state_after(7) == counted.to_json()
    resumed = pickle.loads(pickle.dumps(PlanSampler(RECORDS, seed=3)))
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    resumed.set_epoch(0)  # a resuming trainer calls it: the position stays
    assert list(resumed) == order(0, seed=3)[7:]
    assert list(resumed) == order(1, seed=3)
    loader.load_state_dict(resumed.state_dict())
    assert loader.position == 100


def test_a_state_of_other_records_or_with_skips_is_refused() -> None:
    with pytest.raises(StateMismatchError, match="seed"):
        PlanSampler(RECORDS).load_state_dict(PlanSampler(RECORDS, seed=1).state_dict())
    loader = Loader(RECORDS, 7)
    loader.skip(3, 5)
    with pytest.raises(StateMismatchError, match="number of skips"):
        PlanSampler(RECORDS).load_state_dict(loader.state_dict())


def test_in_a_dataloader() -> None:
    loader = DataLoader(RecordDataset(RECORDS), batch_size=7, sampler=PlanSampler(RECORDS, seed=3))
    for epoch in range(2):
        assert [int(value) for batch in loader for value in batch] == order(epoch, seed=3)


def test_functions_in_no_file_reach_spawned_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that pickle refuses are copied by cloudpickle; here without the process."""
    pytest.importorskip("cloudpickle")
    dataset = RecordDataset(RECORDS, lambda record: record + 1)
    assert pickle.loads(pickle.dumps(dataset))[4] == copy.copy(dataset)[4] == 5
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(WorkerError, match="pip install cloudpickle"):
        pickle.dumps(dataset)


def test_a_function_with_random_numbers_in_a_copied_dataset() -> None:
    batches = BatchDataset(RECORDS, 7, transform=lambda record, rng: record + rng.integers(1, 2))
    assert next(iter(copy.copy(batches)))["value"].tolist() == [index + 1 for index in order(0)[:7]]


def test_the_epoch_may_be_named_after_the_iteration_was_made() -> None:
    sampler = PlanSampler(RECORDS)
    indices = iter(sampler)
    sampler.set_epoch(2)
    assert list(indices) == order(2)
    indices = iter(sampler)
    next(indices)  # a worker of a DataLoader has taken it
    sampler.set_epoch(3)
    assert sampler.state_dict()["position"] == 3 * 50 + 1
    assert len(list(indices)) == 49
