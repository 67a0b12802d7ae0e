"""Batches from the workers of torch's DataLoader: in the loader's order, and resumed."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dataformats
from dataformats.errors import StateMismatchError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.utils.data import DataLoader  # noqa: E402

from dataformats.loaders.pytorch import BatchDataset  # noqa: E402
from dataformats.testing.loop_over import loop_over  # noqa: E402

DIGITS = str(Path(__file__).parents[1] / "golden" / "real" / "digits-*.tfrecord")
SPEC = {"image": "uint8[8,8]", "label": "int64"}
SIZE, STEPS = 100, 18
# It says so of more workers than processors.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


def digits() -> dataformats.RecordSource:
    return dataformats.open(DIGITS, spec=SPEC)


def dataset(batch_size: int = SIZE, **options: Any) -> BatchDataset:
    return BatchDataset(digits(), batch_size, seed=1, **options)


def given(batches: Any) -> list[list[int]]:
    return [batch.positions.tolist() for batch in batches]


@pytest.fixture(scope="module")
def epochs() -> list[list[list[int]]]:
    """The positions of each batch of three epochs, as the loader gives them."""
    loader = dataformats.Loader(digits(), SIZE, seed=1, workers=0)
    return [given(loader) for _ in range(3)]


def test_batches_are_tensors_of_the_loader() -> None:
    for mine, batch in zip(DataLoader(dataset(), batch_size=None, num_workers=2),
                           dataformats.Loader(digits(), SIZE, seed=1), strict=True):  # fmt: skip
        assert type(mine) is type(batch)
        assert torch.equal(mine["image"], torch.from_numpy(batch["image"]))
        assert torch.equal(mine["label"], torch.from_numpy(batch["label"]))


def as_it_is(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize("is_pickled", [False, True])
def test_the_rank_is_found_when_batches_are_first_used(monkeypatch: pytest.MonkeyPatch, is_pickled: bool) -> None:
    batches = dataset(rank="auto")
    with monkeypatch.context() as launched:
        launched.setenv("RANK", "1")
        launched.setenv("WORLD_SIZE", "2")
        if is_pickled:
            batches = pickle.loads(pickle.dumps(batches))
        else:
            assert next(iter(batches)).positions[0] == SIZE
    assert next(iter(batches)).positions[0] == SIZE  # the environment may be gone, as in a worker process


def test_ranks_and_options_reach_the_loader() -> None:
    options: dict[str, Any] = {"rank": 1, "world_size": 3, "drop_last": True, "shuffle": "window", "to": "numpy"}
    data = BatchDataset(digits(), 50, **options)
    found = list(DataLoader(data, batch_size=None, num_workers=2, collate_fn=as_it_is))
    expected = list(dataformats.Loader(digits(), 50, **options))
    assert given(found) == given(expected)
    assert len(data) == len(expected) == 11
    assert isinstance(found[0]["image"], np.ndarray)


@loop_over("option", ["workers", "worker_type", "prefetch", "device"])
def test_worker_and_device_options_raise(option: str) -> None:
    with pytest.raises(TypeError, match=f"takes no {option}="):
        BatchDataset(digits(), SIZE, **cast(Any, {option: 1}))


def test_a_repeated_epoch_is_logged(caplog: pytest.LogCaptureFixture, epochs: list[list[list[int]]]) -> None:
    data = dataset()
    loader = DataLoader(data, batch_size=None)
    assert given(loader) == epochs[0]
    with caplog.at_level(logging.WARNING, "dataformats"):
        assert given(loader) == epochs[0]
    assert "epoch 0 is iterated again" in caplog.text
    caplog.clear()
    in_order = DataLoader(BatchDataset(digits(), SIZE, shuffle=False), batch_size=None)
    assert given(in_order) == given(in_order)
    assert not caplog.text


# ---- resumed


@pytest.mark.parametrize("before", [0, 1, 7, STEPS - 1, STEPS])
@pytest.mark.parametrize("workers", [0, 2])
def test_elastic_resume(before: int, workers: int, epochs: list[list[list[int]]]) -> None:
    """A state belongs to the run, with any number of workers and any batch size."""
    data = dataset()
    data.set_epoch(1)
    state = data.state_after(before)
    assert given(DataLoader(data, batch_size=None))[:before] == epochs[1][:before]
    resumed = dataset()
    resumed.load_state_dict(state)
    rest = epochs[1][before:] or epochs[2]
    assert given(DataLoader(resumed, batch_size=None, num_workers=workers)) == rest
    resumed.set_epoch(2)
    assert given(DataLoader(resumed, batch_size=None, num_workers=workers)) == epochs[2]
    smaller = dataset(30)
    smaller.load_state_dict(state)
    assert sum(given(DataLoader(smaller, batch_size=None, num_workers=workers)), []) == sum(rest, [])  # noqa: RUF017
    loader = dataformats.Loader(digits(), SIZE, seed=1)
    loader.load_state_dict(state)
    assert given(loader) == rest


def test_state_after_counts_from_the_start_of_the_iteration() -> None:
    data = dataset()
    data.load_state_dict(data.state_after(5))
    assert data.state_after(0) == data.state_dict()
    assert data.state_after(3)["position"] == 8 * SIZE
    data.set_epoch(0)  # its position lies inside epoch 0
    assert data.state_after(3)["position"] == 8 * SIZE
    assert data.state_after(1000)["position"] == 1797


def test_pickle_keeps_the_position(epochs: list[list[list[int]]]) -> None:
    data = dataset()
    data.load_state_dict(data.state_after(5))
    again = pickle.loads(pickle.dumps(data))
    assert given(again) == epochs[0][5:]


def test_another_seed_raises() -> None:
    with pytest.raises(StateMismatchError, match="seed"):
        BatchDataset(digits(), SIZE, seed=2).load_state_dict(dataset().state_dict())


# ---- torchdata


@pytest.fixture
def stateful() -> Any:
    loading = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    return loading.StatefulDataLoader


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_stateful_data_loader_needs_the_same_number_of_workers(stateful: Any) -> None:
    batches = stateful(dataset(), batch_size=None, num_workers=0)
    next(iter(batches))
    share = iter(dataset())
    state = share.state_dict() | {"workers": 3}
    with pytest.raises(StateMismatchError, match=r"expected 3, found 1.*same num_workers.*state_after"):
        share.load_state_dict(state)
