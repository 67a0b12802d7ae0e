"""Recognize data by their content, before anything is deleted or continued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dataformats.errors import FormatError
from dataformats.indexing.index_cache import INDEX_SUFFIX
from dataformats.interfaces import Backend, ReaderOptions
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.registry import backends
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX, load_sidecar
from dataformats.storage.files import LocalFile, LocalFolder

__all__ = ["holds_data_of", "records_of_shards", "unrelated_entry", "unrelated_object"]

_SIDECARS = (
    SIDECAR_SUFFIX,
    INDEX_SUFFIX,
    ".journal",
    f".partial{SIDECAR_SUFFIX}",
)  # the last one may come back after a crash


def unrelated_entry(folder: Path) -> Path | None:
    """Return a file or folder in a folder that is not part of a dataset; `None` if all are.

    A file is part of a dataset if a backend finds it by its name, and recognizes its content or the sidecar beside the
    folder lists it. So is its own sidecar, and a folder that holds such a file.
    """
    listed = _listed_names(LocalFolder(folder))
    known: set[Path] = set()
    for name in backends:
        backend = backends.get(name)
        for file in _found(backend, LocalFolder(folder)):
            path = Path(file.name)
            place = path.relative_to(folder)
            names = {folder.name, place.parts[0], place.as_posix()}
            if file.size == 0 or listed & names or backend.sniff(file).match == "yes":
                known |= {path, *path.parents, *(path.with_name(path.name + suffix) for suffix in _SIDECARS)}
    others = (entry for entry in sorted(folder.rglob("*")) if entry not in known)
    # A crash of the machine may bring back the lock of a shard without the shard.
    return next((entry for entry in others if not entry.name.endswith(f".partial{SIDECAR_SUFFIX}")), None)


def unrelated_object(folder: Folder, names: Iterable[str]) -> str | None:
    """Return the first of these objects in a remote folder that is not part of a dataset; `None` if all are.

    An object is part of a dataset if the sidecar beside the folder lists it, or a backend finds it by its name:
    contents are not read.
    """
    listed = _listed_names(folder)
    found = {
        file.name.removeprefix(f"{folder.name}/") for name in backends for file in _found(backends.get(name), folder)
    }
    for name in sorted(name for name in names if not name.endswith("/")):  # some stores list empty folders so
        place = name.rpartition(f"/{folder.basename}/")[2]
        data = place.removesuffix(SIDECAR_SUFFIX).removesuffix(INDEX_SUFFIX)
        if not {place, data, place.partition("/")[0]} & (listed | found):
            return name
    return None


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


def _listed_names(folder: Folder) -> set[str]:
    """Return the places of the files that the sidecar of a folder lists.

    Earlier sidecars list no files of folders: of these, the name of the folder in it, or of the folder itself.
    """
    try:
        sidecar = load_sidecar(folder)
    except FormatError:
        return set()
    metadata = [] if sidecar is None else [sidecar.metadata, sidecar.previous or {}]
    entries = [entry for known in metadata for entry in known.get("files") or ()]
    inside = {(entry["name"], part["name"]) for entry in entries for part in entry.get("parts", ())}
    whole = {entry["name"] for entry in entries if "parts" not in entry}
    return whole | {place for name, part in inside for place in (part, f"{name}/{part}")}
