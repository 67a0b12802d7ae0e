"""A process that opens a dataset, reads it for the first time in a thread, and forks meanwhile.

`python -m tests.deep.forks.cold_process PATH ENGINE WAY SEED FORKS` prints the number of children that hung, and of
those that failed.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import dataformats
from tests.deep.forks.datasets import N_RECORDS

_PATIENCE_S = 120.0
_LONGEST_WAIT_S = 0.03  # between forks; a first read takes 0.02 to 0.2 s, most of it for imports

READS: dict[str, Callable[[Any], Any]] = {
    "record": lambda source: source[0],
    "batch": lambda source: source.read([5, 3]),
    "loader": lambda source: next(iter(dataformats.Loader(source, 4, workers=2))),
    "window": lambda source: next(iter(dataformats.Loader(source, 4, shuffle="window", transform=lambda one: one))),
    "arrow": lambda source: source.read([1, 2]).to_arrow(),
}


def _exit_code(source: Any, index: int, read: Callable[[Any], Any] | None) -> int:
    """Return 0 if a child reads a record, and then perhaps as the thread of the parent does; 1 if it fails."""
    try:
        found = source[index]
        if read is not None:
            read(source)
        return int(len(source) != N_RECORDS or (found["number"], found["text"]) != (index, f"record {index}"))
    except BaseException:
        traceback.print_exc()
        return 1


def _is_over(child: int, until: float) -> tuple[bool, int]:
    """Return whether a child has ended by some time, and its exit code; end it if not."""
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < until:
        time.sleep(0.005)
    if ended[0]:
        return True, os.waitstatus_to_exitcode(ended[1])
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False, 0


def main(path: str, engine: str, way: str, seed: str, n_forks: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
    chosen = random.Random(int(seed))
    sources = [dataformats.open(path, io="auto" if engine == "fsspec" else engine) for _ in range(2)]
    thread = threading.Thread(target=READS[way], args=(sources[0],))
    thread.start()
    children = []
    for number in range(int(n_forks)):
        time.sleep(chosen.random() ** 2 * _LONGEST_WAIT_S)
        source, index = chosen.choice(sources), chosen.randrange(N_RECORDS)
        child = os.fork()
        if child == 0:
            os._exit(_exit_code(source, index, None if number else READS[way]))
        children.append(child)
    until = time.monotonic() + _PATIENCE_S
    results = [_is_over(child, until) for child in children]
    thread.join()
    print(sum(not ended for ended, _ in results), sum(code != 0 for _, code in results))


if __name__ == "__main__":
    main(*sys.argv[1:])
