"""Find what a source lacks: shards, by names of the form `train-00002-of-00004`, fields, and common class names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dataformats.errors import FormatError
from dataformats.interfaces import Reader, Table
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Type

OF = "-of-"
_SHARD = re.compile(r"(.*?)(\d+)-of-(\d+)([^/]*)", re.DOTALL)
_MAX_NAMES = 100  # class names in a note
_REMEDY = "Get it, or list the files to read without it."


class IncompleteDataError(FormatError):
    """A shard is missing, or a field cannot be read: `open` warns, `info` has a note and `verify` a finding."""


class AmbiguousDataError(IncompleteDataError):
    """Sound data may be meant in another way than they are read: `verify` has no finding."""


class ShardSet(NamedTuple):
    """Names of shards that differ by their number alone.

    Attributes:
        stem: What comes before the number.
        digits: The count of shards, as the names spell it.
        ending: What comes after the count.
        names: Number to name, of the shards that are there.
    """

    stem: str
    digits: str
    ending: str
    names: dict[int, str]

    @property
    def n_shards(self) -> int:
        """The count of shards that the names state."""
        return int(self.digits)

    @property
    def n_missing(self) -> int:
        """The count of shards that are not there."""
        return self.n_shards - len(self.names)

    def missing(self) -> Iterator[str]:
        """Yield the names of the shards that are not there, in order."""
        first = int(self.n_shards in self.names)  # some programs number shards from 1
        for number in range(first, first + self.n_shards):
            if number not in self.names:
                yield f"{self.stem}{number:0{len(self.digits)}}{OF}{self.digits}{self.ending}"


def missing_shards(
    entries: Sequence[StoredFile | Folder], files: Sequence[Sequence[StoredFile]]
) -> Iterator[IncompleteDataError]:
    """Yield an error for each set of shards that is not all there, in a folder or behind a glob.

    A glob may choose some of the shards that lie there, and a list of files means these files.

    Args:
        entries: The files, folders and globs of a path.
        files: The data files of each.
    """
    for entry, chosen in zip(entries, files, strict=True):
        if isinstance(entry, Folder):
            yield from _missing(entry, chosen)


def lacking_parts(reader: Reader | Table, declared: Mapping[str, Type]) -> Iterator[IncompleteDataError]:
    """Yield an error for each field of the files that a source of the reader lacks, and for what the files lack."""
    for name, error in reader.left_out.items():
        what = f"the field {name!r} is left out: {getattr(error, 'what', error)}"
        yield IncompleteDataError(what, path=reader.files[0].name, remedy=getattr(error, "remedy", None))
    for what in reader.lacking:
        yield IncompleteDataError(what, path=reader.files[0].name)
    for what in reader.warnings:
        yield AmbiguousDataError(what, path=reader.files[0].name)
    stored: Mapping[str, Type] = reader.spec or {}
    types = {name: kind.named_as(stored.get(name, kind)) for name, kind in {**stored, **declared}.items()}
    yield from class_notes(types)


def class_notes(types: Mapping[str, Type]) -> Iterator[AmbiguousDataError]:
    """Yield a note for each field whose numbers have other class names in other files."""
    for name, kind in types.items():
        if kind.class_conflict:
            (path, names), (there, others) = kind.class_conflict
            n = next(n for n, pair in enumerate(zip(names, others, strict=False)) if len({*pair}) > 1)
            what = f"field {name!r}: class {n} is {names[n]!r:.80} in {path!r} and {others[n]!r:.80} in {there!r}"
            listed = "[...]" if len(names) > _MAX_NAMES else [*names]
            spec = f"spec={{{name!r}: {{'type': {str(kind)!r}, 'class_names': {listed}}}}}"
            same = f"If the numbers mean the same, pass {spec} to open or with_spec"
            yield AmbiguousDataError(what, remedy=f"{same}; else renumber the classes of one with map and convert")


def incomplete_sets(names: Iterable[str]) -> Iterator[ShardSet]:
    """Yield the sets of shards among names that are not all there."""
    found: defaultdict[tuple[str, str, str], dict[int, str]] = defaultdict(dict)
    for name in names:
        if (match := _SHARD.fullmatch(name)) is not None:
            stem, number, digits, ending = match.groups()
            found[stem, digits, ending][int(number)] = name
    sets = (ShardSet(*key, numbered) for key, numbered in found.items())
    return (shards for shards in sets if shards.n_missing > 0)


def _missing(folder: Folder, files: Sequence[StoredFile]) -> Iterator[IncompleteDataError]:
    places: defaultdict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        if OF in file.basename:
            places[file.name.rpartition("/")[0]].append(file)
    for inside in places.values():
        chosen = {file.basename for file in inside}
        beside = inside[0].folder() if folder.explicit else None  # a glob chooses some of the shards there
        for shards in incomplete_sets([*chosen, *(beside.names() if beside is not None else ())]):
            if not chosen.isdisjoint(shards.names.values()):
                what = f"{shards.n_missing} of {shards.n_shards} shards are missing, such as {next(shards.missing())!r}"
                yield IncompleteDataError(what, path=folder.name, remedy=_REMEDY)
