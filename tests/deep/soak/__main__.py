"""Reads, trains and writes for a long time, and fails if a promise is broken or a resource grows.

`python -m tests.deep.soak --seconds 1800`, or `make soak SECONDS=1800`. Loaders run in the main thread, writers and
conversions in another one beside it. Nothing runs while resources are measured.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import util
from pathlib import Path

from tests.deep.soak.datasets import Datasets
from tests.deep.soak.loading import Reading
from tests.deep.soak.resources import Resources, growth, now
from tests.deep.soak.writing import Writing

MAX_FAILURES = 20
COUNTED = ("activities", "epochs", "records", "kills", "resumes", "damaged", "written", "converted", "failures")
USED = ("memory_mb", "descriptors", "threads", "processes", "shared", "files", "partial")


class Soak:
    """One run.

    Args:
        folder: The folder of all files.
        seed: The seed of all choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self.counts: Counter[str] = Counter()
        self.rows: list[Resources] = []
        (folder / "read").mkdir()
        (folder / "written").mkdir()
        datasets = Datasets(folder / "read")
        self._chosen = random.Random(seed)
        self._reading = Reading(datasets, random.Random(seed + 1), self.counts).activities
        self._writing = Writing(folder / "written", datasets, random.Random(seed + 2), self.counts).activities
        self._gate = threading.Lock()  # held while the writing thread writes, or resources are measured
        self._is_over = threading.Event()

    def run(self, goes_on: Callable[[int, float], bool], report: Callable[[Soak, float], None], every_s: float) -> None:
        """Run all activities again and again, and measure after each.

        Args:
            goes_on: Called with the number of measurements so far and the seconds; False ends the run.
            report: Called with the seconds now and then.
            every_s: Seconds between two calls of `report`.
        """
        for activity in (*self._reading, *self._writing):  # each once, so that all is imported and started
            self._try(activity)
        self._measure()
        begin = reported = time.monotonic()
        beside = threading.Thread(target=self._write_beside, args=(random.Random(self._chosen.random()),))
        beside.start()
        while goes_on(len(self.rows), time.monotonic() - begin):
            self._try(self._chosen.choice(self._reading))
            self._measure()
            if time.monotonic() > reported + every_s:
                reported = time.monotonic()
                report(self, reported - begin)
        self._is_over.set()
        beside.join()
        report(self, time.monotonic() - begin)

    def _write_beside(self, chosen: random.Random) -> None:
        while not self._is_over.is_set():
            with self._gate:
                self._try(chosen.choice(self._writing))
            time.sleep(0.01)  # lets the other thread have the gate

    def _measure(self) -> None:
        with self._gate:
            self.rows.append(now(self._folder, self.rows[len(self.rows) // 4] if self.rows else None))

    def _try(self, activity: Callable[[], None]) -> None:
        try:
            activity()
        except Exception:
            self.counts["failures"] += 1
            if self.counts["failures"] <= MAX_FAILURES:
                traceback.print_exc()
        self.counts["activities"] += 1


def report(soak: Soak, seconds: float) -> None:
    """Print a row of the table."""
    latest = soak.rows[-1]
    used = [f"{getattr(latest, name):{len(name)}.0f}" for name in USED]
    print("  ".join([f"{seconds:7.0f}", *(f"{soak.counts[name]:{len(name)}}" for name in COUNTED), *used]), flush=True)


def _temporary_folder() -> Path:
    """Return a folder for all files, including files of multiprocessing; it is deleted at exit."""
    folder = tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="soak-")
    os.environ["DATAFORMATS_CACHE"] = str(Path(folder, "cache"))
    after_multiprocessing = -200  # it deletes its files at -100
    util.Finalize(None, shutil.rmtree, args=(folder,), exitpriority=after_multiprocessing)
    return Path(folder)


def main(words: Sequence[str] | None = None) -> int:
    """Run; return 1 if a promise was broken or a resource grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--measurements", type=int, help="how many, whatever time they take")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--every", type=float, default=60, help="seconds between two rows")
    parser.add_argument("--descriptors", type=int, default=64, help="how many the process may have open")
    arguments = parser.parse_args(words)
    resource.setrlimit(resource.RLIMIT_NOFILE, (arguments.descriptors, arguments.descriptors))
    print(f"seed {arguments.seed}, {arguments.descriptors} descriptors")
    print("  ".join(["seconds", *COUNTED, *USED]), flush=True)
    soak = Soak(_temporary_folder(), arguments.seed)
    most = arguments.measurements
    soak.run(lambda n, seconds: seconds < arguments.seconds if most is None else n < most, report, arguments.every)
    problems = growth(soak.rows)
    if soak.counts["failures"]:
        problems.append(f"{soak.counts['failures']} activities failed")
    print("; ".join(problems) or "no promise was broken, and no resource grew")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
