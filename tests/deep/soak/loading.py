"""Activities of the soak that read: epochs, killed workers, preemption, damage, caches."""

from __future__ import annotations

import functools
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

import dataformats
from dataformats import Loader
from dataformats.errors import WorkerError
from tests.deep.soak.datasets import CASES, LARGE_SIDE, Dataset, Datasets, check_batch, check_records

WorkerType = Literal["thread", "process"]
StartMethod = Literal["fork", "forkserver", "spawn"]
START_METHODS: tuple[StartMethod, ...] = ("fork", "forkserver", "spawn")


def with_pid(record: dict[str, Any]) -> dict[str, Any]:
    """Add the process that built the record."""
    return {**record, "pid": os.getpid()}


class Reading:
    """The activities that read the datasets.

    Args:
        datasets: The datasets.
        chosen: Makes the choices.
        counts: Counts what happened.
    """

    def __init__(self, datasets: Datasets, chosen: random.Random, counts: Counter[str]) -> None:
        self._datasets = datasets
        self._chosen = chosen
        self._counts = counts

    @property
    def activities(self) -> list[Callable[[], None]]:
        """All of them."""
        processes = [functools.partial(self.epoch_with_processes, method) for method in START_METHODS]
        kills = [functools.partial(self.killed_worker, method) for method in START_METHODS]
        others = [self.preemption, self.damaged_records, self.random_access, self.memory_cache, self.mixture]
        return [self.epoch_with_threads, *processes, *kills, self.many_shards, *others, *others]

    def epoch_with_threads(self) -> None:
        self._epoch("thread", workers=self._chosen.randrange(4))

    def epoch_with_processes(self, start_method: StartMethod) -> None:
        self._epoch("process", workers=2, start_method=start_method)

    def killed_worker(self, start_method: StartMethod) -> None:
        """A worker dies in an epoch; the run continues from its state, and no record is lost or repeated."""
        name, dataset = self._any(self._datasets.small)
        source = dataset.open()
        options: dict[str, Any] = {"seed": self._chosen.randrange(100), "worker_type": "process", "transform": with_pid}
        loader = Loader(source, 8, workers=2, prefetch=1, start_method=start_method, **options)
        seen, after = Counter[int](), self._chosen.randrange(1, 20)
        try:
            for number, batch in enumerate(loader):
                seen.update(check_batch(name, batch))
                if number == after:
                    os.kill(int(batch["pid"][0]), self._chosen.choice([signal.SIGKILL, signal.SIGSEGV]))
        except WorkerError:
            self._counts["kills"] += 1
        state = loader.state_dict()
        if self._chosen.random() < 0.5:
            options["worker_type"] = "thread"
            loader = Loader(source, 16, workers=2, **options)
            loader.load_state_dict(state)
        if loader.epoch == 0:
            for batch in loader:
                seen.update(check_batch(name, batch))
        _check_once(seen, dataset.n)

    def preemption(self) -> None:
        """All ranks end at some step; the run continues on another number of ranks."""
        name, dataset = self._any(self._datasets.small)
        source = dataset.open()
        seen, state, n_ranks = Counter[int](), None, 0
        seed, shuffle = self._chosen.randrange(100), self._chosen.choice([True, "window", False])
        while state is None or state["position"] < dataset.n:
            n_ranks = self._chosen.choice([size for size in (1, 2, 3) if size != n_ranks])
            options: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "workers": self._chosen.randrange(3)}
            size = self._chosen.randrange(1, 40)
            loaders = [Loader(source, size, rank=rank, world_size=n_ranks, **options) for rank in range(n_ranks)]
            for loader in loaders:
                if state is not None:
                    loader.load_state_dict(state)
            for _, batches in zip(range(self._chosen.randrange(1, 15)), zip(*loaders, strict=True), strict=False):
                for batch in batches:
                    seen.update(check_batch(name, batch))
            states = [loader.state_dict() for loader in loaders]
            assert all(other == states[0] for other in states), "the ranks have different states"
            state = states[0]
            self._counts["resumes"] += 1
        _check_once(seen, dataset.n)

    def damaged_records(self) -> None:
        """Damaged records are left out, and listed."""
        name, dataset = self._any(self._datasets.damaged)
        policy: Any = self._chosen.choice(["omit", "quarantine"])
        kind: Any = self._chosen.choice(["thread", "thread", "process"])
        loader = Loader(dataset.open(), 16, on_corrupt=policy, worker_type=kind, seed=self._chosen.randrange(100))
        seen = Counter(number for batch in loader for number in check_batch(name, batch))
        if policy == "quarantine":
            assert {entry[1] for entry in loader.quarantined} == dataset.damaged
        _check_once(seen, dataset.n, dataset.damaged)
        self._counts["damaged"] += len(dataset.damaged)

    def random_access(self) -> None:
        """Every engine returns the records that were asked for."""
        for datasets in (self._datasets.small, self._datasets.sharded):
            name, dataset = self._any(datasets)
            # Compressed files cannot be mapped, and a mapping takes a descriptor for each file.
            can_map = datasets is self._datasets.small and "compression" not in CASES[name].create_options
            engines = ["auto", "threads", "uring", "libaio", *(["mmap"] if can_map else [])]
            source = dataset.open(io=self._chosen.choice(engines))
            for _ in range(20):
                wanted = [self._chosen.randrange(dataset.n) for _ in range(self._chosen.randrange(1, 50))]
                batch = source.read(wanted)
                assert check_batch(name, {field: batch[field] for field in ("id", "data", "grid")}) == wanted
            i = self._chosen.randrange(dataset.n)
            assert source[i]["id"] == i

    def memory_cache(self) -> None:
        """Files are held in memory, while large records take much of it."""
        name, dataset = self._any(self._datasets.small)
        check_records(name, dataset.open(cache="memory"), dataset.n)
        cached = self._datasets.large.open(cache="memory")
        for source in (cached, self._datasets.large.open()):
            loader = Loader(source, 4, workers=2, seed=self._chosen.randrange(100))
            seen = Counter(number for batch in loader for number in check_batch("ffrecord", batch, LARGE_SIDE))
            _check_once(seen, self._datasets.large.n)

    def mixture(self) -> None:
        """Two formats take turns."""
        names = self._chosen.sample([*CASES], 2)
        sources = {name: self._datasets.small[name].open() for name in names}
        loader = Loader(
            dataformats.mix(sources, dict(zip(names, (1, 3), strict=True))), 32, workers=2, transform=_without_data
        )
        seen = Counter((int(i), int(grid[0, 0])) for batch in loader for i, grid in zip(*_columns(batch), strict=True))
        assert all(grid == i * 37 % 251 for i, grid in seen)

    def many_shards(self) -> None:
        """There are more shards than the process may open files."""
        name, dataset = self._any(self._datasets.sharded)
        self._check_epoch(name, dataset, Loader(dataset.open(), 64, seed=self._chosen.randrange(100)))

    def _epoch(self, kind: WorkerType, **options: Any) -> None:
        name, dataset = self._any(self._datasets.small)
        shuffle = self._chosen.choice([True, "window", False])
        options |= {"shuffle": shuffle, "seed": self._chosen.randrange(100), "worker_type": kind}
        self._check_epoch(name, dataset, Loader(dataset.open(), self._chosen.randrange(1, 70), **options))

    def _check_epoch(self, name: str, dataset: Dataset, loader: Loader) -> None:
        seen = Counter(number for batch in loader for number in check_batch(name, batch))
        _check_once(seen, dataset.n)
        self._counts["epochs"] += 1
        self._counts["records"] += dataset.n

    def _any(self, datasets: dict[str, Dataset]) -> tuple[str, Dataset]:
        return self._chosen.choice([*datasets.items()])


def _check_once(seen: Counter[int], n: int, but: frozenset[int] = frozenset()) -> None:
    """Fail unless each record was seen once."""
    wrong = {number: seen[number] for number in range(n) if seen[number] != (number not in but)}
    assert not wrong, f"record to times seen: {wrong}"
    assert len(seen) == n - len(but)


def _without_data(record: dict[str, Any]) -> dict[str, Any]:
    return {"id": record["id"], "grid": record["grid"]}


def _columns(batch: dataformats.Batch) -> Iterator[np.ndarray]:
    return iter((batch["id"], batch["grid"]))
