"""Destinations of new data: built on the local disk, then published under the final name in one step."""

from __future__ import annotations

import functools
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.errors import StateMismatchError, TargetExistsError
from dataformats.indexing.sidecar import SIDECAR_SUFFIX, load_sidecar, save_sidecar
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.paths import is_local, local_path
from dataformats.storage.remote import errors_as_os_error, file_system, is_url

__all__ = ["Destination", "destination"]

_NO_FILES: Mapping[str, Path | None] = {}


class Destination(ABC):
    """The final name of new data, and the local path where they grow until they are published.

    Attributes:
        name: The final name, for messages.
        partial: The local path of the growing file or folder.
    """

    name: str
    partial: Path

    @abstractmethod
    def exists(self) -> bool:
        """Return True if something has the final name."""

    @property
    def final(self) -> Path:
        """The final name as a local path.

        Raises:
            ValueError: It is not on the local disk: only local data can be resumed.
        """
        raise ValueError(f"cannot resume: expected a local path, found {self.name!r}")

    def in_place(self) -> Destination:
        """Return the destination that appends to the published data."""
        return _InPlace(self.final)

    def unrelated_file(self, find: Callable[[Folder], Sequence[StoredFile]]) -> str | None:
        """Return a file in the folder of this name that `find` does not list as data; `None` if there is none."""
        return None

    def inode(self) -> int | None:
        """Return the inode of `partial`, which shows if another writer has replaced it; `None` if it does not exist."""
        try:
            return self.partial.stat().st_ino
        except FileNotFoundError:
            return None

    def discard_partial(self) -> None:
        """Delete the partial data of an interrupted writer."""
        atomic.remove(self.partial)
        self._plan.unlink(missing_ok=True)

    def check_resume_plan(self, metadata: Mapping[str, Any]) -> None:
        """Save format, payload and spec in a sidecar of the partial data, or compare them with an existing one.

        Raises:
            StateMismatchError: The interrupted writer had another format, payload or spec.
        """
        plan = load_sidecar(LocalFile(self.partial)) if self.partial.is_file() else None
        if self.partial.is_dir():
            plan = load_sidecar(LocalFolder(self.partial))
        if plan is None:
            save_sidecar(self.partial, metadata)
        elif (saved := {name: value for name, value in plan.items() if name != "version"}) != dict(metadata):
            raise StateMismatchError(
                f"the encoding of the partial data {str(self.partial)!r}",
                expected=saved,
                found=dict(metadata),
                remedy="Resume with the same payload and spec, or start again without resume=True.",
            )

    @property
    def _plan(self) -> Path:
        return self.partial.with_name(self.partial.name + SIDECAR_SUFFIX)

    @abstractmethod
    def publish(self, metadata: Mapping[str, Any] | None, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        """Rename `partial` to its final name.

        Args:
            metadata: The content of the sidecar `NAME.dataformats.json`; `None` deletes an old one.
            sidecars: Other files that belong beside the new one: `HasSidecars.sidecars`.
        """

    def discard(self) -> None:
        """Delete the partial data."""
        self.discard_partial()


class _LocalDestination(Destination):
    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)
        self.partial = path.with_name(path.name + ".partial")
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def final(self) -> Path:
        return self._path

    def exists(self) -> bool:
        return self._path.exists()

    def unrelated_file(self, find: Callable[[Folder], Sequence[StoredFile]]) -> str | None:
        if not self._path.is_dir():
            return None
        known = {Path(file.name).resolve() for file in find(LocalFolder(self._path))}
        files = (path for path in sorted(self._path.rglob("*")) if not path.is_dir() or path.is_symlink())
        return next((str(path) for path in files if path.resolve() not in known), None)

    def publish(self, metadata: Mapping[str, Any] | None, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        # The old sidecar is deleted first and the new one written last: a crash in between leaves data without a
        # sidecar, never data with a wrong one.
        self._path.with_name(self._path.name + SIDECAR_SUFFIX).unlink(missing_ok=True)
        if sidecars:
            # Old data must never be visible with new sidecars, nor new data with old sidecars.
            atomic.remove(self._path)
        for name, now in sidecars.items():
            there = self._path.with_name(name)
            if now is None:
                there.unlink(missing_ok=True)
            else:
                now.replace(there)
        atomic.publish(self.partial, self._path)
        self._plan.unlink(missing_ok=True)
        if metadata is not None:
            save_sidecar(self._path, metadata)


class _InPlace(_LocalDestination):
    """Data that grow under their final name."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.partial = path

    def publish(self, metadata: Mapping[str, Any] | None, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        if metadata is not None:
            save_sidecar(self.partial, metadata)

    def discard(self) -> None:
        """Keep the data: they existed before."""


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


class _RemoteDestination(_TemporaryFolder):
    """An fsspec URL: data are uploaded under a partial name, then renamed."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._fs, self._path = file_system(url, options)
        self._path = self._path.rstrip("/")
        self.name = url

    def exists(self) -> bool:
        with errors_as_os_error(self.name):
            return bool(self._fs.exists(self._path))

    def publish(self, metadata: Mapping[str, Any] | None, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        with errors_as_os_error(self.name):
            self._upload(metadata, sidecars)
        self.discard()

    def _upload(self, metadata: Mapping[str, Any] | None, sidecars: Mapping[str, Path | None]) -> None:
        self._send(self.partial, self._path + ".partial")
        for old in (self._path + SIDECAR_SUFFIX, self._path):
            if self._fs.exists(old):
                self._fs.rm(old, recursive=True)
        for name, now in sidecars.items():
            there = f"{self._fs._parent(self._path)}/{name}"
            if now is not None:
                self._send(now, there)
            elif self._fs.exists(there):
                self._fs.rm(there)
        self._fs.mv(self._path + ".partial", self._path, recursive=self.partial.is_dir())
        if metadata is not None:
            self._send(save_sidecar(self.partial, metadata), self._path + SIDECAR_SUFFIX)

    def _send(self, local: Path, remote: str) -> None:
        self._fs.makedirs(self._fs._parent(remote), exist_ok=True)
        if local.is_dir():
            self._fs.put(f"{local}/", f"{remote}/", recursive=True)
        else:
            self._fs.put_file(str(local), remote)


class _ObjectDestination(_TemporaryFolder):
    """A path object: data are written through `open("wb")`."""

    def __init__(self, path: Any) -> None:
        if not hasattr(path, "parent"):
            raise TypeError(f"cannot write sidecars beside {str(path)!r}: expected a path object with `parent`")
        self._path = path
        self.name = str(path)

    def exists(self) -> bool:
        return bool(self._path.exists())

    def publish(self, metadata: Mapping[str, Any] | None, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        if metadata is not None:
            sidecar = save_sidecar(self.partial, metadata)
            self._send(sidecar, self._path.parent / sidecar.name)
        for name, now in sidecars.items():
            if now is not None:
                self._send(now, self._path.parent / name)
            elif (self._path.parent / name).exists():
                (self._path.parent / name).unlink()
        self._send(self.partial, self._path)
        self.discard()

    def _send(self, local: Path, remote: Any) -> None:
        if local.is_dir():
            remote.mkdir()
            for part in sorted(local.iterdir()):
                self._send(part, remote / part.name)
            return
        with local.open("rb") as source, remote.open("wb") as sink:
            shutil.copyfileobj(source, sink, 2**20)


def destination(path: Any, storage_options: dict[str, Any] | None = None) -> Destination:
    """Return the destination that a path, a URL or a path object names."""
    if is_local(path):
        return _LocalDestination(_new_path(path))
    if isinstance(path, str) and is_url(path):
        return _RemoteDestination(path, storage_options or {})
    if hasattr(path, "open") and hasattr(path, "exists"):
        return _ObjectDestination(path)
    raise TypeError(f"cannot write: expected a path, a URL or a path object, found {type(path).__name__}")


def _new_path(path: Any) -> Path:
    """Return the local path of new data.

    Raises:
        TargetExistsError: It names the current folder, its parent or a root; or a device, a pipe or a socket, which
            must never be replaced.
    """
    found = local_path(path)
    remedy = "Give the new file or folder a name of its own"
    if found.name in ("", ".."):
        raise TargetExistsError(f"{str(found)!r} is a folder", remedy=remedy)
    if found.exists() and not (found.is_file() or found.is_dir()):
        raise TargetExistsError(f"{str(found)!r} is a device, a pipe or a socket", remedy=remedy)
    return found
