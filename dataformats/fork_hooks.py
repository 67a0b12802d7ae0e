"""Call a method of objects that hold a lock or a thread in every forked child."""

from __future__ import annotations

import os
import weakref

__all__ = ["after_fork"]

_ACTIONS: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()


def after_fork(thing: object, method: str) -> None:
    """Call `thing.method()` in each child process that is forked while `thing` is alive."""
    _ACTIONS[thing] = method


def _run() -> None:
    for thing, method in list(_ACTIONS.items()):
        getattr(thing, method)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run)
