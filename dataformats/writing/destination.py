"""Destinations of new data: built on the local disk, then published under the final name in one step."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, Remedy, TargetExistsError, TargetInUseError
from dataformats.indexing.sidecar import SIDECAR_SUFFIX, load_sidecar, sidecar_bytes
from dataformats.indexing.sidecar_check import compare_entry, fitting_facts
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.file_lock import FileLock
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.folders import OWN_SUFFIXES
from dataformats.storage.paths import is_local, local_path, resolve
from dataformats.storage.remote import (
    FsspecFile,
    FsspecFolder,
    errors_as_os_error,
    file_system,
    is_local_system,
    is_url,
)
from dataformats.writing.partial_data import ENCODING, PartialData, check_encoding
from dataformats.writing.recognition import unrelated_entry

__all__ = ["Destination", "SharedFolder", "destination"]

_LOG = logging.getLogger("dataformats")

_NO_FILES: Mapping[str, Path | None] = {}


class Destination(ABC):
    """The final name of new data, and the local path where they grow until they are published.

    Attributes:
        name: The final name, for messages.
        partial: The local path of the growing file or folder.
        grows: True if the data grow under their final name.
        keeps_partial: True if partial data can be resumed.
    """

    name: str
    partial: Path
    grows: bool = False
    keeps_partial: bool = False

    @abstractmethod
    def exists(self) -> bool:
        """Return True if something has the final name."""

    @property
    def final(self) -> Path:
        """The final name as a local path.

        Raises:
            ValueError: It is not on the local disk: only local data can be resumed or extended.
        """
        raise ValueError(f"cannot resume or append: expected a local path, found {self.name!r}")

    def in_place(self) -> Destination:
        """Return the destination that appends to the published data."""
        return _InPlace(self.final.resolve())  # the sidecar of a folder lies beside it, not beside links to it

    def unrelated_entry(self) -> Path | None:
        """Return a file or folder in the folder of this name that is not data; `None` if there is none."""
        return None

    @property
    def is_owned(self) -> bool:
        """True until another program deletes or replaces what `lock` locked."""
        return True

    def check_owned(self) -> None:
        """Raise `RuntimeError` unless the partial data are still those of this writer."""
        if not self.is_owned:
            raise RuntimeError(f"another program deleted or replaced {str(self.partial)!r} or its sidecar")

    def lock(self, overwrite: bool) -> None:  # noqa: B027  # only local files have locks
        """Refuse other writers of this name until `release`.

        Args:
            overwrite: `publish` replaces what has the name.

        Raises:
            TargetInUseError: Another writer has the name.
        """

    def release(self) -> None:  # noqa: B027  # only local files have locks
        """Let other writers have the name; a second call is a no-op."""

    def begin(self, facts: Mapping[str, Any], backend: Backend, resume: bool) -> None:  # noqa: B027  # as `lock`
        """Delete partial data of an interrupted writer, or check that they are resumed: `PartialData.begin`."""

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        """Rename `partial` to its final name, after its sidecar `NAME.dataformats.json` is there.

        So the data never lack their sidecar. Until they are renamed, the sidecar also has the facts of the data that
        they replace; a reader takes those whose files are there.

        Args:
            facts: The content of the sidecar.
            keep: False if the published data need no sidecar.
            sidecars: Other files that belong beside the new one: `HasSidecars.sidecars`.
        """
        before = self._read_sidecar()
        try:
            if keep or before is not None:
                self._write_sidecar(sidecar_bytes(facts, self.facts_of_data()[0]))
            self._rename(sidecars)
        except BaseException:
            with suppress(OSError):  # the sidecar holds in any case, for the old data and for the new ones
                self._end(facts, keep) if self._holds(facts) else self._write_sidecar(before)
            raise
        self._end(facts, keep)

    def complete(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if data of this format, payload and spec have the final name, and all are there.

        Ends the work of a writer that was killed after it renamed them.
        """
        facts, is_sound = self.facts_of_data()
        if facts is None or not is_sound:
            return False
        known = {name: facts[name] for name in ENCODING if name in facts} or {"format": metadata["format"]}
        if known != dict(metadata):
            return False
        self._end(facts, keep=len(metadata) > 1)
        return True

    def _end(self, facts: Mapping[str, Any], keep: bool) -> None:
        """Leave the sidecar of the new data, or none, and no temporary files."""
        content = sidecar_bytes(facts) if keep else None
        if self._read_sidecar() != content:
            self._write_sidecar(content)
        self._clean_up()

    def facts_of_data(self) -> tuple[dict[str, Any] | None, bool]:
        """Return the facts of the data that have the final name, if there are any, and if all listed files are."""
        entry = self._present()
        if entry is None:
            return None, False
        try:
            sidecar = load_sidecar(entry)
        except FormatError:
            return {}, False
        if sidecar is None:
            return {}, True
        facts, found = fitting_facts(sidecar, functools.partial(compare_entry, sidecar.name, entry))
        return facts, not any(found.errors())

    def _holds(self, facts: Mapping[str, Any]) -> bool:
        """Return True if the data of these facts have the final name."""
        entry = self._present()
        return entry is not None and not any(compare_entry(self.name, entry, facts["files"]).errors(remote=True))

    def _present(self) -> StoredFile | Folder | None:
        """Return the file or folder that has the final name; `None` if there is none."""
        try:
            return self._entry() if self.exists() else None
        except FileNotFoundError:
            return None  # a link that names nothing

    @abstractmethod
    def _entry(self) -> StoredFile | Folder:
        """Return the file or folder that has the final name."""

    @abstractmethod
    def _read_sidecar(self) -> bytes | None:
        """Return the content of the sidecar of the final name; `None` if there is none."""

    @abstractmethod
    def _write_sidecar(self, content: bytes | None) -> None:
        """Write the sidecar of the final name; `None` deletes it."""

    @abstractmethod
    def _rename(self, sidecars: Mapping[str, Path | None]) -> None:
        """Rename `partial` and the files beside it to their final names."""

    @abstractmethod
    def _clean_up(self) -> None:
        """Delete temporary files after the data are published."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the partial data."""


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

    def lock(self, overwrite: bool) -> None:
        self._overwrite = overwrite
        try:
            self._data.acquire()
            if overwrite and self._path.is_dir():
                self._folder_lock = FileLock(self._path)  # refuses writers that append in place
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


