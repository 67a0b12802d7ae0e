"""Runs a parser on changed inputs, and notices errors of other kinds, too much memory, and slowness."""

from __future__ import annotations

import base64
import hashlib
import json
import resource
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from dataformats.errors import DataFormatsError
from tests.fuzz.parsers.mutation import Change, change_bytes

Files = Mapping[str, bytes]
"""An input: the name and content of each file."""

MOST_SECONDS = 1.0
_TRACED = 24  # one execution in so many is traced: its lines are counted, and new ones make it a seed
_HANG_S = 120
_MAX_ADDRESSES = 3 * 2**29  # threads take some 70 MB of addresses each
_MAX_MEMORY = 2**28


@dataclass(frozen=True)
class Target:
    """A parser and its inputs.

    Attributes:
        name: Its name.
        run: Parses an input.
        seeds: Returns sound and damaged inputs.
        modules: The modules whose lines are counted.
        changes: The end of a file's name to the changes that fit it; other files are changed as bytes.
        allowed: Documented errors besides `DataFormatsError`.
        may_lack_files: True if inputs lack a file now and then.
    """

    name: str
    run: Callable[[Files], object]
    seeds: Callable[[], Sequence[Files]]
    modules: Sequence[types.ModuleType]
    changes: Mapping[str, Sequence[Change]] = field(default_factory=dict)
    allowed: tuple[type[Exception], ...] = ()
    may_lack_files: bool = False


class HangError(BaseException):
    """An execution takes too long; no parser catches it."""


@dataclass
class Finding:
    """An input that breaks the promise.

    Attributes:
        what: The finding in one line.
        details: The traceback, if any.
        files: The input.
    """

    what: str
    details: str
    files: Files

    def save(self, folder: Path, target: str) -> Path:
        """Write the input, to be run again by `--replay`; return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.blake2b(self.what.encode() + repr(sorted(self.files.items())).encode(), digest_size=6)
        path = folder / f"{target}-{digest.hexdigest()}.json"
        encoded = {name: base64.b64encode(content).decode() for name, content in self.files.items()}
        saved = {"target": target, "what": self.what, "details": self.details.splitlines(), "files": encoded}
        path.write_text(json.dumps(saved, indent=1))
        return path


def load_input(path: Path) -> tuple[str, Files]:
    """Return the target and the input of a saved finding."""
    saved = json.loads(path.read_text())
    return saved["target"], {name: base64.b64decode(content) for name, content in saved["files"].items()}


class Campaign:
    """Executions of one target.

    Args:
        target: The parser.
        seed: Another seed gives other inputs.

    Attributes:
        executions: Number of executions.
        seconds: The time they took.
        findings: One for each line of code that raised a wrong error.
    """

    def __init__(self, target: Target, seed: int | str) -> None:
        self.target = target
        self.executions = 0
        self.seconds = 0.0
        self.findings: list[Finding] = []
        self._random = Random(f"{target.name} {seed}")
        self._corpus: list[Files] = []
        self._allowed: tuple[type[Exception], ...] = (DataFormatsError, *target.allowed)
        self._seen: set[str] = set()
        self._lines: set[tuple[str, int]] = set()
        self._paths = {module.__file__: executable_lines(module) for module in target.modules}

    def run(self, seconds: float, executions: int | None = None) -> None:
        """Run the seeds, then changed inputs, for a time or a number of executions."""
        begin = time.monotonic()
        seeds = self.target.seeds()
        with _hangs_end(self):
            for files in seeds:
                self._execute(files, traced=True)
                self._corpus.append(files)
            while time.monotonic() - begin < seconds and (executions is None or self.executions < executions):
                for _ in range(100):
                    self._execute(self._changed(), traced=self.executions % _TRACED == 0)
        self.seconds += time.monotonic() - begin

    def execute(self, files: Files) -> Finding | None:
        """Run one input; return its finding."""
        before = _most_memory()
        finding, took = self._timed(files)
        if finding is None and took > MOST_SECONDS:
            took = min(took, *(self._timed(files)[1] for _ in range(2)))  # the processor may be busy, or slow for once
        if finding is None and took > MOST_SECONDS:
            finding = Finding(f"took {took:.1f} s of processor time", "", files)
        if finding is None and _most_memory() - before > _MAX_MEMORY:
            finding = Finding(f"took {(_most_memory() - before) >> 20} MB of memory", "", files)
        return finding

    def _timed(self, files: Files) -> tuple[Finding | None, float]:
        """Run one input; return its finding, except time and memory, and the seconds of processor time."""
        finding, start = None, time.process_time()
        try:
            self.target.run(files)
        except (Exception, HangError) as error:
            if not isinstance(error, self._allowed):
                finding = Finding(_place_of(error), traceback.format_exc(), files)
        return finding, time.process_time() - start

    @property
    def coverage(self) -> tuple[int, int]:
        """Lines of the modules' functions that were executed, and all of them."""
        return sum(number in self._paths[path] for path, number in self._lines), sum(map(len, self._paths.values()))

    def missed_lines(self) -> Iterator[str]:
        """Yield the lines that were not executed."""
        for path, numbers in self._paths.items():
            for number in sorted(numbers - {line for name, line in self._lines if name == path}):
                yield f"{path}:{number}"

    def _execute(self, files: Files, traced: bool) -> None:
        self.executions += 1
        if traced:
            before = len(self._lines)
            with self._tracing():
                finding = self.execute(files)
            if len(self._lines) > before:
                self._corpus.append(files)
        else:
            finding = self.execute(files)
        if finding is not None and finding.what not in self._seen:
            self._seen.add(finding.what)
            self.findings.append(finding)

    def _changed(self) -> Files:
        random = self._random
        files = dict(random.choice(self._corpus))
        for _ in range(1 if random.random() < 0.8 else 2):
            name = random.choice([*files])
            changes = next((fit for end, fit in self.target.changes.items() if name.endswith(end)), (change_bytes,))
            others = [other[name] for other in random.choices(self._corpus, k=2) if name in other]
            files[name] = random.choice(changes)(random, files[name], others)
        if self.target.may_lack_files and random.random() < 0.01:
            del files[random.choice([*files])]
        return files

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        paths, lines = self._paths, self._lines

        def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
            return local if frame.f_code.co_filename in paths else None

        def local(frame: types.FrameType, event: str, argument: Any) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        threading.settrace(trace)
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)


