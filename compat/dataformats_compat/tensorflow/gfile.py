"""`tf.io.gfile`: the local file system, under TensorFlow's names."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Callable
from typing import Any

__all__ = ["GFile", "copy", "exists", "glob", "isdir", "listdir", "makedirs", "remove", "rename", "rmtree"]


def glob(pattern: Any) -> list[str]:
    """Return the paths that match a pattern, or one of several, sorted."""
    patterns = [pattern] if isinstance(pattern, str | os.PathLike) else pattern
    return sorted(path for one in patterns for path in _glob.glob(os.fspath(one)))


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        FileExistsError: `dst` exists, and `overwrite` is false.
    """
    if not overwrite and os.path.exists(dst):
        raise FileExistsError(f"{os.fspath(dst)!r} exists. Pass overwrite=True to replace it")
    shutil.copyfile(src, dst)


def makedirs(path: Any) -> None:
    """Create a folder and those above it; it may exist."""
    os.makedirs(path, exist_ok=True)


GFile = open
"""Opens a file."""
exists: Callable[..., bool] = os.path.exists
"""Returns True if a path exists."""
isdir: Callable[..., bool] = os.path.isdir
"""Returns True for a folder."""
listdir: Callable[..., Any] = os.listdir
"""Returns the names in a folder."""
remove: Callable[..., Any] = os.remove
"""Deletes a file."""
rename: Callable[..., Any] = os.rename
"""Renames a file."""
rmtree: Callable[..., Any] = shutil.rmtree
"""Deletes a folder with all files in it."""
