"""A run delivers no record and no position of its skip list, and all others as before."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, StateMismatchError
from dataformats.loaders.quarantine import Quarantined
from dataformats.loaders.skip_list import SkipList
from dataformats.testing.loop_over import loop_over

N = 60


def loader(skip: Any = (), **options: Any) -> dataformats.Loader:
    return dataformats.Loader(np.arange(N), **{"batch_size": 7, "seed": 4, "workers": 0, **options}, skip=skip)


def rows(batches: Any) -> dict[int, int]:
    """Return position to record."""
    return {
        position: value
        for batch in batches
        for position, value in zip(batch.positions.tolist(), batch["value"].tolist(), strict=True)
    }


@loop_over(
    "order", [{}, {"shuffle": False}, {"shuffle": "window", "block_records": 4, "window_blocks": 3, "groups": 2}]
)
@loop_over("workers", [{}, {"workers": 2}, {"workers": 1, "worker_type": "process"}])
def test_records_leave_holes_and_all_others_keep_their_places(order: Any, workers: Any) -> None:
    whole, listed = loader(**order), loader([3, 3, 41, 59], **order, **workers)
    with listed:
        for _ in range(2):
            expected = [{p: v for p, v in rows([batch]).items() if v not in (3, 41, 59)} for batch in whole]
            assert [rows([batch]) for batch in listed] == expected
    assert listed.step == whole.step


def test_positions_are_taken_out_as_by_skip() -> None:
    skipped, listed = loader(), loader([(5, 20), (70, 71)])
    skipped.skip(5, 20)
    skipped.skip(70, 71)
    for _ in range(2):
        assert [rows([batch]) for batch in listed] == [rows([batch]) for batch in skipped]
    state = listed.state_dict()
    assert state.pop("skip_list")
    assert {**state, "check": ""} == {**skipped.state_dict(), "check": ""}


def test_each_rank_leaves_out_its_part() -> None:
    found: dict[int, int] = {}
    for rank in range(3):
        found |= rows(loader([0, 1, 2], rank=rank, world_size=3))
    assert sorted(found.values()) == [*range(3, N)]


def test_ranks_with_no_record_left_receive_empty_batches() -> None:
    listed = loader(range(7), shuffle=False)
    first = next(iter(listed))
    assert (first["value"].shape, first["value"].dtype) == ((0,), np.int64)
    padded = loader(range(6), shuffle=False, pad_last=True)
    first = next(iter(padded))
    assert first["value"].tolist() == [6] * 7
    assert first.padding.tolist() == [False, *[True] * 6]


def test_records_of_a_mixture_have_a_component() -> None:
    mixture = dataformats.mix({"a": range(10), "b": range(100, 140)}, {"a": 1, "b": 1}, until="all")
    whole = dataformats.Loader(mixture, 8)
    traced = [one for one in whole.trace(0) if one.component]
    listed = dataformats.Loader(mixture, 8, skip=traced)
    gone = {100 + one.index for one in traced}
    assert gone
    for _ in range(2):
        assert [[v for v in b["value"].tolist() if v not in gone] for b in whole] == [
            b["value"].tolist() for b in listed
        ]
    with pytest.raises(StateMismatchError, match="record 10 of component 0"):
        dataformats.Loader(mixture, 8, skip=[10])
    with pytest.raises(StateMismatchError, match="record 0 of component 2"):
        dataformats.Loader(mixture, 8, skip=[Quarantined("", 0, "", 2)])


# ---- the file


def test_file_has_the_documented_content(tmp_path: Path) -> None:
    path, source = tmp_path / "skip.json", loader()
    found = source.skip_list([41, 3, (5, 9), Quarantined("a", 7, "damaged"), *source.trace(0)[:1]])
    found.save(path)
    records = sorted({41, 3, 7, source.trace(0)[0].index})
    assert json.loads(path.read_text()) == {
        "version": 1,
        "fingerprint": source.state_dict()["fingerprint"],
        "records": [records],
        "positions": [[5, 9]],
        "sizes": [[60, 60]],
    }
    loaded = SkipList.load(path)
    assert loaded.digest == found.digest
    assert rows(loader(path)) == rows(loader(str(path))) == rows(loader(found))
    assert loader(path).state_dict()["skip_list"] == loader([*records, (5, 9)]).state_dict()["skip_list"]


def test_lists_of_other_data_are_refused(tmp_path: Path) -> None:
    other = dataformats.Loader(np.arange(100), 7)
    other.skip_list([3]).save(tmp_path / "skip.json")
    with pytest.raises(StateMismatchError, match="fingerprint of the skip list differs") as caught:
        loader(tmp_path / "skip.json")
    assert {caught.value.expected, caught.value.found} == {
        other.state_dict()["fingerprint"],
        loader().state_dict()["fingerprint"],
    }
    with pytest.raises(StateMismatchError, match="fingerprint"):
        _ = loader().skip_list([1]) | other.skip_list([1])
    with pytest.raises(StateMismatchError, match="record 60"):
        loader([60])


@loop_over(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "fingerprint": "", "records": [], "positions": []}',
        '{"version": 1, "fingerprint": "", "records": [[-1]], "positions": []}',
        '{"version": 1, "fingerprint": "", "records": [[1.5]], "positions": []}',
        '{"version": 1, "fingerprint": "", "records": 3, "positions": []}',
        '{"version": 1, "fingerprint": "", "records": [], "positions": [[3, 2]]}',
        '{"version": 1, "fingerprint": "", "records": [], "positions": [[3]]}',
    ],
)
def test_other_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "skip.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=r"skip\.json.*expected a skip list of version 1"):
        loader(path)


@loop_over("entry", ["a.tfrecord", 1.5, -1, None, (1, 2, 3), Quarantined("", -1, ""), Quarantined("", 1, "", -1)])
def test_other_entries_are_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match="index of a record to skip: expected a whole number"):
        loader([entry])
    with pytest.raises(TypeError, match="two integers"):
        loader([(1, 2.5)])


def test_lists_are_joined() -> None:
    source = loader()
    joined = source.skip_list([3, (5, 9)]) | source.skip_list([1, 3, (8, 12)])
    assert joined.digest == source.skip_list([1, 3, (5, 12)]).digest
    mixture = dataformats.Loader(dataformats.mix({"a": range(9), "b": range(9)}, {"a": 1, "b": 1}), 4)
    of_b, of_a = mixture.skip_list([Quarantined("", 3, "", 1)]), mixture.skip_list([4])
    assert (of_a | of_b).digest == (of_b | of_a).digest == mixture.skip_list([Quarantined("", 3, "", 1), 4]).digest
    assert repr(joined) == "SkipList(2 records, 7 positions)"
    assert source.skip_list([]).digest is None
    assert loader(np.array([3])).state_dict()["skip_list"] == source.skip_list([3]).digest


# ---- resuming


def test_states_name_the_list_and_refuse_another_one() -> None:
    plain, listed, other = loader(), loader([3, (9, 12)]), loader([4])
    for saved, loading in ((plain, listed), (listed, plain), (listed, other)):
        state = saved.state_dict()
        with pytest.raises(StateMismatchError, match="skip list differs") as caught:
            loading.load_state_dict(state)
        assert caught.value.expected == state.get("skip_list", "none")
        assert caught.value.found == loading.state_dict().get("skip_list", "none")
        assert "new_skip=True" in str(caught.value)
    again = loader([(9, 12), 3])
    again.load_state_dict(json.loads(json.dumps(listed.state_dict())))
    assert "skip_list" not in plain.state_dict()


def test_a_new_list_applies_from_the_position_of_the_state() -> None:
    plain = loader()
    received = rows(itertools.islice(plain, 4))
    traces = [plain.trace(step) for step in range(4)]
    state = json.loads(json.dumps(plain.state_dict()))
    bad = traces[3][2].index
    second = loader([bad, (0, 30), (90, 95)], new_skip=True, batch_size=9)
    second.load_state_dict(state)
    assert second.state_dict()["skips"] == [[28, 30], [90, 95]]
    assert [second.trace(step) for step in range(4)] == traces
    found = rows(second) | rows(second)
    whole = loader()
    expected = rows(whole) | rows(whole)
    gone = {*range(28, 30), *range(90, 95)}
    assert received == {p: v for p, v in expected.items() if p < 28}
    assert found == {p: v for p, v in expected.items() if p >= 28 and p not in gone and v != bad}

    third = loader([], new_skip=True)
    third.load_state_dict(second.state_dict())
    assert third.state_dict()["skips"] == [[28, 30], [90, 95]]  # skipped positions stay out of the run
    assert bad in rows(third).values()


def test_other_data_keep_the_list_of_the_loader() -> None:
    state = dataformats.Loader(np.arange(100), 7, skip=[99]).state_dict()
    listed = loader([3])
    listed.load_state_dict(state, strict=False)
    assert 3 not in rows(listed).values()


def test_samplers_refuse_states_with_a_list() -> None:
    torch = pytest.importorskip("dataformats.loaders.pytorch")
    with pytest.raises(StateMismatchError, match="skip list"):
        torch.PlanSampler(np.arange(N), seed=4).load_state_dict(loader([3]).state_dict())
