"""Lets jobs lose power, and checks their resumes: each in a fork of this process, so no interpreter starts.

The process has the shim preloaded. It reads lines of JSON, the arguments of `Runner.run`, from stdin, and answers each
with a line of JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataformats.errors import TargetExistsError
from dataformats.registry import backends
from tests.deep.durability.faults import shim
from tests.deep.durability.power_loss.disk import Disk, FileSystem
from tests.deep.durability.power_loss.jobs import JOBS, Job, Place
from tests.deep.durability.power_loss.promises import all_names, broken_promises, run_calls
from tests.deep.durability.power_loss.recording import Event, Kind, Progress, events_of
from tests.deep.durability.power_loss.tree import Entry, Tree, read_tree, same_tree, write_tree

_LIMIT_S = 60
_LEVEL = 2**40  # more than any inode of the file system: a file made after the n-th crash has n times that more
_SHARE_OF_TWO = 0.25  # share of cases whose job crashes a second time
_SHARE_OF_NAMES = 0.3  # share of crashes at an operation on names: the most interesting ones
_SHARE_OF_TORN = 0.3  # share of kills within a write that stored half of its bytes


@dataclass(frozen=True)
class Start:
    """The point from which a job runs on.

    Attributes:
        synced: The disk at some time before, all of it synced.
        progress: The progress of the job by then.
        events: The operations since then, of processes that were killed.
    """

    synced: Tree
    progress: Progress = field(default_factory=Progress)
    events: Sequence[Event] = ()


@dataclass(frozen=True)
class Run:
    """The operations of a job.

    Attributes:
        start: Its start.
        events: Its operations after the start.
        names: The files and folders that it left with the data.
    """

    start: Start
    events: Sequence[Event]
    names: Sequence[str]


@dataclass(frozen=True)
class Crash:
    """The disk and the progress after a crash.

    Attributes:
        tree: The disk.
        progress: The progress of the job.
        start: The point from which it can run on.
        order: `FileSystem.order`; "killed" if only the process ended.
        story: A description of the crash.
    """

    tree: Tree
    progress: Progress
    start: Start
    order: str
    story: list[str]


class Runner:
    """Lets jobs crash in a folder.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self._home = folder.resolve()
        self._disk = self._home / "disk"
        self._place = Place(self._disk / "data", self._disk / "sources")
        self._runs: dict[str, Run | str] = {}
        self._inodes: dict[int, int] = {}
        self._added = 0

    def run(self, name: str, crash: str, seed: int, keep: str | None = None) -> dict[str, Any]:
        """Return `{"broken": ..., "order": ..., "story": ...}`: broken promises, the order of the disk, a description.

        Args:
            name: Name of the job.
            crash: One of `"kill"`, `"power"`, and `"unordered"`: operations on names are lost in any order.
            seed: Seed of all random choices.
            keep: The folder to which the disk is copied after the crash.
        """
        job, rng = JOBS[name], random.Random(f"{name} {crash} {seed}")
        first = self._first_run(job)
        if isinstance(first, str):
            return {"broken": [f"{first}, without a crash"], "order": "killed", "story": []}
        run, story = first, list[str]()
        file_system = FileSystem.chosen(rng, ordered=crash != "unordered")
        if rng.random() < _SHARE_OF_TWO:
            found = _crash(job, run, rng.choice((crash, "kill")), file_system, rng)
            self._restore(found.tree, _LEVEL)
            again, story = self._recorded(job, found.start, found.progress.call), found.story
            if isinstance(again, str):
                return {"broken": [again], "order": found.order, "story": story}
            run = again
        found = _crash(job, run, crash, file_system, rng)
        self._restore(found.tree, 2 * _LEVEL)
        if keep is not None:
            shutil.copytree(self._disk, keep, symlinks=True)
        broken = self._broken(job, found.progress, first.names, is_killed=crash == "kill")
        if _sources(read_tree(self._disk)) != _sources(first.start.synced):
            broken.append("lost: the source has changed")
        return {"broken": broken, "order": found.order, "story": story + found.story}

    # ---- runs

    def _first_run(self, job: Job) -> Run | str:
        """Return the operations of a job without a crash, or a broken promise."""
        if job.name not in self._runs:
            if self._disk.exists():
                shutil.rmtree(self._disk)
            for path in (self._place.data, self._place.source, self._disk / "cache"):
                path.mkdir(parents=True)
            self._inodes, self._added = {}, 0
            failure = self._forked(lambda: job.prepare(self._place))
            run = failure or self._recorded(job, Start(read_tree(self._disk)), 0)
            self._runs[job.name] = run if isinstance(run, str) else self._checked(job, run)
        return self._runs[job.name]

    def _recorded(self, job: Job, start: Start, first: int) -> Run | str:
        """Run the calls of a job from one on, and record them; return a broken promise if one raises."""
        record = self._home / "record"
        record.write_bytes(b"")
        failure = self._forked(lambda: self._perform(job, first, record))
        if failure is not None:
            return f"refused: {failure}"
        events = [event.with_inodes(self._inode) for event in events_of(record.read_bytes())]
        disk = Disk(start.synced, FileSystem())
        disk.apply([*start.events, *events])
        if not same_tree(disk.tree(), read_tree(self._disk, self._inode)):
            raise RuntimeError(f"{job.name} changes files in a way that the shim does not see")
        return Run(start, events, all_names(self._place.data))

    def _perform(self, job: Job, first: int, record: Path) -> None:
        os.environ |= {"FAULT_PREFIX": str(self._disk), "FAULT_RECORD": str(record)}  # its processes inherit it
        descriptor = os.open(record, os.O_RDWR | os.O_APPEND)
        shim.record(self._disk, descriptor)
        try:
            run_calls(job, self._place, first, lambda **facts: shim.note(json.dumps(facts)))
        except TargetExistsError:
            pass  # if it is wrong, the next run of the same calls shows that
        finally:
            shim.record(None)

    def _broken(self, job: Job, progress: Progress, names: Sequence[str], *, is_killed: bool) -> list[str]:
        answer = self._home / "answer"
        answer.unlink(missing_ok=True)

        def check() -> None:
            answer.write_text(json.dumps(broken_promises(job, self._place, progress, names, is_killed=is_killed)))

        failure = self._forked(check)
        return [f"refused: {failure}"] if failure is not None else list(json.loads(answer.read_text()))

    def _checked(self, job: Job, run: Run) -> Run | str:
        """Return the run, or a promise that is broken without a crash; import all modules that a check needs."""
        answer = self._home / "answer"

        def check() -> None:
            progress = Progress().after(run.events, len(job.calls))
            broken = broken_promises(job, self._place, progress, run.names)
            answer.write_text(json.dumps([broken, [*sys.modules]]))

        if (failure := self._forked(check)) is not None:
            return f"refused: {failure}"
        broken, modules = json.loads(answer.read_text())
        for name in modules:
            if name not in sys.modules:
                importlib.import_module(name)
        list(backends)  # looks for installed ones
        gc.freeze()  # a collection in a fork looks at its own objects alone
        return "; ".join(broken) or run

    # ---- the disk

    def _restore(self, tree: Tree, added: int) -> None:
        self._inodes, self._added = write_tree(self._disk, tree), added

    def _inode(self, inode: int) -> int:
        """Return the inode that a job sees."""
        return self._inodes.get(inode, inode + self._added)

    # ---- processes

    def _forked(self, function: Callable[[], None]) -> str | None:
        """Run a function in a fork, which sees the inodes of the tree; return its error."""
        answer = self._home / "error"
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(_LIMIT_S)
                if self._inodes:
                    shim.report_inodes(self._inodes, os.stat(self._home).st_dev, self._added)
                function()
                os._exit(0)
            except BaseException as error:
                answer.write_text(f"{type(error).__name__}: {error}")
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return f"it does not end in {_LIMIT_S} s" if number == signal.SIGALRM else f"it ends with signal {number}"
        return answer.read_text() if os.WEXITSTATUS(status) else None


