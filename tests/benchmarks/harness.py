"""Runs the same work on several sides: checks that the results are equal, then times the sides in turn."""

from __future__ import annotations

import importlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.machine import scaling

OURS = "dataformats"
LEAST_SCALING = 1.8
"""If two threads of pure work speed up less than this, rounds that may use two threads do not count."""
LEAST_ROUNDS = 3
MOST_TRIES, ENOUGH_S = 2, 20
"""Repeat until enough rounds count: at most this many times the requested rounds, and this many seconds."""


class UnavailableError(Exception):
    """A side cannot run here; the text says why."""


class UnequalError(Exception):
    """Two sides gave different values, so that their times mean nothing."""


@dataclass(frozen=True)
class Data:
    """The folder with the data of the benchmarks, which are written once and reused.

    Attributes:
        folder: The folder of files and indexes.
        scale: 1 for the sizes of the targets; less for a quick run.
    """

    folder: Path
    scale: float = 1.0

    def count(self, full: int, least: int = 4) -> int:
        """Return the number of records or batches, if the whole benchmark takes `full`."""
        return max(least, round(full * self.scale))

    def made(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the path of `name`, which `make` writes if it does not exist.

        `make` may not leave half a file under the name; `dataformats.create` publishes complete files. The page cache
        then holds them as read from the disk, in large blocks: small writes leave single pages, which are slow to read.
        """
        path = self.folder / name
        if not path.exists():
            make(path)
            for file in [path, *path.rglob("*")]:
                if file.is_file():
                    _read_again(file)
        return path


def _read_again(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        os.fsync(file)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(2**24):
            pass


@dataclass(frozen=True)
class Side:
    """One way to do the work.

    Attributes:
        batches: Starts the work again and yields the result of each step.
        plain: Converts the result of a step to arrays and lists by name, which must be equal on all sides.
    """

    batches: Callable[[], Iterable[Any]]
    plain: Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Work:
    """The work of one case, on data that exist.

    Attributes:
        title: The first column of the table, with the actual numbers.
        sides: Maps a name to a function that opens the side, in running order; it may raise `UnavailableError`.
        before: Runs before each step of each side, outside the timing.
    """

    title: str
    sides: Mapping[str, Callable[[], Side]]
    before: Callable[[], None] | None = None


@dataclass(frozen=True)
class Target:
    """One row of the table.

    Attributes:
        against: The peer.
        at_least: The target of the ratio; `None` only shows the ratio.
        side: Our side.
    """

    against: str
    at_least: float | None = None
    side: str = OURS


@dataclass(frozen=True)
class Case:
    """A piece of work, and the comparisons to make.

    Attributes:
        name: The name that `-k` selects by.
        build: Writes missing data, and returns the work.
        rows: The comparisons to show.
        one_thread: True if no side can use a second thread, so that the scaling probe does not matter.
    """

    name: str
    build: Callable[[Data], Work]
    rows: tuple[Target, ...]
    one_thread: bool = False


@dataclass(frozen=True)
class Result:
    """The measurements of one case.

    Attributes:
        name: The case.
        title: The title of its work.
        one_thread: True if the scaling probe does not matter.
        seconds: Side to its time in each round.
        missing: Side to the reason why it could not run.
        scaling: The speedup of two threads, measured just before each round.
    """

    name: str
    title: str
    one_thread: bool
    seconds: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    scaling: list[float] = field(default_factory=list)

    @property
    def counted(self) -> list[int]:
        """The rounds that really had two cores."""
        return [n for n, speedup in enumerate(self.scaling) if self.one_thread or speedup >= LEAST_SCALING]

    @property
    def counts(self) -> bool:
        """False if too few rounds are left; then all of them are shown, and the row does not count."""
        return len(self.counted) >= min(LEAST_ROUNDS, len(self.scaling))

    def median_s(self, side: str) -> float | None:
        """Return the median over the rounds; `None` if the side could not run."""
        return statistics.median(self._of(self.seconds[side])) if side in self.seconds else None

    def ratio(self, row: Target) -> float | None:
        """Return our speedup: the median of the rounds' ratios, which is robust to drift."""
        if row.side not in self.seconds or row.against not in self.seconds:
            return None
        pairs = zip(self.seconds[row.against], self.seconds[row.side], strict=True)
        return statistics.median(self._of([theirs / ours for theirs, ours in pairs]))

    def scaling_of_rounds(self) -> float:
        """Return the median of the probe over the rounds that count."""
        return statistics.median(self._of(self.scaling))

    def _of(self, values: list[float]) -> list[float]:
        return [values[n] for n in self.counted] if self.counts else values


def measure(case: Case, data: Data, rounds: int, probe: Callable[[], float] = scaling) -> Result:
    """Return the times of all sides of a case that can run here; `probe` returns the speedup of two threads.

    Raises:
        UnequalError: Two sides do not give the same values.
    """
    os.environ["DATAFORMATS_CACHE"] = str(data.folder / "cache")
    work = case.build(data)
    result = Result(case.name, work.title, case.one_thread)
    sides = _opened(work, result.missing)
    _check(work, sides)
    begin = time.perf_counter()
    while len(result.counted) < rounds and len(result.scaling) < MOST_TRIES * rounds:
        if len(result.scaling) >= rounds and time.perf_counter() - begin > ENOUGH_S:
            break
        result.scaling.append(probe())
        for name, side in sides.items():
            result.seconds.setdefault(name, []).append(_time_s(side, work.before))
    return result


def profile(case: Case, name: str, data: Data, seconds: float) -> int:
    """Run one side of a case repeatedly, for a profiler; return the number of runs."""
    os.environ["DATAFORMATS_CACHE"] = str(data.folder / "cache")
    work = case.build(data)
    if name not in work.sides:
        raise SystemExit(f"no side {name!r} in this case; there are {', '.join(map(repr, work.sides))}")
    side = work.sides[name]()
    runs, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        _time_s(side, work.before)
        runs += 1
    return runs


def peer(name: str) -> Any:
    """Return the module of another program.

    Raises:
        UnavailableError: It is not installed, or registers protobuf messages that another one has registered.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(f"{name} is not installed: {error}") from error
    except TypeError as error:
        if "descriptor pool" not in str(error):
            raise
        raise UnavailableError(f"{name} cannot be imported beside another program: {error}") from error


def _opened(work: Work, missing: dict[str, str]) -> dict[str, Side]:
    sides = {}
    for name, make in work.sides.items():
        try:
            sides[name] = make()
        except UnavailableError as reason:
            missing[name] = str(reason)
    return sides


def _check(work: Work, sides: Mapping[str, Side]) -> None:
    """Run all sides once, in lockstep, and compare each step; this also warms them up."""
    names = list(sides)
    for step, given in enumerate(zip_longest(*(_steps(side, work.before) for side in sides.values()))):
        plain = [
            None if batch is None else side.plain(batch) for side, batch in zip(sides.values(), given, strict=True)
        ]
        for name, values in zip(names, plain, strict=True):
            difference = _difference(plain[0], values)
            if difference:
                raise UnequalError(f"{work.title}: step {step}: {names[0]} and {name} differ in {difference}")


def _steps(side: Side, before: Callable[[], None] | None) -> Iterator[Any]:
    batches = iter(side.batches())
    while True:
        if before is not None:
            before()
        try:
            yield next(batches)
        except StopIteration:
            return


def _difference(expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str | None:
    if expected is None or found is None:
        return None if expected is found else "the number of steps"
    if expected.keys() != found.keys():
        return f"their names, {sorted(expected)} and {sorted(found)}"
    unequal = [name for name in expected if not _equal(expected[name], found[name])]
    return ", ".join(unequal) or None


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _time_s(side: Side, before: Callable[[], None] | None) -> float:
    """Return the seconds that all steps took; the last batch is kept until the next is ready, as in a trainer.

    What a library does after the last batch does not count: an iterator of tf.data waits some seconds for its tuner.
    """
    total = 0.0
    batches = iter(side.batches())
    batch: Any = None
    done = object()
    while True:
        if before is not None:
            before()
        begin = time.perf_counter()
        batch = next(batches, done)
        if batch is done:
            return total
        total += time.perf_counter() - begin
