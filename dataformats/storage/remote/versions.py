"""Sizes and versions of remote files, as their servers tell them: a file that was opened must not change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

_TAGS = ("ETag", "etag", "blob_id", "created")  # `blob_id` of Hugging Face, `created` of files in memory
_VERSION_KEYS = (*_TAGS, "mtime", "LastModified", "last_modified", "Last-Modified")
_CHECK_S = 1.0
_PATIENCE = 10  # a listing is read again after this many times as long as it takes


class Versions:
    """The sizes and versions that a server reported last, for one file or for all files of a listing.

    Args:
        ask: Requests them: path to `identity_of`.
        seconds: How long that took before.

    Attributes:
        asked: When they were requested, on the monotonic clock.
        found: The last result of `ask`; empty before.
    """

    def __init__(self, ask: Callable[[], dict[str, tuple[str, ...]]], seconds: float = 0.0) -> None:
        self._ask = ask
        self._seconds = seconds
        self.asked: float = time.monotonic()
        self.found: dict[str, tuple[str, ...]] = {}

    @property
    def is_due(self) -> bool:
        """False if they were requested less than a second ago, or if that takes long and would hold up the reads."""
        return time.monotonic() - self.asked >= max(_CHECK_S, _PATIENCE * self._seconds)

    def update(self) -> None:
        """Request them if that is due."""
        if self.is_due:
            begin = self.asked = time.monotonic()
            self.found = self._ask()
            self._seconds = time.monotonic() - begin


def identity_of(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the size of a file, and its version: the first that the file system tells, the same in `info` and `ls`."""
    version = next((info[key] for key in _VERSION_KEYS if info.get(key) is not None), None)
    if isinstance(version, datetime) and version.tzinfo:  # fsspec before 2026.9: of files in memory, `ls` tells seconds
        version = version.timestamp()
    size = str(info.get("size"))  # some file systems tell none of folders
    return (size,) if version is None else (size, str(version).strip('"'))


def has_tag(info: Mapping[str, Any]) -> bool:
    """Return True if the version of a file is more than a time."""
    return any(info.get(key) is not None for key in _TAGS)
