"""Files that appear whole or not at all, and writes that can be done again."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

__all__ = ["publish", "remove", "sync", "write_all", "write_bytes"]


def publish(partial: Path, final: Path) -> None:
    """Give a finished file or folder its name in one rename, and sync the folder that holds it.

    What stands at `final` is replaced; where one of both is a folder, it is moved aside first and deleted afterwards.
    """
    aside = None
    if final.exists() and not final.is_symlink() and (final.is_dir() or partial.is_dir()):
        aside = final.with_name(f"{final.name}.{secrets.token_hex(4)}.partial")
        os.rename(final, aside)
    os.replace(partial, final)
    sync(final.parent)
    if aside is not None:
        remove(aside)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old one or the new one, also when several write at once."""
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
    """Write all of `data` at byte `offset`; the system may take less than it was given in one call."""
    rest = memoryview(data)
    while len(rest):
        n = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[n:], offset + n


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, onto the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder for this
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
