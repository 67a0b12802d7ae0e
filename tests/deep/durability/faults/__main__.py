"""Every fault at every file operation of every writer: `python -m tests.deep.durability.faults --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.deep.durability.faults.client import FaultServer
from tests.deep.durability.faults.scenarios import SCENARIOS
from tests.deep.durability.faults.shim import Fault


def main() -> int:
    """Run the cases of the command line; return 1 if a promise was broken."""
    arguments = _parsed()
    names = [name for name in SCENARIOS if all(part in name for part in arguments.only.split(","))]
    waiting = iter(names)
    broken: list[str] = []
    counts: Counter[str] = Counter()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dataformats-faults-", dir=arguments.folder) as folder:
        workers = [
            threading.Thread(target=_work, args=(Path(folder, str(i)), waiting, arguments, broken, counts))
            for i in range(arguments.jobs)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    seconds = time.perf_counter() - begin
    print(f"{counts['scenarios']} of {len(names)} scenarios, {counts['faults']} faults, {seconds:.0f} s: ", end="")
    print(f"{len(broken)} break a promise")
    return int(bool(broken) or counts["scenarios"] < len(names))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of the names of scenarios, such as 'tfrecord/,resume'")
    parser.add_argument("--fault", type=Fault.parse, help="one fault, such as 12:FAIL:EIO, instead of all")
    parser.add_argument("--every", type=int, default=1, help="only every so-manieth fault")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run scenarios side by side")
    parser.add_argument("--list", action="store_true", help="print the operations of the scenarios instead")
    parser.add_argument("--folder", help="where files are written, such as a file system in memory")
    return parser.parse_args()


def _work(
    folder: Path, names: Iterable[str], arguments: argparse.Namespace, broken: list[str], counts: Counter[str]
) -> None:
    folder.mkdir()
    with FaultServer(folder) as server:
        for name in names:
            if arguments.list:
                _print_operations(server, name)
            else:
                _try_faults(server, name, arguments, broken, counts)
            counts["scenarios"] += 1


def _print_operations(server: FaultServer, name: str) -> None:
    print(name)
    for at, operation in enumerate(server.operations(name), 1):
        print(f"{at:5} {operation.kind:10} {operation.path}")


def _try_faults(
    server: FaultServer, name: str, arguments: argparse.Namespace, broken: list[str], counts: Counter[str]
) -> None:
    faults = [arguments.fault] if arguments.fault else [*server.faults(name)][:: arguments.every]
    for fault in faults:
        for violation in server.violations(name, fault):
            operation = server.operations(name)[fault.at - 1]
            broken.append(f"{name} {fault}")
            print(f"{name} {fault} ({operation.kind} {Path(operation.path).name}): {violation}", flush=True)
    counts["faults"] += len(faults)


if __name__ == "__main__":
    sys.exit(main())
