"""Fork hooks run in the child if their object is alive."""

from __future__ import annotations

import gc
import os
import warnings

from dataformats.fork_hooks import after_fork


def test_hooks_run_in_the_child() -> None:
    class Counter:
        n_calls = 0

        def count(self) -> None:
            self.n_calls += 1

    thing, forgotten = Counter(), Counter()
    after_fork(thing, "count")
    after_fork(forgotten, "count")
    del forgotten
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child == 0:
        os._exit(40 + thing.n_calls)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
    assert thing.n_calls == 0
