"""Every n-th shard of a folder that several writers fill: each shard is published when it is complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dataformats.errors import Remedy, TargetExistsError
from dataformats.interfaces import BlobWriter, FieldsWriter
from dataformats.writing.destination import Destination, destination
from dataformats.writing.recognition import records_of_shards
from dataformats.writing.schema import WriteSchema
from dataformats.writing.shards import Output, ShardLimits, SingleFile

__all__ = ["NumberedShards"]


class NumberedShards(Output):
    """Some shards of a folder, by their numbers.

    Args:
        schema: The format, payload and spec.
        folder: The folder.
        facts: Those of the schema, for the sidecar of the partial data of each shard.
        limits: When a shard is full.
        numbers: Those of the shards, without end.
        resume: Keep the shards that this writer has published, and the partial data of the next one.
    """

    def __init__(
        self,
        schema: WriteSchema,
        folder: Path,
        facts: Mapping[str, Any],
        limits: ShardLimits,
        *,
        numbers: Iterator[int],
        resume: bool,
    ) -> None:
        self._schema = schema
        self._folder = folder
        self._facts = facts
        self.limits = limits
        self._numbers = numbers
        self._number = next(numbers)
        self._n_published, self._is_open = 0, False
        while resume and self._path().exists():
            self._n_published += sum(n for _, n in records_of_shards(self._path(), schema.backend))
            self._number = next(numbers)
        self._open(resume)

    @property
    def n_records(self) -> int:
        return self._n_published + (self._shard.n_records if self._is_open else 0)

    def next_shard(self) -> None:
        self._publish()
        self._open(resume=False)

    def flush(self, sync: bool) -> None:
        self._shard.flush(sync)

    def finish(self) -> list[dict[str, Any]]:
        """Publish the last shard, unless it is empty; return no list, because other writers have shards, too."""
        if self._shard.n_records:
            self._publish()
        else:
            self.discard()
        return []

    def suspend(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._shard.suspend()
            finally:
                self._target.release()

    def discard(self) -> None:
        if self._is_open and not self._target.is_owned:
            self.suspend()
        elif self._is_open:
            self._is_open = False
            try:
                self._shard.discard()
                self._target.discard()
            finally:
                self._target.release()

    def _path(self) -> Path:
        return self._folder / self._schema.backend.shard_name(self._folder.name, self._number, **self._schema.options)

    def _open(self, resume: bool) -> None:
        self._target, self._shard = self._create(resume)
        self.file: BlobWriter | FieldsWriter = self._shard.file
        self._is_open = True

    def _create(self, resume: bool) -> tuple[Destination, SingleFile]:
        target = destination(self._path())
        target.lock(overwrite=False)
        try:
            if target.exists():
                remedy = Remedy(
                    "Pass {resume} to continue behind it, or another {shard_start}", resume=True, shard_start=...
                )
                raise TargetExistsError(f"the shard {target.name!r} exists", remedy=remedy)
            target.begin(self._facts, self._schema.backend, resume)
            return target, SingleFile(self._schema, target, resume)
        except BaseException:
            target.release()
            raise

    def _publish(self) -> None:
        self._target.check_owned()
        n_records, files = self._shard.n_records, self._shard.finish()
        facts = {"format": self._schema.backend.name, "files": files}
        self._target.publish(facts, keep=False, sidecars=self._shard.sidecars())
        self._is_open = False
        self._target.release()
        self._n_published += n_records
        self._number = next(self._numbers)
