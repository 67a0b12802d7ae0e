"""Convert from one format to another: copy stored payloads if the codec stays the same, else decode and encode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import DataFormatsError, Remedy, SpecError, UnknownNameError
from dataformats.interfaces import Backend, BlobBackend, KeepsFieldTypes, RecordWriter
from dataformats.reading.opening import open as open_source
from dataformats.reading.source import RecordSource, declared_spec
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike, Type
from dataformats.writing.dataset_writer import DatasetWriter, writer
from dataformats.writing.encoding import WriteSchema, refuse

__all__ = ["ConvertReport", "convert"]

_EVERY = 256


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """The result of a conversion.

    Attributes:
        path: The new file or folder.
        format: Its format.
        payload: The codec of its whole records; `None` if it stores each field separately.
        records: The number of records.
        copied: True if stored payloads were copied unchanged; False if records were decoded and encoded.
        seconds: Wall time.
        left_out: Fields of the source that the new records lack.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "photos.ofrecord"
        >>> report = dataformats.convert("tests/golden/real/photos.tfrecord", path, "ofrecord")
        >>> report.payload, report.records, report.copied
        ('ofrecord', 12, False)
    """

    path: str
    format: str
    payload: str | None
    records: int
    copied: bool
    seconds: float
    left_out: tuple[str, ...] = ()


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
    with _opened(source, {"codecs": codecs, **(source_options or {})}, wanted, renamed) as given:
        chosen = given if fields is None else _selected(given, fields, wanted)
        if isinstance(path, RecordWriter):
            if (
                backend_options
                or overwrite
                or any(option is not None for option in (format, spec, payload, shard_records, shard_bytes))
            ):
                raise TypeError("convert() to a writer takes no format=, spec=, payload= or other options of new files")
            _check_names(chosen, renamed)
            plan = _Plan(chosen, None, None, None, renamed, copied=False)
            name, format, used = repr(path), type(path).__name__, None
            done = _fill(plan, path, progress)
        else:
            name, format = str(path), format or format_of(path)
            plan = _plan(chosen, backends.get(format), wanted, payload, rename=renamed, codecs=codecs)
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
        return ConvertReport(name, format, used, done, plan.copied, seconds, _left_out(given, plan))


@contextmanager
def _opened(
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
        yield opened if options.get("spec") is not None else _with_new_types(opened, spec, rename)


def _selected(source: RecordSource, fields: Sequence[str], spec: Spec | None) -> RecordSource:
    """Return the source with these fields alone; all of them leave it as it is, so that payloads can be copied."""
    names = declared_spec(source) or ()
    in_order = tuple(fields) == tuple(names)
    return source if in_order or (spec is not None and {*fields} == {*names}) else source.select(*fields)


def _with_new_types(source: RecordSource, spec: Spec | None, rename: Mapping[str, str]) -> RecordSource:
    """Return a source whose undeclared fields have the types of the new data."""
    if spec is None or source.single:
        return source
    old_names = {new: old for old, new in rename.items()}
    wanted = {old_names.get(name, name): kind for name, kind in spec.items()}
    if source.spec_is_inferred:
        kept = {name: kind for name, kind in source.spec.items() if not _is_guess(kind, wanted.get(name))}
        return source.with_spec(Spec({**source.spec, **wanted, **kept}))
    opaque = source.opaque_fields
    undeclared = [
        name
        for name, kind in source.spec.items()
        if name in wanted and (name in opaque or _is_plain_bytes(kind)) and wanted[name].dtype is None
    ]
    return source.with_spec(Spec({**source.spec, **{name: wanted[name] for name in undeclared}}))


def _is_guess(inferred: Type, wanted: Type | None) -> bool:
    """True if stored values may have the wanted type as well as the inferred one: numbers convert afterwards."""
    if wanted is None:
        return False
    return inferred.dtype is None or wanted.dtype is None or inferred.dims != wanted.dims


def _is_plain_bytes(kind: Type) -> bool:
    return kind.codec == "bytes" or (kind.codec == "uint8" and len(kind.dims) == 1)


def format_of(path: Any) -> str:
    """Return the format that the name of a new file belongs to."""
    name = str(path).rstrip("/").rsplit("/", 1)[-1].lower()
    matching = [format for format in backends if backends.get(format).matches_name(name)]
    if len(matching) != 1:
        remedy = Remedy("Pass {format}.", format=...)
        raise UnknownNameError("format for the name", name=name, known=backends, remedy=remedy)
    return matching[0]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The source and the schema of a conversion.

    Attributes:
        source: The records, read with the types that the writer receives.
        payload: The codec of the new whole records; `None` is the default of the format.
        spec: The new fields, as declared; `None` if the reader infers them, or if there are none.
        carried: The types that the writer receives: `bytes` for blobs that are copied; `None` if as declared.
        rename: Old name to new name.
        copied: True if whole payloads are copied.
    """

    source: RecordSource
    payload: str | None
    spec: Spec | None
    carried: Spec | None
    rename: Mapping[str, str]
    copied: bool


