"""The stage of programs: a server behind a proxy, folders for machines, and the objects in the bucket."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats import registry
from tests.deep.remote.kills.calls import Call, Place, prepare_sources
from tests.deep.remote.kills.faults import Fault
from tests.deep.remote.kills.programs import Ending, Function, Program, look, start
from tests.deep.remote.kills.proxy_client import ProxyClient
from tests.deep.remote.kills.scenarios import Dataset
from tests.deep.remote.s3_server import BUCKET, S3Server, moto_server

URL = f"s3://{BUCKET}"
MACHINES = ("machine", "elsewhere")

_INDEX = ".dataformats.idx"  # holds times, and may be missing: readers make it anew


@dataclass(frozen=True)
class Violation:
    """A broken promise.

    Attributes:
        kind: "lost", "torn", "blocked" (a reader got an error that it may not get), "refused" (the call does not run
            again), "left" (objects or files that should not be there), or "wrong".
        text: The finding.
    """

    kind: str
    text: str


class Stage:
    """Runs programs.

    Args:
        server: The server.
        proxy: The proxy in front of it.
        folder: An empty folder.
    """

    def __init__(self, server: S3Server, proxy: ProxyClient, folder: Path) -> None:
        self.server = server
        self.proxy = proxy
        self.folder = folder
        self._sources = folder / "sources"
        self._sources.mkdir()
        self.must_return(self.run("sources", lambda tell: prepare_sources(self._sources)))
        list(registry.backends)  # looks for installed ones

    def reset(self, objects: dict[str, bytes]) -> None:
        """Begin anew with these objects, and with machines that have no files."""
        self.proxy.deliver()
        self.server.reset(objects)
        for machine in MACHINES:
            shutil.rmtree(self.folder / machine, ignore_errors=True)

    def call(self, call: Call, base: str = URL, **options: Any) -> Function:
        """Return a function that makes a call."""
        return lambda tell: call(Place(base, self._sources, tell), **options)

    def start(
        self,
        name: str,
        function: Function,
        *,
        fault: Fault | None = None,
        hold_at: int | None = None,
        machine: str = MACHINES[0],
    ) -> Program:
        """Start a program.

        Args:
            name: Its name, and access key.
            function: The function that it runs.
            fault: The fault that it meets.
            hold_at: The request that waits.
            machine: The machine that it runs on: the name of a folder.
        """
        program = start(name, function, self.folder / machine, self.proxy.url)
        self.proxy.start(name, program.pid, fault, hold_at)
        program.go()
        return program

    def run(self, name: str, function: Function, *, fault: Fault | None = None, machine: str = MACHINES[0]) -> Ending:
        """Run a program to its end, and let the server finish."""
        ending = self.start(name, function, fault=fault, machine=machine).wait()
        self.proxy.settle()
        return ending

    def must_return(self, ending: Ending) -> Ending:
        if ending.end != "returned":
            raise RuntimeError(f"{ending.end} without a fault: {ending.error}")
        return ending

    def temporary_files(self, machine: str) -> set[str]:
        """Return the names in the folder for temporary files, except names of multiprocessing."""
        names = {path.name for path in (self.folder / machine / "tmp").glob("*")}
        return {name for name in names if not name.startswith("pymp-")}

    # ---- expectations

    def local_files(self, calls: Sequence[Call | None]) -> dict[str, str]:
        """Return name to MD5 of the files that calls leave in a local folder."""
        base = self.folder / "local"
        base.mkdir()
        for call in calls:
            if call is not None:
                self.must_return(self.run("local", self.call(call, str(base))))
        files = [path for path in base.rglob("*") if path.is_file()]
        listed = {str(path.relative_to(base)): hashlib.md5(path.read_bytes()).hexdigest() for path in files}
        shutil.rmtree(base)
        return listed

    def wrong_objects(self, expected: dict[str, str]) -> list[Violation]:
        """Compare the objects with local files: the names are the same, and all data are equal."""
        found = self.server.etags()
        broken = _missing_and_left(expected.keys(), found.keys())
        data = [key for key in expected.keys() & found.keys() if not key.endswith((".json", _INDEX))]
        if differing := sorted(key for key in data if found[key] != expected[key]):
            broken.append(Violation("wrong", f"bytes differ from those of a local call: {', '.join(differing)}"))
        return broken

    def unlisted_objects(self, datasets: Sequence[Dataset]) -> list[Violation]:
        """Compare the objects with the lists of the sidecars."""
        listed = {key for dataset in datasets for key in self._listed(dataset)}
        return _missing_and_left(listed, self.server.etags().keys())

    def _listed(self, dataset: Dataset) -> set[str]:
        name = f"{dataset.name}.dataformats.json"
        listed = {name}
        for file in json.loads(self.server.read(name))["files"]:
            key = dataset.name if file["name"] == dataset.name else f"{dataset.name}/{file['name']}"
            listed |= {f"{key}/{part['name']}" for part in file["parts"]} if "parts" in file else {key}
        return listed

    # ---- modules

    def noting_modules(self, function: Function) -> Function:
        """Return a function that notes which modules are imported at its end, for `import_modules`."""

        def note(tell: Callable[..., None]) -> None:
            function(tell)
            (self.folder / "modules").write_text("\n".join(sys.modules))

        return note

    def import_modules(self) -> None:
        """Import the modules of the last program, so that no fork has to."""
        for name in (self.folder / "modules").read_text().splitlines():
            if name not in sys.modules and name != "__mp_main__":
                importlib.import_module(name)
        gc.collect()
        gc.freeze()


def _missing_and_left(expected: Any, found: Any) -> list[Violation]:
    broken = []
    expected, found = [{name for name in names if not name.endswith(_INDEX)} for names in (expected, found)]
    if missing := sorted(expected - found):
        broken.append(Violation("lost", f"objects are missing: {', '.join(missing)}"))
    if left := sorted(found - expected):
        broken.append(Violation("left", f"objects: {', '.join(left)}"))
    return broken


def reader(datasets: Sequence[Dataset], *, verify: bool = False) -> Function:
    """Return a function that reports the state that a reader finds."""
    return lambda tell: tell(found=look(URL, datasets, verify=verify))


def labels(datasets: Sequence[Dataset], found: Sequence[Any]) -> list[str]:
    return [dataset.label(one) for dataset, one in zip(datasets, found, strict=True)]


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """Start a server and a proxy, whose files are in a folder."""
    work = folder / "work"
    work.mkdir()
    with moto_server(folder / "moto.log") as server, ProxyClient(server.port) as proxy:
        yield Stage(server, proxy, work)
