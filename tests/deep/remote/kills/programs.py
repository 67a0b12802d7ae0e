"""Programs that write and read: forks of this process, which makes no request itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dataformats
from dataformats.staging import redo_log
from dataformats.storage.remote import range_requests
from tests.deep.remote.kills.calls import SPEC, record
from tests.deep.remote.kills.scenarios import Dataset

LIMIT_S = 240.0
_WRONG = -1  # stands for a record with the values of another number, or read without its spec

Function = Callable[[Callable[..., None]], None]
"""What a program does; it receives a function that reports facts."""


@dataclass(frozen=True)
class Ending:
    """How a program ended: "returned", "raised", "killed" or "hangs", and the facts that it reported."""

    end: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> str:
        """The exception that the program raised: its type and text."""
        return str(self.facts.get("error", ""))

    @property
    def is_refusal(self) -> bool:
        """True if the error says that the name is taken."""
        return self.error.startswith(("TargetExistsError", "TargetInUseError"))


@dataclass(frozen=True)
class Program:
    """A running program.

    Attributes:
        name: Its access key.
        pid: Its process, and process group.
        ended: A descriptor that becomes readable when it ends.
        report: The file of its facts.
        waiting: It waits until this descriptor is closed.
    """

    name: str
    pid: int
    ended: int
    report: Path
    waiting: int

    def go(self) -> None:
        """Let it begin."""
        os.close(self.waiting)

    def has_ended(self) -> bool:
        return bool(select.select([self.ended], [], [], 0)[0])

    def wait(self, timeout_s: float = LIMIT_S) -> Ending:
        """Return how it ended; it is killed after the time, with its own processes."""
        hangs = not select.select([self.ended], [], [], timeout_s)[0]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.ended)
        facts: dict[str, Any] = {}
        for line in self.report.read_text().splitlines():
            facts |= json.loads(line)
        self.report.unlink()
        if hangs:
            return Ending("hangs", facts)
        if os.WIFSIGNALED(status):
            return Ending("killed" if os.WTERMSIG(status) == signal.SIGKILL else "crashed", facts)
        return Ending("raised" if "error" in facts else "returned", facts)


def start(name: str, function: Function, machine: Path, endpoint: str) -> Program:
    """Fork a program, which waits for `go`.

    Args:
        name: Its access key.
        function: The function that it runs.
        machine: A folder for its temporary files and its cache.
        endpoint: The URL of the server.
    """
    machine.mkdir(exist_ok=True)
    report = machine.with_name(f"{name}.report")
    report.touch()
    waiting, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        _perform(name, function, machine, endpoint, report, waiting)
    os.close(waiting)
    return Program(name, pid, os.pidfd_open(pid), report, go)


def _perform(name: str, function: Function, machine: Path, endpoint: str, report: Path, waiting: int) -> None:
    try:
        os.setpgid(0, 0)
        _redirect(machine.with_name("errors"))
        (machine / "tmp").mkdir(exist_ok=True)
        os.environ |= {"TMPDIR": str(machine / "tmp"), "DATAFORMATS_CACHE": str(machine / "cache")}
        os.environ |= {"AWS_ACCESS_KEY_ID": name, "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        tempfile.tempdir = None
        out = os.open(report, os.O_WRONLY | os.O_APPEND)

        def tell(**facts: Any) -> None:
            os.write(out, (json.dumps(facts) + "\n").encode())

        os.read(waiting, 1)
        try:
            function(tell)
        except BaseException as error:
            traceback.print_exc()
            tell(error=f"{type(error).__name__}: {error}")
        sys.stderr.flush()
    finally:
        os._exit(0)


def _redirect(path: Path) -> None:
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)


def prepare_forks() -> None:
    """Prepare the S3 client for forks: its files are parsed once, and a failed request is made again at once.

    No request is made here: a client that was used does not survive a fork. Parsing took a third of the time of a short
    program.
    """
    loaders: Any = importlib.import_module("botocore.loaders")
    retries: Any = importlib.import_module("botocore.retryhandler")
    load_file = functools.cache(loaders.JSONFileLoader().load_file)
    loaders.JSONFileLoader.load_file = lambda self, path: load_file(path)
    services = functools.cache(loaders.Loader().list_available_services)
    loaders.Loader.list_available_services = lambda self, type_name: services(type_name)
    asyncio.run(_make_client())
    retries.delay_exponential = lambda *arguments, **named: 0.01
    importlib.import_module("s3fs").S3FileSystem.retries = 2
    redo_log._PATIENCE_S, redo_log._POLL_S = 0.5, 0.05
    range_requests._WAITS_S = (0.01, 0.01, 0.02, 0.02)
    os.environ["AWS_MAX_ATTEMPTS"] = "3"


async def _make_client() -> None:
    session = importlib.import_module("aiobotocore.session").AioSession()
    async with session.create_client("s3", region_name="us-east-1"):
        pass


# ---- states that a reader finds


def look(base: str, datasets: Sequence[Dataset], *, verify: bool = False) -> list[Any]:
    """Return the numbers of the records of each dataset, or why it is not read."""
    return [_numbers(f"{base}/{dataset.name}", verify) for dataset in datasets]


def _numbers(url: str, verify: bool) -> list[int] | str:
    try:
        source = dataformats.open(url)
        found = list(source)
        if verify and not dataformats.verify(url).ok:
            return "error: verify finds damage"
    except FileNotFoundError:
        return "nothing"
    except (OSError, dataformats.FormatError) as error:
        return f"error: {type(error).__name__}: {error}"
    if source.spec != dataformats.Spec(SPEC):
        return [_WRONG] * len(found)
    return [int(row["n"]) if {name: row[name] for name in SPEC} == record(row["n"]) else _WRONG for row in found]
