"""Objects that hold a lock or a thread are told when the process was forked."""

from __future__ import annotations

import os
import weakref

__all__ = ["after_fork"]

_ACTIONS: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()


def after_fork(thing: object, method: str) -> None:
    """Call `thing.method()` in every child that is forked while `thing` lives."""
    _ACTIONS[thing] = method


def _run() -> None:
    for thing, method in list(_ACTIONS.items()):
        getattr(thing, method)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run)
