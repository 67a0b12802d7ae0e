"""Costs over the number of shards, with exponents: `python -m tests.benchmarks.shards 10 1000 100000`.

Milliseconds of processor, bytes of a pickle, and megabytes of private memory of a new process with a TFRecord dataset
of three records a shard. An exponent of 1 is a straight line.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.costs import peak_while
from tests.benchmarks.scale import slope

BATCH, EACH, STEPS = 64, 3, 100


def seconds(call: Callable[[], Any]) -> float:
    """Return milliseconds of processor."""
    begin = time.process_time()
    call()
    return (time.process_time() - begin) * 1e3


def figures(path: str) -> dict[str, float]:
    """Return name to figure; the index is there, if this is not the first process."""
    found = {"open": seconds(lambda: dataformats.open(path, payload="bytes"))}
    source = dataformats.open(path, payload="bytes")
    found["len"] = seconds(lambda: len(source))
    n = len(source)
    batches = np.random.default_rng(1).integers(n, size=(STEPS + 1, min(BATCH, n)))
    found["first batch"] = seconds(lambda: source.read(batches[0]))
    found["random batch"] = seconds(lambda: [source.read(one) for one in batches[1:]]) / STEPS
    with dataformats.Loader(source, BATCH, seed=1, workers=0) as loader:
        steps = [*islice(loader, 1)]  # the first one is slower
        found["Loader step"] = seconds(lambda: steps.extend(islice(loader, STEPS))) / min(STEPS, len(loader))
    found["fingerprint"] = seconds(lambda: source.fingerprint)
    pickled = pickle.dumps(source)
    found["pickle, B"] = len(pickled)
    Path(f"{path}.pickle").write_bytes(pickled)
    found["worker start"] = float(alone(f"{path}.pickle")["start"])
    found["memory, MB"] = peak_while(lambda: None) / 1e6
    return found


def start(path: str) -> dict[str, float]:
    """Return the time that a worker takes to unpickle the source and to read a batch."""
    pickled = Path(path).read_bytes()
    return {"start": seconds(lambda: pickle.loads(pickled).read(np.arange(EACH)))}


def alone(path: str) -> dict[str, float]:
    """Return the figures of a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.shards", "--alone", path]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    if arguments[:1] == ["--alone"]:
        print(json.dumps((start if arguments[1].endswith(".pickle") else figures)(arguments[1])))
        return
    sizes = [int(one) for one in arguments] or [10, 1000, 100_000]
    columns: list[dict[str, float]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["DATAFORMATS_CACHE"] = f"{folder}/cache"
            os.mkdir(f"{folder}/x")
            for number in range(size):
                with dataformats.create(f"{folder}/one.tfrecord", payload="bytes", overwrite=True) as writer:
                    writer.extend([number.to_bytes(64, "little")] * EACH)
                os.replace(f"{folder}/one.tfrecord", f"{folder}/x/x-{number:06}-of-{size:06}.tfrecord")
            first = alone(f"{folder}/x")["len"]
            columns.append({"first len": first, **alone(f"{folder}/x")})
    print(f"| shards | {' | '.join(map(str, sizes))} | exponent |\n{'|---' * (len(sizes) + 2)}|")
    for name in columns[0]:
        values = [column[name] for column in columns]
        cells = [f"{value:.4g}" for value in values]
        print(f"| {name} | {' | '.join(cells)} | {slope(list(zip(sizes, values, strict=True))):.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
