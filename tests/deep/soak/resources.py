"""The resources of a process that must not grow: memory, descriptors, threads, processes, shared memory, files."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SLACK_MB = 16.0
_SLACK = 0.05
# The kernels start up to 16 threads to read and 8 to share batches, when they can use them. For threads that read at
# the same time they keep rings of the operating system, and up to 8 copiers of maps, each with a descriptor and a map.
# Some indexes, and files of multiprocessing, are there after some activities and not after others.
_POOLED = {"threads": 24, "descriptors": 12, "shared": 8, "files": 4}
_SETTLING_S = 20
_LEFT_S = 60


@dataclass(frozen=True)
class Resources:
    """The resources of this process while it does nothing.

    Attributes:
        memory_mb: Resident memory.
        descriptors: Open descriptors.
        threads: Threads, including threads of the kernels.
        processes: Its descendants.
        shared: Mappings of shared memory, and files that it left in /dev/shm for a minute.
        files: Files in the folder of the soak, which is the folder for temporary files too.
        partial: Files of unfinished writers.
    """

    memory_mb: float
    descriptors: int
    threads: int
    processes: int
    shared: int
    files: int
    partial: int


def now(folder: Path, limits: Resources | None = None) -> Resources:
    """Return the resources in use; wait some seconds until resources above their limits are released."""
    until = time.monotonic() + _SETTLING_S
    while True:
        gc.collect()
        found = _measure(folder)
        if limits is None or not _exceeded(found, limits) or time.monotonic() > until:
            return found
        time.sleep(0.2)


def growth(rows: Sequence[Resources]) -> list[str]:
    """Return which resources grew: the last quarter of the rows is compared with the first half."""
    begin, late = rows[: len(rows) // 2], rows[len(rows) * 3 // 4 :]
    if not begin:
        return ["too few rows to compare"]
    found = [f"{name}: at most {old} before, {new} now" for name, old, new in _worse(_most(begin), _most(late))]
    middle = rows[len(rows) // 4 : len(rows) // 2] or begin
    before, after = (statistics.median(row.memory_mb for row in part) for part in (middle, late))
    if after > before * (1 + _SLACK) + _SLACK_MB:
        found.append(f"memory: a median of {before:.0f} MB before, {after:.0f} MB now")
    return found


def _most(rows: Sequence[Resources]) -> Resources:
    return Resources(*(max(values) for values in zip(*(asdict(row).values() for row in rows), strict=True)))


def _worse(old: Resources, new: Resources) -> list[tuple[str, int, int]]:
    pairs = zip(asdict(old).items(), asdict(new).values(), strict=True)
    return [
        (name, before, after)
        for (name, before), after in pairs
        if name != "memory_mb" and after > before + _POOLED.get(name, 0)
    ]


def _exceeded(found: Resources, limits: Resources) -> bool:
    return bool(_worse(limits, found))


def _measure(folder: Path) -> Resources:
    files = [name for _, _, names in os.walk(folder) for name in names]
    status = Path("/proc/self/statm").read_text().split()
    return Resources(
        memory_mb=int(status[1]) * _PAGE_BYTES / 2**20,
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=len(os.listdir("/proc/self/task")),
        processes=_descendants(os.getpid()),
        shared=_shared(folder.stat().st_ctime),
        files=len(files),
        partial=sum("partial" in name or "journal" in name for name in files),
    )


def _shared(begin: float) -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = sum("/memfd:" in line or "/dev/shm/" in line for line in lines)
    # Other programs have files there too, but seldom for long.
    made = []
    for path in Path("/dev/shm").iterdir():
        with suppress(FileNotFoundError):
            made += [path.stat().st_ctime] if path.is_file() else []
    return mapped + sum(begin < at < time.time() - _LEFT_S for at in made)


def _descendants(process: int) -> int:
    """Return how many processes descend from a process."""
    parents: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(parent, []).append(int(entry))
    waiting, n = [process], 0
    while waiting:
        children = parents.get(waiting.pop(), [])
        waiting += children
        n += len(children)
    return n
