"""Files in memory, by name, as an input of a parser."""

from __future__ import annotations

from collections.abc import Mapping

from dataformats.interfaces.stored_file import Folder, StoredFile


class HeldFile(StoredFile):
    """A file whose bytes are given; the others of its folder lie beside it."""

    def __init__(self, name: str, files: Mapping[str, bytes], identity: tuple[str, ...] | None) -> None:
        self._files, self._data, self._short = files, files[name], name
        self.name = f"held/{name}"
        self.size = len(self._data)
        self.identity = identity or (str(self.size),)

    def read_into(self, offset: int, out: memoryview) -> int:
        part = self._data[offset : offset + len(out)]
        out[: len(part)] = part
        return len(part)

    def file_beside(self, name: str) -> StoredFile | None:
        return HeldFile(name, self._files, None) if name in self._files else None

    def folder(self) -> Folder:
        return HeldFolder(self._files)


class HeldFolder(Folder):
    """The folder of all files."""

    name = "held"

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def names(self) -> list[str]:
        return sorted(self._files)

    def file(self, name: str) -> StoredFile:
        return HeldFile(name, self._files, None)


def held(files: Mapping[str, bytes], name: str, identity: tuple[str, ...] | None = None) -> HeldFile:
    """Return one of these files.

    Args:
        files: Name to content.
        name: The file.
        identity: Its identity; `None` is its size alone, as of a file without a time.
    """
    return HeldFile(name, files, identity)
