"""Find the files of a damaged dataset, and what their sidecars say about them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from dataformats.errors import FormatError
from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.interfaces import Backend, ShardSalvage, SupportsRepair
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.detection import choose_files
from dataformats.reading.incomplete_data import OF, incomplete_sets
from dataformats.reading.salvage_by_reading import salvage_by_reading
from dataformats.registry import backends
from dataformats.sidecars.file_comparison import compare_entry, fitting_metadata
from dataformats.sidecars.sidecar import Sidecar, load_sidecar
from dataformats.spec import Spec

_NUMBER = re.compile(r"\d+")
_MAX_NAMES = 100_000
_PARTIAL = ".partial"


@dataclass(frozen=True, slots=True)
class DamagedDataset:
    """A dataset that is to be repaired.

    Attributes:
        backend: Its format.
        entries: The files and folders that the caller named.
        shards: The files of each shard.
        salvages: The salvage of each shard; the error if nothing can be saved.
        payload: The codec of whole records.
        metadata: The metadata of its sidecar.
        missing: Files that there should be.
        notes: Errors of sidecars, and indexes that are not used.
    """

    backend: Any
    entries: Sequence[StoredFile | Folder]
    shards: Sequence[Sequence[StoredFile]]
    salvages: Sequence[ShardSalvage | FormatError]
    payload: str
    metadata: Mapping[str, Any]
    missing: list[str]
    notes: list[str]

    @property
    def first(self) -> ShardSalvage:
        """The salvage of the first shard that has one."""
        for found in self.salvages:
            if isinstance(found, ShardSalvage):
                return found
        raise next(found for found in self.salvages if isinstance(found, FormatError))

    @property
    def is_sharded(self) -> bool:
        """True for shards, even if there is only one."""
        if self.backend.in_folders and not isinstance(self.backend, SupportsRepair):
            return False  # the folder is the dataset
        is_folder = isinstance(self.entries[0], Folder) and self.entries[0].name != shard_name(self.shards[0])
        return len(self.shards) > 1 or is_folder


def find_damaged(entries: Sequence[StoredFile | Folder], format: str | None, payload: str | None) -> DamagedDataset:
    """Return a dataset; only the parts that locate its records have been read.

    Args:
        entries: Its files and folders.
        format: Its format; `None` if the caller does not know it.
        payload: The codec of its whole records; `None` if the caller does not know it.
    """
    missing: list[str] = []
    notes: list[str] = []
    metadata = _metadata(entries, missing, notes)
    known = metadata.get("format")
    backend, files = _choose(entries, format or (known if known in backends else None))
    usual = backend.guess_payload([])
    if known not in (None, backend.name):
        notes.append(f"the sidecar was ignored: it is of the format {known}")
        metadata = {}
    every = list(chain.from_iterable(files))
    if isinstance(backend, SupportsRepair):
        shards, salvage = backend.shards(every), backend.salvage
    else:
        shards = [every] if backend.in_folders else [[file] for file in every]
        salvage = functools.partial(salvage_by_reading, backend)
    _note_names(shards, missing, notes)
    chosen = payload or metadata.get("payload") or usual
    salvages: list[ShardSalvage | FormatError] = []
    stored: Spec | None = None
    for shard in shards:
        try:
            found = salvage(shard, chosen)
            stored = stored or found.stored
            if codecs_of(found.stored) != codecs_of(stored):
                raise FormatError("the fields differ from the first shard's", path=shard_name(shard))
            salvages.append(found)
        except FormatError as error:
            salvages.append(error)
    return DamagedDataset(backend, entries, shards, salvages, chosen, metadata, missing, notes)


def _choose(entries: Sequence[StoredFile | Folder], format: str | None) -> tuple[Backend, list[list[StoredFile]]]:
    """Return the format and the files: by the content, or if damage hides it, by the names."""
    try:
        return choose_files(entries, format)
    except FormatError:
        entry = entries[0]
        names = [entry.basename] if isinstance(entry, StoredFile) else entry.names()
        plain = [name.removesuffix(_PARTIAL) for name in names]
        matching = [one.name for one in backends.values() if any(map(one.matches_name, plain))]
        if format is not None or len(matching) != 1:
            raise
        return choose_files(entries, matching[0])


def _metadata(entries: Sequence[StoredFile | Folder], missing: list[str], notes: list[str]) -> dict[str, Any]:
    """Return the metadata of the first sound sidecar; notes which files it lists that are missing or differ."""
    for entry in entries:
        own = entry.file(entry.names()[0]) if isinstance(entry, Folder) and entry.explicit else entry
        sidecar = _sidecar(own, notes)
        if sidecar is not None:
            metadata, found = fitting_metadata(sidecar, functools.partial(compare_entry, sidecar.name, own))
            missing += found.missing
            others = [error for error in found.errors() if error.path not in found.missing]
            notes += [f"{error.path}: {error.what}" for error in others]
            return dict(metadata)
        folder = own.folder() if isinstance(own, StoredFile) else None
        shared = None if folder is None else _sidecar(folder, notes)
        if shared is not None and own.basename in {listed["name"] for listed in shared.metadata.get("files") or ()}:
            return dict(shared.metadata)
    return {}


def _sidecar(entry: StoredFile | Folder, notes: list[str]) -> Sidecar | None:
    try:
        return load_sidecar(entry)
    except FormatError as error:
        notes.append(f"{error.path}: ignored, because {error.what}")
        return None


def _note_names(shards: Sequence[Sequence[StoredFile]], missing: list[str], notes: list[str]) -> None:
    """Note the missing shards that the names show, and the indexes beside the files."""
    names = [shard_name(shard) for shard in shards]
    missing += [name for name in _missing_names(names) if name not in missing]
    for file in chain.from_iterable(shards):
        index = file.file_beside(file.basename + INDEX_SUFFIX)
        if index is not None:
            notes.append(f"{index.name}: not used")


def _missing_names(names: Sequence[str]) -> Iterator[str]:
    """Yield the names of missing shards, and the gaps of names that differ by one number alone."""
    for shards in incomplete_sets(names):
        yield from islice(shards.missing(), _MAX_NAMES)
    series: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        numbered = [*_NUMBER.finditer(name)]
        if not numbered or OF in os.path.basename(name):
            return
        last = numbered[-1]
        series.setdefault((name[: last.start()], name[last.end() :]), {})[int(last[0])] = last[0]
    if len(names) < 2 or len(series) > 1:
        return
    ((before, behind), found), *_ = series.items()
    numbers = range(min(found), max(found) + 1)
    width = min(map(len, found.values()))
    if len(numbers) <= 2 * len(found):  # others may be dates
        yield from (f"{before}{number:0{width}d}{behind}" for number in numbers if number not in found)


def shard_name(shard: Sequence[StoredFile]) -> str:
    """Return the name of a shard: its file, or the folder of its files."""
    return shard[0].name if len(shard) == 1 else os.path.dirname(shard[0].name)


def codecs_of(stored: Spec | None) -> dict[str, str] | None:
    """Return field to codec; `None` if there are no fields."""
    return None if stored is None else {name: kind.codec for name, kind in stored.items()}
