"""PyTorch's DataLoader with worker processes over batches."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import DataLoader

import tests.loaders.test_batch_dataset as fast
from tests.loaders.test_batch_dataset import STEPS, dataset, given

epochs, stateful = fast.epochs, fast.stateful  # fixtures

# It says so of more workers than processors.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"num_workers": 1},
        {"num_workers": 2, "multiprocessing_context": "fork"},
        {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True},
        {"num_workers": 3, "persistent_workers": True},
        {"num_workers": STEPS + 2},
    ],
    ids=["0", "1", "fork", "spawn", "persistent", "more than batches"],
)
def test_the_order_is_the_loaders(way: dict[str, Any], epochs: list[list[list[int]]]) -> None:
    data = dataset()
    loader = DataLoader(data, batch_size=None, **way)
    assert len(loader) == STEPS
    for epoch in range(2):
        data.set_epoch(epoch)
        assert given(loader) == epochs[epoch]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("before", [0, 1, 7, STEPS - 1, STEPS])
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_stateful_data_loader(stateful: Any, before: int, workers: int, epochs: list[list[list[int]]]) -> None:
    data = dataset()
    data.set_epoch(1)
    batches = stateful(data, batch_size=None, num_workers=workers)
    iterator = iter(batches)
    first = given(next(iterator) for _ in range(before))
    state = batches.state_dict()
    del iterator
    data = dataset()
    data.set_epoch(1)
    resumed = stateful(data, batch_size=None, num_workers=workers)
    resumed.load_state_dict(state)
    assert first + given(resumed) == epochs[1]
    data.set_epoch(2)
    assert given(resumed) == epochs[2]
