"""Count requests and bytes of reading behind a URL: `python -m tests.benchmarks.remote_requests [RECORDS]`.

Prints a Markdown table for a server on loopback: to open a file of each format, without and with format, payload and
spec, and then an epoch in order, one in windows, and a batch of 64 random records.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.deep.remote.servers import counting_server

SUFFIXES = {"tfrecord": ".tfrecord", "ofrecord": ".ofrecord", "ffrecord": ".ffr", "syrah": ".syr", "granular": "/"}
SPEC = {"data": "bytes", "number": "int64"}
BATCH = 64


def counted(log: list[tuple[str, int]], work: Callable[[], Any]) -> tuple[str, Any]:
    """Return the requests and megabytes of some work, and its result."""
    log.clear()
    result = work()
    return f"{len(log)}, {sum(n_bytes for _, n_bytes in log) / 1e6:.2f} MB", result


def epoch(source: dataformats.RecordSource, shuffle: Any) -> None:
    """Read all records once."""
    with dataformats.Loader(source, BATCH, shuffle=shuffle) as loader:
        if sum(len(next(iter(batch.values()))) for batch in loader) != len(source):
            raise RuntimeError("a loader left records out")


def row(folder: Path, format: str, name: str) -> list[str]:
    """Return the cells of a format; the second server has another URL, for which no block is in memory."""
    with counting_server(folder) as (url, log):
        bare, source = counted(log, lambda: dataformats.open(f"{url}/{name}"))
        options = {"spec": source.spec, "payload": source.payload}
    with counting_server(folder) as (url, log):
        return [format, bare, *cells(f"{url}/{name}", format, options, log)]


def cells(url: str, format: str, options: dict[str, Any], log: list[tuple[str, int]]) -> list[str]:
    """Return the counts of reading data whose types are declared."""
    declared, source = counted(log, lambda: dataformats.open(url, format=format, **options))
    n, _ = counted(log, lambda: len(source))
    in_order, _ = counted(log, lambda: epoch(source, False))
    window, _ = counted(log, lambda: epoch(source, "window"))
    indices = np.random.default_rng(2).permutation(len(source))[:BATCH]
    return [declared, n, in_order, window, counted(log, lambda: source.read(indices))[0]]


def main() -> None:
    """Print the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    blob = np.random.default_rng(1).bytes(n + 1000)
    print(f"Requests and bytes of {n:,} records of 1 KB\n")
    print("| format | open | open, declared | first len | in order | window | 64 random |\n" + "|---" * 7 + "|")
    for format, suffix in SUFFIXES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"x{suffix}")
            with dataformats.create(path, format, spec=SPEC) as writer:
                writer.extend({"data": blob[i : i + 1000], "number": i} for i in range(n))
            Path(f"{path}.dataformats.json").unlink(missing_ok=True)
            print("| " + " | ".join(row(Path(folder), format, f"x{suffix}")) + " |", flush=True)


if __name__ == "__main__":
    main()
