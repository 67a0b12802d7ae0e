"""Destinations that are not on the local disk: data are built in a temporary folder, then sent."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.indexing.sidecar import SIDECAR_SUFFIX, sidecar_bytes
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.paths import resolve
from dataformats.storage.range_requests import patiently
from dataformats.storage.remote import FsspecFile, FsspecFolder
from dataformats.storage.remote_errors import errors_as_os_error
from dataformats.storage.threads import concurrent_map
from dataformats.writing.publishing import NO_FILES, Destination
from dataformats.writing.recognition import unrelated_object

__all__ = ["ObjectDestination", "RemoteDestination"]

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "hf", "memory"}
"""Schemes whose objects appear whole: a write that fails leaves the old object, or none."""


class _TemporaryFolder(Destination):
    """A destination that is not on the local disk: data are built in a temporary folder, created at first use."""

    @functools.cached_property
    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="dataformats-"))

    @property
    def partial(self) -> Path:  # type: ignore[override]  # an attribute of the other destinations
        """The local path of the growing file or folder."""
        return self._folder / self.name.rstrip("/").rsplit("/", 1)[-1]

    def discard(self) -> None:
        """Delete the partial data with their folder."""
        if "_folder" in vars(self):
            shutil.rmtree(self._folder, ignore_errors=True)

    def _clean_up(self) -> None:
        self.discard()


class RemoteDestination(_TemporaryFolder):
    """An fsspec URL.

    New objects are sent under their final names, each of which appears whole. If they replace others, all of them are
    sent as `NAME.partial` first, and copied by the server; so are those of a file system that is no object store, and
    renamed there. As long as data are incomplete, their sidecar lists files that are missing, so `open` refuses them.

    Args:
        url: The final name.
        fs: The fsspec file system.
        path: The final name in it.

    Attributes:
        fs: As given.
        path: Likewise.
        sent: Final name to present name of the new objects, if they were sent already; else `None`. Those that are
            copied stay: the caller deletes them.
    """

    def __init__(self, url: str, fs: Any, path: str) -> None:
        self.fs = fs
        self.path: str = path.rstrip("/")
        self.name = url
        self.sent: dict[str, str] | None = None
        protocols = {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}
        self._is_object_store = bool(protocols & _OBJECT_STORES)

    def exists(self) -> bool:
        self.fs.invalidate_cache(self.path)
        with errors_as_os_error(self.name):  # missing credentials are an error before anything is written
            try:
                patiently(lambda: self.fs.info(self.path))
            except (FileNotFoundError, PermissionError):  # the latter of a role that may only write
                return False
            return True

    def unrelated_entry(self) -> str | None:
        with errors_as_os_error(self.name):
            if not self.fs.isdir(self.path):
                return None
            return unrelated_object(FsspecFolder(self.fs, self.path), self.fs.find(self.path))

    def _entry(self) -> StoredFile | Folder:
        return (FsspecFolder if self.fs.isdir(self.path) else FsspecFile)(self.fs, self.path)

    def _read_sidecar(self) -> bytes | None:
        name = self.path + SIDECAR_SUFFIX
        return bytes(self.fs.cat_file(name)) if self.fs.exists(name) else None

    def _write_sidecar(self, content: bytes | None) -> None:
        name = self.path + SIDECAR_SUFFIX
        if content is not None:
            self.put_bytes(name, content)
        else:
            self.delete([name])

    @property
    def in_parts(self) -> bool:  # type: ignore[override]  # a constant of the other destinations
        """True if the data are several objects."""
        return self.partial.is_dir()

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = NO_FILES) -> None:
        """Send the data, so that `open` finds the old ones, the new ones, or an error; see the class."""
        new, beside = self._new_objects(sidecars)
        with errors_as_os_error(self.name):
            old = self._old_objects(beside)
            if self.sent is None and self._is_object_store and (not old or (len(new) == 1 and old == new.keys())):
                super().publish(facts, keep=keep, sidecars=sidecars)
            else:
                self._send_and_move(new, old, facts)
                self._end(facts, keep)

    def _rename(self, sidecars: Mapping[str, Path | None]) -> None:
        """Send new objects, or the only one that replaces another; after an error no new one is left."""
        new, _ = self._new_objects(sidecars)
        try:
            self.put(new)
        except BaseException:
            if len(new) > 1:
                with suppress(Exception):
                    self.delete(new)
            raise

    def _send_and_move(self, new: Mapping[str, Path], old: Iterable[str], facts: Mapping[str, Any]) -> None:
        """Send all objects under partial names, then give them their final names.

        After an error the old data are there, or, once the first name was given, the new ones under partial names.
        """
        partial = self.sent or {name: self._partial_name(name) for name in new}
        before = self._read_sidecar()
        changed: list[str] = []
        try:
            if self.sent is None:
                self.put({partial[name]: local for name, local in new.items()})
            # From here on neither the old nor the new data are complete under their names, and `open` says so.
            self._write_sidecar(sidecar_bytes({**facts, "incomplete": True}))
            self._move(partial, changed)
            self.delete({*old} - new.keys())
        except BaseException as error:
            if changed:
                error.add_note(f"the new data are complete in {self.name + '.partial'!r}: write them again to end this")
            else:
                with suppress(Exception):
                    self._write_sidecar(before)
                    if self.sent is None:
                        self._delete_partial(partial.values())
            raise
        if self.sent is None:
            self._delete_partial(partial.values())

    def _move(self, partial: Mapping[str, str], changed: list[str]) -> None:
        """Give objects their final names; `changed` gets those that changed."""

        def move(name: str) -> None:
            (self.fs.cp_file if self._is_object_store else self.fs.mv)(partial[name], name)
            changed.append(name)

        is_folder = self.fs.isdir(self.path)
        if is_folder == (self.path in partial) and self.fs.exists(self.path):  # a file replaces a folder, or reverse
            changed.append(self.path)
            self.fs.rm(self.path, recursive=is_folder)
        self._make_folders(partial)
        concurrent_map(move, list(partial), local=False)

    def _new_objects(self, sidecars: Mapping[str, Path | None]) -> tuple[dict[str, Path], list[str]]:
        """Return final name to local path of each new object, and the final names of the files beside the data."""
        if self.sent is not None:
            return dict.fromkeys(self.sent, self.partial), []
        beside = {f"{self.fs._parent(self.path)}/{name}": local for name, local in sidecars.items()}
        new = {self.path: self.partial}
        if self.partial.is_dir():
            files = sorted(part for part in self.partial.rglob("*") if part.is_file())
            new = {f"{self.path}/{part.relative_to(self.partial).as_posix()}": part for part in files}
        return new | {name: local for name, local in beside.items() if local is not None}, list(beside)

    def _old_objects(self, beside: Iterable[str]) -> set[str]:
        self.fs.invalidate_cache(self.path)
        inside = self.fs.find(self.path) if self.fs.exists(self.path) else []
        return {
            *(name for name in inside if not name.endswith("/")),
            *(name for name in beside if self.fs.exists(name)),
        }

    def _partial_name(self, name: str) -> str:
        is_inside = name.startswith(f"{self.path}/")
        return f"{self.path}.partial{name.removeprefix(self.path)}" if is_inside else f"{name}.partial"

    def put(self, objects: Mapping[str, Path]) -> None:
        """Send files under these names, several at once."""
        self._make_folders(objects)
        concurrent_map(lambda pair: self.fs.put_file(str(pair[1]), pair[0]), list(objects.items()), local=False)

    def _make_folders(self, names: Iterable[str]) -> None:
        # An object store has none, and its `makedirs` may create a bucket.
        for folder in {self.fs._parent(name) for name in names if not self._is_object_store}:
            self.fs.makedirs(folder, exist_ok=True)

    def _delete_partial(self, names: Iterable[str]) -> None:
        self.delete(names)
        folder = f"{self.path}.partial"
        # Of a file system that has folders, or of an interrupted writer; other objects are left alone.
        if self.fs.isdir(folder) and unrelated_object(FsspecFolder(self.fs, folder), self.fs.find(folder)) is None:
            self.fs.rm(folder, recursive=True)

    def put_bytes(self, name: str, content: bytes) -> None:
        """Send one small object."""
        self._make_folders([name])
        self.fs.pipe_file(name, content)

    def delete(self, names: Iterable[str]) -> None:
        """Delete the objects that exist, several at once."""
        present = [name for name in names if self.fs.isfile(name)]
        concurrent_map(self.fs.rm_file, present, local=False)


class ObjectDestination(_TemporaryFolder):
    """A path object: data are written through `open("wb")`."""

    def __init__(self, path: Any) -> None:
        if not hasattr(path, "parent"):
            raise TypeError(f"cannot write sidecars beside {str(path)!r}: expected a path object with `parent`")
        self._path = path
        self.name: str = str(path)

    def exists(self) -> bool:
        return bool(self._path.exists())

    def _entry(self) -> StoredFile | Folder:
        entry = resolve(self._path)[0]
        if isinstance(entry, StoredFile):
            entry.release()
        return entry

    @property
    def _sidecar(self) -> Any:
        return self._path.parent / (self.partial.name + SIDECAR_SUFFIX)

    def _read_sidecar(self) -> bytes | None:
        if not self._sidecar.exists():
            return None
        with self._sidecar.open("rb") as file:
            return bytes(file.read())

    def _write_sidecar(self, content: bytes | None) -> None:
        if content is None and not self._sidecar.exists():
            return
        if content is None and hasattr(self._sidecar, "unlink"):
            self._sidecar.unlink()
            return
        with self._sidecar.open("wb") as file:
            file.write(sidecar_bytes({}) if content is None else content)

    def _rename(self, sidecars: Mapping[str, Path | None]) -> None:
        for name, now in sidecars.items():
            if now is not None:
                self._send(now, self._path.parent / name)
            elif (self._path.parent / name).exists():
                (self._path.parent / name).unlink()
        self._send(self.partial, self._path)

    def _send(self, local: Path, remote: Any) -> None:
        if local.is_dir():
            remote.mkdir()
            for part in sorted(local.iterdir()):
                self._send(part, remote / part.name)
            return
        with local.open("rb") as source, remote.open("wb") as sink:
            shutil.copyfileobj(source, sink, 2**20)
