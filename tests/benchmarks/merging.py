"""Merging: many records from several files to one, beside `cat`, which verifies nothing."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import dataformats
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work
from tests.benchmarks.tfrecord import KB, file_of

CAT = "cat"


def merging(data: Data) -> Work:
    """Return the work of merging two TFRecords into one in the shared memory, so that no side waits for a disk."""
    path, n = file_of(data, 300_000, KB)
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else data.folder))
    numbers = itertools.count()

    def side(merge: Callable[[Path], object]) -> Side:
        def batches() -> Iterator[Path]:
            merged = folder / f"{next(numbers)}.tfrecord"
            merge(merged)
            yield merged

        return Side(batches, lambda merged: {"bytes": [merged.stat().st_size]})

    def concatenate(merged: Path) -> None:
        with merged.open("wb") as file:
            subprocess.run(["cat", path, path], stdout=file, check=True)

    def clear() -> None:
        if len(list(folder.glob("*.tfrecord"))) >= 2:  # both sides have a result
            for done in folder.iterdir():
                done.unlink()

    title = f"Merge 2 TFRecords of {n:,} × 1 KB, every checksum verified"
    merge = {OURS: lambda: side(lambda merged: dataformats.merge([path, path], merged)), CAT: lambda: side(concatenate)}
    return Work(title, merge, clear)


CASES = (Case("merge-tfrecord", merging, (Target(CAT, 0.3),)),)
