"""Expand braces in paths: `shard-{000..999}.tar`, `{train,val}.tar`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, product
from math import prod

_BRACES = re.compile(r"\{([0-9]{1,18})\.\.([0-9]{1,18})\}|\{([^{}]*,[^{}]*)\}")
_MAX_NAMES = 10**6
_SHOWN = 200  # letters of a pattern in a message


def expand_braces(text: str) -> list[str]:
    """Return the paths that a path with braces stands for, in order; the path itself if it has none.

    `{008..011}` is the numbers from 8 to 11, with as many digits as the longer end if one begins with 0; `{a,b}` is `a`
    and `b`. Other braces are part of the name, the outer ones of nested braces too.

    Raises:
        ValueError: They are more than a million.

    Example:
        >>> from dataformats.storage.brace_patterns import expand_braces
        >>> expand_braces("x-{08..10}.tar")
        ['x-08.tar', 'x-09.tar', 'x-10.tar']
    """
    literals, choices, end = list[str](), list[Sequence[str]](), 0
    matches = [*_BRACES.finditer(text)]
    count = prod(map(_count, matches))
    if count > _MAX_NAMES:  # before any path is made
        raise ValueError(f"{text[:_SHOWN]!r} is more than {_MAX_NAMES} paths: expected at most {_MAX_NAMES}")
    for match in matches:
        literals.append(text[end : match.start()])
        first, last, names = match.groups()
        choices.append(names.split(",") if names else _numbers(first, last))
        end = match.end()
    return ["".join(chain(*zip(literals, chosen, strict=True), [text[end:]])) for chosen in product(*choices)]


def _count(match: re.Match[str]) -> int:
    first, last, names = match.groups()
    return names.count(",") + 1 if names else abs(int(last) - int(first)) + 1


def _numbers(first: str, last: str) -> list[str]:
    low, high = int(first), int(last)
    is_padded = any(len(number) > 1 and number[0] == "0" for number in (first, last))
    width, step = max(len(first), len(last)) if is_padded else 0, 1 if low <= high else -1
    return [f"{number:0{width}d}" for number in range(low, high + step, step)]
