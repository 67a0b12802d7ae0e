"""`tf.autograph`: functions without effect, because functions run as they are written."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["do_not_convert", "experimental", "set_verbosity"]

experimental: ModuleType = sys.modules[__name__]


def do_not_convert(func: Any = None) -> Any:
    """Return the function, or a decorator that does."""
    return do_not_convert if func is None else func


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Do nothing."""
