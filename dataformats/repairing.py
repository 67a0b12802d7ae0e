"""Repair a damaged dataset: copy the sound records into a new one, and report the losses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from dataformats.batch import StoredRecords
from dataformats.errors import FormatError, SpecError, TargetExistsError
from dataformats.inspecting.description import shown_path
from dataformats.interfaces import Loss
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.damaged import DamagedDataset, codecs_of, find_damaged, shard_name
from dataformats.spec import Spec, Type
from dataformats.storage.paths import is_local, local_path, resolve
from dataformats.writing.creating import writer
from dataformats.writing.dataset_writer import DatasetWriter
from dataformats.writing.encoding import refuse_record
from dataformats.writing.output_schema import OutputSchema, check_copy_name
from dataformats.writing.write_options import WriteOptions

_PARTIAL = ".partial"
_SOURCE_OPTIONS = ("format", "payload", "storage_options", "follow_links")
_MAX_LOSSES = 1000
_EACH_SHARD = 2**62  # records of a shard: only `next_shard` begins another one


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair.

    Attributes:
        source: The path given.
        path: The new file or folder.
        format: Its format.
        payload: The codec of its whole records; `None` if no sidecar names it, or fields are stored separately.
        kept: The number of records copied.
        lost: The number of records known to be lost. A loss of unknown number counts as none.
        losses: The ranges that were not copied, in the order of the files: the first 1,000.
        missing_files: Files that a sidecar, or the numbers in the names of the others, say there should be.
        notes: Damage that cost no record, and sidecars and indexes that were ignored.
        is_written: False for a dry run.
        seconds: Wall time.
        n_losses: The number of all losses.
        n_unknown: How many of them have an unknown number of records.

    Example:
        >>> import dataformats
        >>> damaged = "tests/golden/tfrecord/corrupt/length_bit.tfrecord"
        >>> report = dataformats.repair(damaged, "repaired.tfrecord", dry_run=True)
        >>> report.ok, report.kept, report.lost, report.losses[0].cause
        (False, 5, 1, "the checksum of a record's length is wrong")
    """

    source: str
    path: str
    format: str
    payload: str | None
    kept: int
    lost: int
    losses: tuple[Loss, ...] = ()
    missing_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_written: bool = True
    seconds: float = 0.0
    n_losses: int = 0
    n_unknown: int = 0

    @property
    def ok(self) -> bool:
        """True if nothing was lost."""
        return not self.n_losses and not self.missing_files

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self) | {"ok": self.ok}


