"""A folder with all that it holds, in memory: read from a file system, or written to one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder or a symbolic link.

    Attributes:
        kind: One of these three.
        inode: Its number; two names of one file have the same.
        content: The bytes of a file, or the target of a link.
        time_ns: When the content changed.
    """

    kind: Literal["file", "folder", "link"]
    inode: int
    content: bytes = b""
    time_ns: int = 0


Tree = dict[str, Entry]
"""Path to entry, folders before what they hold; `""` is the folder itself."""


def read_tree(folder: Path, inode: Callable[[int], int] = int) -> Tree:
    """Return the tree of a folder; `inode` maps an inode of the file system to one of the tree."""
    found: Tree = {"": _entry(folder, inode)}
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            entry = found[str(path.relative_to(folder))] = _entry(path, inode)
            if entry.kind == "folder":
                waiting.append(path)
    return found


def write_tree(folder: Path, tree: Tree) -> dict[int, int]:
    """Write a tree over a folder; return the inode of each file there to the inode in the tree."""
    for there in list(os.scandir(folder)):
        shutil.rmtree(there.path) if there.is_dir(follow_symlinks=False) else os.unlink(there.path)
    first: dict[int, str] = {}
    inodes: dict[int, int] = {}
    for name, entry in tree.items():
        path = os.path.join(folder, name)
        if entry.inode in first:
            os.link(first[entry.inode], path, follow_symlinks=False)
            continue
        first[entry.inode] = path
        _write(path, entry, is_root=not name)
        inodes[os.lstat(path).st_ino] = entry.inode
    for name, entry in tree.items():
        os.utime(os.path.join(folder, name), ns=(entry.time_ns, entry.time_ns), follow_symlinks=False)
    return inodes


def same_tree(left: Tree, right: Tree) -> bool:
    """True if two trees differ by times at most."""
    return {name: _facts(entry) for name, entry in left.items()} == {
        name: _facts(entry) for name, entry in right.items()
    }


def _facts(entry: Entry) -> tuple[str, int, bytes]:
    return entry.kind, entry.inode, entry.content


def _entry(path: Path, inode: Callable[[int], int]) -> Entry:
    info = path.lstat()
    number, time_ns = inode(info.st_ino), info.st_mtime_ns
    if path.is_symlink():
        return Entry("link", number, os.fsencode(path.readlink()), time_ns)
    if path.is_dir():
        return Entry("folder", number, b"", time_ns)
    return Entry("file", number, path.read_bytes(), time_ns)


def _write(path: str, entry: Entry, is_root: bool) -> None:
    if entry.kind == "link":
        os.symlink(entry.content, path)
    elif entry.kind == "file":
        with open(path, "xb", buffering=0) as file:
            file.write(entry.content)
    elif not is_root:
        os.mkdir(path)
