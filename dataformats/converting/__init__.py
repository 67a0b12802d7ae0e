"""Convert from one format to another: copy stored payloads if the codec stays the same, else decode and encode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from dataformats.converting.plan import Plan, check_names, left_out, plan_of, selected, with_new_types
from dataformats.converting.report import ConvertReport
from dataformats.errors import DataFormatsError, Remedy
from dataformats.interfaces import RecordWriter
from dataformats.reading.opening import open as open_source
from dataformats.reading.source import RecordSource
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike
from dataformats.writing.dataset_writer import DatasetWriter, writer
from dataformats.writing.encoding import WriteSchema, format_of, refuse

__all__ = ["ConvertReport", "convert", "opened_source"]

_EVERY = 256


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
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    source_options: Mapping[str, Any] | None = None,
    **backend_options: Any,
) -> ConvertReport:
    """Write the records of a source in another format.

    Whole payloads, and the blobs of fields, are copied if their codec stays the same. Every checksum of the source is
    verified; the first damaged record stops the conversion and leaves nothing behind. So does the first payload or blob
    that does not decode, unless it is copied: copied bytes are not decoded.

    Args:
        source: A source, or a path as in `open`.
        path: The new file, or folder with `shard_*`; or a `RecordWriter`, which receives decoded records and which the
            caller closes.
        format: The new format; `None` takes it from the name of `path`. Left out if `path` is a writer, as are the
            options of new files.
        spec: The fields of the new data, by their new names. `None` keeps the source's, with the integers of Granular
            (`int`, `i64`, `u64`) as numbers elsewhere. If `source` is a path, fields whose types its files do not
            declare are read with these types.
        payload: The codec of whole records; `None` keeps the source's if the new format is used with it.
        codecs: As in `open` and `create`.
        fields: The fields to take, by their old names; `None` takes all.
        rename: Old name to new name.
        shard_records: As in `create`.
        shard_bytes: As in `create`.
        overwrite: Replace an existing file or folder of that name.
        progress: Called with (records done, records in all).
        source_options: Arguments of `open`, if `source` is a path.
        **backend_options: Options of the new format.

    Returns:
        What was written.

    Raises:
        FormatError: A record is damaged, or its payload does not decode and is not copied.
        CodecError: A field does not decode and is not copied.
        SpecError: The format cannot hold the spec, or a record does not fit it.
        UnknownNameError: No such format, codec or field; or the name of `path` names no format.
        TargetExistsError: Something has the name of `path`, and `overwrite` is not given.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "digits.ffr"
        >>> report = dataformats.convert("tests/golden/real/digits-*.tfrecord", path)
        >>> report.format, report.records, report.copied
        ('ffrecord', 1797, True)
        >>> dataformats.open(path)[5]["label"]
        5
    """
    begin = time.perf_counter()
    wanted, renamed = None if spec is None else Spec(spec), dict(rename or {})
    with opened_source(source, {"codecs": codecs, **(source_options or {})}, wanted, renamed) as given:
        chosen = given if fields is None else selected(given, fields, wanted)
        if isinstance(path, RecordWriter):
            if (
                backend_options
                or overwrite
                or any(option is not None for option in (format, spec, payload, shard_records, shard_bytes))
            ):
                raise TypeError("convert() to a writer takes no format=, spec=, payload= or other options of new files")
            check_names(chosen, renamed)
            plan = Plan(chosen, None, None, None, renamed, copied=False)
            name, format, used = repr(path), type(path).__name__, None
            done = _fill(plan, path, progress)
        else:
            name, format = str(path), format or format_of(path)
            plan = plan_of(chosen, backends.get(format), wanted, payload, rename=renamed, codecs=codecs)
            encoding = WriteSchema(format, plan.payload, plan.spec, backend_options)
            trusted = spec is not None or payload is not None
            encode = refuse if plan.copied else encoding.encoder(codecs, plan.carried, trusted=trusted)
            files = writer(
                path, encoding, encode, shard_records=shard_records, shard_bytes=shard_bytes, overwrite=overwrite
            )
            with files as out:
                done = _fill(plan, out, progress)
            done, used = len(out), encoding.payload
        seconds = time.perf_counter() - begin
        return ConvertReport(name, format, used, done, plan.copied, seconds, left_out(given, plan))


@contextmanager
def opened_source(
    source: Any, options: Mapping[str, Any], spec: Spec | None, rename: Mapping[str, str]
) -> Iterator[RecordSource]:
    """Yield the source; a source that is opened here is closed at the end."""
    if isinstance(source, RecordSource):
        yield source
        return
    try:
        files = open_source(source, **options)
    except DataFormatsError as error:
        remedy = getattr(error, "remedy", None)
        if isinstance(remedy, Remedy):
            error.remedy = remedy.for_source()  # type: ignore[attr-defined]  # it has one
        raise
    with files as opened:
        yield opened if options.get("spec") is not None else with_new_types(opened, spec, rename)


def _fill(plan: Plan, out: RecordWriter, progress: Callable[[int, int], None] | None) -> int:
    """Write all records; return how many. Reports progress every 256 records and at the end."""
    records: Iterator[Any] = plan.source.scan_bytes() if plan.copied else iter(plan.source)
    if plan.rename:
        records = ({plan.rename.get(name, name): value for name, value in record.items()} for record in records)
    append = out.append_bytes if plan.copied and isinstance(out, DatasetWriter) else out.append
    done = 0
    for record in records:
        append(cast("Any", record))  # bytes if they are copied
        done += 1
        if progress is not None and done % _EVERY == 0:
            progress(done, len(plan.source))
    if progress is not None:
        progress(done, len(plan.source))
    return done
