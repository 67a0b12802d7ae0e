"""Destinations of new data: built on the local disk, then published under the final name in one step."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataformats.errors import Remedy, TargetExistsError, TargetInUseError
from dataformats.indexing.sidecar import SIDECAR_SUFFIX, load_sidecar, sidecar_bytes
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.file_lock import FileLock
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.folders import OWN_SUFFIXES
from dataformats.storage.paths import is_local, local_path
from dataformats.storage.remote_systems import file_system, is_local_system, is_url
from dataformats.writing.partial_data import ENCODING, PartialData, check_encoding
from dataformats.writing.publishing import NO_FILES, Destination
from dataformats.writing.recognition import unrelated_entry
from dataformats.writing.remote_destination import ObjectDestination, RemoteDestination

__all__ = ["Destination", "InPlace", "SharedFolder", "add_name", "destination"]

_LOG = logging.getLogger("dataformats")
_OTHER_NAME = "Give the new file or folder a name of its own"


class _LocalDestination(Destination):
    keeps_partial = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name: str = str(path)
        self._data = PartialData(path)
        self.partial: Path = self._data.path
        self._overwrite = False
        self._folder_lock: FileLock | None = None
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def final(self) -> Path:
        return self._path

    def exists(self) -> bool:
        return os.path.lexists(self._path)

    @property
    def is_owned(self) -> bool:
        return self._data.is_owned

    def lock(self, overwrite: bool, *, shared: bool = False) -> None:
        self._overwrite = overwrite
        try:
            self._data.acquire(shared=shared)
            if overwrite and self._path.is_dir():
                self._folder_lock = FileLock(self._path, shared=shared)  # refuses writers that append in place
        except BlockingIOError as error:
            raise _has_another_writer(self.name) from error

    def share(self) -> None:
        try:
            self._data.share()
        except BlockingIOError as error:
            raise _has_another_writer(self.name) from error

    def release(self) -> None:
        self._data.release()
        if self._folder_lock is not None:
            self._folder_lock.release()

    def begin(self, facts: Mapping[str, Any], backend: Backend, resume: bool) -> None:
        self._data.begin(facts, backend, resume)

    def discard(self) -> None:
        self._data.discard()

    def unrelated_entry(self) -> Path | None:
        # A link is replaced, and the folder that it names stays.
        return unrelated_entry(self._path) if atomic.is_folder(self._path) else None

    def _entry(self) -> StoredFile | Folder:
        return _local_entry(self._path)

    def _read_sidecar(self) -> bytes | None:
        sidecar = _sidecar_of(self._path)
        return sidecar.read_bytes() if sidecar.is_file() else None

    def _write_sidecar(self, content: bytes | None) -> None:
        if content is None:
            _sidecar_of(self._path).unlink(missing_ok=True)
        else:
            atomic.write_bytes(_sidecar_of(self._path), content)

    def _rename(self, sidecars: Mapping[str, Path | None]) -> None:
        self._data.publish(sidecars, replace=self._overwrite)

    def _clean_up(self) -> None:
        try:
            self._data.discard()
        except OSError as error:
            _LOG.warning("%s is complete, but leftovers beside it were not deleted: %s", self._path, error)


class InPlace(_LocalDestination):
    """Data that grow under their final name.

    Args:
        path: The published data, which have no links: the sidecar of a folder lies beside it, not beside links to it.
    """

    grows = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.partial = path

    @property
    def is_owned(self) -> bool:
        return self._folder_lock is not None and self._folder_lock.is_current

    def lock(self, overwrite: bool, *, shared: bool = False) -> None:
        super().lock(overwrite=True)  # the folder, too; `release` deletes what a writer left that was killed at its end

    def begin(self, facts: Mapping[str, Any], backend: Backend, resume: bool) -> None:
        """Compare format, payload and spec with the sidecar; its list of files does not hold until `publish`.

        Raises:
            StateMismatchError: The published data have another format, payload or spec.
        """
        sidecar = load_sidecar(self._entry())
        if sidecar is None:
            return
        # The files will be others, and a plan describes what a conversion wrote.
        known = {name: fact for name, fact in (self.facts_of_data()[0] or {}).items() if name in ENCODING[:3]}
        if known.keys() - {"format"}:
            check_encoding(known, facts, sidecar.name)
        self._write_sidecar(sidecar_bytes(known) if known else None)

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = NO_FILES) -> None:
        self._write_sidecar(sidecar_bytes(facts) if keep else None)

    def discard(self) -> None:
        """Keep the data: they existed before."""


class SharedFolder(_LocalDestination):
    """A folder that several writers fill with shards, of which each has a destination and a lock of its own."""

    grows = True

    @property
    def is_owned(self) -> bool:
        return True

    def lock(self, overwrite: bool, *, shared: bool = False) -> None:
        pass

    def release(self) -> None:
        pass

    def begin(self, facts: Mapping[str, Any], backend: Backend, resume: bool) -> None:
        """Make the folder and its sidecar, which lists no files; or compare with the sidecar that is there.

        Raises:
            StateMismatchError: The data there have another format, payload or spec.
            TargetExistsError: There are data of other writers.
        """
        self._path.mkdir(exist_ok=True)
        folder = LocalFolder(self._path)
        if len(facts) > 1 and load_sidecar(folder) is None:
            if backend.find(folder):
                raise _not_shared(self.name, "holds data without a sidecar")
            self._write_sidecar(sidecar_bytes(facts))
        sidecar = load_sidecar(folder)
        if sidecar is not None and sidecar.facts.get("files"):
            raise _not_shared(self.name, "is complete: its sidecar lists its files")
        if sidecar is not None:
            check_encoding(sidecar.facts, facts, sidecar.name)

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = NO_FILES) -> None:
        """Do nothing: each shard was published when it was complete."""

    def discard(self) -> None:
        """Do nothing: the shards that are complete stay."""


def _has_another_writer(name: str) -> TargetInUseError:
    remedy = "Close or abort that writer, or wait until its process has ended"
    return TargetInUseError(f"{name!r} has another writer", remedy=remedy)


def _not_shared(name: str, why: str) -> TargetExistsError:
    remedy = Remedy("Pass {append} instead of shard_start= to add shards to it", append=True)
    return TargetExistsError(f"{name!r} {why}", remedy=remedy)


def _local_entry(path: Path) -> StoredFile | Folder:
    return LocalFolder(path) if path.is_dir() else LocalFile(path)


def _sidecar_of(path: Path) -> Path:
    return path.with_name(path.name + SIDECAR_SUFFIX)


def destination(path: Any, storage_options: dict[str, Any] | None = None) -> Destination:
    """Return the destination that a path, a URL or a path object names."""
    if is_local(path):
        return _LocalDestination(_new_path(path))
    if isinstance(path, str) and is_url(path):
        fs, name = file_system(path, storage_options or {})
        if is_local_system(fs):
            return _LocalDestination(_new_path(name))
        _check_suffix(name)
        return RemoteDestination(path, fs, name)
    if hasattr(path, "open") and hasattr(path, "exists"):
        return ObjectDestination(path)
    raise TypeError(f"cannot write: expected a path, a URL or a path object, found {type(path).__name__}")


def add_name(error: BaseException, name: str) -> None:
    """Name the data in an error of the file system, such as a full disk, that names no file."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = name


def _check_suffix(name: str) -> None:
    """Raise `ValueError` for a name that a writer of another name would delete."""
    if name.rstrip("/").endswith(OWN_SUFFIXES):
        what = f"{name!r} ends as a file that a writer of another name makes beside its data"
        raise ValueError(f"{what}. {_OTHER_NAME}")


def _new_path(path: Any) -> Path:
    """Return the local path of new data.

    Raises:
        TargetExistsError: It names the current folder, its parent or a root; or a device, a pipe or a socket, which
            must never be replaced.
    """
    found = local_path(path)
    if found.name in ("", ".."):
        raise TargetExistsError(f"{str(found)!r} is a folder", remedy=_OTHER_NAME)
    _check_suffix(str(found))
    if found.exists() and not (found.is_file() or found.is_dir()):
        raise TargetExistsError(f"{str(found)!r} is a device, a pipe or a socket", remedy=_OTHER_NAME)
    return found
