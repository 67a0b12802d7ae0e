"""FFRecord: random batches of a file that is not in the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.benchmarks.ffrecord import BATCH, KB, Records, file_of, python, title_of
from tests.benchmarks.harness import Case, Data, Side, Target, UnavailableError, Work
from tests.benchmarks.ours import Steps, at_random, reads

POOL = 16
BATCHES = 60
POOLED = f"pool of {POOL} threads"


class Cache:
    """The pages of one file in the page cache."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDONLY)
        os.fsync(self.file)  # pages that are not written yet cannot be dropped

    def __del__(self) -> None:
        os.close(self.file)

    def drop(self) -> None:
        """Drop all of them from the page cache."""
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)

    def can_be_dropped(self) -> bool:
        """Return False if the file system keeps files in memory, as for /tmp on many systems."""
        self.drop()
        try:
            os.preadv(self.file, [bytearray(1)], os.fstat(self.file).st_size // 2, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        return False


def pooled(path: Path, steps: Steps) -> Side:
    """Read the records of a batch with a pool of threads."""
    records = Records(path)
    pool = ThreadPoolExecutor(POOL)
    wanted = [list(map(int, indices)) for indices in steps]

    def batches() -> Iterator[list[bytes]]:
        for indices in wanted:
            yield list(pool.map(records.read, indices))

    return Side(batches, lambda batch: {"value": batch})


def cold(data: Data, size: int) -> Work:
    """Return the work: random batches, each after the page cache is dropped."""
    path, n = file_of(data, size)
    steps = at_random(n, BATCH, data.count(BATCHES, least=2))
    cache = Cache(path)
    dropped = cache.can_be_dropped()

    def needs_cold(side: Side) -> Side:
        if not dropped:
            raise UnavailableError("the cache of this file system cannot be dropped: pass --data with another")
        return side

    return Work(
        title_of(n, size, "cold"),
        {
            "dataformats": lambda: needs_cold(reads(path, steps)()),
            "Python": lambda: needs_cold(python(path, steps)),
            POOLED: lambda: needs_cold(pooled(path, steps)),
        },
        before=cache.drop,
    )


CASES = (
    Case("cold-1kb", lambda data: cold(data, KB), (Target("Python", 3.5), Target(POOLED, 1.5))),
    Case("cold-16kb", lambda data: cold(data, 16 * KB), (Target("Python", 2.5), Target(POOLED, 1.2))),
)
