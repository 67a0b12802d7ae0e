"""StagingArea: where new data grow, which shards of them are committed, and how they get their final name."""

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, Remedy, StateMismatchError, TargetExistsError
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.file_comparison import compare_entry, fitting_metadata
from dataformats.sidecars.sidecar import list_file, load_sidecar, sidecar_bytes, without_checksums
from dataformats.staging.entries import ShardEntry
from dataformats.storage import atomic
from dataformats.storage.record_journal import journal_path

_LOG = logging.getLogger("dataformats")
ENCODING = ("format", "payload", "spec", "extends", "plan")


@dataclass(frozen=True, slots=True)
class Publication:
    """Complete data that get their final name.

    Attributes:
        metadata: The content of their sidecar.
        keep: False if they need no sidecar.
        shards: Final name to staged name of each new shard; `None` for a single file or folder.
        kept: Final name to present name of each shard of the finished data that stays.
        beside: The files beside a single file: `HasSidecars.sidecars`.
        previous: The metadata of the finished data that these extend; `None` takes them from the sidecar.
    """

    metadata: Mapping[str, Any]
    keep: bool
    shards: Mapping[str, str] | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Path | None] = field(default_factory=dict)
    previous: Mapping[str, Any] | None = None


class StagingArea(ABC):
    """New data until they have their final name: one file or folder, or shards, each committed by its entry.

    A shard grows in a working folder, is added to the area when it is complete, and counts once its entry is written.
    Any number of processes may add shards and write entries: the last of several entries with one number counts. A
    pickled area can be used only for this.

    Attributes:
        name: The final name, for messages.
        partial: The local path where a single file or folder grows.
    """

    name: str
    partial: Path

    # ---- the name

    @abstractmethod
    def exists(self) -> bool:
        """Return True if something has the final name."""

    @property
    def final(self) -> Path:
        """The final name as a local path.

        Raises:
            ValueError: It is not on the local disk.
        """
        raise self._not_local()

    def _not_local(self) -> ValueError:
        return ValueError(f"cannot resume or append: expected a local path, found {self.name!r}")

    def unrelated_entry(self) -> Path | str | None:
        """Return a file or folder in the folder of this name that is not data, or `None`."""
        return None

    def entry(self) -> StoredFile | Folder | None:
        """Return the file or folder that has the final name, or `None`."""
        try:
            return self._entry() if self.exists() else None
        except FileNotFoundError:
            return None  # a link that names nothing

    @abstractmethod
    def lock(self, backend: Backend, *, overwrite: bool, resume: bool, shared: bool = False) -> None:
        """Lock the name until `release`, and complete the publication that a killed writer of this name began.

        Args:
            backend: The format of the new data.
            overwrite: `publish` replaces the data that have the name.
            resume: `begin` will resume.
            shared: Have the name together with others that share it. One of them at a time prepares the area, until
                the end of `begin`.

        Raises:
            TargetInUseError: Another writer has the name.
            TargetExistsError: Something else than partial data has their name.
        """

    @abstractmethod
    def extend(self) -> None:
        """Replace the data that have the name by longer ones, at `publish`, unless another writer changed them."""

    @abstractmethod
    def release(self) -> None:
        """Let other writers have the name; a second call is a no-op."""

    def check_owned(self) -> None:
        """Raise `RuntimeError` unless the partial data still belong to this writer."""
        if not self.is_owned:
            raise RuntimeError(f"another program deleted or replaced {str(self.partial)!r} or its sidecar")

    @property
    def is_owned(self) -> bool:
        """True until another program deletes or replaces what `lock` locked."""
        return True

    # ---- data that grow

    @abstractmethod
    def begin(self, metadata: Mapping[str, Any], *, resume: bool, sharded: bool) -> None:
        """Delete partial data of an interrupted writer, or check that this one resumes them.

        Args:
            metadata: Format, payload and spec, the digest of the finished data that they extend, and the plan of a
                conversion.
            resume: Keep the data.
            sharded: The data are shards.

        Raises:
            FormatError: The metadata that the interrupted writer left are damaged.
            StateMismatchError: It had another format, payload, spec or plan.
            ValueError: `resume`, and the area cannot keep partial data.
        """

    def announce(self, others: Mapping[str, Any]) -> None:  # noqa: B027  # only local partial data keep metadata
        """Keep with the partial data that data of other names are published before these.

        Args:
            others: Name to the list of files.
        """

    def announced(self) -> Mapping[str, Any]:
        """Return the announcement of an interrupted writer: see `announce`."""
        return {}

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The local folder in which the shards of this process grow."""

    @contextmanager
    def working_folder(self) -> Iterator[Path]:
        """Yield a local folder in which a worker process writes one shard."""
        yield self.folder

    def open_shard(self, number: int) -> Path:
        """Return the local path where a shard grows; an interrupted writer may have begun it."""
        return self.folder / f"{number:05d}.partial"

    @abstractmethod
    def send(self, shard: Path) -> None:
        """Add a complete shard, a file or a folder in a working folder, under its own name."""

    @abstractmethod
    def write_entry(self, number: int, entry: ShardEntry) -> None:
        """Write an entry at once: it is there whole, or not at all."""

    def add(self, number: int, entry: ShardEntry, shard: Path) -> None:
        """Add a shard and commit it, perhaps in the background: see `settle`. Then its journal is deleted."""
        self.send(shard)
        self.write_entry(number, entry)
        atomic.remove(journal_path(shard))

    def settle(self, n_pending: int = 0) -> None:  # noqa: B027  # nothing is pending unless `add` works in the background
        """Wait until at most this many shards are not committed yet, and raise the error of one that failed.

        Once none is pending, all shards and their names survive a crash of the machine.
        """

    def suspend(self) -> None:
        """Keep the partial data for a later resume, as far as possible."""
        try:
            self.settle()
        except OSError as error:
            _LOG.warning("shards of %s were not sent, and must be written again: %s", self.name, error)

    @abstractmethod
    def entries(self, numbers: Iterable[int] | None = None) -> dict[int, ShardEntry]:
        """Return number to entry, for all entries or for `numbers`; damaged ones are left out, and logged."""

    @abstractmethod
    def is_sound(self, entry: ShardEntry, *, checksums: bool) -> bool:
        """Return True if a committed shard is as its entry lists it.

        Args:
            entry: The entry.
            checksums: Read local files whole; else compare their size and a few blocks. Only the sizes of objects are
                compared: their store keeps checksums.
        """

    @abstractmethod
    def keep_only(self, entries: Mapping[int, ShardEntry], growing: int = -1) -> None:
        """Delete all shards and entries but these, and but the shard of the number `growing`."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the partial data."""

    # ---- publishing

    def can_retry(self, error: BaseException) -> bool:
        """Return True if `publish` may be called again after this error, which then says where the data stay."""
        return False

    @abstractmethod
    def publish(self, publication: Publication) -> None:
        """Give the data their final name, after their sidecar `NAME.dataformats.json` is there.

        So the data never lack their sidecar. Until they have the name, the sidecar also has the metadata of the data
        that they replace; a reader takes those whose files are there.

        Raises:
            TargetExistsError: Something got the name meanwhile, and it is not to be replaced.
        """

    def complete(self, metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the metadata of the data that have the final name; `None` if they are others, or not all there.

        Ends the work of a writer that was killed after it gave them the name.
        """
        published, is_sound = self._published_metadata()
        if published is None or not is_sound:
            return None
        known = {name: published[name] for name in ENCODING if name in published} or {"format": metadata["format"]}
        if known != dict(metadata):
            return None
        self._end(sidecar_bytes(published) if len(metadata) > 1 else None)
        return published

    def _published_metadata(self) -> tuple[dict[str, Any] | None, bool]:
        """Return the metadata of the data that have the final name, if there are any, and if these are complete."""
        entry = self.entry()
        if entry is None:
            return None, False
        try:
            sidecar = load_sidecar(entry)
        except FormatError:
            return {}, False
        if sidecar is None:
            return {}, True
        metadata, found = fitting_metadata(sidecar, functools.partial(compare_entry, sidecar.name, entry))
        return metadata, not (metadata.get("incomplete") or any(found.errors()))

    def holds(self, files: Sequence[Mapping[str, Any]]) -> bool:
        """Return True if the data of this list of files have the final name."""
        entry = self.entry()
        return entry is not None and not any(compare_entry(self.name, entry, files).errors(remote=True))

    def _end(self, content: bytes | None) -> None:
        """Leave the sidecar of the new data, or none."""
        if self._read_sidecar() != content:
            self.write_sidecar(content)

    @abstractmethod
    def _entry(self) -> StoredFile | Folder:
        """Return the file or folder that has the final name."""

    @abstractmethod
    def _read_sidecar(self) -> bytes | None:
        """Return the content of the sidecar of the final name, or `None`."""

    @abstractmethod
    def write_sidecar(self, content: bytes | None) -> None:
        """Write the sidecar of the final name; `None` deletes it."""


def check_encoding(saved: Mapping[str, Any], metadata: Mapping[str, Any], sidecar: str) -> None:
    """Raise `StateMismatchError` unless a sidecar of this name has this format, payload, spec and plan."""
    saved = {name: saved[name] for name in ENCODING if name in saved}
    now = dict(metadata)
    then_plan, now_plan = saved.pop("plan", None), now.pop("plan", {})
    then_plan = then_plan if isinstance(then_plan, dict) else {}
    if saved != now:
        raise StateMismatchError(
            f"the encoding of the data that {sidecar!r} describes",
            expected=saved,
            found=now,
            remedy="Pass the same format, payload and spec, or write new data, without resume=True and append=True.",
        )
    differing = [name for name in {**then_plan, **now_plan} if then_plan.get(name) != now_plan.get(name)]
    if differing:
        raise StateMismatchError(
            f"the plan of the conversion that {sidecar!r} describes",
            expected={name: then_plan.get(name) for name in differing},
            found={name: now_plan.get(name) for name in differing},
            remedy=Remedy("Resume with the same source and arguments, or start again without {resume}.", resume=True),
        )


def is_as_listed(path: Path, entry: ShardEntry, *, checksums: bool) -> bool:
    """Return True if a local shard is as its entry lists it."""
    listed = entry.file if checksums else without_checksums(entry.file)
    return path.exists() and list_file(entry.file["name"], entry.n_records, path, {}, checksums=checksums) == listed


def name_is_taken(name: str) -> TargetExistsError:
    """Return the error that something got the final name meanwhile."""
    remedy = Remedy("Pass {overwrite} to replace it", overwrite=True)
    return TargetExistsError(f"{name!r} exists: another program made it meanwhile", remedy=remedy)
