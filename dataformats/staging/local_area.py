"""LocalArea: new data on the local disk, and their final name in one rename."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, TargetInUseError
from dataformats.indexing.folder_index import write_folder_index
from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX, sidecar_bytes
from dataformats.staging.area import Publication, StagingArea, check_encoding, is_as_listed, name_is_taken
from dataformats.staging.entries import ENTRY_SUFFIX, ShardEntry, entry_name, index_name
from dataformats.staging.foreign_files import holds_data_of, unrelated_entry
from dataformats.staging.lock import Mark, NameLock, in_the_way
from dataformats.storage import atomic
from dataformats.storage.file_lock import FileLock
from dataformats.storage.files import LocalFile, LocalFolder

_LOG = logging.getLogger("dataformats")
_ENTRY = ".entry.journal"
_JOURNALS = (".journal", _ENTRY)
_ENDINGS = [f"{name}{more}" for name in ("", *_JOURNALS, INDEX_SUFFIX) for more in ("", ".partial")]  # the data first
_SHARD = re.compile(r"\d{5,}(-[0-9a-f]{16})?\.(partial|json)(\..*)?")  # or a journal or temporary file of it


class LocalArea(StagingArea):
    """New data that grow in `NAME.partial`: a file, a folder, or a folder of shards and their entries.

    Complete shards move into the folder `NAME.complete.partial` and get their final names there. So no task that is
    late writes into a folder that is published.

    Args:
        path: The final name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name: str = str(path)
        self.partial: Path = path.with_name(f"{path.name}.partial")
        self._complete = path.with_name(f"{path.name}.complete.partial")
        self._name_lock = NameLock(self._beside(SIDECAR_SUFFIX), path)
        self._folder_lock: FileLock | None = None
        self._overwrite = self._is_adopted = self._is_left = self._is_shared = self._is_sharded = False
        self._is_named = False  # True once the name of a single file or folder is on the disk

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path,)

    # ---- the name

    @property
    def final(self) -> Path:
        return self._path

    def exists(self) -> bool:
        return os.path.lexists(self._path)

    def unrelated_entry(self) -> Path | None:
        # A link is replaced, and the folder that it names stays.
        return unrelated_entry(self._path) if atomic.is_folder(self._path) else None

    @property
    def is_owned(self) -> bool:
        return self._name_lock.is_current

    def lock(self, backend: Backend, *, overwrite: bool, resume: bool, shared: bool = False) -> None:
        self._overwrite, self._is_shared = overwrite, shared
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # This check comes before there is a sidecar, which would say that the data are ours.
        self._check_foreign(backend, resume)
        with _other_writers(self.name):
            if self._name_lock.acquire(shared=shared):
                self._recover()
                if self._is_left:
                    self._remove_data()
        if overwrite:
            self._lock_folder()

    def extend(self) -> None:
        self._overwrite = True
        self._lock_folder()

    def clear(self, backend: Backend) -> None:
        """Delete the leftovers of a writer that was killed after it had published the data."""
        if os.path.lexists(self._name_lock.path):
            try:
                self.lock(backend, overwrite=False, resume=True)
            finally:
                self.release()

    def _lock_folder(self) -> None:
        """Refuse writers that append in place."""
        if self._path.is_dir():
            with _other_writers(self.name):
                self._folder_lock = FileLock(self._path, shared=self._is_shared)

    def release(self) -> None:
        try:
            if self.is_owned and not self._name_lock.is_shared:
                if not os.path.lexists(self.partial):
                    self.discard()
                elif self._is_adopted and not self._name_lock.text():
                    atomic.remove(self._name_lock.path)
        except OSError as error:
            _LOG.warning("leftovers beside %s were not deleted: %s", self._path, error)
        finally:
            self._name_lock.release()
            if self._folder_lock is not None:
                self._folder_lock.release()

    def _check_foreign(self, backend: Backend, resume: bool) -> None:
        """Raise `TargetExistsError` if something that no writer of this package left has the partial name.

        Data of the format without a sidecar are taken for data of another program, which a writer may resume.
        """
        if not os.path.lexists(self.partial):
            return
        has_sidecar = os.path.lexists(self._name_lock.path)
        # A crash of the machine may bring back the folder of shards that were published, without its sidecar.
        self._is_left = not has_sidecar and (_is_empty(self.partial) or _holds_only_shards(self.partial))
        is_ours = has_sidecar or self._is_left
        is_ours = is_ours or any(self._beside(journal).is_file() for journal in _JOURNALS)
        if self.partial.is_symlink() or not (is_ours or (resume and holds_data_of(self.partial, backend))):
            what = "it has the name of partial data, but no writer of this package left it"
            raise in_the_way(self.partial, what)
        self._is_adopted = not (has_sidecar or self._is_left)

    # ---- data that grow

    def begin(self, metadata: Mapping[str, Any], *, resume: bool, sharded: bool) -> None:
        self._is_sharded = sharded
        saved = self._saved() if resume else None
        if saved is not None:
            check_encoding(saved, metadata, str(self._name_lock.path))
        is_ours = saved is not None or not (resume and self._is_adopted)
        if is_ours and os.path.lexists(self.partial) and not self.exists():
            self.write_sidecar(None)  # a writer was killed before the data had their name
        if is_ours and saved is None:
            self._remove_data()
        if sharded:
            self.partial.mkdir(exist_ok=True)
        if saved is None:
            announced = self.announced()
            kept = {"announced": announced} if announced else {}
            self._name_lock.write({**metadata, **kept}, sync=resume or bool(kept))
        if self._is_shared:
            with _other_writers(self.name):
                self._name_lock.share()

    def _saved(self) -> dict[str, Any] | None:
        """Return the metadata that the interrupted writer saved; `None` if there is nothing to resume."""
        # The sidecar may be empty after a crash of the machine: then nothing tells what the data are.
        if not os.path.lexists(self.partial) or not self._name_lock.text():
            return None
        try:
            return self._name_lock.metadata()
        except FormatError:
            if _is_empty(self.partial):
                return None  # killed while it wrote the sidecar
            raise

    def announce(self, others: Mapping[str, Any]) -> None:
        self._name_lock.write({**self._name_lock.metadata(), "announced": dict(others)}, sync=True)

    def announced(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self._name_lock.path.read_bytes())["announced"]
            return found if isinstance(found, dict) else {}
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return {}

    @property
    def folder(self) -> Path:
        return self.partial

    def send(self, shard: Path) -> None:
        """The shard is there already."""

    def settle(self, n_pending: int = 0) -> None:
        if n_pending:
            return
        if self._is_sharded:
            atomic.sync(self.partial)
        elif not self._is_named:
            atomic.sync(self._path.parent)
            self._is_named = True

    def write_entry(self, number: int, entry: ShardEntry) -> None:
        atomic.write_bytes(self._entry_path(number), entry.pack())

    def entries(self, numbers: Iterable[int] | None = None) -> dict[int, ShardEntry]:
        if numbers is None and not self._is_sharded:
            numbers = [0]
        elif numbers is None:
            names = [path.name.removesuffix(ENTRY_SUFFIX) for path in self.partial.glob(f"*{ENTRY_SUFFIX}")]
            numbers = [int(name) for name in names if name.isdecimal()]
        found = {}
        for number in sorted(numbers):
            path = self._entry_path(number)
            try:
                found[number] = ShardEntry.parse(path.read_bytes())
            except FileNotFoundError:
                continue
            except ValueError as error:
                _LOG.warning("%s is damaged (%s): its shard must be written again", path, error)
        return found

    def is_sound(self, entry: ShardEntry, *, checksums: bool) -> bool:
        return is_as_listed(self.partial / entry.shard, entry, checksums=checksums)

    def keep_only(self, entries: Mapping[int, ShardEntry], growing: int = -1) -> None:
        shards = [entry.shard for entry in entries.values()]
        kept = {*shards, *map(index_name, shards), *map(entry_name, entries)}
        others = [path for path in self.partial.iterdir() if path.name not in kept]
        atomic.remove(*(path for path in others if not path.name.startswith(f"{growing:05d}.")))

    def discard(self) -> None:
        self._remove_data()
        # The sidecar last: without it, the rest would not be recognized.
        atomic.remove(self._name_lock.path)

    def _beside(self, suffix: str) -> Path:
        return self.partial.with_name(self.partial.name + suffix)

    def _entry_path(self, number: int) -> Path:
        return self.partial / entry_name(number) if self._is_sharded else self._beside(_ENTRY)

    def _remove_data(self) -> None:
        # A writer that is killed while it writes the final sidecar leaves the last one.
        temporary = self._path.with_name(f"{self._path.name}{SIDECAR_SUFFIX}.partial")
        atomic.remove(*[Path(f"{self.partial}{ending}") for ending in _ENDINGS], self._complete, temporary)

    # ---- publishing

    def publish(self, publication: Publication) -> None:
        with self._described(publication):
            self._rename(publication)
        try:
            self.discard()
        except OSError as error:
            _LOG.warning("%s is complete, but leftovers beside it were not deleted: %s", self._path, error)

    def complete(self, metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
        published = None if self.partial.exists() else super().complete(metadata)
        if published is not None:
            atomic.sync(self._path.parent)  # the writer may have been killed before it did
        return published

    @contextmanager
    def _described(self, publication: Publication) -> Iterator[None]:
        """Keep a sidecar of the old and the new data while these get their names, then of the data that are there.

        Args:
            publication: The new data.
        """
        metadata, before = publication.metadata, self._read_sidecar()
        after = sidecar_bytes(metadata) if publication.keep else None
        try:
            if after is not None or before is not None:
                previous = self._published_metadata()[0]
                self.write_sidecar(after if after and previous is None else sidecar_bytes(metadata, previous))
            yield
        except BaseException:
            with suppress(OSError):  # the sidecar holds in any case, for the old data and for the new ones
                if self.holds(metadata["files"]):
                    self._end(after)
                else:
                    self.write_sidecar(before)
            raise
        self._end(after)

    def _rename(self, publication: Publication) -> None:
        """Give the final name to the data, and to the files beside them."""
        beside = {self._path.with_name(name): path for name, path in publication.beside.items()}
        beside = {final: path for final, path in beside.items() if path is not None or os.path.lexists(final)}
        data = self.partial if publication.shards is None else self._complete
        now = {**beside, self._path: data}
        if publication.shards is not None:
            atomic.remove(data)
            data.mkdir()
            atomic.sync(data.parent)
        if publication.shards is not None or any(map(os.path.lexists, now)):
            names = {final.name: None if path is None else path.name for final, path in now.items()}
            shards = None if publication.shards is None else dict(publication.shards)
            self._name_lock.write_mark(Mark(data.lstat().st_ino, names, shards))
        self._gather(publication)
        try:
            if beside:
                atomic.publish_together(now, replace=self._overwrite)
            else:
                atomic.publish(data, self._path, replace=self._overwrite)
        except FileExistsError as error:
            raise name_is_taken(self.name) from error
        # Last, and not in the same moment: an index is valid for each shard by itself.
        staged = self._beside(INDEX_SUFFIX)
        with suppress(FileNotFoundError):
            os.replace(staged, self._index) if staged.exists() else self._index.unlink()

    def _gather(self, publication: Publication) -> None:
        """Move the new shards into the folder that gets the final name, link those that stay, and join the indexes."""
        if publication.shards is None:
            return
        for name, staged in publication.shards.items():
            os.rename(self.partial / staged, self._complete / name)
        for name, present in publication.kept.items():
            _link(self._path / present, self._complete / name)
        new = {name: self.partial / index_name(staged) for name, staged in publication.shards.items()}
        write_folder_index(self._beside(INDEX_SUFFIX), new, publication.kept, self._index)
        atomic.sync(self._complete)

    def _recover(self) -> None:
        """Undo the publication that a killed writer began, or delete the data that it has replaced."""
        mark = self._name_lock.mark()
        if mark is None:
            return
        beside = self._path.with_name
        atomic.restore({beside(name): None if now is None else beside(now) for name, now in mark.names.items()})
        data = self.partial if mark.shards is None else self._complete
        if _inode(self._path) == mark.inode:
            # A file loses its partial name in the rename itself; data that were replaced get it.
            self._remove_data()
            atomic.sync(self._path.parent)
        elif _inode(data) not in (None, mark.inode):
            raise in_the_way(data, "it holds neither new data nor the data that they replaced")
        elif mark.shards is not None:
            self._scatter(mark.shards)
        self._name_lock.remove_mark()

    def _scatter(self, shards: Mapping[str, str]) -> None:
        """Move shards back into the folder in which they grew."""
        for name, staged in shards.items():
            if os.path.lexists(self._complete / name):
                os.rename(self._complete / name, self.partial / staged)
        atomic.sync(self.partial)
        atomic.remove(self._complete)

    def _entry(self) -> StoredFile | Folder:
        return LocalFolder(self._path) if self._path.is_dir() else LocalFile(self._path)

    @property
    def _sidecar(self) -> Path:
        return self._path.with_name(self._path.name + SIDECAR_SUFFIX)

    @property
    def _index(self) -> Path:
        return self._path.with_name(self._path.name + INDEX_SUFFIX)

    def _read_sidecar(self) -> bytes | None:
        return self._sidecar.read_bytes() if self._sidecar.is_file() else None

    def write_sidecar(self, content: bytes | None) -> None:
        if content is None:
            self._sidecar.unlink(missing_ok=True)
        else:
            atomic.write_bytes(self._sidecar, content)


@contextmanager
def _other_writers(name: str) -> Iterator[None]:
    """Raise `TargetInUseError` for a lock that another writer has."""
    try:
        yield
    except BlockingIOError as error:
        remedy = "Close or abort that writer, or wait until its process has ended"
        raise TargetInUseError(f"{name!r} has another writer", remedy=remedy) from error


def _is_empty(path: Path) -> bool:
    if atomic.is_folder(path):
        return not any(path.iterdir())
    return path.lstat().st_size == 0


def _holds_only_shards(path: Path) -> bool:
    """Return True for a folder of shards and entries, by their names."""
    return atomic.is_folder(path) and all(_SHARD.fullmatch(entry.name) for entry in path.iterdir())


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


def _link(source: Path, destination: Path) -> None:
    """Give a finished shard, a file or a folder, a second name; copy it if the file system has no such links."""
    if source.is_dir():
        shutil.copytree(source, destination, copy_function=_link_file)
        for folder, *_ in os.walk(destination):
            atomic.sync(Path(folder))
    else:
        _link_file(source, destination)


def _link_file(source: str | Path, destination: str | Path) -> None:
    try:
        os.link(os.path.realpath(source), destination)
    except OSError:
        atomic.copy_file(Path(source), Path(destination))
        atomic.sync(Path(destination))
