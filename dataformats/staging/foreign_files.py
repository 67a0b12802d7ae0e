"""Recognize data by their content, before anything is deleted or continued."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from dataformats.errors import FormatError
from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.interfaces import Backend, BlobBackend, FieldsBackend, ReaderOptions
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.registry import backends
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX, load_sidecar
from dataformats.storage.files import LocalFile, LocalFolder

Entry = TypeVar("Entry", Path, str)

# A crash of the machine may bring back the lock or the journal of a shard without the shard.
_OF_PARTIAL = (f".partial{SIDECAR_SUFFIX}", ".partial.journal")
_SIDECARS = (SIDECAR_SUFFIX, INDEX_SUFFIX, ".journal")


def unrelated_entry(folder: Path) -> Path | None:
    """Return a file or folder in a folder that is not part of its dataset; `None` if all are.

    A file is part of the dataset if the sidecar beside the folder lists it, or if one backend that writes, or the one
    of a sidecar without a list, finds all such files by their names, and recognizes their content. So is its own
    sidecar, and a folder that holds such a file.
    """
    listed, described = _listed_names(LocalFolder(folder))
    entries = [entry for entry in sorted(folder.rglob("*")) if not entry.name.endswith(_OF_PARTIAL)]

    def known(backend: Backend) -> set[Path]:
        found: set[Path] = set()
        for file in itertools.chain.from_iterable((one, *one.covers) for one in _found(backend, LocalFolder(folder))):
            path = Path(file.name)
            place = path.relative_to(folder)
            is_listed = bool(listed & {folder.name, *place.parts[:1], place.as_posix()})
            is_data = backend.name == described or _claims(backend)
            if is_listed or (is_data and (file.size == 0 or backend.sniff(file).match == "yes")):
                found |= {path, *path.parents, *(path.with_name(path.name + suffix) for suffix in _SIDECARS)}
        return found

    return _first_unknown(entries, map(known, backends.values()))


def unrelated_object(folder: Folder, names: Iterable[str]) -> str | None:
    """Return the first of these objects in a remote folder that is not part of its dataset; `None` if all are.

    An object is part of the dataset if the sidecar beside the folder lists it, or if one backend that writes finds all
    such objects by their names: contents are not read.
    """
    listed, described = _listed_names(folder)
    objects = sorted(name for name in names if not name.endswith("/"))  # some stores list empty folders so

    def known(backend: Backend) -> set[str]:
        files = _found(backend, folder) if backend.name == described or _claims(backend) else ()
        data = listed | {file.name.removeprefix(f"{folder.name}/") for file in files}
        return {name for name in objects if data & _places(name, folder)}

    return _first_unknown(objects, map(known, backends.values()))


def _first_unknown(entries: Sequence[Entry], known: Iterable[set[Entry]]) -> Entry | None:
    """Return the first entry that the backend which knows most does not know; `None` if one knows all of them."""
    unknown: list[list[Entry]] = [[entry for entry in entries if entry not in one] for one in known]
    fewest = min(unknown, key=len)
    return fewest[0] if fewest else None


def _claims(backend: Backend) -> bool:
    """True if files of the format are data for certain, and can be written again."""
    return isinstance(backend, BlobBackend | FieldsBackend) and backend.folder_rank == 0


def _places(name: str, folder: Folder) -> set[str]:
    place = name.rpartition(f"/{folder.basename}/")[2]
    return {place, place.removesuffix(SIDECAR_SUFFIX).removesuffix(INDEX_SUFFIX), place.partition("/")[0]}


def holds_data_of(path: Path, backend: Backend) -> bool:
    """Return True if a file, or every file that `backend` finds in a folder, is of its format, perhaps damaged."""
    if path.is_symlink():
        return False
    files = list(_found(backend, LocalFolder(path))) if path.is_dir() else [LocalFile(path)]
    return bool(files) and all(file.size == 0 or backend.sniff(file).match != "no" for file in files)


def records_of_shards(files: Sequence[StoredFile], backend: Backend) -> list[tuple[str, int]]:
    """Return the path and the records of each shard that consists of some of these files, in reading order.

    Raises:
        FormatError: One cannot be opened.
    """
    try:
        summaries = backend.open(files, ReaderOptions()).file_summaries() if files else []
    finally:
        for file in files:
            file.release()
    return [(name, records) for name, records, _ in summaries]


def _found(backend: Backend, folder: Folder) -> Iterator[StoredFile]:
    try:
        yield from backend.find(folder)
    except FormatError:
        return  # not a dataset of this format


def _listed_names(folder: Folder) -> tuple[set[str], str | None]:
    """Return the places of the files that the sidecar of a folder lists, and its format if a list is missing.

    Earlier sidecars list no files of folders: of these, the name of the folder in it, or of the folder itself.
    """
    try:
        sidecar = load_sidecar(folder)
    except FormatError:
        return set(), None
    metadata = [] if sidecar is None else [sidecar.metadata, sidecar.previous or {}]
    entries = [entry for known in metadata for entry in known.get("files") or ()]
    inside = {(entry["name"], part["name"]) for entry in entries for part in entry.get("parts", ())}
    whole = {entry["name"] for entry in entries if "parts" not in entry}
    listed = whole | {place for name, part in inside for place in (part, f"{name}/{part}")}
    return listed, next((known.get("format") for known in metadata if known and not known.get("files")), None)
