"""The Loader: which records it delivers, on how many ranks, from which position."""

from __future__ import annotations

import gc
import itertools
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataformats
from dataformats import Loader
from dataformats.errors import FormatError, SpecError, StateMismatchError, WorkerError
from dataformats.loaders.prefetch_threads import ThreadPrefetcher
from dataformats.loaders.prefetcher import BuildBatch, FixedTask
from dataformats.testing.loop_over import loop_over
from tests.campaign import share
from tests.loaders.fake_clock import pass_while
from tests.waiting import LIMIT_S, wait_until

SPEC = {"index": "int64", "image": "uint8[4,3]", "name": "utf8"}


def record(index: int) -> dict[str, Any]:
    return {"index": index, "image": np.full((4, 3), index % 251, np.uint8), "name": f"record {index}"}


def write(path: Path, n: int, format: str = "tfrecord") -> Path:
    with dataformats.create(path, format, spec=SPEC) as writer:
        writer.extend(map(record, range(n)))
    return path


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dataformats.RecordSource:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    return dataformats.open(write(tmp_path / "a.tfrecord", 103), spec=SPEC)


def indices(batches: Any) -> list[int]:
    return [int(index) for batch in batches for index in batch["index"]]


def a_step(loaders: list[Loader]) -> Iterator[list[Any]]:
    return zip(*loaders, strict=True)  # type: ignore[return-value]  # every rank has as many batches


# ---- one rank


@pytest.mark.parametrize("shuffle", [True, "window", False])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_epoch_has_every_record_once(source: Any, shuffle: Any, workers: int) -> None:
    with Loader(source, 10, shuffle=shuffle, workers=workers, block_records=7, window_blocks=2) as loader:
        assert len(loader) == 11
        batches = list(loader)
        assert [len(batch["index"]) for batch in batches] == [10] * 10 + [3]
        assert sorted(indices(batches)) == list(range(103))
        assert (indices(batches) == list(range(103))) == (shuffle is False)
        for batch in batches:
            assert [int(row[0, 0]) for row in batch["image"]] == [int(i) % 251 for i in batch["index"]]
            assert list(batch["name"]) == [f"record {i}" for i in batch["index"]]
            assert loader.locate(batch.positions).record.tolist() == batch["index"].tolist()
            assert not batch.padding.any()


def test_epochs_differ_in_order(source: Any) -> None:
    loader = Loader(source, 20)
    orders = [indices(loader) for _ in range(3)]
    assert loader.epoch == 3
    assert loader.position == 309
    assert len({tuple(order) for order in orders}) == 3
    assert indices(Loader(source, 7, workers=0)) == orders[0]
    assert indices(Loader(source, 7, seed=1)) != orders[0]
    forever = Loader(source, 50).forever()
    assert indices(next(forever) for _ in range(9)) == [index for order in orders for index in order]


def test_drop_last_leaves_out_the_partial_step(source: Any) -> None:
    loader = Loader(source, 20, drop_last=True)
    assert len(loader) == 5
    first = list(loader)
    assert [len(batch["index"]) for batch in first] == [20] * 5
    assert loader.position == 103
    assert loader.epoch == 1
    near_the_end = Loader(source, 95)
    next(iter(near_the_end))
    loader.load_state_dict(near_the_end.state_dict())
    assert loader.position == 95
    assert list(loader) == []
    assert loader.position == 103


# ---- several ranks


@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_ranks_share_each_step_in_runs(source: Any, world_size: int) -> None:
    whole = indices(Loader(source, 4 * world_size))
    loaders = [Loader(source, 4, rank=rank, world_size=world_size) for rank in range(world_size)]
    steps = list(a_step(loaders))
    assert len(steps) == len(loaders[0]) == -(-103 // (4 * world_size))
    assert [index for step in steps for index in indices(step)] == whole
    for step in steps:
        lengths = [len(batch["index"]) for batch in step]
        assert max(lengths) - min(lengths) <= 1
    states = [loader.state_dict() for loader in loaders]
    assert all(state == states[0] for state in states)


@given(data=st.data(), groups=st.integers(1, 5), seed=st.integers(0, 99), mixed=st.booleans())
@settings(deadline=None, max_examples=share(60))
def test_a_window_order_is_the_same_on_any_ranks(data: st.DataObject, groups: int, seed: int, mixed: bool) -> None:
    """Ranks, batch sizes and skips change at random steps; each record comes once, in the order of one rank."""
    source: Any = range(103)
    if mixed:
        source = dataformats.mix({"a": range(70), "b": range(100, 133)}, weights={"a": 70, "b": 33}, until=103)
    order: dict[str, Any] = {"shuffle": "window", "seed": seed, "block_records": 4, "window_blocks": 3}
    expected = np.concatenate([b["value"] for b in Loader(source, 9, workers=0, groups=groups, **order)]).tolist()
    found: list[int] = []
    state = Loader(source, 1, workers=0, groups=groups, **order).state_dict()
    while len(found) < len(expected):
        world_size, batch_size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 7))
        ranks = [
            Loader(source, batch_size, workers=0, rank=r, world_size=world_size, **order) for r in range(world_size)
        ]
        for loader in ranks:
            loader.load_state_dict(state)
        for step in itertools.islice(a_step(ranks), data.draw(st.integers(1, 5))):
            rows = {int(p): int(v) for batch in step for p, v in zip(batch.positions, batch["value"], strict=True)}
            assert sorted(rows) == list(range(len(found), len(found) + len(rows)))
            found += [rows[position] for position in sorted(rows)]
        states = [loader.state_dict() for loader in ranks]
        assert all(one == states[0] for one in states)
        state = json.loads(json.dumps(states[0]))
    assert found == expected
    assert state["shuffle"] == ["window", 4, 3, groups]


