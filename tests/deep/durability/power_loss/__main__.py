"""Random crashes of every writer: `python -m tests.deep.durability.power_loss --help`.

The table has, for each kind of crash, the cases and how many of them broke a promise: `promises.KINDS`. A failure has
the order in which names were lost (`FileSystem.order`; "killed": only the process ended), and a case of each.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.deep.durability.power_loss.client import CRASHES, Case, CrashServer, sample
from tests.deep.durability.power_loss.jobs import GROUPS, JOBS
from tests.deep.durability.power_loss.promises import KINDS

_PATH = re.compile(r"(?:/[\w.-]+)*/disk/(?:data|sources)/")
_SUFFIX = re.compile(r"\.(?:tfrecord(?:\.gz|\.zlib)?|ffr|ofrecord|syr|bag)\b")
_SHARD = re.compile(r"/(?:PART_|part-|data-)?\d+(?:-of-\d+)?\b")
_FIELD = re.compile(r"/(?:id|data|grid|refs)(?:\.idx)?'")
_FOUND = re.compile(r"\bfound .*|\bRun the parts .*")
_NUMBER = re.compile(r"\d+")


@dataclass
class Tally:
    """The results by group and crash, and by failure."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: dict[str, list[tuple[str, Case]]] = field(default_factory=dict)

    def add(self, case: Case, order: str, broken: Sequence[str]) -> None:
        group = JOBS[case.job].group
        self.counts[group, case.crash, "cases"] += 1
        for kind in {one.partition(":")[0] for one in broken}:
            self.counts[group, case.crash, kind] += 1
        for failure in sorted({f"{group}: {_generic(one)}" for one in broken}):
            self.failures.setdefault(failure, []).append((order, case))

    def table(self) -> Iterator[str]:
        """Yield a line for each group: the cases of each crash, and how many of them broke a promise, by kind."""
        crashes = [crash for crash in CRASHES if any(found == crash for _, found, _ in self.counts)]
        yield f"{'':18}" + "".join(f"{crash:>10}{''.join(f'{kind:>8}' for kind in KINDS)}" for crash in crashes)
        for group in [*GROUPS, "all"]:
            numbers = [[self._sum(group, crash, kind) for kind in ("cases", *KINDS)] for crash in crashes]
            if any(map(any, numbers)):
                yield f"{group:18}" + "".join(f"{n:>10}{''.join(f'{one:>8}' for one in rest)}" for n, *rest in numbers)

    def _sum(self, group: str, crash: str, kind: str) -> int:
        return sum(self.counts[one, crash, kind] for one in GROUPS if group in (one, "all"))

    def lines(self) -> Iterator[str]:
        """Yield the failures, the most frequent ones first, with some of their cases."""
        for failure, cases in sorted(self.failures.items(), key=lambda pair: -len(pair[1])):
            orders = Counter(order for order, _ in cases)
            yield f"{len(cases)} times ({', '.join(f'{order} {n}' for order, n in orders.most_common())}): {failure}"
            first = dict(reversed(cases))  # one of each order
            yield "    " + " ".join(map(str, first.values()))


def main() -> int:
    """Run the cases of the command line; return 1 if a promise was broken."""
    arguments = _parsed()
    cases = sorted(_chosen(arguments), key=lambda case: case.job)  # a job is recorded once
    tally, begin = Tally(), time.perf_counter()
    temporary = tempfile.TemporaryDirectory(prefix="dataformats-power-", dir=arguments.folder)
    with temporary as folder, CrashServer(Path(folder)) as server:
        for case in cases:
            found = server.run(case, arguments.keep)
            tally.add(case, found["order"], found["broken"])
            if arguments.case:
                print(case, *found["story"], *(f"BROKEN {one}" for one in found["broken"]), sep="\n    ")
    print(*tally.table(), "", *tally.lines(), sep="\n")
    print(f"\n{len(cases)} crashes in {time.perf_counter() - begin:.0f} s, {len(tally.failures)} different failures")
    return int(bool(tally.failures))


def _chosen(arguments: argparse.Namespace) -> list[Case]:
    if arguments.case:
        return [Case.parse(text) for text in arguments.case]
    only = arguments.only.split(",")
    kills = arguments.power // 2 if arguments.kills is None else arguments.kills
    groups = [group for group in GROUPS if [*sample("kill", group, 1, 0, only)]]
    found: list[Case] = []
    for crash, n in (("power", arguments.power), ("kill", kills), ("unordered", arguments.unordered)):
        for at, group in enumerate(groups):
            found += sample(crash, group, (n + at) // len(groups), arguments.seed, only)
    return found


def _parsed() -> argparse.Namespace:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    parser = argparse.ArgumentParser(
        prog="python -m tests.deep.durability.power_loss",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--power", type=int, default=1000, help="how often the power fails")
    parser.add_argument("--kills", type=int, help="how many processes are killed; by default half as many")
    parser.add_argument(
        "--unordered", type=int, default=0, help="how often power fails and names are lost in any order"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is random")
    parser.add_argument("--only", default="", help="parts of the names of jobs, such as 'tfrecord/,append'")
    parser.add_argument("--case", nargs="+", help="these cases only, such as 'tfrecord/new:power:5', with what happens")
    parser.add_argument("--keep", type=Path, help="a new folder, for the disk as a crash left it, with one --case")
    parser.add_argument("--folder", default=memory, help="where files are written, by default in memory")
    return parser.parse_args()


def _generic(broken: str) -> str:
    """Return a failure without the parts that differ from case to case."""
    found = _FOUND.sub("...", _SHARD.sub("/SHARD", _SUFFIX.sub("", _PATH.sub("", broken))))
    return _NUMBER.sub("N", _FIELD.sub("/FIELD'", found))[:200]


if __name__ == "__main__":
    sys.exit(main())
