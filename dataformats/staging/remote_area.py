"""RemoteArea: new data behind a URL. Shards are sent as they are complete, and all get their names by a redo log."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dataformats.errors import DataFormatsError, FormatError, TargetExistsError, TargetInUseError
from dataformats.fork_hooks import cached_property
from dataformats.indexing.folder_index import write_folder_index
from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.file_comparison import compare_entry
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX, sidecar_bytes
from dataformats.staging.area import Publication, StagingArea, check_encoding, name_is_taken
from dataformats.staging.entries import ENTRY_SUFFIX, ShardEntry, entry_name, index_name
from dataformats.staging.foreign_files import unrelated_object
from dataformats.staging.objects import Objects
from dataformats.staging.redo_log import LogObject, RedoLog
from dataformats.storage import atomic
from dataformats.storage.record_journal import journal_path
from dataformats.storage.remote.errors import raise_as_os_error
from dataformats.storage.remote.files import FsspecFile, FsspecFolder
from dataformats.storage.remote.names import parent_of
from dataformats.storage.remote.range_requests import retry_transient
from dataformats.storage.remote.versions import identity_of
from dataformats.storage.threads import concurrent_map

_METADATA = "facts.json"
_ID = re.compile(r"[0-9a-f]{16}")


class RemoteArea(StagingArea):
    """New data behind an fsspec URL.

    They grow in a temporary folder. Complete shards are sent to `NAME.partial/ID/`, where ID is the writer's own; the
    object `NUMBER.json` there commits a shard. To publish, a writer creates the object `NAME.partial.dataformats.json`
    if it does not exist. It is a redo log: it says which objects get which names, so any writer that finds it can end
    what a killed one began, and no two publish at once. A writer that publishes rewrites the object `heartbeat` beside
    its shards several times in `_PATIENCE_S`; another one counts it as killed if that object does not change so long.

    Args:
        url: The final name.
        fs: The fsspec file system.
        path: The final name in it.
        writer: The ID, once `begin` chose it.
    """

    def __init__(self, url: str, fs: Any, path: str, writer: str = "") -> None:
        self._fs = fs
        self._path = path.rstrip("/")
        self.name: str = url
        self._id = writer
        self._objects = Objects(fs)
        self._log = LogObject(self._objects, self._path, url)
        self._overwrite = self._is_sharded = self._is_taken = False
        self._folder: Path | None = None
        self._extended: dict[str, Any] | None = None
        self._unmoved: RedoLog | None = None  # the log of a killed writer, which may be resumed
        self._pending: dict[int, tuple[Callable[[], None], Future[None] | None]] = {}
        self._sizes: dict[str, int] = {}  # sizes of this writer's objects, by the last listing

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self._fs, self._path, self._id)

    # ---- the name

    def exists(self) -> bool:
        self._fs.invalidate_cache(self._path)
        with raise_as_os_error(self.name):  # missing credentials are an error before anything is written
            try:
                retry_transient(lambda: self._fs.info(self._path))
            except (FileNotFoundError, PermissionError):  # the latter of a role that may only write
                return False
            return True

    def unrelated_entry(self) -> str | None:
        with raise_as_os_error(self.name):
            if not self._fs.isdir(self._path):
                return None
            return unrelated_object(FsspecFolder(self._fs, self._path), self._fs.find(self._path))

    def lock(self, backend: Backend, *, overwrite: bool, resume: bool, shared: bool = False) -> None:
        self._overwrite = overwrite
        with raise_as_os_error(self.name), suppress(PermissionError):  # the role may only write
            self._finish_other(keeps_unmoved=resume)

    def extend(self) -> None:
        self._overwrite, self._extended = True, self._contents()

    def release(self) -> None:
        if "_threads" in vars(self):
            self._threads.shutdown(wait=True, cancel_futures=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # ---- data that grow

    def begin(self, metadata: Mapping[str, Any], *, resume: bool, sharded: bool) -> None:
        self._is_sharded = sharded
        if resume and not sharded:
            raise self._not_local()
        text = json.dumps(metadata)
        with raise_as_os_error(self.name):
            self._id = self._resumed(json.loads(text)) if resume else secrets.token_hex(8)
            self._objects.write(f"{self._prefix}/{_METADATA}", text.encode())  # which shows that this may be done
            if self._unmoved is not None and self._unmoved.id == self._id:
                self._log.delete()  # this writer publishes the same objects again
            elif self._unmoved is not None:
                self._redo(self._unmoved)

    def _resumed(self, metadata: dict[str, Any]) -> str:
        """Return the ID of the interrupted writer with these metadata that has most shards, or a new ID."""
        writers: dict[str, dict[str, Any]] = {}
        for path in self._objects.find(f"{self._path}.partial"):
            inside = path.rpartition(f"{self._path}.partial/")[2]
            if inside.count("/") == 1 and inside.endswith(f"/{_METADATA}"):
                writers[inside.removesuffix(f"/{_METADATA}")] = json.loads(self._fs.cat_file(path))
        equal = [writer for writer, saved in writers.items() if saved == metadata]
        for writer, saved in writers.items() if not equal else ():
            check_encoding(saved, metadata, f"{self.name}.partial/{writer}/{_METADATA}")
        objects = {writer: len(self._objects.find(f"{self._path}.partial/{writer}")) for writer in equal}
        # The parts of a conversion begin at once, and agree on a name for what they write together.
        common = hashlib.sha256(str(metadata).encode()).hexdigest()[:16]
        return max(equal, key=lambda writer: (objects[writer], writer), default=common)

    @property
    def folder(self) -> Path:
        """A temporary folder, made at first use."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dataformats-"))
        return self._folder

    @property
    def partial(self) -> Path:  # type: ignore[override]  # an attribute of other areas
        return self.folder / self._path.rsplit("/", 1)[-1]

    @contextmanager
    def working_folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="dataformats-") as folder:
            yield Path(folder)

    def open_shard(self, number: int) -> Path:
        return self.folder / f"{number:05d}-{secrets.token_hex(8)}.partial"  # two processes may resume one writer

    def send(self, shard: Path) -> None:
        with raise_as_os_error(self.name):
            index = shard.with_name(index_name(shard.name))
            files = [*([index] if index.exists() else []), *_files(shard)]
            self._objects.send({f"{self._prefix}/{path.relative_to(shard.parent).as_posix()}": path for path in files})
        atomic.remove(shard, journal_path(shard))

    def write_entry(self, number: int, entry: ShardEntry) -> None:
        if not entry.is_complete:
            return  # what grows here ends with the process
        with raise_as_os_error(self.name):
            self._objects.write(f"{self._prefix}/{entry_name(number)}", entry.pack())

    def add(self, number: int, entry: ShardEntry, shard: Path) -> None:
        """Send the shard and commit it in a thread."""

        def commit() -> None:
            if shard.exists():  # else it was sent before an error
                self.send(shard)
            self.write_entry(number, entry)

        self._pending[number] = commit, self._threads.submit(commit)

    def settle(self, n_pending: int = 0) -> None:
        while len(self._pending) > n_pending:
            number, (commit, sending) = next(iter(self._pending.items()))
            try:
                (sending or self._threads.submit(commit)).result()
            except BaseException:
                self._pending[number] = commit, None  # the next call tries again
                raise
            del self._pending[number]

    def suspend(self) -> None:
        if self._is_sharded:
            super().suspend()
        else:
            self.discard()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "dataformats-send")

    def entries(self, numbers: Iterable[int] | None = None) -> dict[int, ShardEntry]:
        with raise_as_os_error(self.name):
            found = self._objects.find(self._prefix)
            self._sizes = {path.rpartition(f"{self._prefix}/")[2]: about["size"] for path, about in found.items()}
            known = [name.removesuffix(ENTRY_SUFFIX) for name in self._sizes if name.endswith(ENTRY_SUFFIX)]
            listed = {int(name) for name in known if name.isdecimal()}
            chosen = sorted(listed if numbers is None else listed.intersection(numbers))
            texts = concurrent_map(
                lambda number: self._fs.cat_file(f"{self._prefix}/{entry_name(number)}"), chosen, local=False
            )
        return {number: ShardEntry.parse(text) for number, text in zip(chosen, texts, strict=True)}

    def is_sound(self, entry: ShardEntry, *, checksums: bool) -> bool:
        return all(self._sizes.get(name) == size for name, size in entry.sizes.items())

    def keep_only(self, entries: Mapping[int, ShardEntry], growing: int = -1) -> None:
        kept = {
            name
            for number, entry in entries.items()
            for name in (*entry.sizes, index_name(entry.shard), entry_name(number))
        }
        with raise_as_os_error(self.name):
            self._objects.delete(f"{self._prefix}/{name}" for name in self._sizes.keys() - kept - {_METADATA})

    def discard(self) -> None:
        self.release()
        with raise_as_os_error(self.name):
            if self._id and self._log.read(self._id) is None:  # else the next writer ends what was published in part
                self._objects.remove(self._prefix)

    @property
    def _prefix(self) -> str:
        return f"{self._path}.partial/{self._id}"

    # ---- publishing

    def can_retry(self, error: BaseException) -> bool:
        if not isinstance(error, OSError) or isinstance(error, DataFormatsError):
            return isinstance(error, TargetInUseError)
        where = f"The data stay in {str(self.folder)!r}: call close() again to send them"
        error.strerror = f"{error.strerror or error}. {where}"
        error.errno, error.filename = error.errno or errno.EIO, self.name
        return True

    def publish(self, publication: Publication) -> None:
        """Send the rest, and give all objects their names, so that `open` finds the old data or the new ones.

        If new objects replace others of the same names, `open` refuses the data in between.
        """
        self.settle()
        with raise_as_os_error(self.name):
            log = self._log.read(self._id)
            if log is None and not self._is_taken:
                log = self._new_log(publication)
                self._take(log)
            is_ended = log is not None and self._redo(log)
            if not is_ended and not self._is_there(publication.metadata):  # another writer has ended or undone it
                raise self._replaced()

    def _new_log(self, publication: Publication) -> RedoLog:
        """Return the log of a publication, after sending the files that are still here."""
        before = self._read_sidecar()
        same = [name for name, now in publication.kept.items() if name == now]
        previous = publication.previous or self._published_metadata()[0]
        beside = [f"{self._parent}/{name}" for name in publication.beside]
        old, moves = self._old_objects(beside), self._moves(publication)
        replaces = bool(old & moves.keys())
        # Old data whose objects stay are readable until all new objects are there; so is one object that is replaced.
        is_one = self._objects.appear_whole and len(moves) == 1 and old <= moves.keys()
        self._send_index(publication, moves)
        is_seamless = is_one or not old or ("files" in (previous or {}) and not replaces)
        return RedoLog(
            id=self._id,
            metadata=publication.metadata,
            keep=publication.keep,
            previous=previous,
            before=None if before is None else before.decode(),
            beside=[*beside, self._index],
            kept=[path for name in same for path in self._objects.find(f"{self._path}/{name}")],
            moves=moves,
            replaces=replaces,
            is_seamless=is_seamless,
        )

    def _local_objects(self, publication: Publication) -> dict[str, Path]:
        """Return final name to local path of the files of a single file or folder, and of those beside it."""
        found = {
            f"{self._path}{path.as_posix().removeprefix(self.partial.as_posix())}": path
            for path in _files(self.partial)
        }
        beside = {f"{self._parent}/{name}": path for name, path in publication.beside.items()}
        return found | {name: path for name, path in beside.items() if path is not None}

    def _moves(self, publication: Publication) -> dict[str, str]:
        """Return final to present name of all new objects, after sending those that are still here."""
        if publication.shards is None:
            objects = self._local_objects(publication)
            staged = {name: f"{self._prefix}/{name.removeprefix(f'{self._parent}/')}" for name in objects}
            self._objects.send({staged[name]: path for name, path in objects.items()})
            return staged
        inside: dict[str, list[str]] = {}
        for path in self._objects.find(self._prefix):
            inside.setdefault(path.removeprefix(f"{self._prefix}/").partition("/")[0], []).append(path)
        shards = {
            name: (f"{self._prefix}/{staged}", inside.get(staged, [])) for name, staged in publication.shards.items()
        }
        for name, now in publication.kept.items():
            if name != now:
                shards[name] = f"{self._path}/{now}", [*self._objects.find(f"{self._path}/{now}")]
        if not all(paths for _, paths in shards.values()):
            raise self._replaced()
        return {
            f"{self._path}/{name}{path.removeprefix(now)}": path
            for name, (now, paths) in shards.items()
            for path in paths
        }

    def _send_index(self, publication: Publication, moves: dict[str, str]) -> None:
        """Join the indexes of all shards, and send them; `moves` gets their names."""
        shards, path, finished = publication.shards or {}, self.folder / INDEX_SUFFIX, self.folder / "finished.idx"
        new = {name: self.folder / index_name(staged) for name, staged in shards.items()}
        others = {f"{self._prefix}/{part.name}": part for part in new.values() if not part.exists()}
        there = self._objects.find(self._prefix).keys() if others else {}
        self._objects.fetch({name: part for name, part in others.items() if name in there})
        if publication.kept and self._fs.exists(self._index):
            self._objects.fetch({self._index: finished})
        write_folder_index(path, new, publication.kept, finished)
        if path.exists():
            moves[self._index] = f"{self._prefix}/{INDEX_SUFFIX}"
            self._objects.send({moves[self._index]: path})

    @property
    def _index(self) -> str:
        """The object with the indexes of the shards."""
        return f"{self._path}{INDEX_SUFFIX}"

    def _take(self, log: RedoLog) -> None:
        """Create the log, so that no other writer publishes; end what another one left.

        Raises:
            TargetExistsError: Another writer has published since this one began.
        """
        while not self._log.create(log):
            if self._finish_other():
                break  # it is the log of this writer: the answer was lost
        try:
            with self._log.heartbeats(self._id):
                lacking = (
                    {*log.moves.values()}
                    - self._objects.find(self._prefix).keys()
                    - self._objects.find(self._path).keys()
                )
                if lacking or (self._extended is not None and self._extended != self._contents()):
                    raise self._replaced()
                if not self._overwrite and self.exists():
                    raise name_is_taken(self.name)
        except BaseException:
            self._log.delete()
            raise
        self._is_taken = True

    def _replaced(self) -> TargetExistsError:
        """Return the error that another writer has published, and deleted or extended what this one needs."""
        what = f"{self.name!r} was written, replaced or extended by another writer meanwhile"
        return TargetExistsError(what, remedy="Append to the data that are there, or write to another name")

    def _finish_other(self, *, keeps_unmoved: bool = False) -> bool:
        """Wait for a writer that is publishing, and do its work if it was killed; return True if it is this one.

        Args:
            keeps_unmoved: Leave a log whose objects have not all been moved to `begin`, which may resume that writer.

        Raises:
            TargetInUseError: It is publishing still.
        """
        while (log := self._log.wait(self._id)) is not None:
            if log.id == self._id:
                return True
            if self._can_undo(log):
                self._undo(log, keeps_staged=keeps_unmoved)
            elif keeps_unmoved and self._is_unmoved(log):
                self._unmoved = log
                return False
            else:
                self._redo(log)
        return False

    def _is_unmoved(self, log: RedoLog) -> bool:
        """Return True if some staged objects may not have their names yet."""
        if not log.moves or log.is_moved:
            return False
        return log.replaces or not self._is_there(log.metadata)  # an old object may have the size of the new one

    def _can_undo(self, log: RedoLog) -> bool:
        """Return True if readers have not seen the new data, and the old ones are whole."""
        before = None if log.before is None else log.before.encode()
        return self._is_unmoved(log) and (not log.replaces or self._read_sidecar() == before)

    def _undo(self, log: RedoLog, *, keeps_staged: bool) -> None:
        """Leave the old data, or none.

        Args:
            log: The log.
            keeps_staged: Keep what was staged, for a writer that resumes it. Else it is deleted first, so that a copy
                of it fails that the other writer requested and the store has not made yet.
        """
        if not keeps_staged:
            self._objects.remove(f"{self._path}.partial/{log.id}")
        if not log.replaces:
            self._objects.delete(log.moves)
        self._end_as(log, is_there=False)
        self._log.delete()

    def _redo(self, log: RedoLog) -> bool:
        """Apply a log: all of it, or the rest that an interrupted writer left.

        Returns False if another writer has ended or undone it meanwhile.
        """
        metadata, moves = log.metadata, log.moves
        with self._log.heartbeats(log.id):
            new, old = {*moves, *log.kept}, self._old_objects(log.beside)
            if not log.is_moved:
                moved: list[str] = []
                try:
                    self._describe(log, new)
                    self._move(log, moved)
                except BaseException:
                    if not self._log.is_current(log):
                        return False
                    if not moved:
                        self._is_taken = False
                        with suppress(Exception):
                            self._end_as(log, is_there=False)
                            self._log.delete()
                    raise
            # Another writer has ended this if this process stood still for longer than the other waits.
            if moves and not log.is_moved and self._log.is_current(log):
                self._log.set_moved(log)  # what was moved may be deleted
            if new and self._log.is_current(log):
                self._objects.delete(old - new)
            # An old object may have the size of the new one.
            is_there = self._is_there(metadata) if moves else self.holds(metadata["files"])
        if not self._log.is_current(log):
            return False
        if new and not is_there:
            what = "the data are not as they were written: another program deleted or replaced objects"
            raise FormatError(what, path=self.name, remedy="Write them again")
        self._end_as(log, is_there=is_there)
        self._clean_up()
        if self._log.is_current(log):
            self._log.delete()
        return True

    def _describe(self, log: RedoLog, new: set[str]) -> None:
        """Write the sidecar for the time in which objects get their names."""
        if log.keep or log.before is not None or len(new - {self._index}) > 1:
            metadata = log.metadata
            is_seamless = log.is_seamless
            self.write_sidecar(
                sidecar_bytes(metadata, log.previous)
                if is_seamless
                else sidecar_bytes({**metadata, "incomplete": True})
            )

    def _move(self, log: RedoLog, moved: list[str]) -> None:
        """Give objects their final names; `moved` gets the names that have changed."""
        moves = log.moves

        def move(name: str) -> None:
            if self._log.is_lost(log):
                raise self._replaced()
            self._objects.move(moves[name], name)
            moved.append(name)

        is_folder = self._fs.isdir(self._path)
        if moves and is_folder == (self._path in moves) and self._fs.exists(self._path):
            moved.append(self._path)  # a file replaces a folder, or reverse
            self._fs.rm(self._path, recursive=is_folder)
        self._objects.make_folders(moves)
        concurrent_map(move, list(moves), local=False)

    def _end_as(self, log: RedoLog, *, is_there: bool) -> None:
        """Leave the sidecar of the new data if they are there, else the sidecar of the old data."""
        if is_there:
            self._end(sidecar_bytes(log.metadata) if log.keep else None)
        else:
            self.write_sidecar(None if log.before is None else log.before.encode())

    def _is_there(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if the name has objects of the listed sizes, perhaps beside others."""
        entry = self.entry()
        if entry is None:
            return False
        found = compare_entry(self.name, entry, metadata["files"])
        found.extra.clear()
        return not any(found.errors())

    def _clean_up(self) -> None:
        """Delete what this and other writers have sent to `NAME.partial/`; other objects there stay."""
        inside = (path.rpartition(f"{self._path}.partial/")[2] for path in self._objects.find(f"{self._path}.partial"))
        for writer in {name.partition("/")[0] for name in inside}:
            if _ID.fullmatch(writer):
                self._objects.remove(f"{self._path}.partial/{writer}")
        if not self._objects.find(f"{self._path}.partial"):
            self._objects.remove(f"{self._path}.partial")  # the file system has folders

    # ---- objects

    def _entry(self) -> StoredFile | Folder:
        return (FsspecFolder if self._fs.isdir(self._path) else FsspecFile)(self._fs, self._path)

    def _read_sidecar(self) -> bytes | None:
        return self._objects.read(self._path + SIDECAR_SUFFIX)

    def write_sidecar(self, content: bytes | None) -> None:
        name = self._path + SIDECAR_SUFFIX
        self._objects.delete([name]) if content is None else self._objects.write(name, content)

    @property
    def _parent(self) -> str:
        return parent_of(self._fs, self._path)

    def _contents(self) -> dict[str, Any]:
        """Return the objects of the finished data, with their versions, and the sidecar."""
        found = self._objects.find(self._path)
        return {path: identity_of(about) for path, about in found.items()} | {"": self._read_sidecar()}

    def _old_objects(self, beside: Iterable[str]) -> set[str]:
        """Return the objects of the data that have the name, and these beside them, if they exist."""
        inside = {path for path in self._objects.find(self._path) if not path.endswith("/")}
        return inside | {name for name in beside if self._fs.exists(name)}


def _files(path: Path) -> list[Path]:
    return sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
