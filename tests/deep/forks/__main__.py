"""Forks cold processes at any moment of their first read, and fails if a child hangs.

`python -m tests.deep.forks --forks 2000`. Every process is new: what a first read imports, it imports once. Datasets,
engines and ways of reading take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.deep.forks.datasets import COMPRESSED, ENGINES, NAMES, WAYS, create_all
from tests.deep.remote.servers import counting_server

_PER_PROCESS = 4


def _forks(path: str, engine: str, way: str, seed: int) -> tuple[int, int]:
    """Return how many children of one cold process hung, and how many failed."""
    words = [path, engine, way, str(seed), str(_PER_PROCESS)]
    command = [sys.executable, "-m", "tests.deep.forks.cold_process", *words]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode or done.stderr:
        print(*words, done.stderr, sep="\n", file=sys.stderr)
    if done.returncode:
        return 0, _PER_PROCESS
    hung, failed = map(int, done.stdout.split())
    return hung, failed


def main(words: Sequence[str] | None = None) -> int:
    """Run; return 1 if a child hung or failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--processes", type=int, default=2, help="how many run at once")
    arguments = parser.parse_args(words)
    n_processes = -(-arguments.forks // _PER_PROCESS)
    with tempfile.TemporaryDirectory(prefix="forks-") as folder, ExitStack() as stack:
        os.environ["DATAFORMATS_CACHE"] = str(Path(folder, "cache"))
        data = Path(folder, "data")
        data.mkdir()
        create_all(data)
        url = stack.enter_context(counting_server(data))[0]
        engines = [one for one in ENGINES if one != "fsspec" or importlib.util.find_spec("aiohttp")]
        every = itertools.product(NAMES, engines, WAYS)
        cases = [one for one in every if one[1] != "mmap" or one[0] not in COMPRESSED]
        random.Random(arguments.seed).shuffle(cases)
        begin = time.monotonic()
        with ThreadPoolExecutor(arguments.processes) as threads:
            tasks = [
                threads.submit(
                    _forks,
                    f"{url}/{name}" if engine == "fsspec" else str(data / name),
                    engine,
                    way,
                    arguments.seed + number,
                )
                for number, (name, engine, way) in zip(range(n_processes), itertools.cycle(cases), strict=False)
            ]
            results = [task.result() for task in tasks]
    hung, failed = (sum(column) for column in zip(*results, strict=True))
    print(
        f"seed {arguments.seed}: {n_processes * _PER_PROCESS} forks of {n_processes} cold processes in "
        f"{time.monotonic() - begin:.0f} s, {len(cases)} cases: {hung} children hung, {failed} failed"
    )
    return int(hung + failed > 0)


if __name__ == "__main__":
    sys.exit(main())
