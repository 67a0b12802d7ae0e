"""The names of the files of a data set: `part-0`, `part-00000`, ..., in the order of their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dataformats.errors import FormatError
from dataformats.interfaces import natural_key

__all__ = ["in_order", "is_part", "part_names"]

_PART = re.compile(r"part-(\d+)", re.ASCII)


def is_part(name: str) -> bool:
    """Return True for `part-` and a number, padded or not."""
    return _PART.fullmatch(name) is not None


def in_order(names: Sequence[str]) -> list[str]:
    """Return file names, or whole paths, in reading order: parts of one folder by their numbers.

    Raises:
        FormatError: Two parts of one folder have the same number.
    """
    ordered = sorted(names, key=natural_key)  # which has the numbers of one folder in order
    seen: dict[tuple[str, int], str] = {}
    for name in ordered:
        folder, _, last = name.rpartition("/")
        part = _PART.fullmatch(last)
        if part is None:
            continue
        other = seen.setdefault((folder, int(part[1])), name)
        if other != name:
            raise FormatError(
                "two files are the same part",
                path=name,
                expected="one file of each number",
                found=f"{other.rpartition('/')[2]} and {last}",
                remedy="Move one away, or pass a list of the files",
            )
    return ordered


def part_names(count: int) -> list[str]:
    """Return `part-00000`, `part-00001` and so on."""
    return [f"part-{number:05d}" for number in range(count)]