def test_other_groups_than_in_the_state_raise() -> None:
    order: dict[str, Any] = {"shuffle": "window", "block_records": 4}
    state = Loader(range(100), 9, workers=0, groups=2, **order).state_dict()
    with pytest.raises(StateMismatchError, match="groups=2"):
        Loader(range(100), 9, workers=0, groups=3, **order).load_state_dict(state)
    resumed = Loader(range(100), 9, workers=0, rank=1, world_size=5, **order)
    assert resumed.state_dict()["shuffle"] == ["window", 4, 256, 5]
    resumed.load_state_dict(state)
    assert resumed.state_dict()["shuffle"] == ["window", 4, 256, 2]


def test_a_rank_without_a_record_gets_an_empty_batch_of_the_right_kind(tmp_path: Path) -> None:
    source = dataformats.open(write(tmp_path / "a.tfrecord", 9), spec=SPEC)
    transforms: list[Callable[..., Any] | None] = [None, lambda record: {**record, "half": np.float32(0.5)}]
    for transform in transforms:
        loaders = [Loader(source, 2, rank=rank, world_size=4, transform=transform) for rank in range(4)]
        last = list(a_step(loaders))[-1]
        assert [len(batch["index"]) for batch in last] == [0, 0, 0, 1]
        for batch in last:
            assert batch["image"].shape[1:] == (4, 3)
            assert batch["image"].dtype == np.uint8
            assert batch["index"].dtype == np.int64
            assert batch.positions.shape == batch["index"].shape == batch.padding.shape
            assert transform is None or batch["half"].dtype == np.float32


def test_pad_last_repeats_rows_and_marks_them(tmp_path: Path) -> None:
    source = dataformats.open(write(tmp_path / "a.tfrecord", 9), spec=SPEC)
    loaders = [Loader(source, 4, rank=rank, world_size=2, pad_last=True) for rank in range(2)]
    last = list(a_step(loaders))[-1]
    for batch in last:
        assert len(batch["index"]) == len(batch["name"]) == len(batch.positions) == 4
        assert loaders[0].locate(batch.positions).record.tolist() == batch["index"].tolist()
    assert [batch.padding.tolist() for batch in last] == [[True] * 4, [False, True, True, True]]


# ---- state


