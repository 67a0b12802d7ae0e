"""Writes 2 GB in shards to S3 with 300 MB of local disk: `python -m tests.deep.remote.local_room`, in some minutes.

The build folder is a file system in memory of that size if this user may mount one. Otherwise a thread measures how
much lies in it, and more than the size is a failure. moto stores the objects in another folder.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.deep.remote.s3_server import BUCKET, S3Server, moto_server

URL = f"s3://{BUCKET}/data"
RECORD_BYTES = 2**20
MB = 10**6
PERIOD = 50  # records repeat after so many, but for their first eight bytes
ADDED_SHARDS = 5


def record(n: int) -> bytes:
    return n.to_bytes(8, "little") + np.random.default_rng(n % PERIOD).bytes(RECORD_BYTES - 8)


# ---- the writers, each in a process of its own


def create(n: int, per_shard: int, source: Path) -> None:
    with dataformats.create(URL, "tfrecord", shard_records=per_shard) as writer:
        writer.extend(record(i) for i in range(n))


def append(n: int, per_shard: int, source: Path) -> None:
    """Create most of the data, then append the last shards."""
    first = max(0, n - ADDED_SHARDS * per_shard)
    create(first, per_shard, source)
    with dataformats.create(URL, "tfrecord", shard_records=per_shard, append=True) as writer:
        writer.extend(record(i) for i in range(first, n))


def convert(n: int, per_shard: int, source: Path, workers: int = 0) -> None:
    with dataformats.open(source) as opened:
        dataformats.convert(opened, URL, "tfrecord", shard_records=per_shard, workers=workers)


def convert_with_workers(n: int, per_shard: int, source: Path) -> None:
    convert(n, per_shard, source, workers=2)


WRITERS: dict[str, Callable[[int, int, Path], None]] = {
    "create": create,
    "append": append,
    "convert": convert,
    "convert-workers": convert_with_workers,
}


def _write(name: str, n: int, per_shard: int, source: Path) -> None:
    begin = time.perf_counter()
    WRITERS[name](n, per_shard, source)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))


# ---- the build folder


class FolderPeak:
    """Measures a folder until it is stopped.

    Attributes:
        n_bytes: The most bytes that lay in it.
    """

    def __init__(self, folder: Path) -> None:
        self.n_bytes = 0
        self._folder = folder
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self._thread.start()

    def _measure(self) -> None:
        while not self._is_over.wait(0.01):
            self.n_bytes = max(self.n_bytes, sum(_sizes(self._folder)))

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def _sizes(folder: Path) -> Iterator[int]:
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:  # deleted meanwhile
                continue


@contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[bool]:
    """Mount a file system of a size at a folder; yield False if this user may not."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


# ---- one run


def run(name: str, server: S3Server, folder: Path, arguments: argparse.Namespace) -> str:
    """Write with one writer; return the fault, or an empty string."""
    server.reset()
    per_shard = max(1, arguments.shard_mb * MB // RECORD_BYTES)
    n, room = per_shard * arguments.shards, arguments.room_mb * MB
    environment = os.environ | _credentials(server) | {"TMPDIR": str(folder / name)}
    command = [sys.executable, "-m", __spec__.name, "--write", name, "--records", str(n), "--per-shard", str(per_shard)]
    with small_disk(folder / name, room) as mounted:
        peak = FolderPeak(folder / name)
        try:
            done = subprocess.run(
                [*command, "--source", str(folder / f"source-{PERIOD}-*")],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            peak.stop()
        left = [entry.name for entry in (folder / name).iterdir() if entry.name.startswith("dataformats")]
    limit = "a disk of" if mounted else "no disk, but a limit of"
    print(f"{name}: {n * RECORD_BYTES / MB:.0f} MB, {limit} {arguments.room_mb} MB, peak {peak.n_bytes / MB:.0f} MB")
    if done.returncode:
        return f"{name} failed: {done.stderr[-1500:]}"
    print(f"    {json.loads(done.stdout.splitlines()[-1])}")
    if peak.n_bytes > room:
        return f"{name} needed {peak.n_bytes / MB:.0f} MB"
    return f"left behind: {left}" if left else _wrong_data(n, arguments.shards, server)


def _credentials(server: S3Server) -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_DEFAULT_REGION": "us-east-1"}
    return keys | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}", "PYTHONPATH": paths}


def _wrong_data(n: int, n_shards: int, server: S3Server) -> str:
    """Read some records of each shard, and return the fault."""
    options: dict[str, Any] = {"endpoint_url": f"http://127.0.0.1:{server.port}", "key": "x", "secret": "y"}
    objects = [key for key in server.etags() if not key.endswith((".json", ".idx"))]
    if len(objects) != n_shards:
        return f"expected {n_shards} objects, found {len(objects)}"
    with dataformats.open(URL, storage_options=options) as source:
        if len(source) != n:
            return f"expected {n} records, found {len(source)}"
        chosen = sorted({*range(0, n, max(1, n // n_shards)), n - 1})
        wrong = [i for i, blob in zip(chosen, source.read_bytes(chosen), strict=True) if bytes(blob) != record(i)]
    return f"records are wrong: {wrong[:10]}" if wrong else ""


def _write_sources(folder: Path, n: int) -> None:
    """Write the source of the conversion: one file of all records, which takes their room on the disk."""
    with dataformats.create(folder / f"source-{PERIOD}-0.tfrecord") as writer:
        writer.extend(record(i) for i in range(n))


def main() -> int:
    """Run the writers; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--shard-mb", type=int, default=20)
    parser.add_argument("--room-mb", type=int, default=300)
    parser.add_argument("--only", default="create,append,convert,convert-workers")
    parser.add_argument("--folder", help="for the objects of the server")
    for name in ("write", "source"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    for name in ("records", "per-shard"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        _write(arguments.write, arguments.records, arguments.per_shard, arguments.source)
        return 0
    wrong = []
    with tempfile.TemporaryDirectory(prefix="dataformats-room-", dir=arguments.folder) as name:
        folder = Path(name)
        os.environ |= {"TMPDIR": str(folder), "DATAFORMATS_CACHE": str(folder / "cache")}
        if "convert" in arguments.only:
            _write_sources(folder, arguments.shards * max(1, arguments.shard_mb * MB // RECORD_BYTES))
        with moto_server(folder / "moto.log") as server:
            for one in arguments.only.split(","):
                if problem := run(one, server, folder, arguments):
                    print(f"    {problem}", flush=True)
                    wrong.append(one)
    print(f"failed: {', '.join(wrong)}" if wrong else "all data arrived, within the room")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
