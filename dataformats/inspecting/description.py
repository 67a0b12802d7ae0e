"""Describe a dataset: format, fields, sizes, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dataformats.interfaces import OutdatedIndexError, Reader
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.file_source import FileSource
from dataformats.reading.opening import open as open_source
from dataformats.reading.table_source import TableSource
from dataformats.spec import VALUE, Type

__all__ = ["FileInfo", "Info", "info", "shown_path", "shown_types"]


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
        opaque: The fields whose types no codec decodes, with these types.
        problems: The error of the last record of each file, if an index tells one: `records` counts it.

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
    opaque: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

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
    source = path if isinstance(path, RecordSource) else open_source(path, **options)
    reader = source.reader if isinstance(source, FileSource | TableSource) else None
    return Info(
        path=shown_path(path),
        format=source.format,
        payload=source.payload,
        spec=source.spec.to_json(),
        spec_is_inferred=source.spec_is_inferred,
        records=len(source),
        nbytes=source.nbytes,
        files=() if reader is None else tuple(FileInfo(*part) for part in reader.file_summaries()),
        metadata={} if reader is None else reader.metadata(),
        fingerprint=source.fingerprint,
        opaque=shown_types(source.opaque_fields),
        problems=_errors_of_last_records(source, reader) if isinstance(reader, Reader) else (),
    )


def _errors_of_last_records(source: RecordSource, reader: Reader) -> tuple[str, ...]:
    """Return the errors of the last records of the files, as far as indexes tell them: no sound record is read."""
    last = (np.cumsum(reader.counts) - 1)[reader.counts > 0]
    damaged: set[int] = set()
    for located in reader.locate(last, dict.fromkeys(reader.spec or (VALUE,), True)).values():
        records = last if located.counts is None else np.repeat(last, located.counts)
        damaged.update(records[[*located.extents.problems]].tolist())
    return tuple(str(error) for error in source.check(sorted(damaged)).values()) if damaged else ()


def shown_types(kinds: Mapping[str, Type]) -> dict[str, str]:
    """Return the types as text."""
    return {name: str(kind) for name, kind in kinds.items()}


def shown_path(path: Any) -> str:
    """Return the path that was given, or the files of a source."""
    if isinstance(path, RecordSource):
        return ", ".join(path.paths)
    return ", ".join(
        "<bytes>" if isinstance(part, (bytes, bytearray, memoryview)) else str(part)
        for part in (path if isinstance(path, (list, tuple)) else [path])
    )
