"""Counts of file operations by strace, to compare with the shim's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.deep.durability.faults.shim import Operation

# System call to kind. The shim tells creating from opening, and files from folders; here they count as one.
CHANGING = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), "open"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), "unlink"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("link", "linkat"), "link"),
    **dict.fromkeys(("symlink", "symlinkat"), "symlink"),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), "write"),
    **dict.fromkeys(("sendfile", "copy_file_range"), "copy"),
    **dict.fromkeys(("fsync", "fdatasync"), "fsync"),
    **dict.fromkeys(("ftruncate", "truncate"), "ftruncate"),
    "flock": "flock",
    "fallocate": "fallocate",
    "fchmod": "chmod",
}
_MERGED = {"create": "open", "rmdir": "unlink"}

# Calls that change nothing. A close that the C library makes itself, for a listed folder, is not seen by the shim.
_READING = {
    *("stat", "lstat", "newfstatat", "fstat", "statx", "fstatfs", "statfs", "access", "faccessat", "faccessat2"),
    *("read", "pread64", "readv", "preadv", "preadv2", "lseek", "readlink", "readlinkat", "getdents64", "getcwd"),
    *("close", "ioctl", "fcntl", "mmap", "fadvise64", "dup", "execve", "poll", "epoll_ctl", "munmap", "io_uring_enter"),
}
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(")


def counts_of_shim(operations: Iterable[Operation]) -> Counter[str]:
    """Return how many operations of each kind the shim counted."""
    kinds = (_MERGED.get(operation.kind, operation.kind) for operation in operations)
    return Counter(kind for kind in kinds if kind not in ("close", "close-read"))


def counts_of_strace(lines: Sequence[str], prefix: str) -> Counter[str]:
    """Return how many there are in the output of `strace -y`, for paths that begin with a prefix."""
    return Counter(CHANGING[call] for call in _calls(lines, prefix) if call in CHANGING)


def unknown_calls(lines: Sequence[str], prefix: str) -> set[str]:
    """Return the system calls on such paths that might change something, and that the shim does not know."""
    return {*_calls(lines, prefix)} - CHANGING.keys() - _READING


def _calls(lines: Sequence[str], prefix: str) -> list[str]:
    # A folder that is opened to be listed: the C library does that itself.
    found = (_CALL.match(line) for line in lines if prefix in line and "O_DIRECTORY" not in line)
    return [call[1] for call in found if call]
