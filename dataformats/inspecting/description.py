"""Describe a dataset: format, fields, sizes, files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np

from dataformats.batch import RecordBatch
from dataformats.display.media import media_of, media_within
from dataformats.errors import DataFormatsError, FormatError, Remedy
from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.interfaces import CachesIndexes, OutdatedIndexError, Reader, RecordCodec, Table
from dataformats.interfaces.record_source import RecordSource
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.file_source import FileSource
from dataformats.reading.incomplete_data import IncompleteDataError
from dataformats.reading.opening import arguments_of
from dataformats.reading.partitions import PartitionedSource
from dataformats.registry import codecs
from dataformats.spec import VALUE, Spec, Type
from dataformats.storage.remote.names import shown_url

__all__ = ["FileInfo", "Info", "info"]

_TITLES = {"example": "a tf.train.Example", "sequence_example": "a SequenceExample", "json_object": "a JSON object"}
MEDIA_CODECS = {"JPEG": "jpg", "PNG": "png", "WebP": "webp", "MP4": "mp4", "WebM": "webm"}
MEDIA_CODECS |= dict.fromkeys(("WAV", "FLAC", "MP3"), "audio")
"""Name of `Media` to the codec that decodes it."""
_TENSOR = re.compile(rb"\x08[\x01-\x19]\x12")  # a dtype and a shape, as tf.io.serialize_tensor begins
_SIZES = (("height", "width"), ("rows", "cols"), ("h", "w"))
_PIXELS = {1: "uint8[{}]", 2: "uint16[{}]", 3: "uint8[{},3]", 4: "uint8[{},4]", 12: "float32[{},3]"}
"""Bytes of a pixel to the type of an image with raw pixels."""
_MAX_RECORDS, _MAX_BYTES = 4, 2**24  # records whose bytes are looked at, and bytes that this may read
_NO_LIMIT = 2**62  # to know the size of a file behind a URL may take a request


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a dataset.

    Attributes:
        path: Path or URL.
        records: The number of records; an unreadable rest counts as one.
        nbytes: Size in bytes.
    """

    path: str
    records: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Info:
    """Format, fields, sizes and files of a dataset.

    Attributes:
        path: The path given, or the files of the source.
        format: The file format.
        payload: The codec of whole records; `None` if fields are stored separately.
        spec: Field to type, as text.
        spec_is_inferred: True if the spec was inferred from records.
        records: The number of records.
        nbytes: Size of all files in bytes.
        files: The files in reading order.
        metadata: Other metadata of the files, such as a version or a generation.
        fingerprint: A digest that identifies the records.
        class_names: The names of the classes that fields of integers number.
        opaque: The fields whose types no codec decodes, with these types.
        problems: The error of the last record of each file, if an index tells one: `records` counts it.
        notes: What stands out besides: missing shards, fields that cannot be read, bytes that a codec decodes, files
            without records, dots in names of a tar file, no index beside files behind a URL.

    Example:
        >>> import dataformats
        >>> about = dataformats.info("tests/golden/real/digits-*.tfrecord")
        >>> about.spec["label"], [file.records for file in about.files]
        ('int64', [599, 599, 599])
    """

    path: str
    format: str
    payload: str | None
    spec: Mapping[str, str]
    spec_is_inferred: bool
    records: int
    nbytes: int
    files: tuple[FileInfo, ...]
    metadata: Mapping[str, str]
    fingerprint: str
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    opaque: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self)


def info(path: Any, **options: Any) -> Info:
    """Return format, fields, sizes and files of a dataset; builds its index at the first call.

    Args:
        path: A path as in `open`, or a source.
        **options: Arguments of `open`, if `path` is a path.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: The files cannot be opened.

    Example:
        >>> import dataformats
        >>> about = dataformats.info("tests/golden/real/photos.tfrecord")
        >>> about.format, about.payload, about.records
        ('tfrecord', 'example', 12)
        >>> about.spec["image"], about.spec["height"]
        ('bytes', 'int64')
    """
    try:
        return _info(path, options)
    except OutdatedIndexError:  # it was built again
        return _info(path, options)


def _info(path: Any, options: dict[str, Any]) -> Info:
    lacking: list[str] = []

    def report(error: FormatError) -> None:
        if not isinstance(error, IncompleteDataError):
            raise error
        lacking.append(str(error))

    source = path if isinstance(path, RecordSource) else arguments_of(path, **options).open_with_partitions(report)
    files_source = source.files if isinstance(source, PartitionedSource) else source
    reader = files_source.reader if isinstance(files_source, FileSource) else None
    files = () if reader is None else tuple(FileInfo(*part) for part in reader.file_summaries())
    facts = source.spec_facts
    return Info(
        path=shown_path(path),
        format=source.format,
        payload=facts.payload,
        spec=source.spec.to_text(),
        spec_is_inferred=facts.provenance == "inferred",
        records=len(source),
        nbytes=source.nbytes,
        files=files,
        metadata={} if reader is None else reader.metadata(),
        fingerprint=source.fingerprint,
        class_names={name: kind.class_names for name, kind in source.spec.items() if kind.class_names},
        opaque=Spec(facts.opaque_fields).to_text(),
        problems=_errors_of_last_records(files_source) if isinstance(files_source, BlobSource) else (),
        notes=() if reader is None else (*lacking, *_notes(source, reader, files, options)),
    )


