"""A dataset larger than memory, shuffled: `python -m tests.benchmarks.memory_limit 12288 131072` bytes a record.

Both sides read the dataset in random order, each as a separate process in a memory cgroup (version 1, which root may
make), whose page cache counts too. The peer reads at known offsets and checks nothing. The private memory at the end
of each part of the time shows whether it grows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.cold import Cache
from tests.benchmarks.costs import peak_while
from tests.benchmarks.ffrecord import Records

BATCH, THREADS, PARTS, AHEAD = 64, 16, 20, 4
OURS, PEER = "dataformats", f"{THREADS} threads of pread"
LIMITS = Path("/sys/fs/cgroup/memory")


def write(path: Path, n: int, size: int) -> None:
    """Write `n` random records of `size` bytes."""
    numbers = np.random.default_rng(1).bytes(size + (64 << 20))
    with dataformats.create(path, "ffrecord", payload="bytes") as writer:
        for begin in range(0, n, BATCH):
            starts = [(number * 7919) % (64 << 20) for number in range(begin, min(begin + BATCH, n))]
            writer.extend([numbers[start : start + size] for start in starts])


def loaded(path: Path, seed: int) -> Iterator[int]:
    """Yield the number of records of each batch, epoch after epoch."""
    loader = dataformats.Loader(dataformats.open(path), BATCH, shuffle=True, seed=seed)
    return (len(batch["value"]) for _ in count() for batch in loader)


def pooled(path: Path, seed: int) -> Iterator[int]:
    """Yield the number of records of each batch; some batches are read ahead."""
    records = Records(path)
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(len(records.starts)).tolist() for _ in count())
    order = chain.from_iterable(orders)
    with ThreadPoolExecutor(THREADS) as pool:

        def begun() -> list[Any]:
            return [
                pool.submit(os.pread, records.file, records.lengths[index], records.starts[index])
                for index in islice(order, BATCH)
            ]

        waiting = [begun() for _ in range(AHEAD)]
        while True:
            waiting.append(begun())
            yield sum(bool(one.result()) for one in waiting.pop(0))


def read(side: str, path: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Return records a second, and the private memory in MB at each part of the time."""
    batches = (loaded if side == OURS else pooled)(path, seed)
    next(batches)
    n, memory = 0, []
    begin = time.perf_counter()
    for part in range(1, PARTS + 1):
        while time.perf_counter() < begin + seconds * part / PARTS:
            n += next(batches)
        memory.append(round(peak_while(lambda: None) / 1e6))
    return {"rate": n / (time.perf_counter() - begin), "memory": memory}


@contextmanager
def limited(n_bytes: int) -> Iterator[Path]:
    """Give a memory cgroup, and remove it afterwards."""
    group = LIMITS / f"dataformats-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(n_bytes))
        yield group
    finally:
        (group / "memory.force_empty").write_text("0")
        group.rmdir()


def alone(side: str, path: Path, seconds: float, seed: int, limit_bytes: int) -> dict[str, Any]:
    """Return the figures of a new process with this much memory, and none of the file in the page cache."""
    Cache(path).drop()
    with limited(limit_bytes) as group:
        command = [sys.executable, "-m", "tests.benchmarks.memory_limit", "--alone", side, str(path)]
        command += ["--seconds", str(seconds), "--seed", str(seed), "--group", str(group)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.memory_limit", description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[12288, 131072], help="bytes of a record")
    parser.add_argument("--gb", type=float, default=25, help="gigabytes of the dataset")
    parser.add_argument(
        "--limit-gb", type=float, default=4, help="gigabytes of memory for a process and its page cache"
    )
    parser.add_argument("--seconds", type=float, default=30, help="seconds that a side reads in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=tempfile.gettempdir(), help="folder for the dataset")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)  # the processes of the sides get these
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        (options.group / "cgroup.procs").write_text(str(os.getpid()))
        print(json.dumps(read(options.alone[0], Path(options.alone[1]), options.seconds, options.seed)))
        return
    limit_bytes = int(options.limit_gb * 2**30)
    print(
        "| bytes a record | side | records/s | MB/s | memory, first and last part | ratio |\n|---|---|---|---|---|---|"
    )
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.data) as folder:
            path = Path(folder) / "x.ffr"
            write(path, int(options.gb * 1e9 / size), size)
            rounds = [
                {side: alone(side, path, options.seconds, seed, limit_bytes) for side in (OURS, PEER)}
                for seed in range(options.rounds)
            ]
        rates = {side: statistics.median(one[side]["rate"] for one in rounds) for side in (OURS, PEER)}
        for side, rate in rates.items():
            memory = [one[side]["memory"] for one in rounds]
            first, last = (max(one[part] for one in memory) for part in (0, -1))
            ratio = rate / rates[PEER]
            print(f"| {size} | {side} | {rate:.0f} | {rate * size / 1e6:.0f} | {first} to {last} MB | {ratio:.2f}× |")


if __name__ == "__main__":
    main()
