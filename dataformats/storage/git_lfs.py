"""Pointers of git-lfs: small texts in the place of files that were not fetched."""

from __future__ import annotations

import shlex

from dataformats.interfaces.stored_file import StoredFile

POINTER = "a git-lfs pointer"


def is_pointer(head: bytes) -> bool:
    """Return True if a file that begins with these bytes is a pointer."""
    return head.startswith(b"version https://git-lfs.github.com/")


def pull_command(file: StoredFile) -> str:
    """Return the remedy of an error about a pointer: the command that fetches the file."""
    return f"Run git lfs pull --include {shlex.quote(file.basename)}"
