"""What the suite runs in other processes; found by name there, so it imports no test."""

from __future__ import annotations

import hashlib
import resource
import sys
import time
from typing import Any

from dataformats.reading.opening import open as open_dataset
from dataformats.reading.source import RecordSource
from dataformats.testing.records import PLAIN, plain
from dataformats.writing.dataset_writer import create

__all__ = ["count_records", "digest", "read_in_child", "read_with_few_descriptors", "write_until_killed"]


def digest(source: Any) -> str:
    """Return a digest of all records of a source: one by one, as a batch, and streamed."""
    n = len(source)
    ways = [[source[i] for i in range(n)], list(source.read(range(n))), list(source)]
    return "|".join(hashlib.sha256(repr(way).encode()).hexdigest() for way in ways)


def read_in_child(source: RecordSource) -> tuple[str, str]:
    """Return what `digest` and the fingerprint are there."""
    return digest(source), source.fingerprint


def count_records(path: str, options: dict[str, Any], barrier: Any) -> str:
    """Open data at the same moment as others do; return the digest of its records."""
    barrier.wait(60)
    return digest(open_dataset(path, **options))


def write_until_killed(path: str, format: str, options: dict[str, Any], n_safe: int, n_more: int) -> None:
    """Write records, sync, write more, say so, and wait for the end."""
    writer = create(path, format, spec=PLAIN, resume=True, **options)
    first = len(writer)
    writer.extend(plain(i) for i in range(first, first + n_safe))
    writer.flush(sync=True)
    writer.extend(plain(i) for i in range(first + n_safe, first + n_safe + n_more))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


def read_with_few_descriptors(folder: str, options: dict[str, Any], limit: int) -> None:
    """Read a folder of more files than this process may open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    source = open_dataset(folder, **options)
    numbers = list(range(len(source)))[::-1]
    assert [record["id"] for record in source.read(numbers)] == [plain(i)["id"] for i in numbers]
    assert [source[i]["id"] for i in numbers] == [plain(i)["id"] for i in numbers]
    assert [record["id"] for record in source] == [plain(i)["id"] for i in numbers[::-1]]
