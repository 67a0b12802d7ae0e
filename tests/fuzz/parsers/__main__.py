"""Fuzzes the parsers in Python: `python -m tests.fuzz.parsers --help`, and README.md in the folder above."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from random import SystemRandom

from tests.fuzz.parsers.engine import Campaign, limited_memory, load_input
from tests.fuzz.parsers.targets import TARGETS


def main() -> int:
    """Run the targets of the command line; return 1 if there are findings."""
    arguments = _parsed()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if arguments.replay:
        return _replay(arguments.replay)
    names = arguments.targets or sorted(TARGETS)
    seconds = arguments.seconds or arguments.total / len(names)
    seed = arguments.seed if arguments.seed is not None else SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    failed = 0
    for name in names:
        campaign = Campaign(TARGETS[name], seed)
        with limited_memory():
            campaign.run(seconds, arguments.executions)
        _report(campaign, arguments)
        failed |= bool(campaign.findings)
    return failed


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.parsers", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(sorted(TARGETS))}; all if none is given")
    parser.add_argument("--seconds", type=float, help="for each target")
    parser.add_argument("--total", type=float, default=20, help="seconds for all targets together, without --seconds")
    parser.add_argument("--executions", type=int, help="end a target after so many")
    parser.add_argument("--seed", help="as printed by an earlier run, to repeat it; random by default")
    parser.add_argument("--findings", type=Path, default=Path(), help="the folder for inputs that break a promise")
    parser.add_argument("--missed", action="store_true", help="also print the lines that were not executed")
    parser.add_argument("--replay", type=Path, nargs="+", help="run these findings alone")
    arguments = parser.parse_args()
    unknown = {*arguments.targets} - TARGETS.keys()
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return arguments


def _report(campaign: Campaign, arguments: argparse.Namespace) -> None:
    covered, all_lines = campaign.coverage
    rate = campaign.executions / max(campaign.seconds, 1e-9)
    print(
        f"{campaign.target.name}: {campaign.executions:,} executions, {rate:,.0f}/s, "
        f"{covered / max(all_lines, 1):.0%} of {all_lines} lines",
        flush=True,
    )
    for finding in campaign.findings:
        print(f"  {finding.what}\n  {finding.save(arguments.findings, campaign.target.name)}", flush=True)
    if arguments.missed:
        print(*campaign.missed_lines(), sep="\n")


def _replay(paths: list[Path]) -> int:
    failed = 0
    for path in paths:
        name, files = load_input(path)
        with limited_memory():
            finding = Campaign(TARGETS[name], 0).execute(files)
        print(f"{path}: {finding.details or finding.what if finding else 'no finding'}")
        failed |= finding is not None
    return failed


if __name__ == "__main__":
    # Nothing is written outside this folder: indexes and partial data of the targets go there.
    with tempfile.TemporaryDirectory(
        prefix="dataformats-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
    ) as folder:
        os.environ["DATAFORMATS_CACHE"] = folder
        tempfile.tempdir = folder
        sys.exit(main())
