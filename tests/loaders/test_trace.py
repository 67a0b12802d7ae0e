"""The records of any step are the ones that each rank received, whatever the run did since."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.loaders.trace import TracedRecord

GOLDEN = "tests/golden/real/digits-*.tfrecord"
PHOTOS = "tests/golden/real/photos.tfrecord"
Received = dict[int, list[tuple[int, int]]]


def resumed(state: dict[str, Any] | None, **options: Any) -> list[dataformats.Loader]:
    """Return the loaders of all ranks, at a state after JSON."""
    world_size = options.pop("world_size")
    source = dataformats.open(GOLDEN)
    loaders = [
        dataformats.Loader(source, seed=3, workers=0, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
    return loaders


def train(loaders: list[dataformats.Loader], steps: int, received: Received) -> dict[str, Any]:
    """Take some steps on all ranks; note the rank and the position of each record that they receive."""
    iterations = [loader.forever() for loader in loaders]
    for _ in range(steps):
        step = loaders[0].step
        received[step] = [
            (rank, position)
            for rank, iteration in enumerate(iterations)
            for position in next(iteration).positions.tolist()
        ]
    return loaders[0].state_dict()


@pytest.mark.parametrize("shuffle", [True, "window"])
def test_trace_agrees_with_the_batches_of_runs_with_several_sizes(shuffle: Any) -> None:
    received: Received = {}
    sizes = {"block_records": 16, "window_blocks": 8, "groups": 2} if shuffle == "window" else {}
    state = train(resumed(None, batch_size=100, world_size=2, shuffle=shuffle, **sizes), 12, received)
    state = train(resumed(state, batch_size=30, world_size=4, shuffle=shuffle, **sizes), 20, received)
    loaders = resumed(state, batch_size=30, world_size=4, shuffle=shuffle, **sizes)
    loaders[0].skip(5_000, 5_100)
    for loader in loaders[1:]:
        loader.skip(5_000, 5_100)
    state = train(loaders, 10, received)
    assert sorted(received) == list(range(42))
    assert state["step"] == 42
    assert [size[:4] for size in state["step_sizes"]] == [[0, 0, 100, 2], [2397, 12, 30, 4]]

    (loader,) = resumed(state, batch_size=7, world_size=1, shuffle=shuffle, **sizes)
    for step, expected in received.items():
        assert [(record.rank, record.position) for record in loader.trace(step)] == expected
        assert loader.trace(position=expected[-1][1])[0].step == step


def test_traced_records_equal_the_batch() -> None:
    source = dataformats.open(GOLDEN)
    loader = dataformats.Loader(source, 8, seed=1, workers=0)
    batch = next(itertools.islice(loader, 5, None))
    traced = loader.trace(5)
    assert [source[record.index]["label"] for record in traced] == batch["label"].tolist()
    first = traced[0]
    with open(first.path, "rb") as file:
        assert file.read()[first.offset_bytes :].startswith(source.read_bytes([first.index])[0])


def test_mixtures_name_the_component() -> None:
    parts = {"a": dataformats.open(GOLDEN)[:100].select("image"), "b": dataformats.open(PHOTOS).select("image")}
    loader = dataformats.Loader(dataformats.mix(parts, {"a": 1, "b": 1}), 6, workers=0, transform=lambda record: 0)
    place = loader.locate(range(6))
    assert [(one.component, one.index) for one in loader.trace(0)] == list(
        zip(place.component.tolist(), place.record.tolist(), strict=True)
    )
    assert {one.path.rpartition("/")[2] for one in loader.trace(0) if one.component} == {"photos.tfrecord"}


def test_lists_have_no_files() -> None:
    assert dataformats.Loader([3, 1, 4], 2, shuffle=False).trace(1) == [TracedRecord(1, 0, 2, 0, 0, 2, "", -1)]


def test_unknown_steps_are_refused() -> None:
    loader = dataformats.Loader(np.arange(10), 4, drop_last=True, shuffle=False)
    loader.skip(1, 2)
    with pytest.raises(LookupError, match="position 1 belongs to no step"):
        loader.trace(position=1)
    with pytest.raises(LookupError, match="position 9 belongs to no step"):
        loader.trace(position=9)
    with pytest.raises(TypeError, match="a step or a position"):
        loader.trace(1, position=1)
    with pytest.raises(LookupError, match="end before"):
        loader.trace(2**62)


def test_a_step_is_counted_in_batches_after_short_ones() -> None:
    loader = dataformats.Loader(np.arange(10), 4, workers=0)
    for _ in range(2):
        list(loader)
    assert (loader.step, loader.position) == (6, 20)
    loader.set_epoch(5)
    assert loader.step == 15
    loader.advance(2)
    assert loader.step == 17


def test_positions_of_other_data_keep_the_count() -> None:
    state = dataformats.Loader(np.arange(100), 4)
    state.advance(5)
    loader = dataformats.Loader(np.arange(50), 4)
    loader.load_state_dict(state.state_dict(), strict=False)
    assert loader.step == 5
    with pytest.raises(LookupError, match="before step 5 are unknown"):
        loader.trace(4)


def test_skips_of_the_past_end_the_known_steps() -> None:
    loader = dataformats.Loader(np.arange(100), 4)
    loader.advance(5)
    loader.skip(0, 4)
    assert loader.step == 5
    with pytest.raises(LookupError, match="before step 5"):
        loader.trace(1)
