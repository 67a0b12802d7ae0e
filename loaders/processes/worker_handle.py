"""Start a worker process, notice its end, and explain it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
from multiprocessing.process import BaseProcess
from typing import Any

from dataformats.errors import WorkerError
from dataformats.fork_server import preload
from dataformats.loaders.prefetcher import BuildBatch
from dataformats.loaders.processes import worker
from dataformats.loaders.processes.protocol import WorkerConfig

GUARD = "Put the code of a script that starts processes under `if __name__ == '__main__':`"


def start_worker(method: str, config: WorkerConfig, its_line: socket.socket, build: BuildBatch | None) -> BaseProcess:
    """Start a worker.

    Raises:
        WorkerError: The fork server could not be started, or belongs to another process.
    """
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        preload()
    name = f"dataformats-worker-{config.worker}"
    process: BaseProcess = context.Process(target=worker.main, args=(its_line, config, build), name=name, daemon=True)
    try:
        process.start()
    except (EOFError, ConnectionError) as error:
        problem = f"could not be started: see the output of the fork server. {GUARD}"
        raise WorkerError(problem, worker=config.worker) from error
    except ChildProcessError as error:
        problem = "could not be started: the fork server belongs to the process that this one was forked from"
        remedy = "Pass start_method='spawn', or start this process by multiprocessing's 'spawn' or 'forkserver'"
        raise WorkerError(f"{problem}. {remedy}", worker=config.worker) from error
    return process


def check_main(method: str) -> None:
    """Check that multiprocessing can import the main program in a worker.

    Raises:
        WorkerError: The program was read from standard input.
    """
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is not None and getattr(main, "__spec__", None) is None and not os.path.exists(path):
        problem = f"cannot be started: {method} imports the program again, and {path!r} is not a file"
        raise WorkerError(
            f"{problem}. Remedies: put the program in a file; worker_type='thread'; start_method='fork'", worker=0
        )


def open_pidfd(process: int | None) -> int | None:
    """Return a descriptor that becomes readable as soon as a process ends; `None` if the system has none.

    The sentinel of multiprocessing becomes readable only when all processes that inherited it have ended.
    """
    if process is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(process)
    except OSError:  # an old kernel, or a sandbox that forbids it
        return None


def exit_code(process: BaseProcess) -> int | None:
    """Return the exit code of a process that has ended."""
    code = process.exitcode
    if code is None:  # the fork server reports it a moment after the end
        process.join(1)
        code = process.exitcode
    return code


def end_reason(code: int | None) -> str:
    """Return what an exit code means: `"killed by signal 11 (SIGSEGV)"`."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"killed by signal {-code}"
    reason = ", which the operating system sends when memory runs out" if name == "SIGKILL" else ""
    return f"killed by signal {-code} ({name}{reason})"
