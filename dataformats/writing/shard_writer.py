"""ShardWriter: appends encoded records to one shard after another, and commits each in a staging area."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
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
        options: When a shard is full, and whether to resume. A conversion has a `plan`: its records come by
            `append_stored`, and after a resume it gives those behind `n_taken` again.
        finished: The data that the new records extend.

    Attributes:
        name: The final name of the data, for messages.
        area: Where the current file grows.
        file: The writer of the current file.
        n_omitted: How many records a conversion has left out, by itself and in the run that it resumes.
    """

    file: BlobWriter | FieldsWriter

    def __init__(
        self,
        area: StagingArea,
        schema: OutputSchema,
        options: WriteOptions,
        finished: FinishedData | None = None,
    ) -> None:
        self.name: str = area.name
        self.area: StagingArea = area
        self._stem = stem_of(area)
        self._schema, self._options, self._finished = schema, options, finished
        self._is_sharded = is_sharded(options, finished)
        self._number = 0
        self._kept: Sequence[Mapping[str, Any]] = (finished and finished.shards) or ()
        self._is_conversion = options.plan is not None
        self._verify, self._content = options.verify, Content()  # what to read back, without the records ahead
        self._checksums = (
            self._is_conversion or options.verify or any("crc32" in str(entry) for entry in self._kept[:1])
        )
        self._shards: list[ShardEntry] = []
        self._n_complete: int = sum(entry["records"] for entry in self._kept)
        self._is_complete = True  # until a file is open
        self.n_omitted: int = 0
        self._n_ahead = 0  # records in the file that the conversion gives again
        self._checkpoints: list[dict[str, Any]] = []
        try:
            self._begin()
        except BaseException as error:
            with suppress(OSError):
                self.abort(keep=options.resume)
            add_name(error, self.name)
            raise

    def _begin(self) -> None:
        """Open the first file, behind the shards of an interrupted writer."""
        resume = self._options.resume
        entries = self.area.entries() if resume and (self._is_sharded or self._is_conversion) else {}
        resume = resume and not (self._is_sharded and self._resume_shards(entries))
        self._open(resume)
        if resume and self._is_conversion:
            self._resume_checkpoint(entries.get(self._number))

    def _resume_shards(self, entries: Mapping[int, ShardEntry]) -> bool:
        """Keep the complete shards up to the first that is missing, and delete those behind it.

        Returns True if that one was complete, and is missing or damaged now.

        Raises:
            FormatError: It is damaged, and its records are not given again.
        """
        while (entry := entries.get(self._number)) is not None and entry.is_complete:
            if not self.area.is_sound(entry, checksums=self._is_conversion):
                break
            self._shards.append(entry)
            self._n_complete += entry.n_records
            self.n_omitted = entry.facts.get("omitted", 0)
            self._number += 1
        is_damaged = entry is not None and entry.is_complete
        if entry is not None and is_damaged and not self._is_conversion:
            _check_lost(self.area.folder / entry.shard, self._n_complete)
        later = [number for number in entries if number > self._number]
        if later or is_damaged:
            text = "shard %05d is missing or damaged in %s: it and the %d shards behind it are written again"
            _LOG.warning(text, self._number, self.area.folder, len(later))
        if entries:
            complete = {number: entries[number] for number in entries if number < self._number}
            self.area.keep_only(complete, growing=-1 if is_damaged else self._number)
        return is_damaged

    def _resume_checkpoint(self, entry: ShardEntry | None) -> None:
        """Continue at the last checkpoint whose records are all in the file."""
        self._n_ahead = self.file.n_records
        for checkpoint in [] if entry is None else entry.facts["checkpoints"]:
            is_known = checkpoint["content"] is not None or not self._verify
            if checkpoint["records"] <= self.file.n_records and is_known:
                self._checkpoints.append(checkpoint)
                self._n_ahead = self.file.n_records - checkpoint["records"]
                self.n_omitted, self._content = checkpoint["omitted"], checkpoint["content"]

    # ---- records

    @property
    def n_records(self) -> int:
        """Records appended, including the finished ones and those found on resuming."""
        return self._n_complete + (0 if self._is_complete else self.file.n_records)

    @property
    def n_taken(self) -> int:
        """How many of its records a conversion has given or left out, by itself and in the run that it resumes."""
        return self.n_records - self._n_ahead + self.n_omitted

    def append(self, encoded: Encoded) -> None:
        """Append one record."""
        if self._is_complete or self._options.is_full(self.file, encoded):
            self.next_shard()
        self.file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def extend(self, encoded: Sequence[Encoded]) -> None:
        """Append several records, in order; up to the first that raises."""
        if self._options.shard_bytes is not None:
            for one in encoded:
                self.append(one)
            return
        while encoded:
            room = self._room(len(encoded))
            self.file.extend(encoded[:room])  # type: ignore[arg-type]  # as above
            encoded = encoded[room:]

    def append_stored(self, records: StoredRecords) -> None:
        """Append records as a file of the format stores them."""
        if self._n_ahead:
            there = records[: self._n_ahead]
            self._note(there)
            self._n_ahead, records = self._n_ahead - len(there), records[len(there) :]
        if self._options.shard_bytes is not None:
            self._append_each(records)
            return
        while len(records):
            room = self._room(len(records))
            part = records[:room] if room < len(records) else records
            self._note(part)
            self.file.append_stored(part)
            records = records[room:]

    def _room(self, n: int) -> int:
        """Return how many of `n` records the current file takes, or else the next one."""
        most = self._options.shard_records
        if self._is_complete or (most is not None and self.file.n_records >= most):
            self.next_shard()
        return n if most is None else most - self.file.n_records

    def _append_each(self, records: StoredRecords) -> None:
        """Append records one by one, because each may begin another shard."""
        encoded: Sequence[Encoded] = list(records.blobs if isinstance(self.file, BlobWriter) else records)
        first = 0
        for number, one in enumerate(encoded):
            if self._is_complete or self._options.is_full(self.file, one):
                self._note(records[first:number])
                first = number
                self.next_shard()
            self.file.append(one)  # type: ignore[arg-type]  # as above
        self._note(records[first:])

    def _note(self, records: StoredRecords) -> None:
        """Note what must be read back of the current file."""
        if self._verify:
            self._content = content_of(self.file.as_read_back(records), self._content)

    # ---- files

    def next_shard(self) -> None:
        """Complete the current shard and begin another one."""
        if not self._is_sharded:
            raise TypeError("a single file has no shards")
        if not self._is_complete:
            self._complete()
        self._open(resume=False)
        self.area.settle(1)  # last: if a shard was not sent, the writer still has a file

    def flush(self, sync: bool) -> None:
        """Hand the records to the operating system; with `sync` to the disk, and complete shards to the area."""
        if not self._is_complete:
            self.file.flush(sync=sync)
        if sync:
            self.area.settle()

    def write_checkpoint(self) -> None:
        """Note in the area how far the conversion has come, after the records before.

        Compressed files are not flushed, because their bytes would depend on the time. Then the file may have fewer
        records than the checkpoint, and an earlier one is used.
        """
        if self._is_complete:
            return
        if not self.file.flush_adds_bytes:
            self.file.flush(sync=True)
        n, content = self.file.n_records - self._n_ahead, self._content if self._verify else None
        self._checkpoints.append({"records": n, "omitted": self.n_omitted, "content": content})
        file = {"name": self._path.name, "records": n}
        self.area.write_entry(self._number, ShardEntry(self._path.name, file, {"checkpoints": self._checkpoints}))

    def finish(self) -> Publication:
        """Complete all files, and return them for publication, with the list of files as metadata.

        Raises:
            RuntimeError: Another program deleted or replaced the partial data.
            StateMismatchError: The partial data hold more records than this writer was given.
        """
        self.check_owned()
        if self._n_ahead:
            raise StateMismatchError(
                "the number of records in the partial data",
                expected=f"at most {self.n_records - self._n_ahead}",
                found=self.n_records,
                remedy=Remedy("Start again without {resume}.", resume=True),
            )
        if not self._is_sharded:
            return self._finish_file(self._stem)
        if not self._is_complete:
            if self.file.n_records or not (self._shards or self._kept):
                self._complete()
            else:
                self.file.discard()
            self._is_complete = True
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
                if not self._is_complete:
                    self.file.suspend()
                self.area.suspend()
                return
            try:
                if not self._is_complete:
                    self.file.discard()
            finally:
                self.area.discard()
        finally:
            self.area.release()

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
        self._is_complete = False

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
            self._is_complete = True
        if problem is not None:
            raise problem

    def _complete(self) -> None:
        self.area.check_owned()
        entry = self._completed(f"{self._number:05d}")
        self.area.add(self._number, entry, self._path)
        self._shards.append(entry)
        self._n_complete += entry.n_records
        self._number += 1
        self._is_complete = True  # until the next file is open
        self._checkpoints, self._content = [], Content()

    def _completed(self, name: str) -> ShardEntry:
        """Complete the current file and return its entry."""
        content, facts = self._content if self._verify else None, {"omitted": self.n_omitted}
        return complete_file(self.file, self._path, name, self._schema, content, checksums=self._checksums, facts=facts)

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
    content: Content | None,
    *,
    checksums: bool,
    facts: Mapping[str, Any],
) -> ShardEntry:
    """Complete a file, read it back, and return its entry.

    Args:
        file: Its writer.
        path: The file, or the folder.
        name: Its name in the entry.
        schema: Its format.
        content: What its records must be when they are read back; `None` reads nothing back.
        checksums: List CRC-32s.
        facts: The facts of the entry.

    Raises:
        FormatError: The file differs from the records that were written.
    """
    file.close()
    sidecars = file.sidecars() if isinstance(file, HasSidecars) else {}
    beside = {other: there for other, there in sidecars.items() if there is not None}
    is_compared = not isinstance(schema.backend, FieldsBackend) or schema.backend.keeps_records
    if content is None or not is_compared:
        listed = list_file(name, file.n_records, path, beside, checksums=checksums)
    else:
        with ThreadPoolExecutor(1) as thread:  # the file is read twice, at the same time
            files = {name: path, **beside}
            check = thread.submit(check_written, schema.backend, files, file.n_records, content, schema.stored)
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


def stem_of(area: StagingArea) -> str:
    """Return the last part of the name of the data."""
    return area.name.rstrip("/").rsplit("/", 1)[-1]


def _check_lost(path: Path, n_before: int) -> None:
    """Raise `FormatError` if a shard that is not sound still exists."""
    if path.exists():
        raise FormatError(
            "a complete shard is damaged or was replaced: its size or content is not what its entry lists",
            path=str(path),
            remedy=f"Delete it to resume with the {n_before} records before it, or start again without resume=True",
        )
