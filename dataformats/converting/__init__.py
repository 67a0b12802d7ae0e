"""Convert from one format to another: copy stored payloads if the codec stays the same, else decode and encode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from dataformats.converting.conversion_schema import (
    ConversionPlan,
    check_names,
    first_record,
    left_out,
    plan_of,
    portable_spec,
    select_fields,
    with_new_types,
)
from dataformats.converting.converter import Converter
from dataformats.converting.executors import chosen_executor
from dataformats.converting.report import ConvertReport
from dataformats.converting.selection import Selection, name_of
from dataformats.converting.tasks import Conversion
from dataformats.interfaces import Backend, FieldsBackend, RecordWriter, WritesSingleValues, checked_options
from dataformats.interfaces.declared_spec import declared_spec, is_single
from dataformats.interfaces.record_source import OnCorrupt, RecordSource
from dataformats.reading.conditions import Where
from dataformats.reading.opening import open_for_copying
from dataformats.reading.scan import read_parts, split_by_bytes
from dataformats.registry import backends
from dataformats.spec import VALUE, Spec, SpecLike
from dataformats.writing.output_schema import format_of
from dataformats.writing.write_options import WriteOptions

_FIRST_RECORDS = 16
_WRITER_RECORDS = 2**16


def convert(
    source: RecordSource | Any,
    path: RecordWriter | Any,
    format: str | None = None,
    *,
    spec: SpecLike | None = None,
    payload: str | None = None,
    codecs: Mapping[str, Any] | None = None,
    fields: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    where: Where | None = None,
    map: Callable[[Any], Any] | None = None,  # noqa: A002  # as the method of a source
    shuffle_seed: int | None = None,
    limit: int | None = None,
    on_corrupt: OnCorrupt = "raise",
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    part: tuple[int, int] | None = None,
    publish_parts: bool = False,
    executor: Executor | None = None,
    workers: int = 0,
    verify: bool = True,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
    source_options: Mapping[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
    **backend_options: Any,
) -> ConvertReport:
    """Write the records of a source in another format.

    Whole payloads, and the blobs of fields, are copied if their codec stays the same. Every checksum of the source is
    verified, and all records that were written are read back. The first record that fails stops the conversion: it is
    damaged, it does not decode, or the new format cannot hold it. Copied bytes are not decoded, unless this call
    declares their types.

    The data grow in `PATH.partial`, and get their name in one rename when all of them are there. An interrupt (Ctrl-C,
    a signal, a full disk, a crash) leaves the partial data, and `resume=True` continues them. The sidecar
    `PATH.dataformats.json` lists the files, with records, bytes and CRC-32 of each, and the fingerprint of the source.

    Args:
        source: A source, or a path as in `open`.
        path: The new file, or folder with `shard_*`; or a `RecordWriter`, which receives decoded records and which the
            caller closes.
        format: The new format, by default from the name of `path`. Left out if `path` is a writer, as are the options
            of new files.
        spec: New types of fields, by their new names; of all fields, if `map` is given. The other fields keep the
            source's, with the integers of Granular (`int`, `i64`, `u64`) as numbers elsewhere. If `source` is a path,
            fields whose types its files do not declare are read with these types, unless `map` is given.
        payload: The new codec of whole records; `None` keeps the source's if the new format is used with it.
        codecs: See `open` and `create`.
        fields: The fields to take, by their old names; `None` takes all.
        rename: New names of fields, by their old names.
        where: A condition on whole records: see `RecordSource.where`. Others are left out. It is evaluated here, for
            every record, before the conversion starts.
        map: A function from a record (of the taken fields) to a new one. The new fields have the types in `spec`, by
            default the source's types. Worker processes receive it: it must be picklable.
        shuffle_seed: The seed of a global shuffle; `None` keeps the order. The same seed gives the same order.
        limit: Number of records to convert, the first ones after `where` and `shuffle_seed`; `None` converts all.
        on_corrupt: Stop at the first record that fails (`"raise"`), or omit and count such records (`"omit"`).
        shard_records: Start a new file after this many records. With workers, shards are written in parallel.
        shard_bytes: Start a new file before one exceeds this many bytes: see `create`.
        overwrite: Replace an existing file or folder of that name.
        resume: Continue the conversion that was interrupted, if source and arguments are the same; complete shards are
            kept if their checksums match. If it is complete already, return its report.
        part: Write only each `n`-th shard from the shard `i` on, and publish nothing: `(i, n)` with `0 <= i < n`. The
            shards are beside the partial data. The processes of a cluster call it with the same arguments, each for
            another part. A part that runs again keeps its complete shards. The report is of the part. Needs
            `shard_records`.
        publish_parts: Publish the shards of all parts. Sizes and a few blocks of each file are compared; nothing is
            converted.
        executor: Runs the conversion of parts: any `concurrent.futures.Executor`. The result is the same for each.
        workers: Number of worker processes; 0 converts in the calling process.
        verify: Read the new data back, before they are published.
        dry_run: Check the arguments and the first records, write nothing, and report what would be done.
        progress: Called with (records done, records in all). The last records of a shard are done when it is complete.
        source_options: Arguments of `open`, if `source` is a path.
        storage_options: Options of the fsspec file system of a URL at `path`; `source_options` has the source's.
        **backend_options: Options of the new format.

    Returns:
        The report of the new data.

    Raises:
        FormatError: A record is damaged, or its payload does not decode and is not copied; or the new data differ when
            they are read back.
        CodecError: A field does not decode and is not copied.
        SpecError: The format cannot hold the spec, or a record does not fit it.
        StateMismatchError: The partial data come from another source or other arguments; or `publish_parts=True`, and
            shards are missing; or a file of the source changed meanwhile.
        TargetExistsError: Something has the name of `path`, and `overwrite` is not given.
        TargetInUseError: Another conversion, or another writer, has the name.
        TypeError: The source, `map` or a codec cannot be pickled for `workers`.
        UnknownNameError: No such format, codec or field; or the name of `path` names no format.
        ValueError: `executor` and `workers` are both given, or a number is out of range; or data that are not local are
            to be resumed, and there is no `shard_records`.
        WorkerError: A process of the executor died; `resume=True` continues.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> report = dataformats.convert("tests/golden/real/digits-*.tfrecord", folder / "digits.ffr")
        >>> report.format, report.records, report.copied
        ('ffrecord', 1797, True)
        >>> dataformats.open(folder / "digits.ffr")[5]["label"]
        5

        A shuffled sample, in shards:

        >>> digits = dataformats.open(folder / "digits.ffr")
        >>> even = lambda record: record["label"] % 2 == 0
        >>> report = dataformats.convert(
        ...     digits, folder / "even", "granular", where=even, shuffle_seed=7, limit=500, shard_records=200
        ... )
        >>> report.records, report.files
        (500, 3)

        Two parts, which two machines could write at the same time:

        >>> for part in [(0, 2), (1, 2)]:
        ...     report = dataformats.convert(digits, folder / "parts", "ffrecord", shard_records=500, part=part)
        ...     print(report.records, report.files)
        1000 2
        797 2
        >>> dataformats.convert(digits, folder / "parts", "ffrecord", shard_records=500, publish_parts=True).records
        1797
    """
    begin = time.perf_counter()
    if map is not None and rename:
        raise ValueError("convert() takes map= or rename=, not both: the function can rename fields")
    wanted, renamed = None if spec is None else Spec(spec), dict(rename or {})
    read_types = wanted if map is None else None  # the spec of `map=` is about its results
    options = {"codecs": codecs, **(source_options or {})}
    backend = None if isinstance(path, RecordWriter) else backends.get(format or format_of(path))
    if backend is not None:  # before the source, because opening it may take long
        backend_options = checked_options(backend, "create", backend_options)
    with opened_source(source, options) as opened:
        is_typed = isinstance(source, RecordSource) or options.get("spec") is not None
        given = opened if is_typed else with_new_types(opened, read_types, renamed)
        selection = Selection(given, where, shuffle_seed, limit, on_corrupt)
        chosen = given if fields is None else select_fields(given, fields, wanted)
        if map is None and payload is None and _needs_field(chosen, backend, wanted):
            map, wanted = _as_field, wanted or declared_spec(chosen)  # noqa: A001
        mapped = chosen if map is None else chosen.map(map)
        if backend is None:
            values = (format, spec, payload, shard_records, shard_bytes, executor, part)
            switches = (backend_options, overwrite, resume, publish_parts, workers, storage_options)
            if any(switches) or any(value is not None for value in values):
                raise TypeError("convert() to a writer takes no format=, spec=, payload= or other options of new files")
            check_names(chosen, renamed)
            plan = ConversionPlan(mapped, None, None, None, renamed, copied=False)
            omitted = 0 if dry_run else _fill(plan, selection, path, on_corrupt, progress)
            n = len(selection) - omitted
            report = ConvertReport(repr(path), type(path).__name__, None, n, False, 0.0, omitted=omitted)
        else:
            types, kept = wanted, payload
            if map is not None and is_single(chosen):
                kept = payload or (None if wanted else chosen.payload)
            elif map is not None:
                types = wanted or portable_spec(chosen.spec, backend)
            if map is None and not is_single(chosen):
                fixed = {name: name for name in wanted or () if name in chosen.spec}
                names = backend.new_names(chosen.spec, fixed | renamed, partial(first_record, chosen))
                renamed = {old: new for old, new in names.items() if old != new}
            inferred = declared_spec(opened) is not None and opened.spec_facts.provenance == "inferred"
            plan = plan_of(mapped, backend, types, kept, rename=renamed, codecs=codecs, inferred=inferred)
            trusted = spec is not None or payload is not None
            conversion = Conversion(plan, backend.name, backend_options, codecs, trusted, on_corrupt)
            arguments = {"fields": fields, "rename": rename, "map": None if map is None else name_of(map)}
            written = WriteOptions(
                shard_records=shard_records,
                shard_bytes=shard_bytes,
                resume=resume or part is not None or publish_parts,
                overwrite=overwrite,
                storage_options=storage_options,
                verify=verify,
            )
            converter = Converter(conversion, selection, progress, arguments, path, written, part, publish_parts)
            if workers:
                conversion.check_pickles()
            conversion.try_first(selection.records(0, min(_FIRST_RECORDS, len(selection))))
            with chosen_executor(executor, 0 if publish_parts else workers) as converter.executor:
                report = converter.preview() if dry_run else converter.write()
        return replace(
            report, seconds=time.perf_counter() - begin, left_out=left_out(given, replace(plan, source=chosen))
        )


def _as_field(value: Any) -> dict[str, Any]:
    return {VALUE: value}


def _needs_field(source: RecordSource, backend: Backend | None, spec: Spec | None) -> bool:
    """Return True if single values become the field `"value"`: the format stores fields, or the new spec names it."""
    if backend is None or not is_single(source) or declared_spec(source) is None:
        return False
    stores_fields = isinstance(backend, FieldsBackend) and not isinstance(backend, WritesSingleValues)
    return tuple(spec) == (VALUE,) if spec else stores_fields


@contextmanager
def opened_source(source: Any, options: Mapping[str, Any]) -> Iterator[RecordSource]:
    """Yield the source; a source that is opened here is closed at the end."""
    if isinstance(source, RecordSource):
        yield source
        return
    with open_for_copying(source, options) as opened:
        yield opened


def _fill(
    plan: ConversionPlan,
    selection: Selection,
    out: RecordWriter,
    on_corrupt: OnCorrupt,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Append all records to a writer of the caller's own; return how many were left out."""
    omitted = done = 0
    n = len(selection)
    for first in range(0, n, _WRITER_RECORDS):
        parts: Iterator[Any] = split_by_bytes(plan.source, selection.records(first, min(first + _WRITER_RECORDS, n)))
        for batch in read_parts(lambda part: plan.source.read(part, on_corrupt=on_corrupt), parts):
            omitted += len(batch.failed)
            for record in batch:
                out.append({plan.rename.get(k, k): value for k, value in record.items()} if plan.rename else record)
            done += len(batch) + len(batch.failed)
            if progress is not None:
                progress(done, n)
    return omitted
