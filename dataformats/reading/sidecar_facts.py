"""Find the sidecar facts (payload, spec, format) that hold for all files of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataformats.errors import FormatError, Remedy
from dataformats.indexing.sidecar import load_sidecar
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.registry import backends

__all__ = ["format_of_empty_file", "sidecar_facts"]

_MAX_SIDECARS = 64


def sidecar_facts(
    entries: Sequence[StoredFile | Folder], files: Sequence[StoredFile], needed: Sequence[str]
) -> dict[str, Any]:
    """Return the facts of the sidecars: of each file, or of the folder that it was written in.

    Args:
        entries: The files and folders of a path.
        files: The data files in them.
        needed: The facts in which all sidecars must agree.

    Raises:
        FormatError: A sidecar is damaged, or two disagree about a needed fact.
    """
    listed = [part for entry in entries for part in _globbed(entry)]
    if len(entries) == 1 and isinstance(entries[0], Folder) and load_sidecar(entries[0]) is None:
        listed = [*files] or listed  # a folder without a sidecar may hold files with one
    folders = _FolderFacts()
    found = [(entry.name, load_sidecar(entry) or folders.of(entry) or {}) for entry in listed[:_MAX_SIDECARS]]
    first_name, first = found[0]
    for entry_name, facts in found:
        for name in needed:
            if facts.get(name) != first.get(name):
                raise FormatError(
                    f"its sidecar and that of {first_name!r} disagree about the {name}",
                    path=entry_name,
                    expected=first.get(name),
                    found=facts.get(name),
                    remedy=Remedy("Pass {payload} and {spec}.", payload=..., spec=...),
                )
    return first


def format_of_empty_file(entries: Sequence[StoredFile | Folder]) -> str | None:
    """Return the format that the sidecar of a single empty file names; `None` for anything else."""
    entry = entries[0]
    if len(entries) > 1 or isinstance(entry, Folder) or entry.size:
        return None
    format = sidecar_facts(entries, [], ()).get("format")
    return format if format in backends else None


def _globbed(entry: StoredFile | Folder) -> Sequence[StoredFile | Folder]:
    if isinstance(entry, Folder) and entry.explicit:
        return [entry.file(name) for name in entry.names()]
    return [entry]


class _FolderFacts:
    """Reads the sidecar of each folder once: it may list ten thousand shards."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[dict[str, Any] | None, frozenset[str]]] = {}

    def of(self, entry: StoredFile | Folder) -> dict[str, Any] | None:
        """Return the facts of a file's folder, if the folder's sidecar lists the file as a shard."""
        folder = None if isinstance(entry, Folder) else entry.folder()
        if folder is None:
            return None
        if folder.name not in self._read:
            facts = load_sidecar(folder)
            shards = (facts or {}).get("files") or ()
            self._read[folder.name] = facts, frozenset(file["name"] for file in shards)
        facts, names = self._read[folder.name]
        return facts if entry.basename in names else None
