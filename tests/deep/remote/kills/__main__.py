"""Kills writers of S3 at their requests, lets requests fail, and interleaves two programs; then checks the bucket.

`python -m tests.deep.remote.kills --kills 500 --failures 200 --pairs 200 --seed 1`. moto plays S3, each program is a
fork, and a proxy between them injects the faults. Each broken promise is a line that names its case, which
`--only SCENARIO --fault FAULT` or `--only PAIR --hold REQUEST` repeats.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.deep.remote.kills.campaign import KINDS, Campaign, choose, print_table
from tests.deep.remote.kills.faults import Fault
from tests.deep.remote.kills.pairs import PAIRS
from tests.deep.remote.kills.programs import prepare_forks
from tests.deep.remote.kills.scenarios import SCENARIOS
from tests.deep.remote.kills.stage import open_stage

Rows = dict[tuple[str, str], Counter[str]]
_ROWS = "ROWS "


def main() -> int:
    """Run the cases of the command line; return 1 if a promise was broken."""
    arguments = _parsed()
    begin = time.perf_counter()
    if arguments.list:
        print(*SCENARIOS, *(f"{name} (pair)" for name in PAIRS), sep="\n")
        return 0
    rows = _in_processes(arguments.jobs) if arguments.jobs > 1 else _run(arguments)
    if arguments.share is not None:
        print(_ROWS + repr({key: dict(row) for key, row in rows.items()}))
        return 0
    broken = print_table(rows)
    print(f"\n{sum(row['cases'] for row in rows.values())} cases, {time.perf_counter() - begin:.0f} s: ", end="")
    print(f"{broken} broken promises")
    return int(bool(broken))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, help="how many cases of this kind")
    parser.add_argument("--every", type=int, default=0, help="kill, and hold, at each such request: 1 for all")
    parser.add_argument("--only", default="", help="parts of the names of scenarios, such as 'append,/file'")
    parser.add_argument("--fault", type=Fault.parse, help="one fault, such as 12:KILL_AFTER")
    parser.add_argument("--hold", help="one interleaving: the request that waits, such as 7, or 7,3 for both programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=sys.float_info.max, help="begin no case after this time")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run cases side by side")
    parser.add_argument("--list", action="store_true", help="print the names of scenarios and pairs")
    parser.add_argument("--verbose", action="store_true", help="print all broken promises, not three for each cell")
    parser.add_argument("--share", help=argparse.SUPPRESS)  # I/N: the cases of one of several processes
    return parser.parse_args()


def _run(arguments: argparse.Namespace) -> Rows:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    prepare_forks()
    folder = tempfile.TemporaryDirectory(prefix="dataformats-kills-", dir=memory)
    with folder, open_stage(Path(folder.name)) as stage:
        campaign = Campaign(stage, sys.maxsize if arguments.verbose else 3)
        if arguments.fault or arguments.hold or arguments.every:
            _run_named(campaign, arguments)
        else:
            _run_chosen(campaign, arguments)
        return campaign.rows


def _run_chosen(campaign: Campaign, arguments: argparse.Namespace) -> None:
    first, step = map(int, (arguments.share or "0/1").split("/"))
    deadline = time.monotonic() + arguments.seconds
    for kind in KINDS:
        for choice in [*choose(kind, getattr(arguments, kind), arguments.seed, arguments.only)][first::step]:
            if time.monotonic() < deadline:
                campaign.run(choice)


def _run_named(campaign: Campaign, arguments: argparse.Namespace) -> None:
    """Run one fault or one interleaving of some scenarios; or with `--every` all."""
    parts = arguments.only.split(",")
    if not arguments.hold and (arguments.kills or not arguments.pairs):
        for name in [name for name in SCENARIOS if any(part in name for part in parts)]:
            if arguments.fault:
                campaign.run_fault(name, arguments.fault)
            else:
                campaign.kill_everywhere(name, arguments.every)
    if not arguments.fault and (arguments.pairs or not arguments.kills):
        for name in [name for name in PAIRS if any(part in name for part in parts)]:
            if arguments.hold:
                campaign.play(name, *map(int, arguments.hold.split(",")))
            else:
                campaign.hold_everywhere(name, arguments.every)


def _in_processes(jobs: int) -> Rows:
    """Run this command in several processes, each with a server and its share of the cases."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.deep.remote.kills", *sys.argv[1:], "--jobs", "1", "--share", f"{at}/{jobs}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for at in range(jobs)
    ]
    rows: Rows = {}
    for process in processes:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_ROWS):
                for key, row in ast.literal_eval(line.removeprefix(_ROWS)).items():
                    rows.setdefault(key, Counter()).update(row)
            else:
                print(line, end="", flush=True)
        if process.wait():
            raise RuntimeError(f"a process ended with {process.returncode}")
    return rows


if __name__ == "__main__":
    sys.exit(main())