def test_a_state_at_every_step_continues_with_the_rest(source: Any) -> None:
    loader = Loader(source, 9, seed=5)
    whole: list[int] = []
    states = []
    for batch in loader.forever():
        states.append((len(whole), json.loads(json.dumps(loader.state_dict()))))
        whole += batch["index"].tolist()
        if loader.epoch == 2:
            break
    states = [(n + 9 if n % 103 + 9 < 103 else -(-(n + 1) // 103) * 103, state) for n, state in states]
    for n, state in states:
        resumed = Loader(source, 9, seed=5, workers=1)
        resumed.load_state_dict(state)
        assert resumed.position == n
        rest = []
        while resumed.position < 206:
            rest += indices(resumed)
        assert rest == whole[n:]


def test_ranks_workers_and_batch_size_may_change_at_every_step(source: Any) -> None:
    whole = indices(Loader(source, 103, workers=0))
    shapes = [(1, 10), (3, 5), (2, 7), (5, 1), (4, 9)]
    state: dict[str, Any] | None = None
    seen: list[int] = []
    at = 0
    while len(seen) < 103:
        world_size, batch_size = shapes[at % len(shapes)]
        loaders = [
            Loader(source, batch_size, rank=rank, world_size=world_size, workers=at % 3) for rank in range(world_size)
        ]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        seen += indices(next(iter(loader)) for loader in loaders)
        state = loaders[-1].state_dict()
        for loader in loaders:
            loader.close()
        at += 1
    assert seen == whole


def test_load_state_dict_during_an_iteration(source: Any) -> None:
    whole = indices(Loader(source, 10))
    loader = Loader(source, 10)
    start = loader.state_dict()
    got = []
    for number, batch in enumerate(loader):
        got += batch["index"].tolist()
        if number == 3:
            loader.load_state_dict(start)
    assert got == whole[:40] + whole


def test_states_of_other_runs_raise(source: Any, tmp_path: Path) -> None:
    state = Loader(source, 10).state_dict()
    others = [
        (Loader(source[:100], 10), "fingerprint"),
        (Loader(source, 10, seed=1), "seed"),
        (Loader(source, 10, shuffle=False), "shuffle"),
    ]
    for loader, name in others:
        with pytest.raises(StateMismatchError, match=name):
            loader.load_state_dict(state)
        loader.load_state_dict(state, strict=False)


def test_one_cursor(source: Any) -> None:
    loader = Loader(source, 10)
    old = iter(loader)
    first = next(old)
    new = iter(loader)
    second = next(new)
    assert second.positions[0] == first.positions[-1] + 1
    with pytest.raises(RuntimeError, match="one cursor"):
        next(old)
    loader.close()
    with pytest.raises(RuntimeError):
        next(new)
    assert next(iter(loader)).positions[0] == second.positions[-1] + 1


def test_skip_leaves_other_positions_unchanged(source: Any) -> None:
    whole = indices(Loader(source, 103))
    loaders = [Loader(source, 5, rank=rank, world_size=2) for rank in range(2)]
    seen: list[int] = []
    for number, step in enumerate(a_step(loaders)):
        seen += indices(step)
        if number == 1:
            for loader in loaders:
                loader.skip(25, 47)
                loader.skip(90, 500)
    assert seen == whole[:25] + whole[47:90]
    assert loaders[0].position == 103
    resumed = Loader(source, 10)
    resumed.load_state_dict(loaders[1].state_dict())
    assert list(resumed) == []  # nothing is left of epoch 1
    assert resumed.position == 206
    assert next(resumed.forever()).positions[0] == 500


# ---- transforms


def test_the_generator_depends_on_seed_and_position_alone(source: Any) -> None:
    def noisy(record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"index": record["index"], "noise": rng.random(3), "die": int(rng.integers(6))}

    runs = [
        {
            int(index): noise.tolist()
            for batch in Loader(source, batch_size, transform=noisy, workers=workers, seed=seed)
            for index, noise in zip(batch["index"], batch["noise"], strict=True)
        }
        for batch_size, workers, seed in ((10, 0, 0), (7, 3, 0), (10, 0, 1))
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert len({tuple(noise) for noise in runs[0].values()}) == 103


def test_collate_and_batch_transform(source: Any) -> None:
    def total(records: list[dict[str, Any]]) -> dict[str, Any]:
        return {"index": np.array([one["index"] for one in records]), "n": np.full(len(records), len(records))}

    def doubled(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "double": 2 * batch["index"]}

    batches = list(Loader(source, 50, collate=total, batch_transform=doubled))
    assert [batch["n"].tolist() for batch in batches] == [[50] * 50, [50] * 50, [3] * 3]
    assert all((batch["double"] == 2 * batch["index"]).all() for batch in batches)
    assert len(batches[0].positions) == 50


def test_unstackable_values_name_field_and_records(source: Any) -> None:
    def cut(record: dict[str, Any]) -> dict[str, Any]:
        return {"image": record["image"][: 2 + record["index"] % 2]}

    with pytest.raises(SpecError, match=r"field 'image': .*record \d+ has uint8\[2, 3\].*record \d+ has uint8\[3, 3\]"):
        list(Loader(source, 10, transform=cut, shuffle=False))


def test_an_error_of_a_transform_names_the_record(source: Any) -> None:
    def fails(record: dict[str, Any]) -> dict[str, Any]:
        if record["index"] == 57:
            raise KeyError("a bug of the caller")
        return record

    for workers in (0, 2):
        with pytest.raises(KeyError, match="a bug") as caught:
            list(Loader(source, 10, transform=fails, workers=workers))
        assert any("record 57 of" in note and "a.tfrecord" in note for note in caught.value.__notes__)


@loop_over("data", [[3, 1, 4, 1, 5, 9, 2, 6], np.arange(8.0), [{"x": i} for i in range(8)]])
def test_any_sequence_is_a_source(data: Any) -> None:
    loader = Loader(data, 3)
    got = [value for batch in loader for value in batch[next(iter(batch))].tolist()]
    assert sorted(got) == sorted(item["x"] if isinstance(item, dict) else float(item) for item in data)
    other = Loader(list(data)[:-1], 3)
    with pytest.raises(StateMismatchError, match="fingerprint"):
        other.load_state_dict(loader.state_dict())


# ---- damage


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dataformats.RecordSource:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    path = write(tmp_path / "a.tfrecord", 40)
    data = bytearray(path.read_bytes())
    for index in (7, 8, 30):
        data[data.index(f"record {index}".encode())] ^= 1
    path.write_bytes(data)
    return dataformats.open(path, payload="example", spec=SPEC)  # the sidecar describes the sound file


def test_on_corrupt(damaged: Any) -> None:
    with pytest.raises(FormatError) as caught:
        list(Loader(damaged, 8))
    assert caught.value.index in (7, 8, 30)
    assert any("on_corrupt" in note for note in caught.value.__notes__)
    loader = Loader(damaged, 8, on_corrupt="omit", shuffle=False)
    batches = list(loader)
    assert indices(batches) == [i for i in range(40) if i not in (7, 8, 30)]
    assert [batch.positions.tolist() for batch in batches] == [batch["index"].tolist() for batch in batches]
    assert loader.quarantined == []
    assert loader.stats().omitted == 3
    loader = Loader(damaged, 8, on_corrupt="quarantine")
    list(loader)
    assert sorted(found.index for found in loader.quarantined) == [7, 8, 30]
    assert all("a.tfrecord" in found.path and found.reason for found in loader.quarantined)
    again = Loader(damaged, 8, skip=loader.quarantined, new_skip=True)
    again.load_state_dict(Loader(damaged, 8).state_dict())
    assert sorted(indices(again)) == [i for i in range(40) if i not in (7, 8, 30)]


def test_a_loader_continues_after_an_error(damaged: Any) -> None:
    loader = Loader(damaged, 8, shuffle=False)
    with pytest.raises(FormatError):
        list(loader)
    assert loader.position == 0
    loader.skip(7, 9)
    loader.skip(30, 31)
    assert indices(loader) == [i for i in range(40) if i not in (7, 8, 30)]


# ---- threads


def loader_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("dataformats-loader")}


def all_end(threads: set[threading.Thread]) -> bool:
    """Wait for threads, which may have to wait for a CPU core."""
    for thread in threads:
        thread.join(LIMIT_S)
    return not any(thread.is_alive() for thread in threads)


def test_no_thread_is_left(source: Any) -> None:
    before = loader_threads()
    loader = Loader(source, 10, workers=3)
    next(iter(loader))
    mine = loader_threads() - before
    assert len(mine) == 3
    loader.close()
    assert all_end(mine)
    loader = Loader(source, 10, workers=3)
    next(iter(loader))
    mine = loader_threads() - before
    gc.disable()
    try:
        del loader  # it is in no reference cycle
        assert all_end(mine)
    finally:
        gc.enable()


@pytest.mark.parametrize("prefetch_bytes", [1, 2**30])
def test_often_restarted_prefetcher_makes_progress(prefetch_bytes: int) -> None:
    """Workers that wait for room or tasks are woken up, in any order of events."""
    loader = Loader(list(range(7)), 1, shuffle=False, workers=3, prefetch_bytes=prefetch_bytes, hang_timeout_s=240)
    for turn in range(100):
        stop = turn % 7
        for batch in loader:
            if int(batch["value"][0]) == stop:
                break
        loader.set_epoch(loader.epoch + 1)
    assert [int(batch["value"][0]) for batch in loader] == list(range(7))
    loader.close()


def test_a_prefetcher_closed_by_its_own_worker(source: Any) -> None:
    """A garbage collection runs in the thread that allocates, perhaps one that looks for its next task."""
    prefetcher: ThreadPrefetcher
    is_closed = threading.Event()

    def tasks() -> Iterator[Any]:
        prefetcher.close()
        is_closed.set()
        yield from ()

    def make(task: Any, progress: Any) -> Any:
        raise AssertionError("there is no task")

    prefetcher = ThreadPrefetcher(cast(BuildBatch, make), 2, prefetch=1, prefetch_bytes=2**20, hang_timeout_s=240)
    prefetcher.start(tasks())
    assert is_closed.wait(LIMIT_S)
    prefetcher.close()
    assert all_end(set(prefetcher._threads))


EXIT = """
import atexit, threading
from dataformats import Loader, loaders

loaders.prefetch_threads._JOIN_TIMEOUT_S = 0
ends, begun = threading.Event(), threading.Event()

def transform(record):
    begun.set()
    assert ends.wait(LIMIT)
    print("transformed", flush=True)
    return record

loader = Loader([{"a": 1}], 1, workers=1, transform=transform)
thread = threading.Thread(target=next, args=(iter(loader), None), daemon=True)
thread.start()
assert begun.wait(LIMIT)
if CLOSE:
    loader.close()
atexit.register(ends.set)
"""


@loop_over("close", [False, True])
def test_the_process_waits_for_its_threads(close: bool) -> None:
    """Else it is aborted if they are in a library's code."""
    code = EXIT.replace("LIMIT", str(LIMIT_S)).replace("CLOSE", str(close))
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "transformed\n"


def test_batch_finished_during_close_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may close it between the end of a batch and its delivery."""
    monkeypatch.setattr("dataformats.loaders.prefetch_threads._JOIN_TIMEOUT_S", 0)
    release = threading.Event()
    make = cast(BuildBatch, lambda task, progress: release.wait(LIMIT_S))
    prefetcher = ThreadPrefetcher(make, 1, prefetch=1, prefetch_bytes=2**20, hang_timeout_s=240)

    def close(watch: Any) -> None:
        prefetcher._jobs[0].is_done = True
        prefetcher.close()

    monkeypatch.setattr("dataformats.loaders.prefetch_threads.Watchdog.check", close)
    prefetcher.start(iter([FixedTask(np.arange(1), np.arange(1))]))
    with pytest.raises(RuntimeError, match="closed while a batch was awaited"):
        prefetcher.take()
    release.set()
    assert all_end(set(prefetcher._threads))


def test_a_hang_is_named(source: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.loaders.watchdog._WARN_AFTER_S", 0.1)
    hanging, release = threading.Event(), threading.Event()
    pass_while(hanging.is_set, monkeypatch)

    def hangs(record: dict[str, Any]) -> dict[str, Any]:
        if record["index"] == 57:
            hanging.set()
            release.wait(LIMIT_S)
        return record

    loader = Loader(source, 10, workers=1, transform=hangs, hang_timeout_s=0.2, shuffle=False)
    with caplog.at_level(logging.WARNING, "dataformats"), pytest.raises(WorkerError, match="record 57 of"):
        list(loader)
    assert "record 57 of" in caplog.text
    release.set()
    loader.close()


def test_a_busy_worker_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """It computes for five times the limit between two records; then it waits, which is a hang."""
    looks: list[bool] = []
    computes, waits, release = threading.Event(), threading.Event(), threading.Event()

    def passes() -> bool:
        looks.append(computes.is_set())
        return looks[-1] or waits.is_set()

    pass_while(passes, monkeypatch)

    def transform(record: int) -> int:
        if record == 4:
            computes.set()
            while sum(looks) < 10:
                pass
            computes.clear()
        if record == 5:
            waits.set()
            release.wait(LIMIT_S)
        return record

    loader = Loader(list(range(8)), 1, shuffle=False, workers=1, transform=transform, hang_timeout_s=0.2)
    seen: list[int] = []
    with pytest.raises(WorkerError, match="record 5") as caught:
        seen.extend(int(batch["value"][0]) for batch in loader)
    assert seen == [0, 1, 2, 3, 4]
    assert any("release.wait(LIMIT_S)" in note for note in caught.value.__notes__)
    release.set()
    loader.close()


def is_idle(loader: Loader) -> bool:
    """Return True if both workers wait for room or for tasks."""
    prefetcher = cast(Any, loader._session._prefetcher)
    with prefetcher._lock:
        return all(job.is_done for job in prefetcher._jobs) and prefetcher._n_waiting >= 2


def test_prefetch_is_bounded(source: Any) -> None:
    made: list[int] = []

    def counted(record: dict[str, Any]) -> dict[str, Any]:
        made.append(record["index"])
        return record

    for options, most in (({"prefetch": 3}, 60), ({"prefetch": 50, "prefetch_bytes": 300}, 40)):
        made.clear()
        with Loader(source, 10, transform=counted, workers=2, **options) as loader:  # type: ignore[arg-type]
            next(iter(loader))
            wait_until(lambda: len(made) >= 20 and is_idle(loader))
            assert len(made) <= most + 10


# ---- arguments


@pytest.mark.parametrize("drop_last", [False, True])
def test_no_batch_of_the_next_epoch_is_built_ahead(source: Any, drop_last: bool) -> None:
    built: list[int] = []

    def note(record: Any) -> Any:
        built.append(record["index"])
        return record

    with Loader(source, 10, workers=2, drop_last=drop_last, transform=note) as loader:
        seen = indices(loader)
        wait_until(lambda: is_idle(loader))
        assert sorted(built) == sorted(seen)
        seen = indices(loader)  # the next epoch begins with its iteration
        assert len(built) == 2 * len(seen)
        endless = loader.forever()
        third = [next(endless) for _ in range(len(loader) + 1)]
        assert [batch.positions[0] for batch in third][-1] == 3 * len(source)
        assert len(indices(loader)) == len(seen) - 10
        last = list(zip(range(len(loader)), loader, strict=False))  # the iteration is dropped before it ends
        assert len(last) == len(loader)
        assert len(indices(loader)) == len(seen)


def test_invalid_arguments(source: Any) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 0}, "batch_size"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"workers": -1}, "workers"),
        ({"prefetch": 0}, "prefetch"),
        ({"worker_type": "fiber"}, "worker_type"),
        ({"on_corrupt": "skip"}, "on_corrupt"),
        ({"shuffle": "blocks"}, "shuffle"),
        ({"seed": -1}, "seed"),
        ({"to": "tensorflow"}, "to"),
        ({"drop_last": True, "batch_size": 104}, "drop_last"),
    ]
    for options, name in wrong:
        with pytest.raises(ValueError, match=name):
            Loader(source, **{"batch_size": 10, **options})
    with pytest.raises(ValueError, match="source is empty"):
        Loader(source[:0], 10)
    for data in (5, "a.tfrecord", {"x": 1}):
        with pytest.raises(TypeError, match="sequence"):
            Loader(data, 10)


# ---- mixtures


def test_a_mixture_keeps_its_weights_without_repeats(source: Any) -> None:
    mixture = dataformats.mix({"few": source[:20], "many": source[20:]}, weights={"few": 1, "many": 2}, until="all")
    loader = Loader(mixture, 9)
    places = [loader.locate(batch.positions) for batch in loader]
    batches = list(loader)  # the epoch after it
    assert [int((place.component == 0).sum()) for place in places[:-1]] == [3] * (len(places) - 1)
    many = [int(r) for place in places for r, c in zip(place.record, place.component, strict=True) if c == 1]
    assert sorted(many) == list(range(83))
    for batch in batches:
        place = loader.locate(batch.positions)
        expected = place.record + np.where(place.component == 1, 20, 0)
        assert batch["index"].tolist() == expected.tolist()
        assert list(batch["name"]) == [f"record {index}" for index in expected]


def test_weights_of_a_mixture_change_from_a_position_on(source: Any) -> None:
    parts = {"a": source[:50], "b": source[50:]}

    def loader_of(a: int, b: int, **options: Any) -> Loader:
        return Loader(dataformats.mix(parts, weights={"a": a, "b": b}), 10, **options)

    first = loader_of(1, 1)
    batches = first.forever()
    seen = indices(next(batches) for _ in range(3))
    second = loader_of(3, 1, workers=0)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    batches = second.forever()
    seen += indices(next(batches) for _ in range(4))
    assert seen[:30] == indices(next(batches) for batches in [loader_of(1, 1).forever()] * 3)
    assert [index < 50 for index in seen].count(True) == 15 + 30
    assert len(set(seen)) == 70  # nothing came twice
    third = loader_of(3, 1, workers=1)
    third.load_state_dict(second.state_dict())
    assert third.state_dict() == second.state_dict()
    assert next(third.forever()).positions.tolist() == next(batches).positions.tolist()


# ---- changed data


def test_filters_and_other_content_are_other_data(source: Any, tmp_path: Path) -> None:
    state = Loader(source, 10).state_dict()
    even = source.where(lambda record: record["index"] % 2 == 0)
    with pytest.raises(StateMismatchError, match="fingerprint"):
        Loader(even, 10).load_state_dict(state)
    Loader(source.select("index"), 10).load_state_dict(state)  # the same records
    other = tmp_path / "b.tfrecord"
    with dataformats.create(other, "tfrecord", spec=SPEC) as writer:
        writer.extend(record(index + (index == 50)) for index in range(103))
    with pytest.raises(StateMismatchError, match="Open the same files"):
        Loader(dataformats.open(other, spec=SPEC), 10).load_state_dict(state)


def test_file_shrinking_during_loading_raises(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ffr", 5000, "ffrecord")
    with Loader(dataformats.open(path, spec=SPEC), 10, workers=1) as loader:
        batches = iter(loader)
        next(batches)
        path.write_bytes(path.read_bytes()[:200_000])
        with pytest.raises(FormatError, match=r"a\.ffr"):
            list(batches)


# ---- odds and ends


def test_properties_repr_and_stats(source: Any) -> None:
    loader = Loader(source, 10, rank=1, world_size=3)
    assert repr(loader) == (
        "Loader(position 0, epoch 0 of 103 records, batch_size 10, shuffle global, seed 0, rank 1 of 3)"
    )
    assert loader.locate(5).record.tolist() == loader.locate([5]).record.tolist()
    assert (len(loader), loader.remaining) == (4, 4)
    next(iter(loader))
    assert (len(loader), loader.remaining) == (4, 3)
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(loader)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_new_threads(source: Any) -> None:
    with Loader(source, 10) as loader:
        first = next(iter(loader))
        expected = next(Loader(source, 103).forever())["index"].tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            rest = indices(loader)
            os._exit(0 if first["index"].tolist() + rest == expected else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert first["index"].tolist() + indices(loader) == expected


def test_a_fork_while_workers_start(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may fork in the middle: the child forgets the workers, and its other hooks run."""
    whole = indices(Loader(source, 10))
    finalize = weakref.finalize

    def forget_first(session: Any, close: Any) -> Any:
        session._forget()
        return finalize(session, close)

    monkeypatch.setattr(weakref, "finalize", forget_first)
    with Loader(source, 10) as loader:
        assert indices(loader) == whole


def test_an_undelivered_batch_is_built_again(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come between the taking of a batch and its delivery."""
    whole = indices(Loader(source, 10))
    loader = Loader(source, 10)
    seen = next(iter(loader))["index"].tolist()
    with monkeypatch.context() as patch:
        patch.setattr(loader, "_commit", lambda *arguments: interrupt())
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
    assert seen + indices(loader) == whole


def interrupt() -> None:
    raise KeyboardInterrupt


def test_another_epoch_in_the_middle_of_one(source: Any) -> None:
    loader = Loader(source, 10)
    orders = [indices(loader) for _ in range(4)]
    for here, there in ((0, 2), (2, 0), (3, 1)):
        loader.set_epoch(here)
        assert loader.epoch == here
        got: list[int] = []
        for number, batch in enumerate(loader):
            if number == 2:
                loader.set_epoch(here)  # stays
                loader.set_epoch(there)
            elif number > 2:
                got += batch["index"].tolist()
        assert got == orders[there]
        assert loader.position == (there + 1) * 103
    loader.set_epoch(1)
    loader.advance(4)
    assert indices(loader) == orders[1][40:]
    loader.advance(100)
    assert loader.position == 3 * 103


# ---- edge cases from a hostile reading


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_of_a_function_is_an_error(workers: int) -> None:
    def ends(record: int) -> int:
        return next(iter(())) if record == 5 else record

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(Loader(list(range(12)), 2, shuffle=False, workers=workers, transform=ends))


def test_a_batch_of_damaged_records_keeps_its_columns(damaged: Any) -> None:
    def labels(records: list[dict[str, Any]]) -> dict[str, Any]:
        return {"index": np.stack([one["index"] for one in records])}

    options: list[dict[str, Any]] = [
        {},
        {"transform": lambda record: {"index": record["index"]}},
        {"collate": labels},
    ]
    for option in options:
        for skip in ((), [7, 8]):
            loader = Loader(damaged, 1, on_corrupt="omit", shuffle=False, skip=skip, **option)
            batches = list(loader)
            assert [len(batch["index"]) for batch in batches] == [i not in (7, 8, 30) for i in range(40)]
        loader = Loader(damaged, 2, rank=3, world_size=5, on_corrupt="omit", shuffle=False, pad_last=True, **option)
        first = next(iter(loader))
        assert first.padding.tolist() == [True, False] or first.positions.tolist() == [6, 6]
        loader = Loader(damaged, 1, rank=7, world_size=10, on_corrupt="omit", shuffle=False, pad_last=True, **option)
        first = next(iter(loader))
        assert first["index"].tolist() == [0]
        assert first.padding.tolist() == [True]


def test_components_with_different_fields_raise() -> None:
    a, b = [{"x": i} for i in range(4)], [{"x": 10 + i, "z": i} for i in range(4)]
    for parts in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": a, "b": [1, 2, 3, 4]}):
        with pytest.raises(SpecError, match=r"components of the mixture differ: component 0 has the fields \["):
            list(Loader(dataformats.mix(parts), 4, workers=0))
    with pytest.raises(SpecError, match=r"record 2 has the fields .* record 3"):
        list(Loader([{"x": 1}, {"x": 2}, {"x": 2, "y": 3}, {"x": 4}], 2, shuffle=False, workers=0))


class HangsOnce:
    """A transform that waits with one record, the first time; watchdogs measure time while it is `stuck`."""

    def __init__(self, record: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.record: int | None = record
        self.stuck, self.release = threading.Event(), threading.Event()
        pass_while(self.stuck.is_set, monkeypatch)

    def __call__(self, record: int) -> int:
        if record == self.record:
            self.record = None
            self.stuck.set()
            self.release.wait(LIMIT_S)
        return record


def test_a_loader_continues_after_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = HangsOnce(4, monkeypatch)
    loader = Loader(list(range(20)), 2, shuffle=False, workers=1, transform=hangs, hang_timeout_s=0.2)
    with pytest.raises(WorkerError, match="record 4"):
        list(loader)
    hangs.stuck.clear()
    loader.skip(4, 5)
    assert [int(value) for batch in loader for value in batch["value"]] == list(range(5, 20))
    hangs.release.set()
    loader.close()


def test_job_without_a_free_thread_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = HangsOnce(4, monkeypatch)
    loader = Loader(list(range(20)), 2, shuffle=False, workers=1, transform=hangs, hang_timeout_s=0.2)
    next(iter(loader))
    assert hangs.stuck.wait(LIMIT_S)
    loader.load_state_dict(loader.state_dict())  # forgets the stuck batch
    with pytest.raises(WorkerError, match="no thread is free"):
        next(iter(loader))
    hangs.stuck.clear()
    assert next(iter(loader))["value"].tolist() == [2, 3]
    hangs.release.set()
    loader.close()


def test_a_skip_after_the_last_batch() -> None:
    loader = Loader(list(range(10)), 4, shuffle=False, workers=0)
    n = 0
    for _ in loader:
        n += 1
        if loader.position == 10:
            loader.skip(3, 4)
    assert (n, loader.epoch) == (3, 1)


@loop_over("rank", range(4))
@loop_over("pad_last", [False, True])
def test_columns_without_rows_are_unchanged(rank: int, pad_last: bool) -> None:
    def more(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "n": 3, "mean": batch["value"].mean(), "name": "x"}

    options: dict[str, Any] = {"rank": rank, "world_size": 4, "workers": 0, "pad_last": pad_last}
    batches = list(Loader(list(range(5)), 1, batch_transform=more, **options))
    assert [batch["n"] for batch in batches] == [3, 3]
    assert [len(batch["value"]) for batch in batches] == [1, 1 if pad_last or rank == 3 else 0]


def test_a_state_is_loaded_completely_or_not_at_all() -> None:
    parts = {"a": np.arange(100), "b": np.arange(6)}
    first = Loader(dataformats.mix(parts, {"a": 1, "b": 1}), 3, workers=0)
    next(iter(first))
    second = Loader(dataformats.mix(parts, {"a": 20, "b": 1}), 20, drop_last=True, workers=0)
    before = second.state_dict()
    with pytest.raises(ValueError, match="drop_last"):
        second.load_state_dict(first.state_dict())
    assert second.state_dict() == before
    assert len(next(iter(second))["value"]) == 20


def test_a_mixture_goes_back_before_a_change_of_weights() -> None:
    parts = {"a": np.arange(40), "b": np.arange(40)}
    first = Loader(dataformats.mix(parts, {"a": 1, "b": 1}, until=20), 5, workers=0)
    list(first)
    next(iter(first))
    second = Loader(dataformats.mix(parts, {"a": 3, "b": 1}, until=20), 5, workers=0)
    second.load_state_dict(first.state_dict())
    second.set_epoch(0)
    second.load_state_dict(second.state_dict())
    assert second.locate(range(25)).record.tolist() == first.locate(range(25)).record.tolist()


def test_a_record_is_quarantined_once(damaged: Any) -> None:
    loader = Loader(damaged, 8, on_corrupt="quarantine")
    for _ in range(3):
        list(loader)
    assert sorted(found.index for found in loader.quarantined) == [7, 8, 30]


def test_functions_get_the_generator_if_they_accept_it() -> None:
    class StubbornError(Exception):
        def add_note(self, note: str) -> None:
            raise TypeError("no notes")

    def fails(record: int) -> int:
        raise StubbornError

    def by_keyword(record: int, *, rng: Any) -> float:
        return float(rng.random())

    def with_default(record: int, rng: Any = None) -> float:
        return float(rng.random())

    def positional(record: int, generator: Any) -> float:
        return float(generator.random())

    drawn = [
        next(iter(Loader([1, 2], 2, transform=transform, workers=0)))["value"].tolist()
        for transform in (by_keyword, with_default, positional)
    ]
    assert drawn[0] == drawn[1] == drawn[2]
    with pytest.raises(StubbornError):
        list(Loader([1, 2], 2, transform=fails, workers=0))


def test_functions_returning_none_are_named() -> None:
    cases: list[dict[str, Any]] = [
        {"transform": lambda record: None},
        {"collate": lambda records: None},
        {"batch_transform": lambda batch: batch.update(x=1)},
    ]
    for options in cases:
        with pytest.raises(TypeError, match=f"{next(iter(options))} returned None"):
            list(Loader([1, 2], 2, workers=0, **options))
    for name in ("transform", "collate", "batch_transform"):
        with pytest.raises(TypeError, match=f"{name}: expected a function, found 5"):
            Loader([1, 2], 2, **{name: 5})  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="return a dict"):
        list(Loader([1, 2], 2, transform=lambda record: (record, 0)))


def test_positions_out_of_range(source: Any) -> None:
    loader = Loader(source, 10)
    for epoch in (-1, 1.5, True, 2**62):
        with pytest.raises(ValueError, match="epoch"):
            loader.set_epoch(epoch)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batches"):
        loader.advance(-1)
    assert loader.position == 0
    for timeout in (0, -1, "x"):
        with pytest.raises(ValueError, match="hang_timeout_s"):
            Loader(source, 10, hang_timeout_s=timeout)  # type: ignore[arg-type]
    assert len(next(iter(Loader(source, 10, hang_timeout_s=None)))["index"]) == 10
    with pytest.raises(StateMismatchError, match=r"Pass the result of state_dict\(\) of a Loader"):
        loader.load_state_dict({"model": 1})


def test_repr_of_a_batch(source: Any) -> None:
    batch = next(iter(Loader(source, 10)))
    assert repr(batch) == "Batch(10 records; index: int64[10], image: uint8[10, 4, 3], name: Ragged(10 items of utf8))"


def test_validation_is_the_whole_first_epoch_each_time() -> None:
    loader = Loader(np.arange(10), 4, shuffle=False, resume=False, workers=0)
    first = iter(loader)
    assert next(first)["value"].tolist() == [0, 1, 2, 3]
    for _ in range(2):
        assert [batch["value"].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(RuntimeError, match="this iteration is over"):
        next(first)


def test_the_rank_is_found_when_the_loader_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Loader(np.arange(10), 2, shuffle=False, rank="auto", workers=0)
    state = loader.state_dict()
    assert "rank auto" in repr(loader)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader.load_state_dict(state)
    assert next(iter(loader))["value"].tolist() == [2, 3]
    assert "rank 1 of 2" in repr(loader)
    assert len(loader) == 3


def test_code_for_dataloaders_is_told_the_remedy() -> None:
    loader = Loader(np.arange(10), 2)
    with pytest.raises(TypeError, match=r"Iterate it.*PlanSampler"):
        loader[0]
    with pytest.raises(AttributeError, match=r"'dataset'.*loader\.advance"):
        _ = loader.dataset
    assert not hasattr(loader, "sampler")


@loop_over("before, resume, position", [(0, True, 20), (4, True, 4), (0, False, 0)])
def test_only_a_new_loader_begins_with_the_epoch_of_lightning(before: int, resume: bool, position: int) -> None:
    loader = Loader(np.arange(10), 4, resume=resume, workers=0)
    if before:
        next(iter(loader))
    loader.batch_sampler.sampler.set_epoch(2)
    assert loader.position == position


def test_lightning_resumes_only_with_equal_records_per_step() -> None:
    def resumed(state: Any, batch_size: int, rank: int = 0, world_size: int = 1) -> Loader:
        loader = Loader(np.arange(100), batch_size, rank=rank, world_size=world_size, workers=0)
        if state is not None:
            loader.load_state_dict(state)
        return loader

    first = resumed(None, 5, 1, 2)
    next(iter(first))
    uncounted = first.state_dict()
    first.batch_sampler.set_epoch(0)  # Lightning calls it when it begins an epoch, or continues it
    state = first.state_dict()
    for same in (resumed(state, 10), resumed(state, 2, 4, 5), resumed(uncounted, 20)):
        same.batch_sampler.set_epoch(0)
        assert same.position == 10
    other = resumed(state, 20)
    assert other.position == 10
    with pytest.raises(StateMismatchError, match=r"records per step.*10.*20.*Lightning counts batches"):
        other.batch_sampler.set_epoch(0)
    first.advance(100)  # this is the end of the epoch
    resumed(first.state_dict(), 20).batch_sampler.set_epoch(1)
