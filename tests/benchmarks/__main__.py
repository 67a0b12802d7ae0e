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
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import (
    cold,
    compressed,
    conversion,
    costs,
    drop_ins,
    drop_ins_unpublished,
    examples,
    ffrecord,
    granular,
    granular_drop_in,
    images,
    indexing,
    loading,
    merging,
    other_programs,
    parsing,
    single_records,
    sql,
    syrah,
    tables,
    tfrecord,
    writing,
)
from tests.benchmarks.harness import LEAST_SCALING, OURS, Case, Data, Result, measure, profile
from tests.benchmarks.machine import facts

CASES: tuple[Case, ...] = (
    *tfrecord.CASES,
    *compressed.CASES,
    *examples.CASES,
    *ffrecord.CASES,
    *single_records.CASES,
    *cold.CASES,
    *syrah.CASES,
    *granular.CASES,
    *granular_drop_in.CASES,
    *indexing.CASES,
    *images.CASES,
    *other_programs.CASES,
    *parsing.CASES,
    *loading.CASES,
    *writing.CASES,
    *conversion.CASES,
    *merging.CASES,
    *sql.CASES,
    *drop_ins.CASES,
    *drop_ins_unpublished.CASES,
)
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
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="write the table between the marks of this page")
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
        print("\n".join([*(case.name for case in CASES), costs.NAME]))
        return 0
    cases = [case for case in CASES if options.k in case.name]
    if not cases and options.k not in costs.NAME:
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
            rows.append(tables.failed_row(case, found))
            print(f"{rows[-1].work}\n", flush=True)
            continue
        results.append(found)
        of_case = tables.rows_of(case, found)
        print(tables.terminal(of_case), flush=True)
        rows += of_case
    if options.k in costs.NAME:
        rows += _costs(Data(options.data, options.scale))
    print("\n".join(f"{name}: {value}" for name, value in facts().items()))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(result) for result in results], indent=1), "utf-8")
    if options.markdown:
        tables.put_into(options.markdown, tables.markdown(rows, facts()))
    return 0 if len(results) == len(cases) else 1


def _costs(data: Data) -> list[tables.Row]:
    """Print and return the rows of the loader's costs."""
    print(f"{costs.NAME} ...", file=sys.stderr, flush=True)
    rows = tables.cost_rows(costs.measured(data))
    print(tables.terminal(rows), flush=True)
    return rows


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