class _InPlace(_LocalDestination):
    """Data that grow under their final name."""

    grows = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.partial = path

    @property
    def is_owned(self) -> bool:
        return self._folder_lock is not None and self._folder_lock.is_current

    def lock(self, overwrite: bool) -> None:
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

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        self._write_sidecar(sidecar_bytes(facts) if keep else None)

    def discard(self) -> None:
        """Keep the data: they existed before."""


class SharedFolder(_LocalDestination):
    """A folder that several writers fill with shards, of which each has a destination and a lock of its own."""

    grows = True

    @property
    def is_owned(self) -> bool:
        return True

    def lock(self, overwrite: bool) -> None:
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

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        """Do nothing: each shard was published when it was complete."""

    def discard(self) -> None:
        """Do nothing: the shards that are complete stay."""


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


class _RemoteDestination(_TemporaryFolder):
    """An fsspec URL: data are uploaded under a partial name, then renamed."""

    def __init__(self, url: str, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path.rstrip("/")
        self.name = url

    def exists(self) -> bool:
        with errors_as_os_error(self.name):
            return bool(self._fs.exists(self._path))

    def _entry(self) -> StoredFile | Folder:
        return (FsspecFolder if self._fs.isdir(self._path) else FsspecFile)(self._fs, self._path)

    def _read_sidecar(self) -> bytes | None:
        name = self._path + SIDECAR_SUFFIX
        return bytes(self._fs.cat_file(name)) if self._fs.exists(name) else None

    def _write_sidecar(self, content: bytes | None) -> None:
        name = self._path + SIDECAR_SUFFIX
        if content is not None:
            self._fs.makedirs(self._fs._parent(name), exist_ok=True)
            self._fs.pipe_file(name, content)
        elif self._fs.exists(name):
            self._fs.rm_file(name)

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = _NO_FILES) -> None:
        with errors_as_os_error(self.name):
            self._send(self.partial, self._path + ".partial")  # takes longest, and nothing is replaced yet
            super().publish(facts, keep=keep, sidecars=sidecars)

    def _rename(self, sidecars: Mapping[str, Path | None]) -> None:
        if self._fs.exists(self._path):
            self._fs.rm(self._path, recursive=True)
        for name, now in sidecars.items():
            there = f"{self._fs._parent(self._path)}/{name}"
            if now is not None:
                self._send(now, there)
            elif self._fs.exists(there):
                self._fs.rm(there)
        self._fs.mv(self._path + ".partial", self._path, recursive=self.partial.is_dir())

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
        return _LocalDestination(_new_path(name)) if is_local_system(fs) else _RemoteDestination(path, fs, name)
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
    if found.name.endswith(OWN_SUFFIXES):  # a writer of another name would delete them
        raise ValueError(f"{str(found)!r} ends as a file that a writer of another name makes beside its data. {remedy}")
    if found.exists() and not (found.is_file() or found.is_dir()):
        raise TargetExistsError(f"{str(found)!r} is a device, a pipe or a socket", remedy=remedy)
    return found
