"""Settings of all tests: a cache folder per session, no syncs, Hypothesis without time limits, Ctrl-C."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

from tests.campaign import ALL, SEED, share

# A busy machine takes any time for anything.
settings.register_profile(
    "campaign", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=share(100), database=None
)
settings.load_profile("campaign")

# A job in the background ignores Ctrl-C, and every program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_ME, _PR_SET_PDEATHSIG = (os.getpid(), threading.get_ident()), 1


def _die_with_parent() -> None:
    """End a forked child with its parent: if it hangs, it holds pipes, whose readers never hear that the parent died.

    The signal comes when the thread that forked ends, so only children of the main thread ask for it.
    """
    if (os.getppid(), threading.get_ident()) == _ME:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if sys.platform == "linux":
    os.register_at_fork(after_in_child=_die_with_parent)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let the same commit make the same examples."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = SEED


def pytest_report_header() -> str:
    """Say how to repeat the run."""
    return f"campaigns: {'all' if ALL else 'a third'}, DATAFORMATS_SEED={SEED}"


def pytest_collection_finish() -> None:
    """Leave thousands of collected tests out of every garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the time in which a failed test ends its fixtures: for debuggers, pytest has just stopped its own watch."""
    if isinstance(node, pytest.Item):
        limit, stderr = node.config.getini("faulthandler_timeout"), node.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(float(str(limit)), exit=True, file=stderr)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep index files out of the user's cache."""
    os.environ["DATAFORMATS_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def _no_sync() -> Iterator[None]:
    """Replace `os.fsync` in the processes of the tests: it takes most of the time of a test that writes.

    Only a crash of the machine shows whether there was a sync. Tests that count syncs, or let one fail, patch this one;
    processes that a test starts have the real one.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield
