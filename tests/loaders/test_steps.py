"""The positions of each step agree with a computation position by position."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataformats.loaders.epochs import Epochs
from dataformats.loaders.skips import MAX_POSITION, Skips
from dataformats.loaders.steps import Steps
from tests.campaign import share


def walked(
    n: int, size: int, drop_last: bool, skipped: set[int], first: int, epochs: int
) -> list[tuple[int, list[int]]]:
    """Return epoch and positions of each step, computed position by position."""
    found = []
    for epoch in range(first // n, epochs):
        left = [position for position in range(max(first, epoch * n), (epoch + 1) * n) if position not in skipped]
        steps = [left[at : at + size] for at in range(0, len(left), size)]
        found += [(epoch, step) for step in steps if len(step) == size or not drop_last]
    return found


@settings(max_examples=share(100), deadline=None)
@given(
    n=st.integers(1, 30),
    size=st.integers(1, 40),
    drop_last=st.booleans(),
    ranges=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 60)), max_size=4),
    first=st.integers(0, 100),
)
def test_steps_agree_with_position_by_position(
    n: int, size: int, drop_last: bool, ranges: list[tuple[int, int]], first: int
) -> None:
    if drop_last and size > n:
        with pytest.raises(ValueError, match="drop_last"):
            Steps(Epochs.of(n), size, drop_last, Skips())
        return
    skips = Skips.of((start, start + length) for start, length in ranges)
    steps = Steps(Epochs.of(n), size, drop_last, skips)
    skipped = {position for start, length in ranges for position in range(start, start + length)}
    every = walked(n, size, drop_last, skipped, first, 215 // n + 3)
    expected = every[:12]
    found = list(itertools.islice(steps.following(first), len(expected)))
    assert [(step.epoch, step.positions.tolist()) for step in found] == expected
    assert steps.count(first) == sum(
        epoch == first // n for epoch, _ in walked(n, size, drop_last, skipped, first, first // n + 1)
    )
    for step, behind in itertools.pairwise(found):
        assert step.after <= behind.positions[0]
        assert step.after // n == behind.epoch or step.after % n == 0  # the next epoch begins behind the last step
    assert steps.between(first, first + 60) == sum(positions[0] < first + 60 for _, positions in every)
    for number, (_, positions) in enumerate(expected):
        assert steps.nth(first, number).positions.tolist() == positions


def test_steps_are_counted_over_any_number_of_epochs() -> None:
    skips = Skips.of([(15, 18), (10**6, 10**12), (10**15 + 3, 10**15 + 5)])
    steps = Steps(Epochs.of(10), 4, False, skips)
    assert steps.between(0, 10**18) == 3 * (10**17 - (10**12 - 10**6) // 10) - 2
    assert steps.nth(0, 3 * (10**5) - 1 + 2).first == 10**12 + 8
    with pytest.raises(LookupError):
        steps.nth(0, 2**62)


@given(st.integers(0, 500), st.integers(1, 40))
def test_parts_of_ranks_tile_a_step(n: int, world_size: int) -> None:
    step = Steps(Epochs.of(1000), 500, False, Skips()).at(1000 - n if n else 0)
    runs = [step.of_rank(rank, world_size).tolist() for rank in range(world_size)]
    assert [position for run in runs for position in run] == step.positions.tolist()
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_ranks_divide_a_step_by_streams(batch: int, ranks_of_group: int, groups: int, has_skips: bool) -> None:
    world_size = ranks_of_group * groups
    skips = Skips.of([(2, 5), (11, 40)]) if has_skips else Skips()
    step = Steps(Epochs.of(10_000), batch * world_size, False, skips, lambda positions: positions % groups).at(groups)
    parts = [step.of_rank(rank, world_size) for rank in range(world_size)]
    assert sorted(np.concatenate(parts).tolist()) == step.positions.tolist()
    assert {len(part) for part in parts} == {batch}
    for rank, part in enumerate(parts):
        assert part.tolist() == sorted(part)
        assert has_skips or set(part % groups) == {rank // ranks_of_group}


@pytest.mark.parametrize("skips", [Skips(), Skips.of([(2, 5), (11, 40)])])
def test_a_task_is_pickled_as_its_positions(skips: Skips) -> None:
    step = Steps(Epochs.of(50), 1200, False, skips).at(1)
    share = next(Steps(Epochs.of(50), 1200, False, skips).rank_tasks(1, 1, 3, None))
    assert share.positions.tolist() == step.of_rank(1, 3).tolist()
    first = list(range(32))  # spare positions do not depend on skips
    assert share.spare.tolist() == step.positions[:32].tolist() + first
    sent = pickle.loads(pickle.dumps(share))
    assert (sent.positions.tolist(), sent.spare.tolist()) == (share.positions.tolist(), share.spare.tolist())


def test_steps_of_many_records() -> None:
    step = Steps(Epochs.of(10_000), 4_000, False, Skips()).at(7_000)
    assert step.positions.tolist() == list(range(7_000, 10_000))
    assert np.concatenate([step.of_rank(rank, 2) for rank in range(2)]).tolist() == step.positions.tolist()


def test_skips_of_any_length_take_no_time() -> None:
    steps = Steps(Epochs.of(10), 4, True, Skips.of([(3, 10**15 + 7)]))
    assert steps.at(0).positions.tolist() == list(range(10**15 + 10, 10**15 + 14))
    with pytest.raises(ValueError, match="skipped"):
        Steps(Epochs.of(10), 4, False, Skips.of([(3, MAX_POSITION)])).at(3)
