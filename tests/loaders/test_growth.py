"""Runs whose data grow: each record once an epoch, the same order on other ranks, and errors that say what changed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import StateMismatchError
from dataformats.loaders.saved_state import loader_at
from dataformats.loaders.state import _check
from dataformats.testing.loop_over import loop_over

WINDOW: dict[str, Any] = {"shuffle": "window", "block_records": 4, "window_blocks": 2, "groups": 2}
ORDERS = [{"shuffle": True}, {"shuffle": False}, WINDOW]


def records(n: int) -> list[int]:
    return [1000 + index for index in range(n)]


def loader(source: Any, batch_size: int = 7, **options: Any) -> Any:
    return dataformats.Loader(source, batch_size, workers=0, **{"seed": 3, **options})


def values(batches: Any) -> list[int]:
    return [value for batch in batches for value in batch["value"].tolist()]


def interrupted(n: int, batches: int, **options: Any) -> tuple[list[int], dict[str, Any]]:
    """Return what a run received in some batches, and its state, through JSON."""
    one = loader(records(n), **options)
    return values(itertools.islice(one.forever(), batches)), json.loads(json.dumps(one.state_dict()))


@loop_over("order", ORDERS)
@loop_over("batches", [0, 1, 4, 5, 7])  # five batches are an epoch of 30 records
def test_new_records_come_now(order: dict[str, Any], batches: int) -> None:
    before, state = interrupted(30, batches, **order)
    resumed = loader(records(50), 4, **order)
    resumed.load_state_dict(state, grown="now")
    whole = before[len(before) // 30 * 30 :]
    rest = values(resumed)
    assert sorted(whole + rest) == records(50)
    assert values(resumed) != records(50) or order == {"shuffle": False}
    assert rest == sorted(rest) or order != {"shuffle": False}


@loop_over("order", ORDERS)
def test_this_epoch_ends_with_the_old_records(order: dict[str, Any]) -> None:
    before, state = interrupted(30, 3, **order)
    resumed, undisturbed = loader(records(50), 4, **order), loader(records(30), 5, **order)
    resumed.load_state_dict(state, grown="next_epoch")
    assert (len(resumed), resumed.remaining) == (8, 3)
    assert before + values(resumed) == values(undisturbed)
    assert (len(resumed), resumed.epoch) == (13, 1)
    assert sorted(values(resumed)) == records(50)


@loop_over("order", ORDERS)
@loop_over("when", ["now", "next_epoch"])
def test_past_positions_stay_exact(order: dict[str, Any], when: Any) -> None:
    """After two growths, on two ranks, `locate` and `trace` give what was received at each step."""
    steps: list[list[tuple[int, int]]] = []
    state: Any = None
    for n, ranks, batch_size in ((30, 1, 7), (44, 2, 3), (61, 2, 4)):
        run = [loader(records(n), batch_size, rank=rank, world_size=ranks, **order) for rank in range(ranks)]
        for one in run if state else ():
            one.load_state_dict(state, grown=when)
        received = itertools.islice(zip(*(one.forever() for one in run), strict=True), 4)
        steps += [
            [(rank, value) for rank, batch in enumerate(step) for value in batch["value"].tolist()] for step in received
        ]
        state = run[0].state_dict()
        assert {json.dumps(one.state_dict()) for one in run} == {json.dumps(state)}
    last = loader(records(61), 5, **order)
    last.load_state_dict(state)
    assert len(json.dumps(state)) < 1024
    located = 1000 + last.locate(range(last.position)).record
    assert sorted(located.tolist()) == sorted(value for step in steps for _, value in step)
    for number, step in enumerate(steps):
        assert [(one.rank, 1000 + one.index) for one in last.trace(number)] == step
    assert last.step == len(steps)


def test_earlier_state_traces_its_steps_in_grown_data(tmp_path: Path) -> None:
    def write(numbers: range) -> Any:
        with dataformats.create(tmp_path / "x.tfrecord", append=True, spec={"value": "int64"}) as writer:
            writer.extend({"value": number} for number in numbers)
        return dataformats.open(tmp_path / "x.tfrecord")

    one = loader(write(range(30)))
    batches = [batch["value"].tolist() for batch in itertools.islice(one, 3)]
    found = loader_at(one.state_dict(), write(range(30, 40)))
    assert [[record.index for record in found.trace(number)] for number in range(3)] == batches


@pytest.mark.parametrize("when", ["now", "next_epoch"])
def test_component_of_a_mixture_grows(when: Any) -> None:
    """Each pass over a component has each of its records once; the other component keeps its order."""

    def mixture(n: int) -> Any:
        return dataformats.mix({"a": list(range(n)), "b": list(range(500, 512))}, {"a": 3, "b": 1}, "first")

    one, same = loader(mixture(20), 6), loader(mixture(20), 5)
    got = values(itertools.islice(one.forever(), 6))  # some of the second pass over a
    resumed = loader(mixture(33), 4)
    resumed.load_state_dict(one.state_dict(), grown=when)
    got += values(itertools.islice(resumed.forever(), 60))
    of_b, alone = (
        [value for value in run if value >= 500] for run in (got, values(itertools.islice(same.forever(), 60)))
    )
    assert of_b[:50] == alone[:50]
    of_a = [value for value in got if value < 500]
    for n in [20, 33, 33, 33] if when == "now" else [20, 20, 33, 33]:
        assert sorted(of_a[:n]) == list(range(n))
        del of_a[:n]
    with pytest.raises(StateMismatchError, match="13 records of 'a' from record 20 on were appended"):
        loader(mixture(33)).load_state_dict(one.state_dict())


def test_growth_with_drop_last() -> None:
    one = loader(records(30), 8, drop_last=True)
    assert len(values(one)) == 24
    assert len(values(itertools.islice(one, 1))) == 8
    resumed = loader(records(50), 8, drop_last=True)
    resumed.load_state_dict(one.state_dict(), grown="now")
    assert resumed.remaining == 42 // 8
    assert len(values(resumed)) == 40
    assert resumed.position == 80
    large = loader(records(50), 45, drop_last=True)
    large.load_state_dict(one.state_dict(), grown="next_epoch")
    assert [values(large), len(values(large)), large.position] == [[], 45, 110]


@loop_over("has_list", [True, False])
def test_skips_and_lists_go_on(has_list: bool) -> None:
    entries = [3, 29, (40, 44)]
    listed = loader(records(30), 5).skip_list(entries)
    one = loader(records(30), 5, skip=listed)
    one.skip(10, 15)
    before = values(itertools.islice(one, 2))
    resumed = loader(records(45), 5, skip=listed if has_list else entries)
    resumed.load_state_dict(one.state_dict(), grown="now")
    got = before + values(resumed)
    assert len(got) == len(set(got))
    gone = {1000 + record for record in resumed.locate([*range(10, 15), *range(40, 44)]).record.tolist()}
    assert set(records(45)) - set(got) == gone | {1003, 1029}
    with pytest.raises(StateMismatchError, match="fingerprint of the skip list"):
        loader(records(28), skip=listed)


def test_filter_without_new_records(tmp_path: Path) -> None:
    def write(numbers: range) -> Any:
        with dataformats.create(tmp_path / "x.tfrecord", append=True, spec={"value": "int64"}) as writer:
            writer.extend({"value": number} for number in numbers)
        return dataformats.open(tmp_path / "x.tfrecord").where(lambda record: record["value"] % 10 < 3)

    state = loader(write(range(34))).state_dict()
    same = loader(write(range(34, 39)))
    same.load_state_dict(state)
    assert same.state_dict()["lengths"] == state["lengths"] == [[[0, 12]]]
    more = loader(write(range(39, 41)))
    more.load_state_dict(same.state_dict(), grown="now")
    more.load_state_dict(state, grown="next_epoch")
    assert sorted(values(more)) == sorted(number for number in range(41) if number % 10 < 3)


def test_unchanged_data_need_no_argument_and_ignore_it() -> None:
    _, state = interrupted(30, 3)
    for grown in (None, "now", "next_epoch"):
        same = loader(records(30))
        same.load_state_dict(state, grown=grown)
        assert same.state_dict() == state


def test_waiting_records_can_come_now() -> None:
    _, state = interrupted(30, 3)
    waiting = loader(records(40))
    waiting.load_state_dict(state, grown="next_epoch")
    assert waiting.state_dict()["lengths"] == [[[0, 30], [30, 40]]]
    resumed = loader(records(50))
    resumed.load_state_dict(waiting.state_dict(), grown="now")
    assert resumed.state_dict()["lengths"] == [[[0, 30], [21, 50]]]
    assert resumed.remaining == 5


def test_epochs_of_a_grown_run_can_be_set() -> None:
    _, state = interrupted(30, 3)
    resumed = loader(records(40))
    resumed.load_state_dict(state, grown="now")
    for epoch, position in ((1, 40), (3, 120), (0, 0)):
        resumed.set_epoch(epoch)
        assert resumed.position == position
        assert sorted(values(resumed)) == records(40)


# ---- errors


def test_error_names_appended_records(tmp_path: Path) -> None:
    def write(numbers: range) -> Any:
        with dataformats.create(
            tmp_path / "x", "tfrecord", append=True, spec={"value": "int64"}, shard_records=10
        ) as writer:
            writer.extend({"value": number} for number in numbers)
        return dataformats.open(tmp_path / "x")

    state = loader(write(range(20))).state_dict()
    source = write(range(20, 45))
    with pytest.raises(StateMismatchError, match=r"25 records from record 20 on in '.*' and 2 more files") as raised:
        loader(source).load_state_dict(state)
    assert "grown='now'" in str(raised.value)
    assert (raised.value.expected, raised.value.found) == (20, 45)


@loop_over("other", [records(29), [*range(5), *records(40)], records(30)[::-1]])
def test_other_data_are_refused(other: list[int]) -> None:
    _, state = interrupted(30, 3)
    resumed = loader(other)
    with pytest.raises(StateMismatchError, match="fingerprint of the first 30 records") as raised:
        resumed.load_state_dict(state, grown="now")
    assert "must come last" in str(raised.value)
    with pytest.raises(StateMismatchError, match="fingerprint differs"):
        resumed.load_state_dict(state)
    assert resumed.position == 0


def test_wrong_arguments_are_refused() -> None:
    _, state = interrupted(30, 3)
    with pytest.raises(ValueError, match="'now' or 'next_epoch'"):
        loader(records(40)).load_state_dict(state, grown="later")
    with pytest.raises(ValueError, match="strict=False"):
        loader(records(40)).load_state_dict(state, strict=False, grown="now")


@loop_over(
    "lengths",
    [
        [],
        [[]],
        [[[0, 30]], [[0, 30]]],
        [[[0, 31]]],
        [[[0, 2**61]]],
        [[[0, 30], [5, 30]]],
        [[[0, 0], [5, 30]]],
        7,
        [[[0]]],
    ],
)
def test_hostile_lengths_are_refused(lengths: Any) -> None:
    _, state = interrupted(30, 3)
    state["lengths"] = lengths
    state["check"] = _check(state)
    for source in (records(30), records(40)):
        one = loader(source)
        try:
            one.load_state_dict(state, grown="now")
        except StateMismatchError:
            continue
        assert lengths == []  # as in a state of a release without them


def test_lightning_does_not_cut_later_epochs() -> None:
    _, state = interrupted(30, 3)
    waiting, now = loader(records(50)), loader(records(50))
    waiting.load_state_dict(state, grown="next_epoch")
    now.load_state_dict(state, grown="now")
    with pytest.raises(StateMismatchError, match="length of epochs"):
        waiting.batch_sampler.set_epoch(0)
    now.batch_sampler.set_epoch(0)
    assert len(now) == 8 == 3 + now.remaining


def test_places_of_large_data_are_found_fast() -> None:
    """A run over 10^9 records that grew twice locates the records of a batch without a pass over them."""
    from dataformats.loaders.epochs import Epochs
    from dataformats.loaders.plan import Plan
    from dataformats.loaders.shuffle import Shuffle

    n = 10**9
    epochs = Epochs.of(n).grow(n // 3, 2 * n, "now").grow(n, 3 * n, "now")
    plan = Plan((3 * n,), 3 * n, Shuffle.of("window"), 1, grown=(epochs, epochs))
    found = plan.locate(np.arange(2 * n, 2 * n + 1000)).record
    assert len(np.unique(found)) == 1000
    assert {0, 1, 2} == set((found // n).tolist())
