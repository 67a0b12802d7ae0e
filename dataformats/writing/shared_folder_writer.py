"""SharedFolderWriter: several writers fill a folder with shards, and each shard is published when it is complete."""

from __future__ import annotations

from pathlib import Path

from dataformats.errors import Remedy, TargetExistsError
from dataformats.interfaces import FilePlace
from dataformats.sidecars.sidecar import load_sidecar, sidecar_bytes
from dataformats.staging.area import Publication, check_encoding
from dataformats.staging.foreign_files import records_of_shards
from dataformats.staging.local_area import LocalArea
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.writing.output_schema import OutputSchema
from dataformats.writing.shard_writer import ShardWriter
from dataformats.writing.write_options import WriteOptions


class SharedFolderWriter(ShardWriter):
    """Writes the shards of one of the writers that fill a folder. Each shard has its own area, and so its own lock.

    Args:
        path: The folder.
        schema: The format of the shards.
        options: See `create`.

    Raises:
        StateMismatchError: The data there have another format, payload or spec.
        TargetExistsError: There are data of other writers, or the first shard exists.
    """

    def __init__(self, path: Path, schema: OutputSchema, options: WriteOptions) -> None:
        self._metadata = {"format": schema.backend.name, **(schema.sidecar() or {})}
        super().__init__(LocalArea(path), schema, options)

    def _begin(self) -> None:
        """Open the first shard of this writer that does not have its final name."""
        self._folder, self._number = self.area.final, self._options.shard_start or 0
        self._describe()
        while self._options.resume and (path := self._final).exists():
            LocalArea(path).clear(self._schema.backend)
            files = self._schema.backend.find(LocalFolder(path)) if path.is_dir() else [LocalFile(path)]
            self._n_complete += sum(n for _, n in records_of_shards(files, self._schema.backend))
            self._number += self._options.shard_step
        self._open(self._options.resume)

    def _describe(self) -> None:
        """Make the folder and its sidecar, which lists no files; or compare with the sidecar that is there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        folder = LocalFolder(self._folder)
        if len(self._metadata) > 1 and load_sidecar(folder) is None:
            if self._schema.backend.find(folder):
                raise _not_shared(self.name, "holds data without a sidecar")
            self.area.write_sidecar(sidecar_bytes(self._metadata))
        sidecar = load_sidecar(folder)
        if sidecar is not None and sidecar.metadata.get("files"):
            raise _not_shared(self.name, "is complete: its sidecar lists its files")
        if sidecar is not None:
            check_encoding(sidecar.metadata, self._metadata, sidecar.name)

    @property
    def _final(self) -> Path:
        """The final name of the current shard."""
        return self._folder / self._schema.shard_name(self._stem, self._number)

    def _open(self, resume: bool) -> None:
        self.area = LocalArea(self._final)
        self.area.lock(self._schema.backend, overwrite=False, resume=resume)
        if self.area.exists():
            what = "Pass {resume} to continue behind it, or another {shard_start}"
            remedy = Remedy(what, resume=True, shard_start=...)
            raise TargetExistsError(f"the shard {self.area.name!r} exists", remedy=remedy)
        self.area.begin(self._metadata, resume=self._options.resume, sharded=False)
        self._open_file(self.area.partial, resume, FilePlace(self._final.name, self._number, None))

    def _complete(self) -> None:
        self.check_owned()
        entry = self._completed(self._final.name)
        super().publish(Publication({"format": self._schema.backend.name, "files": [entry.file]}, keep=False))
        self._n_complete += entry.n_records
        self._number += self._options.shard_step
        self._is_complete = True

    def finish(self) -> Publication:
        """Publish the last shard. The publication has none, because other writers have shards, too."""
        if not self._is_complete and self.file.n_records:
            self._complete()
        elif not self._is_complete:
            self.check_owned()
            self.file.discard()
            self._is_complete = True
        self.area.release()
        return Publication({"files": []}, keep=False)

    def publish(self, publication: Publication) -> None:
        """All shards have their names already."""


def _not_shared(name: str, why: str) -> TargetExistsError:
    remedy = Remedy("Pass {append} instead of shard_start= to add shards to it", append=True)
    return TargetExistsError(f"{name!r} {why}", remedy=remedy)
