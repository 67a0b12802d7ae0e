"""What a fork server of multiprocessing imports, once for all the worker processes that it starts."""

from __future__ import annotations

import multiprocessing
import os
import site
import sys
from importlib.machinery import PathFinder


def preload() -> None:
    """Let a fork server that starts later import what this process has of the package, besides what the caller chose.

    It does not import the program, which may import libraries that do not survive a fork.
    """
    from multiprocessing import forkserver  # Windows has none

    chosen = [name for name in getattr(forkserver._forkserver, "_preload_modules", []) if name != "__main__"]
    multiprocessing.set_forkserver_preload([*dict.fromkeys([*chosen, *preloaded()])])


def preloaded() -> list[str]:
    """Return the modules that a fork server imports: without those for PyTorch, which workers import after the fork.

    It looks for them in the current folder, in PYTHONPATH and among the installed packages, but not where a script lies
    or what it adds to `sys.path`. If it would not find this very package first, workers import it, as this program did.
    """
    folder = [] if sys.flags.safe_path else [""]
    listed = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    places = [*folder, *filter(None, listed.split(os.pathsep)), *site.getsitepackages()]
    found = PathFinder.find_spec("dataformats", places)
    is_same = found is not None and found.origin == sys.modules["dataformats"].__file__
    ours = (name for name in list(sys.modules) if name.startswith("dataformats.") and ".pytorch" not in name)
    return ["numpy", *(ours if is_same else [])]
