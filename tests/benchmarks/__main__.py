"""The benchmarks: `python -m tests.benchmarks --help`.

Each case runs in a separate process: the threads of one peer do not disturb the next, and `tensorflow` and
`tfrecord`, which register the same messages, never meet.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import costs, scale, tables
from tests.benchmarks.harness import LEAST_SCALING, OURS, Case, Data, Result, measure, profile
from tests.benchmarks.machine import facts
from tests.benchmarks.topics import TOPICS

CASES: tuple[Case, ...] = tuple(case for cases in TOPICS.values() for case in cases)
ROUNDS, QUICK_ROUNDS = 7, 3
QUICK_SCALE = 0.125
CASE_LIMIT_S = 600
PROFILE_S = 10.0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="dataformats beside its peers")
    parser.add_argument("-k", metavar="TEXT", default="", help="only cases whose name contains this")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds, in about a minute")
    parser.add_argument("--scale", type=float, help="fraction of the records and batches, 1 for all")
    parser.add_argument("--rounds", type=int, help="number of times that each side is timed")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder that keeps the data between runs")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of records to measure costs over, such as 10000")
    parser.add_argument(
        "--update", type=Path, metavar="CHECKOUT", nargs="?", const=tables.CHECKOUT, help="update its JSON and its page"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times")
    parser.add_argument("--profile", metavar="CASE", help=f"run our side of a case for {PROFILE_S:g} s")
    parser.add_argument("--side", default=OURS, help="another side to run with --profile, as the table names it")
    parser.add_argument("--together", action="store_true", help="all cases in this process, to test the harness")
    parser.add_argument("--alone", metavar="CASE", help=argparse.SUPPRESS)  # the separate process of a case gets it
    options = parser.parse_args(arguments)
    if options.scale is None:
        options.scale = QUICK_SCALE if options.quick else 1.0
    if options.rounds is None:
        options.rounds = QUICK_ROUNDS if options.quick else ROUNDS
    if options.sizes is None:
        options.sizes = scale.QUICK_SIZES if options.quick else scale.SIZES
    if options.data is None:
        options.data = Path(tempfile.gettempdir()) / "dataformats-benchmarks"
    return options


def case_named(name: str) -> Case:
    """Return the case with this exact name."""
    for case in CASES:
        if case.name == name:
            return case
    raise SystemExit(f"no case {name!r}; there are {', '.join(case.name for case in CASES)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases of the command line; return 1 if a case failed, regardless of the times."""
    options = parsed(arguments)
    if options.list:
        print("\n".join([*(case.name for case in CASES), costs.NAME, scale.NAME]))
        return 0
    cases = [case for case in CASES if options.k in case.name]
    if not cases and options.k not in costs.NAME and options.k not in scale.NAME:
        raise SystemExit(f"no case has {options.k!r} in its name; --list names them")
    options.data.mkdir(parents=True, exist_ok=True)
    data = Data(options.data, options.scale)
    if options.profile:
        print(f"process {os.getpid()}")
        print(f"{profile(case_named(options.profile), options.side, data, PROFILE_S)} runs")
        return 0
    if options.alone:
        print(json.dumps(dataclasses.asdict(measure(case_named(options.alone), data, options.rounds))))
        return 0
    return _all(options, cases)


def _all(options: argparse.Namespace, cases: Sequence[Case]) -> int:
    rows: list[tables.Row] = []
    results: list[Result] = []
    for case in cases:
        found = _measured(options, case)
        if isinstance(found, str):
            print(f"{case.name}: failed: {found}\n", flush=True)
            continue
        results.append(found)
        of_case = tables.rows_of(case, found)
        print(tables.terminal(of_case), flush=True)
        rows += of_case
    data = Data(options.data, options.scale)
    of_loader = _printed("Loader", map(dataclasses.asdict, costs.measured(data))) if options.k in costs.NAME else []
    over_records = _printed("µs a record", scale.measured(data, options.sizes)) if options.k in scale.NAME else []
    print("\n".join(scale.exponents(over_records)))
    print("\n".join(f"{name}: {value}" for name, value in facts().items()))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(result) for result in results], indent=1), "utf-8")
    if options.update:
        tables.update(options.update, rows, facts(), costs=of_loader, scale=over_records)
    return 0 if len(results) == len(cases) else 1


def _printed(title: str, figures: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print figures without a peer as they come, and return them."""
    found = []
    for figure in figures:
        print(", ".join(map(str, (title, *figure.values()))), flush=True)
        found.append(figure)
    return found


def _measured(options: argparse.Namespace, case: Case) -> Result | str:
    """Return the result of a case, or the reason of its failure."""
    print(f"{case.name} ...", file=sys.stderr, flush=True)
    if options.together:
        return measure(case, Data(options.data, options.scale), options.rounds, lambda: LEAST_SCALING)
    return _in_subprocess(options, case)


def _in_subprocess(options: argparse.Namespace, case: Case) -> Result | str:
    """Return the result of a separate process, or the last line of its output if it failed."""
    command = [sys.executable, "-m", "tests.benchmarks", "--alone", case.name]
    command += ["--data", str(options.data), "--scale", str(options.scale), "--rounds", str(options.rounds)]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR"}
    done = subprocess.run(
        command, env=os.environ | quiet, capture_output=True, text=True, timeout=CASE_LIMIT_S, check=False
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    return Result(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
