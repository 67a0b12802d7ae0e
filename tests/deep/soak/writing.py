"""Activities of the soak that write: new data, interrupted and dropped writers, conversions."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dataformats
from dataformats.errors import DataFormatsError
from dataformats.writing.dataset_writer import DatasetWriter
from tests.deep.soak.datasets import CASES, Datasets, check_records, records, spec_of

N = 60
N_GROWN = 600
SHARD_RECORDS = 25


class Writing:
    """The activities that write; everything that they leave has one of a few names.

    Args:
        folder: The folder to which they write.
        datasets: The datasets that they convert.
        chosen: Makes the choices.
        counts: Counts what happened.
    """

    def __init__(self, folder: Path, datasets: Datasets, chosen: random.Random, counts: Counter[str]) -> None:
        self._folder = folder
        self._datasets = datasets
        self._chosen = chosen
        self._counts = counts

    @property
    def activities(self) -> list[Callable[[], None]]:
        """All of them."""
        kinds = (self.replaced, self.shards, self.failed, self.resumed, self.dropped, self.converted)
        return [self.grown, *(functools.partial(kind, name) for kind in kinds for name in CASES)]

    def replaced(self, name: str) -> None:
        path = self._path("replaced", name)
        with self._create(path, name, overwrite=True) as writer:
            writer.extend(records(name, range(N)))
        self._check(path, name)

    def shards(self, name: str) -> None:
        path = self._folder / f"shards-{name}"
        with self._create(path, name, shard_records=SHARD_RECORDS, overwrite=True) as writer:
            writer.extend(records(name, range(N)))
        self._check(path, name)

    def failed(self, name: str) -> None:
        """An exception leaves nothing."""
        before = sorted(self._folder.iterdir())
        try:
            with self._create(self._path("failed", name), name) as writer:
                writer.extend(records(name, range(N)))
                raise ZeroDivisionError
        except ZeroDivisionError:
            assert sorted(self._folder.iterdir()) == before

    def resumed(self, name: str) -> None:
        """An interrupted writer is continued."""
        path = self._path("resumed", name)
        options: dict[str, Any] = {"resume": True, "overwrite": True}
        while True:
            with_error = self._chosen.random() < 0.5
            try:
                with self._create(path, name, **options) as writer:
                    stop = self._chosen.randrange(len(writer), N + 1) if with_error else N
                    writer.extend(records(name, range(len(writer), stop)))
                    if with_error:
                        raise ZeroDivisionError
                break
            except ZeroDivisionError:
                continue
        self._check(path, name)

    def dropped(self, name: str) -> None:
        """A writer is neither closed nor aborted."""
        path = self._path("dropped", name)
        writer = self._create(path, name, overwrite=True)
        writer.extend(records(name, range(N)))
        del writer
        with self._create(path, name, overwrite=True) as writer:
            writer.extend(records(name, range(N)))
        self._check(path, name)

    def grown(self) -> None:
        """A dataset grows in place."""
        path = self._folder / "grown"
        n = len(dataformats.open(path)) if path.exists() else 0
        if n >= N_GROWN:
            with self._create(path, "granular-3", overwrite=True) as writer:
                n = 0
        with self._create(path, "granular-3", resume=True) as writer:
            writer.extend(records("granular-3", range(n, n + N)))
        check_records("granular-3", dataformats.open(path), n + N)

    def converted(self, other: str) -> None:
        """A dataset is converted; a damaged one raises."""
        name = self._chosen.choice([*CASES])
        sound = self._datasets.small[name]
        case = CASES[other]
        path = self._path("converted", other)
        options: dict[str, Any] = {**case.create_options, "overwrite": True}
        if case.payload is not None:
            options["payload"] = case.payload
        done = dataformats.convert(sound.path, path, case.format, spec=spec_of(other), **options)
        assert done.records == sound.n
        self._counts["converted"] += 1
        if name in self._datasets.damaged:
            damaged = self._datasets.damaged[name]
            try:
                dataformats.convert(damaged.open(), path, case.format, spec=spec_of(other), **options)
            except DataFormatsError:
                return
            raise AssertionError(f"{damaged.path} was converted")

    def _create(self, path: Path, name: str, **options: Any) -> DatasetWriter:
        case = CASES[name]
        return dataformats.create(path, case.format, spec=spec_of(name), **case.create_options, **options)

    def _check(self, path: Path, name: str) -> None:
        check_records(name, dataformats.open(path), N)
        assert dataformats.verify(path).ok
        self._counts["written"] += 1

    def _path(self, kind: str, name: str) -> Path:
        return self._folder / f"{kind}-{name}{CASES[name].suffix}"
