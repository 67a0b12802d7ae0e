"""Runs whose ranks are killed resume on other ranks: `python -m tests.deep.processes.resume_kills --trials 300`.

A trial draws data (local, in memory behind a URL, or on S3), an order, and for each attempt ranks, batch size, workers
and their kind. Every rank is a process; ranks of one node share blocks. They save a state after each step, and at a
random one all are killed. The next attempt continues from the last state that all ranks had saved. Two epochs must
come in the order of one rank that was never killed, with each record once.

With `--skip-lists`, attempts begin with a new skip list now and then: its records and positions must be missing from
there on, and no others. With `--disk-caches`, all data are behind URLs, and all attempts of a trial share a small cache
on the disk, from which most pages are deleted again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dataformats
from tests.deep.remote.servers import S3Folder

N, EPOCHS, SHARD = 1000, 2, 130
EXTRA_STEPS = 3  # between the step at which a rank is to be killed, and the kill
SPEC = {"number": "int64", "body": "bytes"}
PATIENCE_S = 240.0
BLOB = np.random.default_rng(0).bytes(N + 3000)
FORK = multiprocessing.get_context("fork")

Place = tuple[str, dict[str, Any]]  # path, and the options of `open`
CACHE_BYTES = 2**20  # the least; of 1.5 to 2 MB


@dataclass
class Tally:
    """The numbers of all trials; `missing`, `repeated`, `displaced`, `unskipped`, `overfull` and `wrong` must be 0.

    `caches` counts disk caches that were more than half full in the end.
    """

    trials: int = 0
    attempts: int = 0
    kills: int = 0
    records: int = 0
    missing: int = 0
    repeated: int = 0
    displaced: int = 0
    unskipped: int = 0
    lists: int = 0
    caches: int = 0
    overfull: int = 0
    wrong: int = 0
    failed: list[str] = field(default_factory=list)


class Listed(NamedTuple):
    """A skip list as an attempt knows it.

    Attributes:
        position: Where it begins to apply.
        records: Its records.
        positions: All positions that the run leaves out from there on, those of earlier lists included.
        path: Its file; "" without a list.
        digest: Its digest.
    """

    position: int
    records: frozenset[int]
    positions: frozenset[int]
    path: str
    digest: str | None

    def has(self, position: int, number: int) -> bool:
        """Return True if the run leaves out a position, or the record there."""
        return position in self.positions or number in self.records


def body(number: int) -> bytes:
    """Return the bytes of a record, of different lengths."""
    return BLOB[number : number + 200 + number * 37 % 2500]


def places(folder: Path, server: S3Folder) -> list[Place]:
    """Write the data, and return where they are."""
    endpoint: dict[str, Any] = {
        "endpoint_url": server.url,
        "key": "any",
        "secret": "any",
        "client_kwargs": {"region_name": "us-east-1"},
    }
    s3 = {"storage_options": endpoint}
    found: list[Place] = []
    for format in ("tfrecord", "ofrecord", "syrah", "granular"):
        for url in (str(folder / "bucket" / format), f"memory://resume/{format}"):
            with dataformats.create(url, format, spec=SPEC, shard_records=SHARD, overwrite=True) as writer:
                writer.extend({"number": number, "body": body(number)} for number in range(N))
            found.append((url, {}))
        found.append((f"s3://bucket/{format}/", s3))
    return found


def _train(
    place: Place,
    order: dict[str, Any],
    attempt: dict[str, Any],
    rank: int,
    state: Any,
    log: str,
    listed: Listed,
    n_steps: int | None,
) -> None:
    """Load as one rank, to the end or until it is killed; save the state and the records of each step."""
    os.environ["LOCAL_WORLD_SIZE"] = str(attempt["world_size"])  # as torchrun does
    source = dataformats.open(place[0], spec=SPEC, **place[1])
    new_skip = state is not None and state.get("skip_list") != listed.digest
    skips: dict[str, Any] = {"skip": listed.path or (), "new_skip": new_skip}
    with (
        dataformats.Loader(source, **order, **attempt, **skips, rank=rank) as loader,
        open(log, "ab", buffering=0) as file,
    ):
        if state is not None:
            loader.load_state_dict(state)
        for batch in until_killed(batches_of(loader, EPOCHS * N), n_steps):
            numbers = batch["number"].tolist()
            wrong = sum(bytes(blob) != body(number) for blob, number in zip(batch["body"], numbers, strict=True))
            rows = dict(zip(batch.positions.tolist(), numbers, strict=True))
            file.write(json.dumps([loader.state_dict(), rows, wrong]).encode() + b"\n")


def batches_of(loader: Any, end: int) -> Iterator[Any]:
    """Yield the batches up to a position, over several epochs."""
    while loader.state_dict()["position"] < end:
        yield from loader


def until_killed(steps: Iterator[Any], n_steps: int | None) -> Iterator[Any]:
    """Yield steps; a few steps after `n_steps` wait for the kill, which comes late if the machine is busy."""
    for number, step in enumerate(steps):
        if n_steps is not None and number >= n_steps + EXTRA_STEPS:
            time.sleep(2 * PATIENCE_S)
        yield step


def _steps(log: Path) -> list[Any]:
    """Return the steps that were saved whole."""
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]] if log.exists() else []


def attempts(rng: random.Random, in_memory: bool) -> Iterator[dict[str, Any]]:
    """Yield the ranks, batches and workers of each attempt; worker processes have no files in memory."""
    kind = rng.choices(["thread", "process"], [4, 0 if in_memory else 1])[0]
    while True:
        workers = rng.randint(1, 2) if kind == "process" else rng.randint(0, 3)
        ranks = rng.randint(1, 2 if kind == "process" else 5)
        yield {"world_size": ranks, "batch_size": rng.randint(1, 90), "workers": workers, "worker_type": kind}


def order_of(rng: random.Random) -> dict[str, Any]:
    """Return the seed and the order of a run."""
    shuffle = rng.choices(["window", "auto", True, False], [6, 2, 1, 1])[0]
    sizes = {"block_records": rng.randint(1, 60), "window_blocks": rng.randint(1, 9), "groups": rng.randint(1, 6)}
    return {"seed": rng.randrange(99), "shuffle": shuffle, **(sizes if shuffle == "window" else {})}


def _new_list(rng: random.Random, place: Place, last: Listed, position: int, path: Path) -> Listed:
    """Write a skip list; return how it applies from a position on."""
    records = rng.sample(range(N), rng.choice([0, 1, 30, 300]))
    starts = [rng.randrange(EPOCHS * N) for _ in range(rng.randint(0, 3))]
    ranges = [(start, start + rng.randint(1, 200)) for start in starts]
    source = dataformats.open(place[0], spec=SPEC, **place[1])
    found = dataformats.Loader(source, 1).skip_list([*records, *ranges])
    found.save(path)
    positions = {position for start, stop in ranges for position in range(start, stop)}
    return Listed(position, frozenset(records), last.positions | positions, str(path), found.digest)


def trial(
    seed: int, choices: list[Place], folder: Path, tally: Tally, *, has_lists: bool = False, has_caches: bool = False
) -> None:
    """Run one trial, and add its numbers."""
    of_lists = random.Random(-1 - seed)
    rules = [Listed(0, frozenset(), frozenset(), "", None)]  # by ascending position
    rng = random.Random(seed)
    place, order = rng.choice(choices), order_of(rng)
    place = _cached(place, folder / f"{seed}-cache") if has_caches else place
    state: Any = None
    found: dict[int, int] = {}
    counts, kills = Counter[str](), 0
    for number, attempt in enumerate(attempts(rng, place[0].startswith("memory:"))):
        listed = rules[-1]
        if has_lists and of_lists.random() < 0.6:
            position = 0 if state is None else state["position"]
            listed = _new_list(of_lists, place, listed, position, folder / f"{seed}-{number}.json")
            tally.lists += 1
        left = -(-(EPOCHS * N - len(found)) // (attempt["batch_size"] * attempt["world_size"]))
        n_steps = None if number >= 4 or rng.random() < 0.1 else rng.randint(0, max(0, left - EXTRA_STEPS - 1))
        logs = [folder / f"{seed}-{number}-{rank}" for rank in range(attempt["world_size"])]
        runs = [
            FORK.Process(target=_train, args=(place, order, attempt, rank, state, str(log), listed, n_steps))
            for rank, log in enumerate(logs)
        ]
        for run in runs:
            run.start()
        is_killed = _wait(runs, logs[0], n_steps, rng.random() * 0.02)
        kills += is_killed * len(runs)
        tally.attempts += 1
        if not is_killed and any(run.exitcode for run in runs):
            tally.failed.append(f"seed {seed}: {place[0]} {order} {attempt}: {[run.exitcode for run in runs]}")
            return
        steps = list(zip(*map(_steps, logs), strict=False))  # those that all ranks saved
        if any(one[0] != step[0][0] for step in steps for one in step):
            tally.failed.append(f"seed {seed}: the states of ranks differ")
        counts += _receive(steps, found)
        if steps and listed is not rules[-1]:  # the state names the list from now on
            rules.append(listed)
        state = steps[-1][0][0] if steps else state
        for log in logs:
            log.unlink(missing_ok=True)
        if not is_killed or (state is not None and state["position"] >= EPOCHS * N):
            break
    source = dataformats.open(place[0], spec=SPEC, **place[1])
    expected = _whole(source, order, state)
    counts += _differences(found, expected, rules)
    if counts:
        tally.failed.append(f"seed {seed}: {place[0]} {order}: {dict(counts)}")
    counts.update(trials=1, kills=kills, records=len(found))
    counts.update(_held(folder / f"{seed}-cache"))
    for name, count in counts.items():
        setattr(tally, name, getattr(tally, name) + count)


def _cached(place: Place, folder: Path) -> Place:
    return place[0], {**place[1], "cache": f"disk:{folder}", "cache_bytes": CACHE_BYTES}


def _held(folder: Path) -> Counter[str]:
    """Count a disk cache that was used, and one that holds too much; delete it."""
    held = sum(path.stat().st_blocks * 512 for path in folder.glob("*.block"))
    shutil.rmtree(folder, ignore_errors=True)
    return Counter(caches=int(held > CACHE_BYTES / 2), overfull=int(held > CACHE_BYTES * 2))


def _receive(steps: list[Any], found: dict[int, int]) -> Counter[str]:
    """Note position and number of each record of these steps; count the repeated and the wrong ones."""
    counts = Counter[str]()
    for step in steps:
        for _, rows, wrong in step:
            counts += Counter(repeated=sum(int(position) in found for position in rows), wrong=wrong)
            found.update((int(position), value) for position, value in rows.items())
    return counts


def _differences(found: dict[int, int], expected: list[int], rules: list[Listed]) -> Counter[str]:
    """Compare the numbers at all positions with those of a run that was never killed, less its skip lists."""
    counts = Counter[str]()
    for position, value in enumerate(expected):
        rule = next(one for one in reversed(rules) if one.position <= position)
        if rule.has(position, value):
            counts += Counter(unskipped=int(position in found))
        else:
            counts += Counter(missing=int(position not in found), displaced=int(found.get(position, value) != value))
    for epoch in range(EPOCHS):
        numbers = [found[position] for position in range(epoch * N, (epoch + 1) * N) if position in found]
        counts += Counter(repeated=len(numbers) - len(set(numbers)))
    return counts


def _wait(runs: list[Any], log: Path, n_steps: int | None, delay_s: float) -> bool:
    """Wait for the ends, or for a number of steps: then kill all, and return True."""
    until = time.monotonic() + PATIENCE_S
    while any(run.is_alive() for run in runs):
        n_saved = log.read_bytes().count(b"\n") if log.exists() else 0
        is_late = time.monotonic() > until
        if is_late or (n_steps is not None and n_saved >= n_steps):
            time.sleep(delay_s)
            for run in runs:
                run.kill()
            for run in runs:
                run.join()
            if is_late:
                raise TimeoutError(f"ranks hang after {n_saved} steps")
            return True
        time.sleep(0.002)
    for run in runs:
        run.join()
    return False


def _whole(source: Any, order: dict[str, Any], state: Any) -> list[int]:
    """Return the numbers of both epochs, of one rank with the groups of the run."""
    shuffle = state["shuffle"]
    groups = {"groups": shuffle[3]} if isinstance(shuffle, list) else {}
    with dataformats.Loader(source, 97, **{**order, **groups}) as loader:
        return [number for _ in range(EPOCHS) for batch in loader for number in batch["number"].tolist()]


def main() -> None:
    """Run trials, and print their numbers."""
    parser = argparse.ArgumentParser(prog="python -m tests.deep.processes.resume_kills")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="the first of as many seeds; or all seeds")
    parser.add_argument("--skip-lists", action="store_true", help="attempts begin with new skip lists")
    parser.add_argument("--disk-caches", action="store_true", help="read URLs through small caches on the disk")
    options = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        server = S3Folder(Path(name))
        try:
            choices = places(Path(name), server)
            if options.disk_caches:
                choices = [place for place in choices if "://" in place[0]]
            (first, *others) = options.seed
            for seed in options.seed if others else range(first, first + options.trials):
                trial(seed, choices, Path(name), tally, has_lists=options.skip_lists, has_caches=options.disk_caches)
        finally:
            server.close()
    print(f"\n{tally}")
    raise SystemExit(bool(tally.failed))


if __name__ == "__main__":
    main()
