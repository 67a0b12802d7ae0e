"""Facts about the machine, and a probe that measures if its second core was available."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

PEERS = (
    "tensorflow-cpu",
    "tfrecord",
    "granular",
    "grain",
    "array_record",
    "h5py",
    "zarr",
    "lmdb",
    "pylance",
    "datasets",
    "torch",
    "webdataset",
    "fsspec",
    "aiohttp",
    "google-crc32c",
    "pymongo",
    "protobuf",
)
CHUNK_BYTES = 1 << 20
CHUNKS = 64
TRIES = 2

_SOURCE = np.frombuffer(os.urandom(CHUNK_BYTES), np.uint8)


def facts() -> dict[str, str]:
    """Return facts about this machine and its programs."""
    from dataformats.kernels import describe

    kernels = describe()
    variants = ", ".join(f"{name} {variant}" for name, variant in kernels["variants"].items())
    versions = {name: _version(name) for name in ("dataformats", "numpy", *PEERS)}
    return {
        "processor": f"{_cpu_name()}, {len(os.sched_getaffinity(0))} cores",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "kernels": f"{kernels['implementation']}{f' ({variants})' if variants else ''}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
    }


def scaling() -> float:
    """Return the speedup of two threads over one: copies and checksums, without the GIL."""
    with ThreadPoolExecutor(2) as pool:
        one = min(_threads_s(pool, 1) for _ in range(TRIES))
        two = min(_threads_s(pool, 2) for _ in range(TRIES))
    return 2 * one / two


def _threads_s(pool: ThreadPoolExecutor, threads: int) -> float:
    begin = time.perf_counter()
    list(pool.map(_work, range(threads)))
    return time.perf_counter() - begin


def _work(_: int) -> None:
    target = np.empty_like(_SOURCE)
    for _ in range(CHUNKS):
        np.copyto(target, _SOURCE)
        zlib.crc32(target.data)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