def _sources(tree: Tree) -> dict[str, tuple[str, bytes]]:
    entries: list[tuple[str, Entry]] = [pair for pair in tree.items() if pair[0].startswith("source")]
    return {name: (entry.kind, entry.content) for name, entry in entries}


def _crash(job: Job, run: Run, crash: str, file_system: FileSystem, rng: random.Random) -> Crash:
    """Return the disk after a crash at a random operation."""
    n = len(run.events)
    names = [at for at, event in enumerate(run.events) if event.kind < Kind.WRITE]
    at = rng.choice(names) if names and rng.random() < _SHARE_OF_NAMES else rng.randrange(n)
    events = [*run.start.events, *run.events[: at + 1]]
    progress = run.start.progress.after(events, len(job.calls))
    is_torn = crash == "kill" and events[-1].kind is Kind.WRITE and rng.random() < _SHARE_OF_TORN
    if is_torn:
        events[-1] = events[-1].half()
    disk = Disk(run.start.synced, file_system)
    disk.apply(events)
    paths = disk.paths()
    story = [f"{crash} after operation {at + 1} of {n}: {events[-1].described(paths)}{', the first half' * is_torn}"]
    if at + 1 < n:
        story.append(f"the next one would be: {run.events[at + 1].described(paths)}")
    if crash == "kill":
        return Crash(disk.tree(), progress, Start(run.start.synced, run.start.progress, events), "killed", story)
    tree, lost = disk.tree_after_power_loss(rng)
    return Crash(tree, progress, Start(tree, progress), file_system.order, [*story, str(file_system), *lost])


def main() -> None:
    """Answer the lines of stdin."""
    logging.getLogger("dataformats").addHandler(logging.NullHandler())  # it warns of indexes that a crash has torn
    runner = Runner(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(runner.run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
