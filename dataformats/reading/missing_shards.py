"""Find shards that are missing, by names of the form `train-00002-of-00004`."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import Folder, StoredFile

_OF = "-of-"
_SHARD = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)", re.DOTALL)
_Name = tuple[str, str, str]
"""The name of shards: what comes before the number, the count, and the ending."""
_REMEDY = "Get it, or list the files to read without it."


class MissingShardsError(FormatError):
    """A folder or glob has some shards of a dataset, and not all: `open` warns, and `verify` has a finding."""


def missing_shards(
    entries: Sequence[StoredFile | Folder], files: Sequence[Sequence[StoredFile]]
) -> Iterator[MissingShardsError]:
    """Yield an error for each set of shards that is not all there, in a folder or behind a glob.

    A glob may choose some of the shards that lie there, and a list of files means these files.

    Args:
        entries: The files, folders and globs of a path.
        files: The data files of each.
    """
    for entry, chosen in zip(entries, files, strict=True):
        if isinstance(entry, Folder):
            yield from _missing(entry, chosen)


def _missing(folder: Folder, files: Sequence[StoredFile]) -> Iterator[MissingShardsError]:
    places: defaultdict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        if _OF in file.basename:
            places[file.name.rpartition("/")[0]].append(file)
    for inside in places.values():
        chosen = _shard_sets(file.basename for file in inside)
        beside = inside[0].folder() if folder.explicit else None
        there = {} if beside is None else _shard_sets(beside.names())  # a glob chooses some of them
        yield from _errors(folder, {key: numbers | there.get(key, set()) for key, numbers in chosen.items()})


def _errors(folder: Folder, sets: Mapping[_Name, set[int]]) -> Iterator[MissingShardsError]:
    for (stem, count, ending), numbers in sets.items():
        n, first = int(count), int(int(count) in numbers)  # some programs number shards from 1
        if len(numbers) < n:
            number = next(number for number in itertools.count(first) if number not in numbers)
            name = f"{stem}{number:0{len(count)}}{_OF}{count}{ending}"
            what = f"{n - len(numbers)} of {n} shards are missing, such as {name!r}"
            yield MissingShardsError(what, path=folder.name, remedy=_REMEDY)


def _shard_sets(names: Iterable[str]) -> dict[_Name, set[int]]:
    """Return the numbers of the shards that have the same name otherwise."""
    found: defaultdict[_Name, set[int]] = defaultdict(set)
    for name in names:
        if (match := _SHARD.fullmatch(name)) is not None:
            stem, number, count, ending = match.groups()
            found[stem, count, ending].add(int(number))
    return found
