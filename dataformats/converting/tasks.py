"""Tasks: some records of a conversion, encoded or written as a shard by a worker. They change nothing else."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, RecordBatch, StoredRecords
from dataformats.converting.conversion_schema import ConversionPlan
from dataformats.converting.executors import SentOnce
from dataformats.errors import CodecError, CorruptRecordError, DataFormatsError, Remedy, SpecError
from dataformats.fork_hooks import cached_property
from dataformats.interfaces import BlobBackend, FilePlace
from dataformats.interfaces.record_source import OnCorrupt, RecordSource
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.scan import as_numbers, split_by_bytes
from dataformats.spec import VALUE
from dataformats.staging.area import StagingArea
from dataformats.staging.entries import ShardEntry
from dataformats.writing.encoding import Encode, Encoded, FieldsEncoder, PayloadEncoder, refuse_record
from dataformats.writing.output_schema import OutputSchema
from dataformats.writing.read_back import Content, content_of
from dataformats.writing.shard_writer import check_shards, complete_file

Failure = tuple[int, str]
"""A record that was left out: its index in the source, and the message of its error."""
Records = range | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Conversion(SentOnce):
    """The plan and options that all tasks of a conversion share.

    Attributes:
        plan: The source, the payload and the types of the new data.
        format: The new format.
        options: The options of the format.
        codecs: See `open` and `create`.
        trusted: False if a file named the types.
        on_corrupt: `"raise"` the error of the first record that fails, or `"omit"` such records.
    """

    plan: ConversionPlan
    format: str
    options: Mapping[str, Any]
    codecs: Mapping[str, Any] | None
    trusted: bool
    on_corrupt: OnCorrupt

    @cached_property
    def schema(self) -> OutputSchema:
        """Format, payload and spec of the new data.

        Raises:
            SpecError: The format cannot hold the spec.
        """
        try:
            return OutputSchema(self.format, self.plan.payload, self.plan.spec, self.options)
        except SpecError as error:
            lacks_remedy = not any(one.remedy for one in (error, *error.problems))
            unfit = {one.field for one in error.problems or (error,)}
            given = {new: old for old, new in self.plan.rename.items()}
            kept = [given.get(name, name) for name in self.plan.spec or () if name not in unfit]
            if lacks_remedy and None not in unfit and kept:
                raise replace(error, remedy=Remedy("To leave the field out, pass {fields}.", fields=kept)) from None
            raise

    def schema_of(self, n_records: int) -> OutputSchema:
        """Return the schema of a file of `n_records` records, or of an unknown number if some may be left out."""
        return self.schema.counted(n_records) if self.on_corrupt == "raise" else self.schema

    @cached_property
    def encode(self) -> Encode:
        """The function that converts a record to its stored form.

        Raises:
            SpecError: The format or the payload cannot hold the spec.
        """
        if self.plan.copied:
            return refuse_record
        return self.schema.encoder(self.codecs, self.plan.carried, trusted=self.trusted)

    def encoded(self, records: Records) -> Iterator[tuple[StoredRecords, list[Failure]]]:
        """Yield these records as they are stored, a few megabytes at a time, with those behind that are left out.

        Raises:
            DataFormatsError: A record fails, and `on_corrupt` is `"raise"`.
        """
        for part in split_by_bytes(self.plan.source, records):
            try:
                found = self._encoded(part)
            except MemoryError:
                raise
            except Exception:
                yield from self._one_by_one(part)
            else:
                yield found, []

    def try_first(self, records: Records) -> None:
        """Encode the first records, costly values included, to find out whether their types fit.

        Raises:
            SpecError: The format or the payload cannot hold the spec.
        """
        _ = self.schema, self.encode
        for part in itertools.islice(split_by_bytes(self.plan.source, records), 1):
            next(self.encoded(part), None)
            if self.plan.checked is not None and self.on_corrupt == "raise":
                self.plan.source.read(part)

    def _encoded(self, part: Records) -> StoredRecords:
        """Return these records as they are stored, all values of a field at once if the format stores them apart."""
        if self.plan.copied:
            return self._copied(part)
        batch = self._read(part)
        if isinstance(self.encode, FieldsEncoder | PayloadEncoder) and not batch.single:
            stored = self.encode.columns(self.format, batch.columns)
            if stored is not None:
                return stored
        return StoredRecords.join(self.format, list(map(self.encode, batch)))

    def _copied(self, part: Records) -> StoredRecords:
        if self.plan.checked is not None:
            self.plan.checked.read(part)
        source = self.plan.source
        found = source.read_blobs(part) if isinstance(source, BlobSource) else Blobs.join(source.read_bytes(part))
        backend = self.schema.backend
        if isinstance(backend, BlobBackend):
            found = backend.copied(found)
        return StoredRecords(self.format, {VALUE: (found, None)})

    def _read(self, part: Records) -> RecordBatch:
        batch, rename = self.plan.source.read(part), self.plan.rename
        if not rename:
            return batch
        columns = {rename.get(name, name): column for name, column in batch.columns.items()}
        return RecordBatch(columns, batch.indices, batch.failed, batch.single)

    def _one_by_one(self, part: Records) -> Iterator[tuple[StoredRecords, list[Failure]]]:
        """Yield the records up to each one that is left out, and then the rest."""
        blobs: list[Encoded] = []
        for index in as_numbers(part).tolist():
            try:
                one = range(index, index + 1)
                blobs += self._copied(one).blobs if self.plan.copied else map(self.encode, self._read(one))
                continue
            except DataFormatsError as error:
                _add_place(error, self.plan.source, index)
                if self.on_corrupt == "raise":
                    raise
                failures = [(index, str(error))]
            except Exception as error:
                error.add_note(f"record {index} of the source")
                raise
            yield StoredRecords.join(self.format, blobs), failures
            blobs = []
        yield StoredRecords.join(self.format, blobs), []


def _add_place(error: DataFormatsError, source: RecordSource, index: int) -> None:
    """Name the record in an error of its values."""
    if isinstance(error, (SpecError, CodecError, CorruptRecordError)) and error.index is None:
        path, error.index, _ = source.origins([index])[0]
        error.path = path or error.path


@dataclass(frozen=True, slots=True)
class Task:
    """Some records that one worker converts.

    Attributes:
        conversion: The plan and options that all tasks share.
        number: The number of the task.
        records: Their indices in the source.
    """

    conversion: Conversion
    number: int
    records: Records


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """The result of a task that writes a shard.

    Attributes:
        number: The number of the task.
        entry: The entry of the shard.
        failures: The records that were left out.
    """

    number: int
    entry: ShardEntry
    failures: list[Failure]


def encode_task(task: Task) -> list[tuple[StoredRecords, list[Failure]]]:
    """Return the result of `Conversion.encoded` for the records of a task."""
    return list(task.conversion.encoded(task.records))


def write_shard(
    task: Task, area: StagingArea, *, sends: bool, verify: bool, advance: Callable[[int], None] | None = None
) -> WrittenShard:
    """Write the records of a task as a complete shard under a unique name.

    Args:
        task: The records.
        area: Gets the shard; it may hold others of the same number.
        sends: Add the shard to the area; else it stays in the folder of the area.
        verify: Read the shard back.
        advance: Called with numbers of records that are written, without the last ones, which need a complete shard;
            `None` if other tasks run at the same time.
    """
    conversion, name = task.conversion, f"{task.number:05d}"
    with area.working_folder() if sends else nullcontext(area.folder) as folder:
        path = folder / f"{name}-{secrets.token_hex(8)}.partial"
        file = conversion.schema_of(len(task.records)).create(path, False, FilePlace(None, task.number, None))
        content, left_out, n_waiting = Content(), list[Failure](), 0
        try:
            check_shards(file, conversion.schema)
            for records, failures in conversion.encoded(task.records):
                if len(records):
                    file.append_stored(records)
                if verify:
                    content = content_of(file.as_read_back(records), content)
                left_out += failures
                if advance is not None:
                    advance(n_waiting)
                n_waiting = len(records) + len(failures)
            expected, facts = content if verify else None, {"omitted": len(left_out)}
            entry = complete_file(file, path, name, conversion.schema, expected, checksums=True, facts=facts)
            if sends:
                area.send(path)
        except BaseException:
            file.discard()
            raise
    return WrittenShard(task.number, entry, left_out)
