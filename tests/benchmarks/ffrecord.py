"""FFRecord: random batches, warm."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.benchmarks.harness import Case, Data, Side, Target, Work
from tests.benchmarks.ours import Steps, at_random, noise, reads, write

KB = 1024
BATCH = 64
RECORDS = {KB: 200_000, 16 * KB: 16_000, 128 * KB: 4_000, 1024 * KB: 500}
"""How many records of each size: a few hundred megabytes, more than any processor's cache."""
BATCHES = {KB: 3_000, 16 * KB: 1_000, 128 * KB: 150, 1024 * KB: 10}
IN_MEMORY, MAPPED = 'dataformats, cache="memory"', 'dataformats, io="mmap"'


def file_of(data: Data, size: int) -> tuple[Path, int]:
    """Return an FFRecord of noise and how many records of `size` bytes it has."""
    n = data.count(RECORDS[size], least=16)
    path = data.made(f"noise-{n}x{size}.ffr", lambda path: write(path, noise(n, size), "ffrecord", records=n))
    return path, n


def title_of(n: int, size: int, state: str) -> str:
    """Return the first column of the table."""
    return f"FFRecord, {n:,} × {f'{size // KB} KB' if size < KB * KB else '1 MB'}, random batches of {BATCH}, {state}"


class Records:
    """The index of one file, and its records as the original reads them: one `pread`, one CRC32."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDONLY)
        n = int(np.fromfile(path, "<i8", 1, offset=4)[0])
        offsets = np.fromfile(path, "<i8", n, offset=12 + 4 * n)
        self.checksums = np.fromfile(path, "<u4", n, offset=12).tolist()
        self.starts = offsets.tolist()
        self.lengths = np.diff(offsets, append=os.fstat(self.file).st_size).tolist()

    def __del__(self) -> None:
        os.close(self.file)

    def read(self, index: int) -> bytes:
        """Return one record, checked."""
        record = os.pread(self.file, self.lengths[index], self.starts[index])
        if zlib.crc32(record) != self.checksums[index]:
            raise ValueError(f"record {index} is damaged")
        return record


def python(path: Path, steps: Steps) -> Side:
    """A loop over the records of each batch."""
    records = Records(path)
    wanted = [list(map(int, indices)) for indices in steps]

    def batches() -> Iterator[list[bytes]]:
        read = records.read
        for indices in wanted:
            yield [read(index) for index in indices]

    return Side(batches, lambda batch: {"value": batch})


def warm(data: Data, size: int) -> Work:
    """Return the work of reading random batches of a file that is in the page cache."""
    path, n = file_of(data, size)
    steps = at_random(n, BATCH, data.count(BATCHES[size], least=1))
    return Work(
        title_of(n, size, "warm"),
        {
            "dataformats": reads(path, steps),
            IN_MEMORY: reads(path, steps, cache="memory"),
            MAPPED: reads(path, steps, io="mmap"),
            "Python": lambda: python(path, steps),
        },
    )


def _case(name: str, size: int, default: float, held: float) -> Case:
    rows = (Target("Python", default), Target("Python", held, IN_MEMORY), Target("Python", held, MAPPED))
    return Case(name, lambda data: warm(data, size), rows)


CASES = (
    _case("ffrecord-1kb", KB, 3, 5),
    _case("ffrecord-16kb", 16 * KB, 2, 3.3),
    _case("ffrecord-128kb", 128 * KB, 2.5, 3.3),
    _case("ffrecord-1mb", 1024 * KB, 5, 7),
)
