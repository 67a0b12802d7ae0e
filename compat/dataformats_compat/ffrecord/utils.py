"""`dump`: an indexable object to files."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from pathlib import Path
from typing import Any

from dataformats_compat.ffrecord.fileio import FileWriter

__all__ = ["dump"]

_PROCESSES = 16


def dump(dataset: Any, fname: str | os.PathLike[str], nfiles: int, verbose: bool = False) -> None:
    """Write the elements of a dataset to files, each in another process, up to 16 at a time.

    Args:
        dataset: Has `[i]` and `len()`; its elements are buffers of bytes.
        fname: The file if `nfiles` is 1, else the folder of `PART_00000.ffr`, ...
        nfiles: Number of files, at least 1. There are fewer if the dataset is too short, which is a warning.
        verbose: Print the name of each complete file.

    Raises:
        RuntimeError: A process failed; it has printed its error.

    Example:
        >>> import pathlib, tempfile
        >>> from dataformats_compat.ffrecord import FileReader
        >>> from dataformats_compat.ffrecord.utils import dump
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.ffr"
        >>> dump([b"one", b"two"], path, nfiles=1)
        >>> FileReader(path).n
        2
    """
    n = len(dataset)
    if nfiles == 1:
        _write(range(n), dataset, fname, verbose)
        return
    folder = Path(fname)
    folder.mkdir(parents=True, exist_ok=True)
    size = max(1, -(-n // nfiles))
    parts = [range(first, min(first + size, n)) for first in range(0, n, size)]
    if len(parts) != nfiles:
        warnings.warn(f"{n} records make {len(parts)} files, not {nfiles}", stacklevel=2)
    tasks = [(part, dataset, folder / f"PART_{number:05d}.ffr", verbose) for number, part in enumerate(parts)]
    for first in range(0, len(tasks), _PROCESSES):
        _run(tasks[first : first + _PROCESSES])


def _run(tasks: list[tuple[range, Any, Path, bool]]) -> None:
    processes = [multiprocessing.Process(target=_write, args=task) for task in tasks]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    failed = [task[2].name for task, process in zip(tasks, processes, strict=True) if process.exitcode]
    if failed:
        raise RuntimeError(f"could not write {', '.join(failed)} in {str(tasks[0][2].parent)!r}")


def _write(part: range, dataset: Any, path: str | os.PathLike[str], verbose: bool) -> None:
    with FileWriter(path, len(part)) as writer:
        for index in part:
            writer.write_one(dataset[index])
    if verbose:
        print(f"{os.fspath(path)}: {len(part)} records", flush=True)
