"""Which files of a folder are data, and the files that a glob matched."""

from __future__ import annotations

from dataformats.interfaces.stored_file import Folder, StoredFile

__all__ = ["OWN_SUFFIXES", "GlobFolder", "is_data"]

OWN_SUFFIXES = (".dataformats.json", ".dataformats.idx", ".partial", ".journal")


class GlobFolder(Folder):
    """The files that match a glob."""

    explicit = True

    def __init__(self, pattern: str, files: dict[str, StoredFile]) -> None:
        self.name = pattern
        self._files = files

    def names(self) -> list[str]:
        return sorted(self._files)

    def file(self, name: str) -> StoredFile:
        return self._files[name]


def is_data(name: str) -> bool:
    """Return False for hidden files, and for the sidecars, partial files and journals of this package."""
    return not name.startswith(".") and not name.endswith(OWN_SUFFIXES)
