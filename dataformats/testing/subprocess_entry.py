"""Runs parts of the suite in other processes; functions are found by name there, so this imports no test."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from dataformats.reading.opening import open as open_dataset
from dataformats.testing.case import FormatCase
from dataformats.testing.records import index_of, plain_record
from dataformats.writing.creating import create

_START_S = 240.0  # a new process imports numpy, and the machine may be busy


# ---- in the parent


def in_fork(function: Callable[[], Any]) -> Any:
    """Return the result of a function in a forked child, through JSON; `None` if the child died of an error."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            os.write(writing, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def map_in_processes(case: FormatCase, method: str, function: Callable[..., Any], calls: Sequence[Any]) -> list[Any]:
    """Return the results of a function of this module, one per argument, in processes started by `method`.

    A process that dies raises `BrokenProcessPool` here: a `multiprocessing.Pool` would start another one for ever.
    """
    setup = None if method == "fork" else case.setup  # a fork has the registry of its parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(len(calls), context, run_setup, (setup,)) as pool:
            try:
                return [future.result(_START_S) for future in [pool.submit(function, call) for call in calls]]
            except TimeoutError:
                for process in multiprocessing.active_children():  # the pool would wait for them
                    process.kill()
                raise


def run_command(case: FormatCase, function: str, *arguments: Any) -> None:
    """Call a function of this module in a new interpreter; if it fails, fail with its output."""
    done = subprocess.run(
        _command(case, function, arguments),
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=_START_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def kill_when_ready(case: FormatCase, function: str, *arguments: Any) -> None:
    """Call a function of this module in a new interpreter, and kill that once it says that it is ready."""
    with subprocess.Popen(
        _command(case, function, arguments),
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
        assert ready, process.communicate()[1]


def _command(case: FormatCase, function: str, arguments: Sequence[Any]) -> list[str]:
    call = pickle.dumps((replace(case, ends=None), arguments))  # `ends` may be a function of a test module
    code = f"import dataformats.testing.subprocess_entry as e; e.call({case.setup!r}, {function!r}, {call!r})"
    return [sys.executable, "-c", code]


def _environment() -> dict[str, str]:
    """Let a new interpreter find the modules that this one finds, including `FormatCase.setup`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


# ---- in the child


def run_setup(setup: str | None) -> None:
    """Call the function that `FormatCase.setup` names."""
    if setup is not None:
        module, _, function = setup.partition(":")
        getattr(importlib.import_module(module), function)()


def call(setup: str | None, function: str, pickled: bytes) -> None:
    """Call a function of this module with a case and arguments."""
    run_setup(setup)
    case, arguments = pickle.loads(pickled)
    globals()[function](case, *arguments)


def digest(source: Any) -> str:
    """Return a digest of all records of a source: one by one, as a batch, and streamed."""
    n = len(source)
    ways = [[source[i] for i in range(n)], list(source.read(range(n))), list(source)]
    return "|".join(hashlib.sha256(repr(way).encode()).hexdigest() for way in ways)


def read_pickle(pickled: bytes) -> tuple[str, str]:
    """Return digest and fingerprint of a pickled source."""
    source = pickle.loads(pickled)
    return digest(source), source.fingerprint


def count_records(call: tuple[str, dict[str, Any], Any]) -> str:
    """Open data at the same moment as other processes; return the digest of its records."""
    path, options, barrier = call
    barrier.wait(_START_S)
    return digest(open_dataset(path, **options))


def write_until_killed(case: FormatCase, path: str, options: dict[str, Any], n_safe: int, n_more: int) -> None:
    """Write records, sync, write more, print that this is ready, and wait to be killed."""
    writer = create(path, case.format, resume=True, **options)
    first = len(writer)
    writer.extend(plain_record(case, i) for i in range(first, first + n_safe))
    writer.flush(sync=True)
    writer.extend(plain_record(case, i) for i in range(first + n_safe, first + n_safe + n_more))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


def read_with_few_descriptors(case: FormatCase, folder: str, limit: int) -> None:
    """Read a folder of more files than this process may open."""
    import resource  # exists on Unix only

    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    source = open_dataset(folder, **case.open_options)
    numbers = list(range(len(source)))[::-1]
    assert [index_of(case, record) for record in source.read(numbers)] == numbers
    assert [index_of(case, source[i]) for i in numbers] == numbers
    assert [index_of(case, record) for record in source] == numbers[::-1]
