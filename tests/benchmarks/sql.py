"""SQL: DuckDB groups the records of a TFRecord by their label, beside `read` of the same field in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import in_order, write

LABELS = 10
BATCH = 1024
WITHOUT_PROJECTION, READ = "dataformats, from the source itself", "read"
SPEC = {"label": "int64", "score": "float32", "name": "bytes", "vector": "float32[8]"}


def records(n: int) -> Iterator[dict[str, Any]]:
    """Yield n small records, the same ones every time."""
    vectors = np.random.default_rng(n).random((n, 8), np.float32)
    for i, vector in enumerate(vectors):
        yield {"label": i % LABELS, "score": vector[0], "name": b"%d" % i, "vector": vector}


def queried(path: Path, wrap: Callable[[dataformats.RecordSource], Any]) -> Side:
    """Return a query that DuckDB runs over the result of `wrap(source)`."""
    duckdb, source = peer("duckdb"), dataformats.open(path, spec=SPEC)

    def counts() -> Iterator[dict[int, int]]:
        digits = wrap(source)  # noqa: F841  # DuckDB finds it by its name
        yield dict(duckdb.sql("select label, count(*) from digits group by label").fetchall())

    return Side(counts, plain)


def read(path: Path, n: int) -> Side:
    """Return counts by numpy."""
    source = dataformats.open(path, spec=SPEC)

    def counts() -> Iterator[dict[int, int]]:
        found = sum(np.bincount(source.read(part, ["label"])["label"], minlength=LABELS) for part in in_order(n, BATCH))
        yield dict(enumerate(np.asarray(found).tolist()))

    return Side(counts, plain)


def plain(counts: dict[int, int]) -> dict[str, Any]:
    """Return the counts in the order of the labels."""
    return {"counts": [counts[label] for label in sorted(counts)]}


def grouping(data: Data) -> Work:
    """Return the work of counting the records of each label."""
    n = data.count(300_000)
    path = data.made(f"sql-{n}.tfrecord", lambda path: write(path, records(n), "tfrecord", spec=SPEC))

    def projected() -> Side:
        peer("pyarrow")
        from dataformats.interop.arrow import SourceDataset

        return queried(path, SourceDataset)

    sides = {
        OURS: projected,
        WITHOUT_PROJECTION: lambda: queried(path, lambda source: source),
        READ: lambda: read(path, n),
    }
    return Work(f"TFRecord, {n:,} small Examples, group by label in DuckDB", sides)


CASES = (Case("sql-group-by", grouping, (Target(READ, 0.8), Target(READ, side=WITHOUT_PROJECTION))),)
