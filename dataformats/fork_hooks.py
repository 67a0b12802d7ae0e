"""Keep forked children free of locks that no thread of theirs releases: of objects, libraries, imports under way."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import _bootstrap
from typing import Any, Self, TypeVar, overload

from dataformats.optional_imports import import_extra

T = TypeVar("T")

_ACTIONS: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()
_IMPORTED_IN: dict[str, int] = {}  # module to the id of the process that imported it
_PATIENCE_S = 10.0
_POLL_S = 0.001

# A thread that imports holds the lock of the module. In a child Python resets the global lock, but not these.
# They have no public name: tests/storage/test_fork_hooks.py fails under a Python that keeps them elsewhere.
_MODULE_LOCKS: dict[str, Callable[[], Any]] = vars(_bootstrap).get("_module_locks", {})


def import_unforked(module: str, name: str, extra: str) -> Any:
    """Return the module of a library whose threads a forked process lacks, so that calls there crash or hang.

    Args:
        module: The module.
        name: What errors call the library.
        extra: The extra that installs it.

    Raises:
        MissingExtraError: It is not installed.
        RuntimeError: This process was forked after its parent called this function for the module.
    """
    library = import_extra(module, name, extra)
    if _IMPORTED_IN.setdefault(module, os.getpid()) != os.getpid():
        raise RuntimeError(f"{name} cannot be used after a fork. Start processes by spawn: start_method='spawn'")
    return library


def after_fork(thing: object, method: str) -> None:
    """Call `thing.method()` in each child process that is forked while `thing` is alive."""
    _ACTIONS[thing] = method


class cached_property(functools.cached_property[T]):  # noqa: N801, TID251  # the name it has in `functools`
    """The same as in `functools` from Python 3.12 on, without a lock; Python 3.11 has one lock for all instances.

    Threads that ask at once may each compute the value, and all of them get the value that is there first.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(str(self.attrname), self.func(instance))
        return value


_ENTRY = threading.RLock()  # held during a fork
_INSIDE: set[int] = set()  # threads in a block of `no_fork`


@contextmanager
def no_fork() -> Iterator[None]:
    """Let forks wait until the end of this block: a child would wait forever for locks that pyarrow holds.

    A block contains no other one, and waits for no thread that enters one.
    """
    try:
        with _ENTRY:
            _INSIDE.add(threading.get_ident())
        yield
    finally:
        _INSIDE.discard(threading.get_ident())


def _imports_of_others() -> dict[str, Any]:
    """Return the modules that other threads import at this moment, with their locks."""
    locks = {name: reference() for name, reference in list(_MODULE_LOCKS.items())}
    me = threading.get_ident()
    return {name: lock for name, lock in locks.items() if lock is not None and lock.owner != me}


_ENDLESS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Locks that were waited for in vain, as of a thread that runs a program by importing it."""


def _wait_for_others() -> None:
    """Before a fork, let imports of other threads end, and their blocks of `no_fork`; a first read imports codecs."""
    _ENTRY.acquire()
    end = time.monotonic() + _PATIENCE_S
    while _INSIDE - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(_POLL_S)
    while not _ENDLESS.issuperset(others := _imports_of_others().values()):
        if time.monotonic() > end:  # perhaps an import waits for this thread
            _ENDLESS.update(others)
        del others  # keeps the locks alive, as if the imports went on
        time.sleep(_POLL_S)


def _forget_others() -> None:
    """In the child, forget the other threads, and the imports that ended with them, so that it can begin them again."""
    _INSIDE.intersection_update({threading.get_ident()})
    _ENTRY.release()
    for name in _imports_of_others():
        _MODULE_LOCKS.pop(name, None)
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]


def _run_actions() -> None:
    for thing, method in list(_ACTIONS.items()):
        try:
            getattr(thing, method)()
        except Exception:  # the others have to run: without them the child would hang
            traceback.print_exc()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_others, after_in_parent=_ENTRY.release, after_in_child=_forget_others)
    os.register_at_fork(after_in_child=_run_actions)
