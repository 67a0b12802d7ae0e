"""Measure how fast a dataset reads and loads on this machine, what limits it, and which change helps."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.converting import convert
from dataformats.errors import FormatError
from dataformats.interfaces.record_source import RecordSource
from dataformats.interfaces.stored_file import StoredFile
from dataformats.loaders.advice import IN_MEMORY, IN_WINDOWS, LIMITS, fits_in_memory
from dataformats.loaders.loader import Loader
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.opening import open as open_source
from dataformats.storage.remote.names import shown_url
from dataformats.storage.remote.systems import is_url

_WORKERS = (0, 1, 2, 4)
_RANDOM = 256  # records of a random batch
_BLOCK = 2**20
_SAMPLE = 20_000  # records that are converted for a measurement, at most
_PARTS = 3  # a measurement has three parts, and the rate is their median
_WORTH = 1.1  # a smaller gain may be noise
_NEAR = 0.8  # a loader this near to the speed of the disk is limited by it


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of one kind of work.

    Attributes:
        work: What was done, such as `"random, 256 at once"`.
        records_per_s: Records each second; `None` if files were read as bytes.
        bytes_per_s: Stored bytes each second.
    """

    work: str
    records_per_s: float | None
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Advice:
    """A change, and how much faster the loader was with it.

    Attributes:
        change: The argument or the step, such as `"workers=4"`.
        gain: The speed with it divided by the speed without it.
    """

    change: str
    gain: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How fast a dataset reads and loads, what limits it, and which changes help.

    Attributes:
        records: The number of records.
        nbytes: Stored bytes of all files.
        index_s: Seconds until the number of records was known; an index that was kept before makes it short.
        rates: The speed of each kind of work.
        shares: The share of the time of a loader without workers: `"read"`, `"decode"` and `"batch"`.
        limit: What limits the speed of the loader.
        advice: Changes that made it at least 1.1 times as fast, the best one first.
    """

    records: int
    nbytes: int
    index_s: float
    rates: tuple[Rate, ...]
    shares: Mapping[str, float]
    limit: str
    advice: tuple[Advice, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self)


def benchmark(
    path: Any, batch_size: int = 64, seconds: float = 1.0, options: Mapping[str, Any] | None = None
) -> Benchmark:
    """Measure reading in order, at random, and through loaders with 0, 1, 2 and 4 workers.

    Args:
        path: A path as in `open`.
        batch_size: Records of a loader's batch, at least 1.
        seconds: How long each of some twelve measurements takes, above 0.
        options: Arguments of `open`.

    Raises:
        FormatError: The files cannot be opened, have no records, or a record is damaged.
    """
    options = dict(options or {})
    begin = time.perf_counter()
    with open_source(path, **options) as source:
        n = len(source)
        index_s = time.perf_counter() - begin
        if n == 0:
            what, name = "a dataset without records has no speed", shown_url(path)
            raise FormatError(what, path=name, expected=">= 1 record", found=0)
        timer = _Timer(source, min(batch_size, n), seconds)
        rates = [*timer.storage(), *timer.reading()]
        loaders = {workers: timer.loader(f"Loader, workers={workers}", workers=workers) for workers in _WORKERS}
        shares = timer.shares()
        best = max(_WORKERS, key=lambda workers: loaders[workers].bytes_per_s)
        base = loaders[2].bytes_per_s
        gains = {f"workers={best}": loaders[best].bytes_per_s / base}
        gains[IN_WINDOWS] = timer.loader("", workers=2, shuffle="window").bytes_per_s / base
        if fits_in_memory(source) and "cache" not in options:
            with open_source(path, **options, cache="memory") as held:
                gains[IN_MEMORY] = _Timer(held, timer.batch_size, seconds).loader("", workers=2).bytes_per_s / base
        if source.facts.is_compressed:
            gains["convert it to files that are not compressed"] = timer.gain_of_conversion()
        advice = [Advice(change, gain) for change, gain in gains.items() if gain >= _WORTH]
        rates += loaders.values()
        return Benchmark(
            n,
            source.nbytes,
            index_s,
            tuple(rates),
            shares,
            _limit(loaders[best], rates[0], shares, is_remote=any(map(is_url, source.paths))),
            tuple(sorted(advice, key=lambda one: -one.gain)),
        )


class _Timer:
    """Measures a source; each measurement begins after one untimed step."""

    def __init__(self, source: RecordSource, batch_size: int, seconds: float) -> None:
        self._source = source
        self._n = len(source)
        self._record_bytes = source.nbytes / self._n
        self._seconds = seconds
        self.batch_size = batch_size
        self._collate: dict[str, Any] = {} if self._stacks() else {"collate": _listed}

    def _stacks(self) -> bool:
        """Return True if the values of a batch stack into one array; pictures of many sizes do not."""
        try:
            next(iter(Loader(self._source, self.batch_size, workers=0)))
        except ValueError:
            return False
        return True

    def storage(self) -> list[Rate]:
        """Read the files as bytes: from the disk if the system lets go of its copy, then from memory."""
        files = self._source.reader.files if isinstance(self._source, BlobSource) else []
        stored = [file.stored for file in files]
        for file in stored:
            if file.local is not None and hasattr(os, "posix_fadvise"):
                _drop_from_memory(file.local)
        reads = [partial(_read_block, file, at) for file in stored for at in range(0, file.size, _BLOCK)]
        found = []
        for work in ("files from storage", "files again, from memory") if reads else ():
            n_bytes, spent = _timed(iter(reads), self._seconds)
            found.append(Rate(work, None, n_bytes / spent))
            reads = reads[: max(1, n_bytes // _BLOCK)]
        return found

    def reading(self) -> Iterator[Rate]:
        """Read records in order, and at random: many at once, and one by one."""
        rng = np.random.default_rng(0)
        source, n = self._source, self._n
        some = min(_RANDOM, n)
        yield self._rate("in order", (partial(len, batch) for batch in _again(source.scan)))
        many = f"random, {some} at once"
        yield self._rate(many, repeat(lambda: len(source.read(rng.integers(0, n, some)))))
        yield self._rate("random, one by one", repeat(lambda: source[int(rng.integers(n))] is not None))

    def loader(self, work: str, **arguments: Any) -> Rate:
        """Iterate a shuffled loader."""
        loader = Loader(self._source, self.batch_size, **self._collate, **arguments)
        return self._rate(work, (partial(len, batch.positions) for batch in loader.forever()))

    def shares(self) -> dict[str, float]:
        """Return the share of reading, decoding and building batches in the time of a loader without workers."""
        loader = Loader(self._source, self.batch_size, workers=0, **self._collate)
        begin = time.perf_counter()
        for _ in loader.forever():
            if time.perf_counter() - begin >= self._seconds:
                break
        shares = loader.stats().shares
        return {name: shares[name] for name in ("read", "decode")} | {"batch": 1 - shares["read"] - shares["decode"]}

    def gain_of_conversion(self) -> float:
        """Return how much faster a loader is on the first records if they are written without compression."""
        first = self._source.take(range(min(self._n, _SAMPLE)))
        with tempfile.TemporaryDirectory() as folder:
            convert(first, Path(folder, "plain"), format=self._source.format, compression="none", progress=None)
            with open_source(Path(folder, "plain"), format=self._source.format, spec=self._source.spec) as plain:
                rates = [_Timer(one, self.batch_size, self._seconds).loader("", workers=2) for one in (plain, first)]
        return (rates[0].records_per_s or 0.0) / (rates[1].records_per_s or 1.0)

    def _rate(self, work: str, steps: Iterator[Callable[[], int]]) -> Rate:
        next(steps)()
        parts = [_timed(steps, self._seconds / _PARTS) for _ in range(_PARTS)]
        speed = statistics.median(records / spent for records, spent in parts)
        return Rate(work, speed, speed * self._record_bytes)


def _timed(steps: Iterator[Callable[[], int]], seconds: float) -> tuple[int, float]:
    """Take steps for some time, at least one; return the sum of what they return, and the seconds."""
    done, begin = 0, time.perf_counter()
    for step in steps:
        done += step()
        if time.perf_counter() - begin >= seconds:
            break
    return done, time.perf_counter() - begin


def _listed(records: list[Any]) -> dict[str, Any]:
    return {"record": records}


def _read_block(file: StoredFile, offset: int) -> int:
    return len(file.pread(offset, _BLOCK))


def _again(scan: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    return chain.from_iterable(scan() for _ in repeat(None))


def _drop_from_memory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _limit(loader: Rate, storage: Rate, shares: Mapping[str, float], *, is_remote: bool) -> str:
    if storage.records_per_s is None and loader.bytes_per_s >= _NEAR * storage.bytes_per_s:
        return "the network" if is_remote else "the disk"
    return (LIMITS | {"batch": LIMITS["collate"]})[max(shares, key=lambda name: shares[name])]
