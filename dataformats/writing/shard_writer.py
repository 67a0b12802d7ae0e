"""ShardWriter: appends encoded records to one shard after another, and commits each in a staging area."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dataformats.batch import StoredRecords
from dataformats.errors import FormatError, Remedy, SpecError, StateMismatchError
from dataformats.interfaces import (
    AppendsInPlace,
    BlobWriter,
    FieldsBackend,
    FieldsWriter,
    FilePlace,
    FileWriter,
    HasSidecars,
)
from dataformats.sidecars.sidecar import list_file
from dataformats.staging.area import Publication, StagingArea
from dataformats.staging.entries import ShardEntry
from dataformats.staging.paths import add_name
from dataformats.writing.encoding import Encoded
from dataformats.writing.existing_data import FinishedData
from dataformats.writing.output_schema import OutputSchema
from dataformats.writing.read_back import Content, check_written, content_of
from dataformats.writing.write_options import WriteOptions

_LOG = logging.getLogger("dataformats")


class ShardWriter:
    """The file that a writer appends to, and the shards that it has completed.

    A single file is one shard without limits.

    Args:
        area: Where the shards grow, begun.
        schema: Their format.
        options: When a shard is full, and whether to resume. `verify`, unless it is `None`: a conversion reads each
            file back before it is committed, if it is True. Its records come by `append_stored`, and after a resume it
            gives the records behind the last checkpoint again: see `position`.
        finished: The data that the new records extend.

    Attributes:
        name: The final name of the data, for messages.
        area: Where the current file grows.
        file: The writer of the current file.
        position: The last position that the caller saved, with the number of records before it.
    """

    file: BlobWriter | FieldsWriter

    def __init__(
        self,
        area: StagingArea,
        schema: OutputSchema,
        options: WriteOptions,
        finished: FinishedData | None = None,
    ) -> None:
        self.name, self.area = area.name, area
        self._schema, self._options = schema, options
        self._finished, self._verify = finished, bool(options.verify)
        self._is_tracked = options.verify is not None
        self._is_sharded = is_sharded(options, finished)
        self._number = 0
        self._kept: Sequence[Mapping[str, Any]] = (finished and finished.shards) or ()
        self._checksums = self._is_tracked or any("crc32" in str(entry) for entry in self._kept[:1])
        self._shards: list[ShardEntry] = []
        self._n_complete: int = sum(entry["records"] for entry in self._kept)
        self._is_finished = True  # until a file is open
        self.position: dict[str, Any] = {"records": 0}
        self._checkpoints: list[dict[str, Any]] = []
        self._n_counted, self._content = 0, Content()  # if tracked: records of the file, and what to read back
        try:
            self._begin()
        except BaseException as error:
            with suppress(OSError):
                self.abort(keep=options.resume)
            add_name(error, self.name)
            raise
        self._n_skipped = self._n_complete + self._n_counted - self.position["records"] if self._is_tracked else 0

    def _begin(self) -> None:
        """Open the first file, behind the shards of an interrupted writer."""
        resume = self._options.resume
        found = self.area.entries() if resume and (self._is_sharded or self._is_tracked) else {}
        if self._is_sharded:
            self._resume_shards(found)
        self._open(resume)
        if self._is_tracked and resume:
            self._resume_checkpoint(found.get(self._number))

    def _resume_shards(self, entries: Mapping[int, ShardEntry]) -> None:
        """Keep the complete shards up to the first that is missing, and delete those behind it.

        Raises:
            FormatError: A complete shard is damaged.
        """
        while (entry := entries.get(self._number)) is not None and entry.is_complete:
            if not self.area.is_sound(entry, checksums=False):
                if (path := self.area.folder / entry.shard).exists():
                    raise _damaged(path, self._n_complete)
                break
            self._shards.append(entry)
            self._n_complete += entry.n_records
            self.position = entry.facts.get("position", self.position)
            self._number += 1
        later = [number for number in entries if number > self._number]
        if later:
            text = "shard %05d is missing in %s: the %d shards behind it are written again"
            _LOG.warning(text, self._number, self.area.folder, len(later))
        if entries:
            complete = {number: entries[number] for number in entries if number < self._number}
            self.area.keep_only(complete, growing=self._number)

    def _resume_checkpoint(self, entry: ShardEntry | None) -> None:
        """Continue at the last checkpoint whose records are all in the file."""
        for checkpoint in [] if entry is None or entry.is_complete else entry.facts["checkpoints"]:
            is_known = bool(checkpoint["content"]) or not (self._verify and checkpoint["records"])
            if checkpoint["records"] <= self.file.n_records and is_known:
                self._checkpoints.append(checkpoint)
                self._n_counted, self._content = checkpoint["records"], checkpoint["content"]
                self.position = checkpoint["position"]

    # ---- records

    @property
    def n_records(self) -> int:
        """Records appended, including the finished ones and those found on resuming."""
        return self._n_complete + (0 if self._is_finished else self.file.n_records)

    def append(self, encoded: Encoded) -> None:
        """Append one record."""
        if self._options.is_full(self.file, encoded):
            self.next_shard()
        self.file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def extend(self, encoded: Sequence[Encoded]) -> None:
        """Append several records, in order; up to the first that raises."""
        if self._options.shard_bytes is not None:
            for one in encoded:
                self.append(one)
            return
        while encoded:
            room = len(encoded)
            if self._options.shard_records is not None:
                room = self._options.shard_records - self.file.n_records
            if room > 0:
                self.file.extend(encoded[:room])  # type: ignore[arg-type]  # as above
                encoded = encoded[room:]
            else:
                self.next_shard()

    def append_stored(self, records: StoredRecords) -> None:
        """Append records as a file of the format stores them."""
        if self._n_skipped:
            skipped = min(self._n_skipped, len(records))
            self._n_skipped, records = self._n_skipped - skipped, records[skipped:]
        if self._options.shard_bytes is not None:
            self._append_each(records)
            return
        while len(records):
            room = len(records)
            if self._options.shard_records is not None:
                room = self._options.shard_records - (self._n_counted if self._is_tracked else self.file.n_records)
            if not room:
                self.next_shard()
                continue
            part = records[:room] if room < len(records) else records
            n_there = self._count(part)
            if n_there < len(part):
                self.file.append_stored(part[n_there:] if n_there else part)
            records = records[room:]

    def _append_each(self, records: StoredRecords) -> None:
        """Append records one by one, because each may begin another shard."""
        encoded: Sequence[Encoded] = list(records.blobs if isinstance(self.file, BlobWriter) else records)
        first = 0
        for number in range(min(self._n_ahead, len(records)), len(records)):
            if self._options.is_full(self.file, encoded[number]):
                self._count(records[first:number])
                first = number
                self.next_shard()
            self.file.append(encoded[number])  # type: ignore[arg-type]  # as above
        self._count(records[first:])

    @property
    def _n_ahead(self) -> int:
        """How many records the current file has that were not given to this writer."""
        return max(0, self.file.n_records - self._n_counted) if self._is_tracked else 0

    def _count(self, records: StoredRecords) -> int:
        """Note what must be read back of these records of the current file; return how many of them it has already."""
        n_ahead = min(self._n_ahead, len(records))
        if self._verify:
            self._content = content_of(records, self._content)
        self._n_counted += len(records)
        return n_ahead

    # ---- files

    def next_shard(self) -> None:
        """Complete the current shard and begin another one."""
        if not self._is_sharded:
            raise TypeError("a single file has no shards")
        if not self._is_finished:
            self._complete()
        self._open(resume=False)
        self.area.settle(1)  # last: if a shard was not sent, the writer still has a file

    def flush(self, sync: bool) -> None:
        """Hand the records to the operating system; with `sync` to the disk, and complete shards to the area."""
        self.file.flush(sync=sync)
        if sync:
            self.area.settle()

    def save(self, position: Mapping[str, Any]) -> None:
        """Note where the caller continues if it is interrupted.

        Args:
            position: Any facts.
        """
        self.position = {**position, "records": self._n_complete + self._n_counted}

    def write_checkpoint(self) -> None:
        """Keep the position in the area, after the records before it.

        Compressed files are not flushed, because their bytes would depend on the time. Then the file may have fewer
        records than the checkpoint, and an earlier one is used.
        """
        if not self.file.flush_adds_bytes:
            self.file.flush(sync=True)
        self._checkpoints.append(
            {"records": self._n_counted, "content": self._content, "position": self.position},
        )
        file = {"name": self._path.name, "records": self._n_counted}
        self.area.write_entry(self._number, ShardEntry(self._path.name, file, {"checkpoints": self._checkpoints}))

    def finish(self) -> Publication:
        """Complete all files, and return them for publication, with the list of files as metadata.

        Raises:
            RuntimeError: Another program deleted or replaced the partial data.
            StateMismatchError: The partial data hold more records than this writer was given.
        """
        self.check_owned()
        if self._is_tracked and (self._n_skipped or self._n_ahead):
            excess = self._n_skipped or self._n_ahead
            raise StateMismatchError(
                "the number of records in the partial data",
                expected=f"at most {self.n_records - excess}",
                found=self.n_records,
                remedy=Remedy("Start again without {resume}.", resume=True),
            )
        if not self._is_sharded:
            return self._finish_file(self._stem)
        if not self._is_finished:
            if self.file.n_records or not (self._shards or self._kept):
                self._complete()
            else:
                self.file.discard()
            self._is_finished = True
        self.area.settle()
        previous = None if self._finished is None else self._finished.metadata
        return replace(publication_of(self._schema, self._stem, self._shards, self._kept), previous=previous)

    def check_owned(self) -> None:
        """Raise `RuntimeError` unless the data still belong to this writer."""
        self.area.check_owned()

    def publish(self, publication: Publication) -> None:
        """Give the files their final name: see `StagingArea.publish`."""
        self.check_owned()
        self.area.publish(publication)
        self.area.release()

    def abort(self, *, keep: bool) -> None:
        """Close the current file, and `keep` the data for a later resume, or delete them if they are of this writer."""
        try:
            if keep or not self.area.is_owned:
                if not self._is_finished:
                    self.file.suspend()
                self.area.suspend()
                return
            try:
                if not self._is_finished:
                    self.file.discard()
            finally:
                self.area.discard()
        finally:
            self.area.release()

    @property
    def _stem(self) -> str:
        """The last part of the name of the data."""
        return self.name.rstrip("/").rsplit("/", 1)[-1]

    def _open(self, resume: bool) -> None:
        if self._is_sharded:
            place = FilePlace(None, self._number, self._n_complete)
            self._open_file(self.area.open_shard(self._number), resume, place)
        elif self._finished is None:
            self._open_file(self.area.partial, resume, FilePlace(self._stem))
        else:
            self._open_copy(self._finished)

    def _open_file(self, path: Path, resume: bool, place: FilePlace) -> None:
        self._path, self.file = path, self._schema.create(path, resume, place)
        if place.shard is not None:
            check_shards(self.file, self._schema)
        self._is_finished = False

    def _open_copy(self, finished: FinishedData) -> None:
        """Open the single file, a copy of the finished one that it extends."""
        problem: FormatError | None = None
        for _ in range(2):
            finished.copy_to(self.area.partial)
            self._open_file(self.area.partial, True, FilePlace(self._stem))
            problem = finished.problem(self._path)
            if problem is None:
                return
            self.file.discard()  # a crash of the machine may have damaged the copy
            self._is_finished = True
        if problem is not None:
            raise problem

    def _complete(self) -> None:
        self.area.check_owned()
        entry = self._completed(f"{self._number:05d}")
        self.area.add(self._number, entry, self._path)
        self._shards.append(entry)
        self._n_complete += entry.n_records
        self._number += 1
        self._is_finished = True  # until the next file is open
        self._checkpoints, self._n_counted, self._content = [], 0, Content()

    def _completed(self, name: str) -> ShardEntry:
        """Complete the current file and return its entry."""
        parts = None
        if self._verify:
            parts = [(found["records"], found["content"]) for found in self._checkpoints]
            parts.append((self._n_counted, self._content))
        facts = {"position": self.position} if self._is_tracked else {}
        return complete_file(self.file, self._path, name, self._schema, parts, checksums=self._checksums, facts=facts)

    def _finish_file(self, name: str) -> Publication:
        entry = self._completed(name).file
        backend = self._schema.backend
        if isinstance(backend, AppendsInPlace) and backend.can_append_in_place(self._path):
            entry["grows"] = [part["name"] for part in entry["parts"] if backend.grows(part["name"])]
        beside = self.file.sidecars() if isinstance(self.file, HasSidecars) else {}
        return Publication({"files": [entry]}, keep=False, beside=beside)


def complete_file(
    file: FileWriter,
    path: Path,
    name: str,
    schema: OutputSchema,
    parts: Sequence[tuple[int, Content]] | None,
    *,
    checksums: bool,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> ShardEntry:
    """Complete a file, read it back, and return its entry.

    Args:
        file: Its writer.
        path: The file, or the folder.
        name: Its name in the entry.
        schema: Its format.
        parts: See `check_written`; `None` reads nothing back.
        checksums: List CRC-32s.
        facts: The facts of the entry.

    Raises:
        FormatError: The file differs from the records that were written.
    """
    file.close()
    sidecars = file.sidecars() if isinstance(file, HasSidecars) else {}
    beside = {other: there for other, there in sidecars.items() if there is not None}
    is_compared = not isinstance(schema.backend, FieldsBackend) or schema.backend.keeps_records
    if parts is None or not is_compared:
        listed = list_file(name, file.n_records, path, beside, checksums=checksums)
    else:
        with ThreadPoolExecutor(1) as thread:  # the file is read twice, at the same time
            check = thread.submit(check_written, schema.backend, {name: path, **beside}, parts)
            listed = list_file(name, file.n_records, path, beside, checksums=checksums)
            check.result()
    return ShardEntry(path.name, listed, dict(facts))


def check_shards(file: FileWriter, schema: OutputSchema) -> None:
    """Raise `SpecError`, and delete the file, if files of the format cannot be shards."""
    if isinstance(file, HasSidecars):
        file.discard()
        what = f"{schema.backend.name} writes files beside its files, and these cannot be shards"
        raise SpecError(what, remedy="Write a single file, without shard_records= and shard_bytes=")


def is_sharded(options: WriteOptions, finished: FinishedData | None) -> bool:
    """Return True if the new data are shards, even if there is only one."""
    extends_shards = finished is not None and finished.shards is not None
    return options.shard_start is not None or options.limits_shards or extends_shards


def publication_of(
    schema: OutputSchema, stem: str, shards: Sequence[ShardEntry], kept: Sequence[Mapping[str, Any]] = ()
) -> Publication:
    """Return the shards for publication, with the list of files as metadata.

    Args:
        schema: Names the shards.
        stem: The name of their folder.
        shards: The new ones.
        kept: The entries of the finished ones before them.
    """
    names = schema.shard_names(stem, len(kept) + len(shards))
    entries = [*kept, *(shard.file for shard in shards)]
    files = [{**entry, "name": name} for entry, name in zip(entries, names, strict=True)]
    present = {name: entry["name"] for entry, name in zip(kept, names, strict=False)}
    new = {name: shard.shard for shard, name in zip(shards, names[len(kept) :], strict=True)}
    return Publication({"files": files}, keep=False, shards=new, kept=present)


def _damaged(path: Path, n_before: int) -> FormatError:
    return FormatError(
        "a complete shard is damaged or was replaced: its size or content is not what its entry lists",
        path=str(path),
        remedy=f"Delete it to resume with the {n_before} records before it, or start again without resume=True",
    )
