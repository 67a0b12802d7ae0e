"""Runs whose data grow while they are interrupted: `python -m tests.deep.processes.growth_trials --trials 300`.

A trial draws data (one file that grows, shards that are added, or a mixture with both), an order, and for each attempt
ranks, batch size, workers and their kind. Between attempts, records are appended by our writer, several times in some
trials, and `grown=` is `"now"` or `"next_epoch"`. With `--kills`, all ranks are processes that are killed at a random
step; else they run in this process and are dropped with their batches ahead.

The oracle knows no positions of epochs and no permutations: it keeps, for each source, the records that the epoch under
way still has to give, and marks each record that a run receives. Then one rank runs from the beginning, without an
interruption, through the same growths at the same positions: its order must be that of all ranks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import dataformats
from dataformats.loaders.epochs import Grown

SPEC = {"number": "int64", "body": "bytes"}
PATIENCE_S = 120.0
MOST_EXTRA_STEPS = 64  # until a rank is killed: on a busy machine it would make many
FORK = multiprocessing.get_context("fork")
FORMATS = {"one.tfrecord": "tfrecord", "one.ofrecord": "ofrecord", "one": "granular"}  # files that grow
SHARDED = ("tfrecord", "ofrecord", "ffrecord", "syrah", "granular", "parquet", "jsonl")


@dataclass
class Tally:
    """The numbers of all trials; `missing`, `repeated` and `displaced` must be 0."""

    trials: int = 0
    attempts: int = 0
    interrupted: int = 0
    growths: int = 0
    now: int = 0
    records: int = 0
    missing: int = 0
    repeated: int = 0
    displaced: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass
class Growing:
    """Records on a disk that can grow.

    Attributes:
        path: The file or folder.
        format: Its format.
        shards: True if it has shards.
        n: How many records it has.
    """

    path: Path
    format: str
    shards: bool
    n: int = 0

    def grow(self, n: int) -> None:
        """Append records: `number` is their index."""
        limits: dict[str, Any] = {"shard_records": 17} if self.shards else {}
        spec = SPEC if self.format != "jsonl" else {"number": "int64"}
        with dataformats.create(self.path, self.format, spec=spec, append=True, **limits) as writer:
            for number in range(self.n, self.n + n):
                writer.append({name: value for name, value in record(number).items() if name in spec})
        self.n += n

    def open(self) -> Any:
        """Return the records as they are now."""
        return dataformats.open(self.path).select("number")


def record(number: int) -> dict[str, Any]:
    """Return the record of an index."""
    return {"number": number, "body": b"%d" % (number * 7919) * (number % 5)}


@dataclass
class Oracle:
    """The records that the epoch under way of one source still has to give.

    Attributes:
        n: Records of the next epoch.
        n_here: Records of this epoch.
        left: The indices that it still has to give.
    """

    n: int
    n_here: int = 0
    left: set[int] = field(default_factory=set)

    def grow(self, n: int, when: str) -> None:
        """Note that the source has `n` records now."""
        self.n = n
        if when == "now" or self.is_at_beginning:
            self.left |= set(range(self.n_here, n))
            self.n_here = n

    def receive(self, number: int) -> bool:
        """Note a record; return False if this epoch had it already, or must not have it."""
        is_expected = number in self.left
        self.left.discard(number)
        if not self.left:
            self.n_here, self.left = self.n, set(range(self.n))
        return is_expected

    @property
    def is_at_beginning(self) -> bool:
        """True if this epoch has given no record."""
        return len(self.left) == self.n_here


class Stage(NamedTuple):
    """A growth.

    Attributes:
        position: Where the run resumed with the new records.
        lengths: The records of each source from there on.
        when: When they come.
    """

    position: int
    lengths: tuple[int, ...]
    when: Grown | None


class Run:
    """A run of one trial.

    Args:
        rng: Draws its numbers.
        folder: Where its data are.
    """

    def __init__(self, rng: random.Random, folder: Path) -> None:
        names, shards = list(FORMATS), rng.random() < 0.5
        n_sources = rng.choice([1, 1, 2])
        self.until: str | int = ("first", "all", rng.randint(1, 150))[rng.randrange(3)]
        self.weights = [rng.randint(1, 5) for _ in range(n_sources)]
        self.data = []
        for number in range(n_sources):
            name = rng.choice(names)
            format = rng.choice(SHARDED) if shards else FORMATS[name]
            at = folder / f"{number}" / ("shards" if shards else name)
            at.parent.mkdir(parents=True)
            self.data.append(Growing(at, format, shards))
            self.data[-1].grow(rng.randint(1, 120))
        shuffle = rng.choice(["window", "window", "auto", True, False])
        sizes = {"block_records": rng.randint(1, 20), "window_blocks": rng.randint(1, 5), "groups": rng.randint(1, 4)}
        self.order: dict[str, Any] = {"seed": rng.randrange(99), "shuffle": shuffle}
        self.order |= sizes if shuffle == "window" else {}
        self.oracles = [Oracle(one.n) for one in self.data]
        for oracle, one in zip(self.oracles, self.data, strict=True):
            oracle.grow(one.n, "now")
        self.stages = [Stage(0, self.lengths, None)]
        self.state: Any = None
        self.received: list[tuple[int, int]] = []  # component and index, by position
        self.counts = Counter[str]()

    @property
    def lengths(self) -> tuple[int, ...]:
        """The records of each source."""
        return tuple(one.n for one in self.data)

    def source(self, lengths: tuple[int | None, ...]) -> Any:
        """Return the first records of each source, or all, mixed if there are several."""
        opened = [one.open() for one in self.data]
        views = [one if n is None else one[:n] for one, n in zip(opened, lengths, strict=True)]
        names = [f"{number}" for number in range(len(views))]
        if len(views) == 1:
            return views[0]
        marked = {name: view.map(partial(_marked, int(name))) for name, view in zip(names, views, strict=True)}
        return dataformats.mix(marked, dict(zip(names, self.weights, strict=True)), self.until)

    def grow(self, rng: random.Random) -> Grown:
        """Append records to some of the sources; return when they come."""
        when: Grown = "next_epoch" if rng.random() < 0.33 else "now"
        for number in rng.sample(range(len(self.data)), rng.randint(1, len(self.data))):
            self.data[number].grow(rng.choice([1, rng.randint(1, 90), rng.randint(1, 90)]))
        for oracle, one in zip(self.oracles, self.data, strict=True):
            if one.n != oracle.n:
                oracle.grow(one.n, when)
        self.stages.append(Stage(len(self.received), self.lengths, when))
        self.counts.update(growths=1, now=when == "now")
        return when

    def receive(self, steps: list[list[Any]]) -> None:
        """Note steps that all ranks saved: of each rank the state behind it, and the records by position."""
        for ranks in steps:
            rows = dict(sorted((int(position), value) for _, rank in ranks for position, value in rank.items()))
            if any(state != ranks[0][0] for state, _ in ranks):
                self.counts.update(displaced=1)
            if list(rows) != list(range(len(self.received), len(self.received) + len(rows))):
                self.counts.update(displaced=1)
            for component, index in rows.values():
                self.counts.update(records=1, repeated=not self.oracles[component].receive(index))
                self.received.append((component, index))
            epoch = 0 if self.state is None else self.state["epoch"]
            self.state = ranks[0][0]
            if len(self.oracles) == 1 and self.state["epoch"] != epoch and not self.oracles[0].is_at_beginning:
                self.counts.update(missing=len(self.oracles[0].left))

    def check(self) -> None:
        """Compare the order with one rank that was not interrupted, and with the places that the last state gives."""
        shuffle = self.state["shuffle"]
        names = ("block_records", "window_blocks", "groups")
        order = {**self.order, "shuffle": {"global": True, "none": False}.get(str(shuffle), "window")}
        order |= dict(zip(names, shuffle[1:], strict=True)) if isinstance(shuffle, list) else {}
        found: list[tuple[int, int]] = []
        state: Any = None
        located: list[tuple[int, int]] = []
        ends = [*(stage.position for stage in self.stages[1:]), len(self.received)]
        for stage, end in zip(self.stages, ends, strict=True):
            with dataformats.Loader(self.source(stage.lengths), 1, **order, workers=0) as loader:
                if state is not None:
                    loader.load_state_dict(state, grown=stage.when)
                batches = loader.forever()
                while len(found) < end:
                    found += _rows(next(batches)).values()
                state = loader.state_dict()
                place = loader.locate(range(end))
                located = [*zip(place.component.tolist(), place.record.tolist(), strict=True)]
        self.counts.update(displaced=sum(one != other for one, other in zip(found, self.received, strict=True)))
        self.counts.update(displaced=sum(one != other for one, other in zip(located, self.received, strict=True)))


def _marked(component: int, value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "component": component}


def _rows(batch: Any) -> dict[int, tuple[int, int]]:
    """Return component and index of the record at each position."""
    numbers = batch["number"].tolist()
    components = batch["component"].tolist() if "component" in batch else [0] * len(numbers)
    return dict(zip(batch.positions.tolist(), zip(components, numbers, strict=True), strict=True))


def _loader(run: Run, attempt: dict[str, Any], rank: int, grown: Any) -> dataformats.Loader:
    loader = dataformats.Loader(run.source((None,) * len(run.data)), **run.order, **attempt, rank=rank)
    if run.state is not None:
        loader.load_state_dict(run.state, grown=grown)
    return loader


def _interrupted(run: Run, attempt: dict[str, Any], grown: Any, n_steps: int) -> list[list[Any]]:
    """Return what all ranks, in this process, received in some steps."""
    steps: list[list[Any]] = []
    loaders = [_loader(run, attempt, rank, grown) for rank in range(attempt["world_size"])]
    iterators = [loader.forever() for loader in loaders]
    while len(steps) < n_steps:
        rows = [_rows(next(iterator)) for iterator in iterators]
        steps.append([(loader.state_dict(), row) for loader, row in zip(loaders, rows, strict=True)])
    for loader in loaders:
        loader.close()
    return steps


def _train(run: Run, attempt: dict[str, Any], rank: int, grown: Any, n_steps: int, log: str) -> None:
    with _loader(run, attempt, rank, grown) as loader, open(log, "ab", buffering=0) as file:
        for batch in islice(loader.forever(), n_steps + MOST_EXTRA_STEPS):
            file.write(json.dumps([loader.state_dict(), _rows(batch)]).encode() + b"\n")
        time.sleep(PATIENCE_S)  # until it is killed


def _killed(run: Run, attempt: dict[str, Any], grown: Any, n_steps: int, folder: Path) -> list[list[Any]]:
    """Return what all ranks saved before they were killed, each a process."""
    logs = [folder / f"log-{rank}" for rank in range(attempt["world_size"])]
    ranks = [
        FORK.Process(target=_train, args=(run, attempt, rank, grown, n_steps, str(log)))
        for rank, log in enumerate(logs)
    ]
    for rank in ranks:
        rank.start()
    until = time.monotonic() + PATIENCE_S
    while min(map(len, map(_saved, logs))) < n_steps and all(rank.is_alive() for rank in ranks):
        if time.monotonic() > until:
            break
        time.sleep(0.002)
    exitcodes = [rank.exitcode for rank in ranks]
    for rank in ranks:
        rank.kill()
        rank.join()
    steps = [list(step) for step in zip(*map(_saved, logs), strict=False)]
    for log in logs:
        log.unlink(missing_ok=True)
    if any(code is not None for code in exitcodes) or len(steps) < n_steps:
        raise RuntimeError(f"ranks ended with {exitcodes} after {len(steps)} of {n_steps} steps")
    return steps


def _saved(log: Path) -> list[Any]:
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]] if log.exists() else []


def trial(seed: int, tally: Tally, *, kills: bool) -> None:
    """Run one trial, and add its numbers."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        run = Run(rng, Path(name))
        for number in range(rng.randint(2, 5)):
            grown = run.grow(rng) if number and rng.random() < 0.75 else rng.choice([None, "now", "next_epoch"])
            attempt: dict[str, Any] = {
                "world_size": rng.randint(1, 4),
                "batch_size": rng.randint(1, 40),
                "workers": rng.randint(0, 2),
                "worker_type": "process" if kills and rng.random() < 0.2 else "thread",
            }
            attempt["workers"] += attempt["worker_type"] == "process" and not attempt["workers"]
            epoch = 2.5 * sum(run.lengths) / attempt["world_size"] / attempt["batch_size"]
            n_steps = rng.randint(1, max(1, int(epoch * rng.choice([0.3, 1]))))
            arguments = run, attempt, grown, n_steps
            run.receive(_killed(*arguments, Path(name)) if kills else _interrupted(*arguments))
            run.counts.update(attempts=1, interrupted=attempt["world_size"])
        run.check()
    wrong = {key: run.counts[key] for key in ("missing", "repeated", "displaced") if run.counts[key]}
    if wrong:
        tally.failed.append(f"seed {seed}: {wrong} {run.order} {run.stages}")
    run.counts.update(trials=1)
    for key, count in run.counts.items():
        setattr(tally, key, getattr(tally, key) + count)


def main() -> None:
    """Run trials, and print their numbers."""
    parser = argparse.ArgumentParser(prog="python -m tests.deep.processes.growth_trials")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first of as many seeds")
    parser.add_argument("--kills", action="store_true", help="ranks are processes that are killed")
    options = parser.parse_args()
    tally = Tally()
    for seed in range(options.seed, options.seed + options.trials):
        trial(seed, tally, kills=options.kills)
    print(f"\n{tally}")
    raise SystemExit(bool(tally.failed))


if __name__ == "__main__":
    main()
