"""Runs over packed rows that end anywhere resume on other ranks: `python -m tests.deep.processes.packed_trials`.

A trial draws documents, a format, the arguments of `packed`, an order, and for each attempt ranks, batch size and
workers. Each attempt opens the documents again, sometimes without the kept plan. Two epochs must have the rows of one
rank that ran through, in its order, and each token of each document once an epoch. Ranks of a trial share the process;
with `--kills`, every rank is a process, and all are killed at a random moment.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.indexing.index_cache import cache_folder
from tests.deep.processes.resume_kills import FORK, _steps, _wait, attempts, order_of, until_killed

EPOCHS = 2
FORMATS = {"tfrecord": "a.tfrecord", "megatron": "a.bin", "syrah": "a.syr", "jsonl": "a.jsonl"}
SPEC = {"tokens": "int32[]"}


@dataclass
class Tally:
    """The numbers of trials; `missing`, `repeated`, `displaced` and `wrong` must be 0."""

    trials: int = 0
    attempts: int = 0
    kills: int = 0
    rows: int = 0
    tokens: int = 0
    missing: int = 0
    repeated: int = 0
    displaced: int = 0
    wrong: int = 0

    def add(self, other: Tally) -> None:
        """Add the numbers of other trials."""
        for one in fields(Tally):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(frozen=True)
class Run:
    """Documents whose tokens are all different, and how they are packed and ordered."""

    path: Path
    format: str
    arguments: dict[str, Any]
    order: dict[str, Any]

    @classmethod
    def draw(cls, rng: random.Random, folder: Path) -> Run:
        """Write the documents of a run, and return it."""
        format = rng.choice(list(FORMATS))
        longest = rng.choice([8, 60, 400])
        ends = np.cumsum([rng.randint(0, longest) for _ in range(rng.randint(20, 400))] + [1])
        documents = np.split(np.arange(ends[-1], dtype=np.int32), ends[:-1])
        path = folder / FORMATS[format]
        with dataformats.create(path, format, spec=SPEC, overwrite=True) as writer:
            writer.extend({"tokens": tokens} for tokens in documents)
        arguments = {"length": rng.randint(max(1, longest // 4), 2 * longest), "window": rng.choice([7, 50, 16_384])}
        return cls(path, format, {**arguments, "seed": rng.choice([None, 0, 7])}, order_of(rng))

    def rows(self) -> Any:
        """Open the documents, and return their rows."""
        source = dataformats.open(self.path, spec=SPEC)
        return dataformats.packed(source, "tokens", **self.arguments, value=-1)


def _rows_of(loader: Any, end: int) -> Iterator[tuple[Any, dict[int, list[int]]]]:
    """Yield the state after each step up to a position, and the rows of the step by their positions."""
    while loader.state_dict()["position"] < end:
        for batch in loader:
            rows = [[*tokens[ids > 0].tolist(), -1, *ids.tolist(), -1, *positions.tolist()]
                    for tokens, ids, positions in zip(batch["tokens"], batch["segment_ids"], batch["positions"],
                                                      strict=True)]  # fmt: skip
            yield loader.state_dict(), dict(zip(batch.positions.tolist(), rows, strict=True))


def _together(run: Run, attempt: dict[str, Any], state: Any, n_steps: int, end: int) -> list[Any]:
    """Return the first steps of all ranks, loaded in turns."""
    steps: list[Any] = []
    rows = run.rows()
    ranks = [dataformats.Loader(rows, **run.order, **attempt, rank=rank) for rank in range(attempt["world_size"])]
    for loader in ranks:
        if state is not None:
            loader.load_state_dict(state)
    for step in zip(*(_rows_of(loader, end) for loader in ranks), strict=True):
        steps.append(step)
        if len(steps) > n_steps:
            break
    for loader in ranks:
        loader.close()
    return steps


def _train(run: Run, attempt: dict[str, Any], rank: int, state: Any, log: str, n_steps: int, end: int) -> None:
    """Load as one rank, to the end or until it is killed; save the state and the rows of each step."""
    with dataformats.Loader(run.rows(), **run.order, **attempt, rank=rank) as loader, open(log, "ab", 0) as file:
        if state is not None:
            loader.load_state_dict(state)
        for step in until_killed(_rows_of(loader, end), n_steps):
            file.write(json.dumps(step).encode() + b"\n")


def _killed(run: Run, attempt: dict[str, Any], state: Any, n_steps: int, end: int, rng: random.Random) -> list[Any]:
    """Return the steps that the processes of all ranks saved before they were killed."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, str(rank)) for rank in range(attempt["world_size"])]
        ranks = [
            FORK.Process(target=_train, args=(run, attempt, rank, state, str(log), n_steps, end))
            for rank, log in enumerate(logs)
        ]
        for rank in ranks:
            rank.start()
        is_killed = _wait(ranks, logs[0], n_steps, rng.random() * 0.02)
        if not is_killed and any(rank.exitcode for rank in ranks):
            raise RuntimeError(f"{run} {attempt}: {[rank.exitcode for rank in ranks]}")
        return list(zip(*map(_steps, logs), strict=False))  # those that all ranks saved


