"""Objects: reads, writes and deletes the objects of one fsspec file system, several at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError
from dataformats.storage.remote.names import parent_of, shown_url
from dataformats.storage.remote.range_requests import first_bytes
from dataformats.storage.threads import concurrent_map

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "hf", "memory"}
"""Schemes whose objects appear whole: a write that fails leaves the old object, or none."""
_MAX_BYTES = 256 * 2**20
"""The longest log, of about a million objects."""


class Objects:
    """The objects of one fsspec file system. Each method asks the system itself, not its cache.

    Args:
        fs: The fsspec file system.

    Attributes:
        fs: The fsspec file system.
        appear_whole: True for an object store, whose objects have no folders, and which has no rename.
    """

    def __init__(self, fs: Any) -> None:
        self.fs = fs
        protocols = {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}
        self.appear_whole: bool = bool(protocols & _OBJECT_STORES)

    def find(self, folder: str) -> dict[str, Any]:
        """Return the objects in a folder, each with its description by the file system."""
        self.fs.invalidate_cache(folder)
        found: dict[str, Any] = self.fs.find(folder, detail=True) if self.fs.exists(folder) else {}
        return found

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object; `None` if there is no such object.

        Raises:
            FormatError: It is longer than any log or sidecar.
        """
        self.fs.invalidate_cache(name)
        url = shown_url(self.fs.unstrip_protocol(name))
        try:
            content = first_bytes(self.fs, name, url, _MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(content) > _MAX_BYTES:
            what, remedy = "too long for a sidecar or a log of a writer", "Delete or rename it."
            raise FormatError(what, path=url, expected=f"at most {_MAX_BYTES} bytes", found="more", remedy=remedy)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write an object, or replace it."""
        self.make_folders([name])
        self.fs.pipe_file(name, content)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that does not exist; return False if it does."""
        try:
            self.make_folders([name])
            self.fs.pipe_file(name, content, mode="create")
        except FileExistsError:
            return False
        return True

    def send(self, files: Mapping[str, Path]) -> None:
        """Send local files under these names."""
        self.make_folders(files)
        concurrent_map(lambda pair: self.fs.put_file(str(pair[1]), pair[0]), list(files.items()), local=False)

    def fetch(self, objects: Mapping[str, Path]) -> None:
        """Write objects to these local files."""
        concurrent_map(lambda pair: self.fs.get_file(pair[0], str(pair[1])), list(objects.items()), local=False)

    def move(self, present: str, name: str) -> None:
        """Give an object a name; in an object store it keeps the present one, too."""
        if self.appear_whole:
            self.fs.cp_file(present, name)
        elif self.fs.exists(present):  # else an interrupted writer has moved it
            self.fs.mv(present, name)

    def delete(self, names: Iterable[str]) -> None:
        """Delete the objects that exist."""
        # `isfile` would be False for a refused request, too.
        concurrent_map(self._delete, list(names), local=False)

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.fs.rm_file(name)

    def remove(self, folder: str) -> None:
        """Delete a folder with all objects in it."""
        self.fs.invalidate_cache(folder)
        if self.fs.exists(folder):
            self.fs.rm(folder, recursive=True)

    def make_folders(self, names: Iterable[str]) -> None:
        """Make the folders of objects, in a file system that has folders."""
        # `makedirs` may create a bucket in an object store.
        for folder in {parent_of(self.fs, name) for name in names if not self.appear_whole}:
            self.fs.makedirs(folder, exist_ok=True)
