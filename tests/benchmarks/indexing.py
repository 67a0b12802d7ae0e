"""Indexing a TFRecord, compared with reading the file once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dataformats
from tests.benchmarks.harness import Case, Data, Side, Target, UnavailableError, Work
from tests.benchmarks.tfrecord import KB, file_of

BLOCK_BYTES = 1 << 20
BLOCKS = "os.read of 1 MB blocks"


def ours(path: Path, kept: Path, frame_bytes: int) -> Side:
    """Build the index and save it."""

    def batches() -> Iterator[int]:
        yield len(dataformats.open(path, payload="bytes", index=os.fspath(kept)))

    return Side(batches, lambda n: {"bytes": n * frame_bytes})


def cat(path: Path) -> Side:
    """The program, started for each run."""
    program = shutil.which("cat")
    if program is None:
        raise UnavailableError("there is no cat")

    def batches() -> Iterator[int]:
        subprocess.run([program, path], stdout=subprocess.DEVNULL, check=True)
        yield path.stat().st_size

    return Side(batches, lambda size: {"bytes": size})


def blocks(path: Path) -> Side:
    """The same, inside this process."""

    def batches() -> Iterator[int]:
        size = 0
        with path.open("rb", buffering=0) as file:
            while block := os.read(file.fileno(), BLOCK_BYTES):
                size += len(block)
        yield size

    return Side(batches, lambda size: {"bytes": size})


def indexing(data: Data) -> Work:
    """Return the work of making the index of a file that is in the page cache."""
    path, n = file_of(data, 300_000, KB)
    kept = data.folder / "rebuilt"

    def forget() -> None:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)

    return Work(
        f"TFRecord, index a warm file of {n:,} × 1 KB",
        {
            "dataformats": lambda: ours(path, kept, path.stat().st_size // n),
            "cat": lambda: cat(path),
            BLOCKS: lambda: blocks(path),
        },
        before=forget,
    )


CASES = (Case("index", indexing, (Target("cat", 0.5), Target(BLOCKS))),)
