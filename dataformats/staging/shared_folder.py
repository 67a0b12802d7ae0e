"""SharedFolder: several writers fill a folder with shards, and each shard is published when it is complete."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dataformats.errors import Remedy, TargetExistsError
from dataformats.interfaces import Backend
from dataformats.sidecars.sidecar import load_sidecar, sidecar_bytes
from dataformats.staging.area import Publication, check_encoding
from dataformats.staging.entries import ShardEntry
from dataformats.staging.foreign_files import records_of_shards
from dataformats.staging.local_area import LocalArea
from dataformats.storage.files import LocalFile, LocalFolder


class SharedFolder(LocalArea):
    """The shards of one of the writers that fill a folder. Each shard has its own area, and so its own lock.

    Args:
        path: The folder.
        names: Returns the final name of a shard by its number.
        start: The number of the first shard of this writer.
        step: How many writers there are.
    """

    is_staged = False
    publishes_shards = True

    def __init__(self, path: Path, names: Callable[[int], str], start: int, step: int) -> None:
        super().__init__(path)
        self._names = names
        self._start, self._step = start, step
        self._shard: LocalArea | None = None
        self._metadata: Mapping[str, Any] = {}

    @property
    def numbers(self) -> Iterator[int]:
        return itertools.count(self._start, self._step)

    @property
    def is_owned(self) -> bool:
        return self._shard is None or self._shard.is_owned

    def lock(self, backend: Backend, *, overwrite: bool, resume: bool, shared: bool = False) -> None:
        self._format, self._resumes = backend, resume

    def release(self) -> None:
        if self._shard is not None:
            self._shard.release()

    def begin(self, metadata: Mapping[str, Any], *, resume: bool, sharded: bool) -> None:
        """Make the folder and its sidecar, which lists no files; or compare with the sidecar that is there.

        Raises:
            StateMismatchError: The data there have another format, payload or spec.
            TargetExistsError: There are data of other writers.
        """
        self._metadata = metadata
        self._path.mkdir(parents=True, exist_ok=True)
        folder = LocalFolder(self._path)
        if len(metadata) > 1 and load_sidecar(folder) is None:
            if self._format.find(folder):
                raise _not_shared(self.name, "holds data without a sidecar")
            self._write_sidecar(sidecar_bytes(metadata))
        sidecar = load_sidecar(folder)
        if sidecar is not None and sidecar.metadata.get("files"):
            raise _not_shared(self.name, "is complete: its sidecar lists its files")
        if sidecar is not None:
            check_encoding(sidecar.metadata, metadata, sidecar.name)

    def entries(self, numbers: Iterable[int] | None = None) -> dict[int, ShardEntry]:
        """Return the shards of this writer that have their final names."""
        found = {}
        for number in self.numbers if numbers is None else numbers:
            path = self._path / self._names(number)
            if not path.exists():
                break
            LocalArea(path).clear(self._format)
            files = self._format.find(LocalFolder(path)) if path.is_dir() else [LocalFile(path)]
            n_records = sum(n for _, n in records_of_shards(files, self._format))
            found[number] = ShardEntry(path.name, {"name": path.name, "records": n_records, "bytes": 0})
        return found

    def is_sound(self, entry: ShardEntry, *, checksums: bool) -> bool:
        return True  # it was opened

    def open_shard(self, number: int, *, resume: bool) -> Path:
        shard = LocalArea(self._path / self._names(number))
        shard.lock(self._format, overwrite=False, resume=resume)
        try:
            if shard.exists():
                remedy = Remedy(
                    "Pass {resume} to continue behind it, or another {shard_start}", resume=True, shard_start=...
                )
                raise TargetExistsError(f"the shard {shard.name!r} exists", remedy=remedy)
            shard.begin(self._metadata, resume=self._resumes, sharded=False)
        except BaseException:
            shard.release()
            raise
        self._shard = shard
        return shard.partial

    def add(self, number: int, entry: ShardEntry, shard: Path) -> None:
        metadata = {"format": self._format.name, "files": [{**entry.file, "name": self._names(number)}]}
        if self._shard is not None:
            self._shard.publish(Publication(metadata, keep=False))
            self._shard.release()
        self._shard = None

    def discard(self) -> None:
        if self._shard is not None:
            self._shard.discard()

    def publish(self, publication: Publication) -> None:
        """All shards have their names already."""


def _not_shared(name: str, why: str) -> TargetExistsError:
    remedy = Remedy("Pass {append} instead of shard_start= to add shards to it", append=True)
    return TargetExistsError(f"{name!r} {why}", remedy=remedy)