def _plan(
    source: RecordSource,
    backend: Backend,
    spec: Spec | None,
    payload: str | None,
    *,
    rename: Mapping[str, str],
    codecs: Mapping[str, Any] | None,
) -> _Plan:
    """Choose the new payload and spec, and what is copied."""
    same = not rename and (spec is None or (not source.single and spec == source.spec))
    if same and _keeps_payload(backend, source, payload) and not source.hidden_fields:
        declared = spec if source.single or source.spec_is_inferred else source.spec
        means_fields = payload in (None, source.payload)  # as bytes, records have no fields
        return _Plan(source, payload or source.payload, declared if means_fields else None, None, {}, copied=True)
    _check_names(source, rename)
    if source.single:
        return _Plan(source, payload or (None if spec else source.payload), spec, None, rename, copied=False)
    old = {rename.get(name, name): name for name in source.spec}
    keeps_types = isinstance(backend, KeepsFieldTypes)
    types = {name: source.spec[before] for name, before in old.items()}
    new = spec or Spec(types if keeps_types else {name: _portable(kind) for name, kind in types.items()})
    dropped = [name for name in old if name not in new]
    if dropped:
        remedy = Remedy("Give their types in {spec}, or select with {fields}.", spec=..., fields=...)
        raise SpecError(f"the new spec lacks {', '.join(dropped)}", remedy=remedy)
    lacking = [name for name in new if name not in old]
    if lacking:
        raise SpecError("the source has no such field", field=lacking[0])
    chosen = source.select(*(old[name] for name in new))
    carried = {name: _carried(chosen.spec[old[name]], kind, codecs) for name, kind in new.items()}
    if not any(carried.values()):
        return _Plan(chosen, payload, new, None, rename, copied=False)
    read = Spec({old[name]: kind or chosen.spec[old[name]] for name, kind in carried.items()})
    written: Spec | None = Spec({name: kind or new[name] for name, kind in carried.items()})
    try:
        chosen = chosen.with_spec(read)
    except SpecError:  # the source stores no blobs to copy
        written = None
    return _Plan(chosen, payload, new, written, rename, copied=False)


def _portable(kind: Type) -> Type:
    """Return the type of a field in other formats: Granular's integers become numbers."""
    numbers = {"int": "int64", "i64": "int64", "u64": "uint64"}
    return replace(kind, codec=numbers[kind.codec]) if kind.codec in numbers and not kind.args else kind


def _check_names(source: RecordSource, rename: Mapping[str, str]) -> None:
    """Raise an error if `rename` names an unknown field, or gives two fields one name."""
    if not rename:
        return
    known = () if source.single else tuple(source.spec)
    for name in rename:
        if name not in known:
            raise UnknownNameError("field", name=name, known=known)
    if len({rename.get(name, name) for name in known}) < len(known):
        raise SpecError("two fields would have the same name", remedy=Remedy("Change {rename}.", rename=rename))


def _left_out(source: RecordSource, plan: _Plan) -> tuple[str, ...]:
    if plan.copied or source.single:
        return ()
    kept = set(plan.source.spec)
    return (*(name for name in declared_spec(source) or () if name not in kept), *source.hidden_fields)


def _keeps_payload(backend: Backend, source: RecordSource, payload: str | None) -> bool:
    """Return True if the new records can have the stored payloads of the source."""
    if not isinstance(backend, BlobBackend) or not _has_bytes(source) or source.payload is None:
        return False
    return backend.accepts_payload(source.payload) if payload is None else payload in ("bytes", source.payload)


def _carried(old: Type, new: Type, codecs: Mapping[str, Any] | None) -> Type | None:
    """Return the type under which the blobs of a field are copied; `None` if its values must be decoded."""
    if old != new or old.dtype is not None:
        return None
    try:
        portable = CodecResolver(codecs, trusted=False).codec(old.element).portable
    except UnknownNameError:
        portable = True  # opaque, or not to be named by a file: only its blobs are needed
    return replace(old, codec="bytes", args=()) if portable and old.codec != "bytes" else None


def _has_bytes(source: RecordSource) -> bool:
    try:
        source.read_bytes([])
    except SpecError:
        return False
    return True


def _fill(plan: _Plan, out: RecordWriter, progress: Callable[[int, int], None] | None) -> int:
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