def executable_lines(module: types.ModuleType) -> set[int]:
    """Return the numbers of the lines in the functions of a module."""
    path = str(module.__file__)
    waiting = [compile(Path(path).read_text("utf-8"), path, "exec")]
    lines: set[int] = set()
    while waiting:
        code = waiting.pop()
        inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
        waiting += inner
        if code.co_flags & 2:  # CO_NEWLOCALS: a function, neither a module nor a class
            lines |= {number for _, _, number in code.co_lines() if number is not None and number > code.co_firstlineno}
    return lines


@contextmanager
def limited_memory() -> Iterator[None]:
    """Refuse more than 1.5 GB of memory above the current use of this process."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + _MAX_ADDRESSES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def _hangs_end(campaign: Campaign) -> Iterator[None]:
    last = [-1, 0]

    def look(*_: object) -> None:
        last[:] = [campaign.executions, last[1] + 1 if campaign.executions == last[0] else 0]
        if last[1] >= _HANG_S:
            last[1] = 0
            raise HangError(f"no end after {_HANG_S} s")

    old = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _most_memory() -> int:
    """Return the most bytes of memory that this process had at any time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _place_of(error: BaseException) -> str:
    """Return kind and place of an error: the last line of this project that it went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/fuzz/" not in frame.filename]
    ours = [
        frame for frame in frames if "/site-packages/" not in frame.filename and "/lib/python" not in frame.filename
    ]
    last = (ours or frames)[-1:]
    return f"{type(error).__name__} at {last[0].filename}:{last[0].lineno}" if last else type(error).__name__