def _errors_of_last_records(source: BlobSource) -> tuple[str, ...]:
    """Return the errors of the last records of the files, as far as indexes tell them: no sound record is read."""
    reader = source.reader
    last = (np.cumsum(reader.counts) - 1)[reader.counts > 0]
    damaged: set[int] = set()
    for located in reader.locate(last, dict.fromkeys(reader.spec or (VALUE,), True)).values():
        records = last if located.counts is None else np.repeat(last, located.counts)
        extents = located.extents
        damaged.update(records[[*extents.problems]].tolist())
        if extents.fetch is None:
            files = [reader.files[number] for number in extents.file.tolist()]
            sizes = np.array([_NO_LIMIT if file.local is None else file.size for file in files], np.int64)
            damaged.update(records[extents.offset + extents.length > sizes].tolist())
    return tuple(str(error) for error in source.check(sorted(damaged)).failed.values()) if damaged else ()


def _notes(
    source: RecordSource, reader: Reader | Table, files: Sequence[FileInfo], options: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what stands out: see `Info.notes`."""
    yield from reader.notes()
    for name, kind in source.spec.items():
        numbered = (n for n, of in enumerate(kind.class_names) if of.isdecimal() and int(of) != n)
        if (n := next(numbered, None)) is not None:
            of = kind.class_names[n]
            yield f"field {name!r} counts the classes in the order of their names: {n} is the class {of!r}"
    is_stored = isinstance(reader, Table) and not options.get("spec")
    facts = source.spec_facts
    if is_stored or facts.provenance == "inferred" or facts.payload == "bytes" != options.get("payload"):
        with suppress(DataFormatsError):  # damage is a problem, no note
            yield from _notes_on_bytes(source, range(min(len(source), _MAX_RECORDS)))
    empty = [file.path for file in files if not file.records]
    if empty and len(files) > 1:
        yield f"{len(empty)} of {len(files)} files have no records, such as {empty[0]!r}"
    if isinstance(reader, CachesIndexes) and reader.files and not _has_index(reader.files[0].stored):
        yield "no index lies beside the data: each process reads the lengths of all records first"


def _notes_on_bytes(source: RecordSource, few: range) -> Iterator[str]:
    """Yield what the bytes in these records are, if all are of one kind that a codec decodes."""
    names = [name for name, kind in source.spec.items() if kind.required == Type("bytes")]
    starts = source.block_starts
    decoded = few if starts is None else range(len(source))[: starts[1] if len(starts) > 1 else None]
    if not names or len(decoded) * source.record_bytes(decoded) > _MAX_BYTES:
        return
    numbers = [name for name, kind in source.spec.items() if kind.dtype is not None and not kind.dims]
    batch = source.read(few, [*names, *numbers])
    for name in names:
        blobs = list(filter(None, batch[name]))  # a record may lack it
        kinds = set(map(_codec_of, blobs))
        pixels = _pixels_of(batch, name) if kinds == {None} else None
        kind = kinds.pop() if len(kinds) == 1 else None
        field = f"{name!r:.80}".replace("{", "{{").replace("}", "}}")
        if pixels is not None:
            rows, columns = Type.parse(pixels).shape_fields
            what = f"field {field} has the bytes of pixels in {rows!r} rows and {columns!r} columns: pass {{spec}}"
            yield Remedy(what, spec={name: pixels + "?" * source.spec[name].optional})
        if kind is not None and source.payload != "bytes":
            held = "values" if kind == "tensor" else "files"
            yield Remedy(
                f"field {field} holds {held} that {kind!r} decodes: pass {{spec}}",
                spec={name: kind + "?" * source.spec[name].optional},
            )
        elif kind is not None:
            yield Remedy(f"each of the first records is a file that {kind!r} decodes: pass {{payload}}", payload=kind)
        for payload, title in _TITLES.items() if source.payload == "bytes" and any(blobs) else ():
            if all(cast(RecordCodec, codecs.get(payload)).matches(blob) for blob in blobs):
                yield Remedy(f"each of the first records looks like {title}: pass {{payload}}", payload=payload)
                break
        else:
            if kind is None and any(map(media_within, blobs)):
                yield f"field {name!r:.80} holds documents with media inside: take these out by a codec and map"


def _codec_of(blob: bytes) -> str | None:
    """Return the codec that decodes a file or a tensor of TensorFlow; `None` for other bytes."""
    media = media_of(blob)
    if media is not None:
        return MEDIA_CODECS.get(media.name)
    with suppress(ValueError, OverflowError):
        if _TENSOR.match(blob):
            codecs.get("tensor").decode(blob)
            return "tensor"
    return None


def _pixels_of(batch: RecordBatch, name: str) -> str | None:
    """Return the type of arrays that the bytes of a field may be, if integers of the same records are their sizes."""
    numbers = {field: column for field, column in batch.columns.items() if isinstance(column, np.ndarray)}
    sizes = {field: column.tolist() for field, column in numbers.items() if column.dtype.kind in "iu"}
    pairs = [(field, field.removesuffix(h) + w) for h, w in _SIZES for field in sizes if field.endswith(h)]
    for height, width in pairs:
        rows = zip(batch[name], sizes[height], sizes.get(width, ()), strict=False)
        found = {len(blob) / (h * w) if h > 0 < w else 0 for blob, h, w in rows if blob}
        if len(found) == 1 and (pixel := _PIXELS.get(found.pop())):
            return pixel.format(f"{height},{width}")
    return None


def _has_index(file: StoredFile) -> bool:
    """Return True if an index lies beside a file, or beside its folder; indexes of local files are cached."""
    folder = file.folder()
    return (
        file.local is not None
        or file.file_beside(file.basename + INDEX_SUFFIX) is not None
        or (folder is not None and folder.file_beside(folder.basename + INDEX_SUFFIX) is not None)
    )


def shown_path(path: Any) -> str:
    """Return the path that was given, or the files of a source."""
    if isinstance(path, RecordSource):
        return ", ".join(path.paths)
    return ", ".join(
        "<bytes>" if isinstance(part, (bytes, bytearray, memoryview)) else shown_url(part)
        for part in (path if isinstance(path, (list, tuple)) else [path])
    )
