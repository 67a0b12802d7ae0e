"""Costs of the loader without a peer to compare with: first batch, memory, lookup in the plan, state.

`python -m tests.benchmarks.costs FOLDER SCALE` prints them as JSON; it runs in a separate process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.harness import Data
from tests.benchmarks.pictures import BATCH, stored

NAME = "loader-costs"
RUNS = 20
MANY = 10**9
SAMPLE_S = 0.02


@dataclass(frozen=True)
class Cost:
    """One figure.

    Attributes:
        what: The operation.
        found: The measured cost, as text.
        limit: The target, as text.
        met: True if the cost is under the limit.
    """

    what: str
    found: str
    limit: str
    met: bool


def loader_of(data: Data, **options: Any) -> Any:
    """Return a new loader of a TFRecord of pictures."""
    path, n = stored(data, "tfrecord", "tfrecord")
    source = dataformats.open(path)
    assert len(source) == n  # builds the index
    return dataformats.Loader(source, BATCH, seed=1, **options)


# ---- time


def first_batches(data: Data) -> Iterator[Cost]:
    """Yield the time to the first batch of a new loader, at the beginning and at 90 % of an epoch."""
    n = stored(data, "tfrecord", "tfrecord")[1]
    _first_batch_s(data, 0)
    pairs = [(_first_batch_s(data, 0), _first_batch_s(data, n * 9 // 10)) for _ in range(RUNS)]
    fresh, late = (statistics.median(side) for side in zip(*pairs, strict=True))
    yield _under("time to the first batch", fresh, 50e-3)
    yield _under("time to the first batch at 90 % of an epoch", late, 50e-3)
    yield Cost("the one over the other", f"{late / fresh:.2f}×", "0.8× to 1.2×", 0.8 <= late / fresh <= 1.2)


def _first_batch_s(data: Data, position: int) -> float:
    with loader_of(data) as loader:
        loader.advance(position // BATCH)
        state = loader.state_dict()
    with loader_of(data) as loader:
        begin = time.perf_counter()
        loader.load_state_dict(state)
        batch = next(iter(loader))
        seconds = time.perf_counter() - begin
        assert len(batch["label"]) == BATCH
    return seconds


def places(data: Data) -> Iterator[Cost]:
    """Yield the time and memory to locate a batch among very many records."""
    loader = dataformats.Loader(range(MANY), BATCH, seed=1, workers=0)
    positions = np.arange(MANY // 3, MANY // 3 + BATCH)
    yield _under(f"the places of {BATCH} positions among 10^9", _each_s(lambda: loader.locate(positions)), 40e-6)
    tracemalloc.start()
    loader.locate(positions)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield Cost("memory for that", f"{peak / 1e3:.1f} kB", "1 MB", peak < 1e6)


def state(data: Data) -> Iterator[Cost]:
    """Yield size and time of a state."""
    with loader_of(data) as loader:
        next(iter(loader))
        size = len(json.dumps(loader.state_dict()))
        yield Cost("a state", f"{size} bytes", "1 KB", size < 1024)
        yield _under("taking it", _each_s(loader.state_dict), 20e-6)


def _each_s(call: Callable[[], Any], calls: int = 1000, repeats: int = 7) -> float:
    """Return the seconds of one call: the median over some repeats."""
    call()
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - begin) / calls)
    return statistics.median(found)


def _under(what: str, seconds: float, limit_s: float) -> Cost:
    return Cost(what, _seconds(seconds), _seconds(limit_s), seconds < limit_s)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


# ---- memory


def memory(data: Data) -> Iterator[Cost]:
    """Yield the peak memory of an epoch, less the memory of an interpreter with the same imports."""
    stored(data, "tfrecord", "tfrecord")  # otherwise the measured process would write it
    for kind in ("thread", "process"):
        idle, busy = (_peak_of_process(data, work) for work in ("idle", kind))
        found = (busy - idle) / 1e6
        yield Cost(f"memory while loading, worker_type={kind!r}", f"{found:.0f} MB", "150 MB", found < 150)


def _peak_of_process(data: Data, work: str) -> int:
    """Return the peak memory of a separate process that does only this work."""
    command = [sys.executable, "-m", "tests.benchmarks.costs", str(data.folder), str(data.scale), work]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()[-1])


def peak_while(work: Callable[[], None]) -> int:
    """Return the peak memory of this process and its children during some work, in bytes.

    Pages of mapped files do not count: they are the page cache, which the system takes back if it needs memory.
    """
    done, found = threading.Event(), [_tree_bytes(os.getpid())]

    def look() -> None:
        while not done.wait(SAMPLE_S):
            found.append(_tree_bytes(os.getpid()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()
    return max(found)


def _tree_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text("utf-8").splitlines()
        children = Path(f"/proc/{process}/task").glob("*/children")
        numbers = [int(child) for path in children for child in path.read_text("utf-8").split()]
    except OSError:  # the process ended
        return 0
    own = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return own + sum(map(_tree_bytes, numbers))


def _load(data: Data, kind: str) -> None:
    if kind == "idle":
        time.sleep(5 * SAMPLE_S)
        return
    with loader_of(data, worker_type=kind) as loader:
        for _ in loader:
            pass


# ---- all


def measured(data: Data) -> list[Cost]:
    """Return all figures, measured in a separate process."""
    command = [sys.executable, "-m", "tests.benchmarks.costs", str(data.folder), str(data.scale)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return [Cost(**each) for each in json.loads(done.stdout.splitlines()[-1])]


def main(arguments: list[str]) -> None:
    """Print the figures, or the peak memory of one kind of work."""
    data = Data(Path(arguments[0]), float(arguments[1]))
    os.environ["DATAFORMATS_CACHE"] = str(data.folder / "cache")
    if len(arguments) > 2:
        print(peak_while(lambda: _load(data, arguments[2])))
        return
    found = [cost for make in (first_batches, places, state, memory) for cost in make(data)]
    print(json.dumps([asdict(cost) for cost in found]))


if __name__ == "__main__":
    main(sys.argv[1:])
