"""Renames that replace nothing, or exchange two names."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_Flag = Literal["new", "exchange"]


def rename_new(source: Path, destination: Path) -> None:
    """Rename a file or folder, unless something has the new name.

    Raises:
        FileExistsError: Something has the new name.
    """
    if not _rename(source, destination, "new"):
        if os.path.lexists(destination):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(destination))
        os.rename(source, destination)


def exchange(new: Path, old: Path) -> None:
    """Exchange the names of two files or folders: in one step, or else in three, all or none of them."""
    if _rename(new, old, "exchange"):
        return
    aside = replaced_path(old)
    rename_all([(old, aside), (new, old), (aside, new)])


def rename_all(moves: Iterable[tuple[Path, Path]], new: Path | None = None) -> None:
    """Rename files or folders, source to destination, in this order; an error renames all of them back.

    Raises:
        FileExistsError: Something has the name `new`, which is the destination of one of them.
    """
    done: list[tuple[Path, Path]] = []
    try:
        for source, destination in moves:
            rename_new(source, destination) if destination == new else os.rename(source, destination)
            done.append((source, destination))
    except BaseException:
        for source, destination in reversed(done):
            os.rename(destination, source)
        raise


def replaced_path(final: Path) -> Path:
    """Return where a file is until the one that replaces it has its name, if they cannot be exchanged."""
    return final.with_name(f"{final.name}.replaced.partial")


def _rename(source: Path, destination: Path, flag: _Flag) -> bool:
    """Return False if the operating system or the file system has no such rename."""
    call = _system_call()
    return call is not None and call(source, destination, flag)


@functools.cache
def _system_call() -> Callable[[Path, Path, _Flag], bool] | None:
    is_mac = sys.platform == "darwin"
    here = -2 if is_mac else -100  # AT_FDCWD
    flags = {"new": 4, "exchange": 2} if is_mac else {"new": 1, "exchange": 2}
    try:
        function: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameatx_np" if is_mac else "renameat2")
    except (AttributeError, OSError, TypeError):
        return None

    def call(source: Path, destination: Path, flag: _Flag) -> bool:
        if function(here, os.fsencode(source), here, os.fsencode(destination), flags[flag]) == 0:
            return True
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            return False
        raise OSError(number, os.strerror(number), str(source), None, str(destination))

    return call
