"""Atomic publishing of files and folders, and writes that may be repeated."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["publish", "publish_together", "remove", "sync", "write_all", "write_bytes"]


def publish(partial: Path, final: Path) -> None:
    """Rename a complete file or folder to its final name, and sync the folder that holds it.

    An existing `final` is replaced. If either is a folder, it is moved aside first and deleted afterwards.
    """
    aside = None
    if final.exists() and not final.is_symlink() and (final.is_dir() or partial.is_dir()):
        aside = final.with_name(f"{final.name}.{secrets.token_hex(4)}.partial")
        os.rename(final, aside)
    os.replace(partial, final)
    sync(final.parent)
    if aside is not None:
        remove(aside)


def publish_together(now: Mapping[Path, Path | None]) -> None:
    """Rename files that belong together, from their present to their final names, the last one last.

    They cannot be replaced at once. So old files are moved aside, in the opposite order, before the first new one has
    its name: old and new ones are never visible together. An error moves all of them back.

    Args:
        now: Final name to present path; `None` deletes the file of that name. All are in one folder.
    """
    moved: list[tuple[Path, Path]] = []

    def move(path: Path, there: Path) -> None:
        os.rename(path, there)
        moved.append((path, there))

    aside = {final: final.with_name(f"{final.name}.{secrets.token_hex(4)}.partial") for final in reversed([*now])}
    try:
        for final, place in aside.items():
            if final.exists() or final.is_symlink():
                move(final, place)
        for final, path in now.items():
            if path is not None:
                move(path, final)
    except BaseException:
        for path, there in reversed(moved):
            os.rename(there, path)
        raise
    sync(next(iter(now)).parent)
    for place in aside.values():
        remove(place)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file atomically: a reader sees the old or the new one, even with several writers at once."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of `data` at byte `offset`; one call of the system may write less than it is given."""
    rest = memoryview(data)
    while len(rest):
        n = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[n:], offset + n


def remove(path: Path) -> None:
    """Delete a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder for this
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
