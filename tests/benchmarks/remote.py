"""Reads behind a URL, beside plain fsspec and WebDataset.

The server is another process on loopback, which waits before each answer as an object store does.
"""

from __future__ import annotations

import multiprocessing
import threading
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import dataformats
from tests.benchmarks import ffrecord, tfrecord
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.loaders import write_tar
from tests.benchmarks.ours import at_random, noise, reads
from tests.deep.remote.servers import counting_server

KB = 1024
LATENCY_S = 0.01
TOGETHER = 256
RANGES, WEBDATASET = "fsspec.cat_ranges", "webdataset"


def served(folder: Path) -> str:
    """Return the URL of a folder, which a process serves until this one ends."""
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=_serve, args=(folder, theirs), daemon=True).start()
    return str(ours.recv())


def _serve(folder: Path, connection: Connection) -> None:
    with counting_server(folder, LATENCY_S) as (url, _):
        connection.send(url)
        threading.Event().wait()


def random(data: Data, size: int) -> Work:
    """Return the work of reading random batches of an FFRecord; fsspec knows the places of all records."""
    path, n = ffrecord.file_of(data, size)
    steps, records = at_random(n, ffrecord.BATCH, data.count(5, 1)), ffrecord.Records(path)
    url = f"{served(data.folder)}/{path.name}"

    def theirs() -> Iterator[list[bytes]]:
        for step in steps:
            places = [(records.starts[i], records.starts[i] + records.lengths[i]) for i in step]
            found = peer("fsspec").filesystem("http").cat_ranges([url] * len(places), *zip(*places, strict=True))
            if [zlib.crc32(blob) for blob in found] != [records.checksums[i] for i in step]:
                raise ValueError("a record is damaged")
            yield found

    title = f"FFRecord over HTTP, {n:,} × {size // KB} KB, random batches of {ffrecord.BATCH}"
    ours = reads(url, steps)  # type: ignore[arg-type]  # other cases have no URL
    return Work(title, {OURS: ours, RANGES: lambda: _side(theirs, "fsspec")})


def in_order(data: Data) -> Work:
    """Return the work of reading a TFRecord in order; each side opens the URL anew, so that no block is in memory."""
    path, n = tfrecord.file_of(data, 100_000, KB)
    tar = data.made(f"noise-{n}x{KB}.tar", lambda path: write_tar(path, noise(n, KB)))
    url = served(data.folder)

    def ours() -> Iterator[list[bytes]]:
        with dataformats.Loader(dataformats.open(f"{url}/{path.name}"), TOGETHER, shuffle=False) as loader:
            yield from (list(batch["value"]) for batch in loader)

    def theirs() -> Iterator[list[bytes]]:
        samples = iter(peer("webdataset").WebDataset(f"{url}/{tar.name}", shardshuffle=False))
        while together := [sample["bin"] for sample in islice(samples, TOGETHER)]:
            yield together

    title = f"TFRecord over HTTP, {n:,} × 1 KB, opened and read in order, batches of {TOGETHER}"
    return Work(title, {OURS: lambda: _side(ours, "dataformats"), WEBDATASET: lambda: _side(theirs, "webdataset")})


def _side(batches: Callable[[], Iterator[list[bytes]]], module: str) -> Side:
    peer(module)
    return Side(batches, lambda batch: {"value": batch})


CASES = (
    Case("remote-1kb", lambda data: random(data, KB), (Target(RANGES),), one_thread=True),
    Case("remote-128kb", lambda data: random(data, 128 * KB), (Target(RANGES),), one_thread=True),
    Case("remote-in-order", in_order, (Target(WEBDATASET),), one_thread=True),
)
