"""Which files of a folder are data, and the files that a glob matched."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dataformats.interfaces.stored_file import Folder, StoredFile

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


class ListedFolder(Folder):
    """Some files and folders of a folder, by their names."""

    def __init__(self, folder: Folder, listed: Collection[str]) -> None:
        self.name: str = folder.name
        self._folder = folder
        self._listed = listed

    def names(self) -> list[str]:
        return [name for name in self._folder.names() if name in self._listed]

    def folders(self) -> list[str]:
        return [name for name in self._folder.folders() if name in self._listed]

    def file(self, name: str) -> StoredFile:
        return self._folder.file(name)

    def files(self, names: Sequence[str]) -> list[StoredFile]:
        return self._folder.files(names)

    def folder(self, name: str) -> Folder:
        return self._folder.folder(name)

    def parent(self) -> Folder | None:
        return self._folder.parent()

    def has(self, name: str) -> bool:
        return self._folder.has(name)

    def file_beside(self, name: str) -> StoredFile | None:
        return self._folder.file_beside(name)


def is_data(name: str) -> bool:
    """Return False for hidden files, what macOS adds to ZIP files, and sidecars, partial files and journals of ours."""
    return not name.startswith(".") and name != "__MACOSX" and not name.endswith(OWN_SUFFIXES)
