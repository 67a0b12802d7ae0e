"""The version of Syrah whose names and files these modules have."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["version", "version_tuple"]


class _Version(NamedTuple):
    major: int
    minor: int
    bugfix: int


version_tuple: _Version = _Version(0, 2, 0)
version: str = ".".join(map(str, version_tuple))