def repair(
    source: Any,
    path: Any,
    *,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    source_options: Mapping[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> RepairReport:
    """Copy the sound records of a damaged dataset into a new one of the same format, payload and spec.

    A record is copied only if it is proven: by its checksums, if the format has them; its payload must parse. Nothing
    is guessed. Records behind damage are found, as far as the format shows where they begin; of other formats, what can
    be read is saved. Indexes are not used; the sidecar gives payload and spec. The new dataset has a
    shard for each shard of the source. It is written like any other, and read back before it is published. The source
    is never changed.

    Args:
        source: A path as in `open`. Data of an interrupted writer are repaired by their partial name, `NAME.partial`.
        path: The new file; a new folder for shards and Granular datasets.
        dry_run: Report, and write nothing.
        overwrite: Replace an existing file or folder of that name.
        progress: Called with (bytes done, bytes of all files), about.
        source_options: The arguments `format`, `payload`, `storage_options` and `follow_links` of `open` for the
            source. By default, the sidecar, the content, or the names give the format, and the sidecar gives the
            payload. OFRecords have no checksums: there, `"bytes"` keeps records that are no OFRecords, and finds none
            behind damage.
        storage_options: Options of the fsspec file system of a URL at `path`.

    Returns:
        The counts of kept and lost records, and the losses, by record or by range of bytes.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: Nothing locates the records, or the new data were not read back as they were written.
        SpecError: The format cannot hold the fields of the data, has no stored records to copy, as Parquet, or is only
            read; or `path` is a name of another format.
        TargetExistsError: Something has the name of `path`, and `overwrite` is not given; or it is the source.
        TypeError: `source_options` has another argument.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "repaired.tfrecord"
        >>> report = dataformats.repair("tests/golden/tfrecord/corrupt/length_crc.tfrecord", path)
        >>> report.kept, [(loss.index, loss.start, loss.stop) for loss in report.losses]
        (5, [(2, 52, 368)])
        >>> dataformats.verify(path).ok
        True
    """
    begin = time.perf_counter()
    data = find_damaged(*_source_arguments(source, source_options or {}))
    schema = _schema(data)
    check_copy_name(path, schema.backend.name)
    tally = _Tally(progress, sum(file.stored_size for file in chain.from_iterable(data.shards)))
    _check_apart(path, data)
    if dry_run:
        _copy(data, None, tally)
    else:
        limit = _EACH_SHARD if data.is_sharded else None
        options = WriteOptions(shard_records=limit, overwrite=overwrite, storage_options=storage_options, verify=True)
        with writer(path, schema, refuse_record, options) as out:
            _copy(data, out, tally)
    return RepairReport(
        source=shown_path(source),
        path=shown_path(path),
        format=schema.backend.name,
        payload=schema.payload if schema.sidecar() is not None else None,
        kept=tally.kept,
        lost=tally.lost,
        losses=tuple(tally.losses),
        missing_files=tuple(data.missing),
        notes=tuple(data.notes),
        is_written=not dry_run,
        seconds=time.perf_counter() - begin,
        n_losses=tally.n_losses,
        n_unknown=tally.n_unknown,
    )


def _source_arguments(
    source: Any, options: Mapping[str, Any]
) -> tuple[Sequence[StoredFile | Folder], str | None, str | None]:
    """Return files, format and payload of the source.

    Raises:
        TypeError: `source_options` has another argument.
    """
    if unknown := options.keys() - {*_SOURCE_OPTIONS}:
        expected, found = ", ".join(_SOURCE_OPTIONS), ", ".join(sorted(unknown))
        raise TypeError(f"source_options of repair(): expected {expected}, found {found}")
    files = resolve(source, options.get("storage_options"), follow_links=options.get("follow_links", False))
    return files, options.get("format"), options.get("payload")


# ---- what was found


@dataclass(slots=True)
class _Tally:
    """The counts and losses of a repair so far."""

    progress: Callable[[int, int], None] | None
    n_bytes: int
    kept: int = 0
    lost: int = 0
    n_losses: int = 0
    n_unknown: int = 0
    losses: list[Loss] = field(default_factory=list)
    last: Loss | None = None

    def lose(self, loss: Loss) -> None:
        """Add a loss; records lost one after the other for the same cause are one loss."""
        self.lost += loss.records or 0
        joined = self._joined(loss)
        if joined is None:
            self.n_losses += 1
            self.n_unknown += loss.records is None
        self.last = joined or loss
        if self.n_losses <= _MAX_LOSSES:
            self.losses[self.n_losses - 1 :] = [self.last]

    def _joined(self, loss: Loss) -> Loss | None:
        """Return the last loss with this one, if they are one."""
        last = self.last
        if last is None or not last.records or not loss.records or last.index is None:
            return None
        follows = (loss.path, loss.cause, loss.start) == (last.path, last.cause, last.stop)
        if not follows or loss.index != last.index + last.records:
            return None
        return replace(last, stop=loss.stop, records=last.records + loss.records)

    def report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.n_bytes)


def _copy(data: DamagedDataset, out: DatasetWriter | None, tally: _Tally) -> None:
    """Append the sound records to the new data, if any, and note the losses."""
    end = 0
    for number, (shard, found) in enumerate(zip(data.shards, data.salvages, strict=True)):
        if out is not None and data.is_sharded and number:
            out.next_shard()
        done, n_bytes = end, sum(file.stored_size for file in shard)
        end += n_bytes
        if isinstance(found, FormatError):
            tally.lose(Loss(shard_name(shard), found.what, 0, n_bytes, 0))
            continue
        data.notes.extend(found.notes)
        for part in found.parts:
            if isinstance(part, Loss):
                tally.lose(part)
                done += (part.stop or 0) - (part.start or 0)
            else:
                records = StoredRecords.join(data.backend.name, part)
                tally.kept += len(records)
                done += records.n_bytes
                if out is not None:
                    out.append_stored(records)
            tally.report(min(done, end))
        tally.report(end)


# ---- the new data


def _schema(data: DamagedDataset) -> OutputSchema:
    """Return the schema of the new data: payload and spec of the sidecar, if they fit the files."""
    backend, found, metadata = data.backend, data.first, data.metadata
    declared = metadata.get("spec") if data.payload == metadata.get("payload", data.payload) else None
    spec = None if declared is None else Spec({name: Type.named(text) for name, text in declared.items()})
    if found.stored is None:
        return OutputSchema(backend.name, data.payload, spec, found.options)
    if spec is not None:
        try:
            schema = OutputSchema(backend.name, None, spec, found.options)
            if codecs_of(schema.stored) == codecs_of(backend.stored_spec(found.stored, **found.options)):
                return schema
        except SpecError:
            pass
        data.notes.append("the spec of the sidecar was ignored: it does not fit the files")
    return OutputSchema(backend.name, None, found.stored, found.options)


def _check_apart(path: Any, data: DamagedDataset) -> None:
    """Refuse a path that is, holds or lies in the source, or whose writer would replace the source."""
    if not is_local(path):
        return
    destination = os.path.realpath(local_path(path))
    own = (destination, destination + _PARTIAL)
    for name in {entry.name for entry in data.entries} | {file.name for file in chain.from_iterable(data.shards)}:
        source = os.path.realpath(name)
        holds_source = source in own or source.startswith(tuple(place + os.sep for place in own))
        if holds_source or (os.path.isdir(source) and destination.startswith(source + os.sep)):
            what = f"cannot write {str(path)!r}: it is, holds or lies in the source {name!r}"
            raise TargetExistsError(what, remedy="Give the repaired data another name, elsewhere")