def trial(seed: int, folder: Path, *, kills: bool = False) -> Tally:
    """Run one trial, and return its numbers."""
    rng, tally = random.Random(seed), Tally(trials=1)
    run = Run.draw(rng, folder)
    whole = run.rows()
    n = len(whole)
    found: dict[int, list[int]] = {}
    state: Any = None
    for number, attempt in enumerate(attempts(rng, in_memory=not kills)):  # worker processes only with kills
        attempt["batch_size"] = rng.randint(1, max(1, n // (4 * attempt["world_size"])))
        left = -(-(EPOCHS * n - len(found)) // (attempt["batch_size"] * attempt["world_size"]))
        n_steps = left if number >= 4 else rng.randint(0, left // 2)
        if rng.random() < 0.3:
            shutil.rmtree(cache_folder() / "packed", ignore_errors=True)
        arguments = (run, attempt, state, n_steps, EPOCHS * n)
        steps = _killed(*arguments, rng) if kills else _together(*arguments)
        tally.attempts += 1
        tally.kills += kills * attempt["world_size"]
        for of_ranks in steps:
            tally.wrong += any(one[0] != of_ranks[0][0] for one in of_ranks)  # the states of ranks differ
            for _, rows in of_ranks:
                tally.repeated += sum(int(position) in found for position in rows)
                found.update((int(position), row) for position, row in rows.items())
        state = steps[-1][0][0] if steps else state
        if state is not None and state["position"] >= EPOCHS * n:
            break
    _compare(found, run, whole, state, tally)
    return tally


def _compare(found: dict[int, list[int]], run: Run, whole: Any, state: Any, tally: Tally) -> None:
    """Compare the rows with the whole run of one rank, and their tokens with those of all documents."""
    groups = {"groups": state["shuffle"][3]} if isinstance(state["shuffle"], list) else {}
    with dataformats.Loader(whole, 13, **{**run.order, **groups}, workers=0) as loader:
        expected = {
            position: row for _, rows in _rows_of(loader, EPOCHS * len(whole)) for position, row in rows.items()
        }
    tally.missing += len(expected.keys() - found.keys())
    tally.displaced += sum(found.get(position, row) != row for position, row in expected.items())
    n_tokens = sum(len(record["tokens"]) for record in dataformats.open(run.path, spec=SPEC))
    for epoch in range(EPOCHS):
        rows = [found.get(position, [-1]) for position in range(epoch * len(whole), (epoch + 1) * len(whole))]
        counts = Counter(token for row in rows for token in row[: row.index(-1)])
        tally.missing += len(set(range(n_tokens)) - counts.keys())
        tally.repeated += sum(count - 1 for count in counts.values())
        tally.tokens += n_tokens
    tally.rows += len(found)


def main() -> None:
    """Run trials, and print their numbers."""
    parser = argparse.ArgumentParser(prog="python -m tests.deep.processes.packed_trials")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first of as many seeds")
    parser.add_argument("--kills", action="store_true", help="every rank is a process, and is killed")
    options = parser.parse_args()
    tally, failed = Tally(), []
    for seed in range(options.seed, options.seed + options.trials):
        with tempfile.TemporaryDirectory() as folder:
            found = trial(seed, Path(folder), kills=options.kills)
        if found.missing or found.repeated or found.displaced or found.wrong:
            failed.append(seed)
        tally.add(found)
    print(f"\n{tally}, failed seeds: {failed}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
