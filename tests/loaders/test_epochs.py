"""Epochs of data that grow agree with a walk over all positions, and parts of an epoch with sets of records."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataformats.loaders.blocks import Blocks
from dataformats.loaders.epochs import Epochs, Grown
from dataformats.loaders.grown_order import split_places
from dataformats.loaders.plan import Plan
from dataformats.loaders.shuffle import Shuffle
from dataformats.loaders.skips import Skips
from dataformats.loaders.steps import Steps
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

GROWTHS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 12), st.sampled_from(["now", "next_epoch"])), max_size=4
)
SHUFFLES = [Shuffle.of(True), Shuffle.of(False), Shuffle.of("window", 3, 2), Shuffle.of("window", 4, 2, 3)]


def grown(n: int, growths: list[tuple[int, int, Grown]]) -> tuple[Epochs, list[tuple[int, int, int]]]:
    """Return epochs, and (number, first, stop) of the epoch of each of 300 positions, found by a walk.

    Each growth is how many positions the run goes on before it, how many records are appended, and when they come.
    """
    epochs, position, last, due, walked = Epochs.of(n), 0, n, n, list[tuple[int, int, int]]()
    number, first, waiting = 0, 0, list(growths)
    behind = waiting[0][0] if waiting else -1
    while len(walked) < 300:
        while waiting and position == behind:
            _, more, when = waiting.pop(0)
            last += more
            epochs = epochs.grow(position, last, when)
            due = last if when == "now" or position == first else due
            behind = position + waiting[0][0] if waiting else -1
        position += 1
        if position == first + due:
            walked += [(number, first, position)] * due
            number, first, due = number + 1, position, last
    return epochs, walked


@settings(max_examples=share(60), deadline=None)
@given(n=st.integers(1, 20), growths=GROWTHS)
def test_epochs_agree_with_a_walk(n: int, growths: list[tuple[int, int, Grown]]) -> None:
    epochs, walked = grown(n, growths)
    assert [epochs.at(position) for position in range(300)] == walked[:300]
    assert [epochs.at(position) for position in reversed(range(300))] == walked[299::-1]
    numbers, places = epochs.places(np.arange(300))
    assert numbers.tolist() == [number for number, _, _ in walked[:300]]
    assert places.tolist() == [position - first for position, (_, first, _) in enumerate(walked[:300])]
    assert {epochs.first(number) for number, _, _ in walked} == {first for _, first, _ in walked}
    lengths = {number: stop - first for number, first, stop in walked}
    high = max(lengths)
    runs = [length for low, stop, length in epochs.between(0, high) for _ in range(low, stop)]
    assert runs == [lengths[number] for number in range(high)]
    assert Epochs.from_json(map(list, epochs.lengths)) == epochs == pickle.loads(pickle.dumps(epochs))


@settings(max_examples=share(60), deadline=None)
@given(n=st.integers(1, 20), growths=GROWTHS, shuffle=st.sampled_from(SHUFFLES), with_blocks=st.booleans())
def test_each_epoch_has_each_record_once(
    n: int, growths: list[tuple[int, int, Grown]], shuffle: Shuffle, with_blocks: bool
) -> None:
    epochs, walked = grown(n, growths)
    length = epochs.length
    blocks = Blocks(np.arange(0, length, 3), length) if with_blocks else None
    plan = Plan((length,), length, shuffle, 5, grown=(epochs, epochs), blocks=(blocks,))
    place = plan.locate(range(300))
    assert place.record.tolist() == [int(plan.locate([position]).record[0]) for position in range(300)]
    assert place.record.tolist() == plan.records(np.arange(300))[1].tolist()
    for number, first, stop in {one for one in walked if one[2] <= 300}:
        assert sorted(place.record[first:stop].tolist()) == list(range(stop - first))
        assert set(place.epoch[first:stop].tolist()) == {number}


@loop_over("shuffle", SHUFFLES)
def test_earlier_positions_keep_their_records(shuffle: Shuffle) -> None:
    """Growth changes no record before its position, and blocks of the old records stay the same."""
    for position in (0, 1, 17, 30, 45):
        blocks = [Blocks(np.arange(0, n, 4), n) for n in (30, 50)]
        before = Plan.of_one(30, shuffle, 1, blocks=blocks[0])
        epochs = Epochs.of(30).grow(position, 50, "now")
        after = Plan((50,), 50, shuffle, 1, grown=(epochs, epochs), blocks=(blocks[1],))
        assert after.locate(range(position)).record.tolist() == before.locate(range(position)).record.tolist()


def test_parts_of_huge_epochs() -> None:
    parts, shuffle = [(0, 0, 2**40), (5, 2**40, 2**41)], Shuffle.of("window")
    places = np.array([0, 4, 5, 6, 7, 2**40, 2**41 - 2, 2**41 - 1])
    part, found = split_places(places, parts, shuffle, (1,))
    assert part[:2].tolist() == [0, 0]
    assert len(set(zip(part.tolist(), found.tolist(), strict=True))) == len(places)
    assert set(part[2:].tolist()) == {0, 2**40}
    assert all(0 <= one < 2**40 for one in found.tolist())


def test_old_and_new_records_take_turns_evenly() -> None:
    """Windows read each of both orders from its beginning to its end; all records shuffled mix at random."""
    parts = [(0, 0, 1000), (200, 1000, 1400)]
    part, found = split_places(np.arange(200, 1400), parts, Shuffle.of("window", 10, 4), (1,))
    assert found[part == 0].tolist() == list(range(200, 1000))
    assert found[part == 1000].tolist() == list(range(400))
    assert np.abs(np.cumsum(part > 0) - np.arange(1, 1201) / 3).max() <= 1
    part, _ = split_places(np.arange(200, 1400), parts, Shuffle.of(True), (1,))
    assert 2 < np.abs(np.cumsum(part > 0) - np.arange(1, 1201) / 3).max() < 60


@settings(max_examples=share(40), deadline=None)
@given(
    n=st.integers(1, 20),
    growths=GROWTHS,
    size=st.integers(1, 30),
    drop_last=st.booleans(),
    ranges=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 60)), max_size=3),
)
def test_steps_agree_with_position_by_position(
    n: int, growths: list[tuple[int, int, Grown]], size: int, drop_last: bool, ranges: list[tuple[int, int]]
) -> None:
    epochs, walked = grown(n, growths)
    if drop_last and size > epochs.length:
        return
    skipped = {position for start, more in ranges for position in range(start, start + more)}
    expected: list[tuple[int, list[int]]] = []
    for number, first, stop in dict.fromkeys(walked):
        left = [position for position in range(first, stop) if position not in skipped]
        batches = [left[at : at + size] for at in range(0, len(left), size)]
        expected += [(number, batch) for batch in batches if len(batch) == size or not drop_last]
    steps = Steps(epochs, size, drop_last, Skips.of((start, start + more) for start, more in ranges))
    found = [step for step, _ in zip(steps.following(0), expected, strict=False)]
    assert [(step.epoch, step.positions.tolist()) for step in found] == expected
    for stop in range(0, 250, 7):
        assert steps.between(0, stop) == sum(positions[0] < stop for _, positions in expected)
    for number in range(0, len(expected), 5):
        assert steps.nth(0, number).positions.tolist() == expected[number][1]


@loop_over("lengths", [(), ((1, 5),), ((0, 5), (0, 6)), ((0, 5), (3, 5)), ((0, 0), (3, 5)), ((0, -1),), ((0, 2**62),)])
def test_wrong_lengths_are_refused(lengths: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Epochs(lengths)
