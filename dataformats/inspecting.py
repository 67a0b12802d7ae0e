"""Describe a dataset, and verify it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dataformats.columns.codec_resolver import as_bytes
from dataformats.errors import FormatError, SpecError, UnknownNameError
from dataformats.indexing.sidecar import load_sidecar
from dataformats.interfaces import BlobBackend, OutdatedIndexError
from dataformats.interfaces.stored_file import Folder
from dataformats.reading.file_source import FileSource
from dataformats.reading.opening import arguments_of
from dataformats.reading.opening import open as open_source
from dataformats.reading.source import RecordSource
from dataformats.registry import backends
from dataformats.spec import Type
from dataformats.storage.paths import resolve

__all__ = ["FileInfo", "Finding", "Info", "VerifyReport", "info", "verify"]

_NAMED = ("format", "payload", "spec", "codecs")


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
        facts: Other metadata of the files, such as a version or a generation.
        fingerprint: A digest of which records these are.
        opaque: The fields whose types no codec decodes, with these types.

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
    facts: Mapping[str, str]
    fingerprint: str
    opaque: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One error found by `verify`.

    Attributes:
        kind: The name of the error class.
        message: The whole message of the error.
        path: The file; `None` if unknown, and likewise:
        index: The record.
        offset_bytes: The byte offset.
        expected: The content that the format requires.
        found: The content of the file.
        remedy: What the user can do.

    Example:
        >>> import dataformats
        >>> finding = dataformats.verify("tests/golden/tfrecord/corrupt/data_bit.tfrecord").findings[0]
        >>> finding.kind, finding.index, finding.expected
        ('ChecksumError', 3, '... (stored)')
    """

    kind: str
    message: str
    path: str | None = None
    index: int | None = None
    offset_bytes: int | None = None
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None

    @classmethod
    def of(cls, error: Exception, index: int | None = None) -> Finding:
        """Return the finding for an error.

        Args:
            error: The error.
            index: The record, if the error does not name one.
        """
        facts: dict[str, Any] = {name: getattr(error, name, None) for name in ("path", "index", "offset_bytes")}
        texts = {name: getattr(error, name, None) for name in ("expected", "found")}
        facts |= {name: None if value is None else str(value) for name, value in texts.items()}
        if facts["index"] is None:
            facts["index"] = index
        return cls(type(error).__name__, str(error), **facts, remedy=getattr(error, "remedy", None))


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`.

    Attributes:
        path: The path given, or the files of the source.
        format: The file format; `None` if the data could not be opened.
        records: The number of records checked.
        nbytes: Size of all files in bytes.
        findings: The errors, in the order of the records; empty if the data are sound.
        seconds: Wall time.
        opaque: The fields whose types no codec decodes, with these types: read, but not decoded.

    Example:
        >>> import dataformats
        >>> report = dataformats.verify("tests/golden/real/photos.tfrecord")
        >>> report.ok, report.format, report.records
        (True, 'tfrecord', 12)
    """

    path: str
    format: str | None
    records: int
    nbytes: int
    findings: tuple[Finding, ...] = field(default=())
    seconds: float = 0.0
    opaque: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if there are no findings."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self) | {"ok": self.ok}


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
    reader = source.reader if isinstance(source, FileSource) else None
    return Info(
        path=_name(path),
        format=source.format,
        payload=source.payload,
        spec=source.spec.to_json(),
        spec_is_inferred=source.spec_is_inferred,
        records=len(source),
        nbytes=source.nbytes,
        files=() if reader is None else tuple(FileInfo(*part) for part in reader.file_summaries()),
        facts={} if reader is None else reader.metadata(),
        fingerprint=source.fingerprint,
        opaque=_texts(source.opaque_fields),
    )


def verify(path: Any, *, progress: Callable[[int, int], None] | None = None, **options: Any) -> VerifyReport:
    """Check every length, checksum and record of a dataset against its payload and spec.

    If no spec is given, it is first inferred from all records, and cached. Damage becomes a finding, not an error.

    Args:
        path: A path as in `open`, or a source.
        progress: Called with (records done, records in all); each counts twice if the spec is inferred.
        **options: Arguments of `open`, if `path` is a path.

    Raises:
        FileNotFoundError: There is no such file.
        SpecError: `spec=` does not parse.
        UnknownNameError: No such format or codec.

    Example:
        >>> import dataformats
        >>> dataformats.verify("tests/golden/real/photos.tfrecord").ok
        True
        >>> report = dataformats.verify("tests/golden/tfrecord/corrupt/data_bit.tfrecord")
        >>> [(finding.index, finding.kind, finding.offset_bytes) for finding in report.findings]
        [(3, 'ChecksumError', 368)]
    """
    begin = time.perf_counter()
    try:
        return _verified(path, progress, options, begin)
    except OutdatedIndexError:
        pass  # it was built again
    try:
        return _verified(path, progress, options, begin)
    except OutdatedIndexError as error:  # of another file
        return _verify_separately(path, options, [Finding.of(error)], begin)


def _verified(
    path: Any, progress: Callable[[int, int], None] | None, options: dict[str, Any], begin: float
) -> VerifyReport:
    findings: list[Finding] = []
    try:
        source = _opened(path, options, findings)
        infers = isinstance(source, FileSource) and source.spec_is_inferred
        counter = _Counter(progress, len(source) * (2 if infers else 1))
        if isinstance(source, FileSource):
            findings += _count_findings(path, source, options.get("storage_options"), findings)
            source.infer_fully(counter.add)
    except OutdatedIndexError:
        raise
    except (FormatError, UnknownNameError, SpecError) as error:
        if not isinstance(error, FormatError) and any(options.get(name) is not None for name in _NAMED):
            raise  # the arguments are wrong, not the data
        return _verify_separately(path, options, [*findings, Finding.of(error)], begin)
    opaque = source.opaque_fields
    if opaque:
        source = source.with_spec(as_bytes(source.spec, opaque))
    for part in source.steps():
        wrong = source.check(part)
        findings += [Finding.of(wrong[index], index) for index in sorted(wrong)]
        counter.add(len(part))
    seconds = time.perf_counter() - begin
    return VerifyReport(
        _name(path), source.format, len(source), source.nbytes, tuple(findings), seconds, _texts(opaque)
    )


def _verify_separately(path: Any, options: dict[str, Any], known: list[Finding], begin: float) -> VerifyReport:
    """Return the report of files that cannot be opened together: each file is verified separately.

    Args:
        path: As in `verify`.
        options: Likewise.
        known: The findings until then; the last one is why the files cannot be opened together.
        begin: When the verification began.
    """
    names = _file_names(path, options.get("storage_options"))
    if len(names) < 2:
        return VerifyReport(_name(path), None, 0, 0, tuple(known), time.perf_counter() - begin)
    reports = [verify(name, **options) for name in names]
    findings = [*known[:-1], *(finding for report in reports for finding in report.findings)]
    return VerifyReport(
        _name(path),
        next((report.format for report in reports if report.format is not None), None),
        sum(report.records for report in reports),
        sum(report.nbytes for report in reports),
        tuple(dict.fromkeys(findings or known)),  # a sidecar's are found twice
        time.perf_counter() - begin,
        {name: kind for report in reports for name, kind in report.opaque.items()},
    )


def _file_names(path: Any, storage_options: dict[str, Any] | None) -> list[str]:
    """Return the files of a list, a glob or a folder that can be opened separately."""
    if isinstance(path, RecordSource):
        return []
    found = resolve(path, storage_options)
    files = [entry for entry in found if not isinstance(entry, Folder)]
    for folder in (entry for entry in found if isinstance(entry, Folder)):
        blobs = [backend for backend in map(backends.get, backends) if isinstance(backend, BlobBackend)]
        files += next((mine for backend in blobs if (mine := backend.find(folder))), [])
    return [file.name for file in files]


class _Counter:
    """Adds up steps for a progress callback."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, n: int) -> None:
        self._done += n
        if self._progress is not None:
            self._progress(self._done, self._total)


def _opened(path: Any, options: dict[str, Any], findings: list[Finding]) -> RecordSource:
    """Return the source; a file that is not as its sidecar says becomes a finding."""
    if isinstance(path, RecordSource):
        return path
    return arguments_of(path, **options).open(report=lambda error: findings.append(Finding.of(error)))


def _texts(kinds: Mapping[str, Type]) -> dict[str, str]:
    return {name: str(kind) for name, kind in kinds.items()}


def _name(path: Any) -> str:
    if isinstance(path, RecordSource):
        return ", ".join(path.paths)
    return ", ".join(map(str, path)) if isinstance(path, (list, tuple)) else str(path)


def _count_findings(
    path: Any, source: FileSource, storage_options: dict[str, Any] | None, known: list[Finding]
) -> list[Finding]:
    """Compare the numbers of records with the sidecar's, of the files without a finding."""
    found = [] if isinstance(path, RecordSource) else resolve(path, storage_options)
    sidecar = load_sidecar(found[0]) if len(found) == 1 else None
    if sidecar is None or sidecar.previous is not None:
        return []
    wrong = [str(finding.path) for finding in known]
    counts = {name: n for name, n, _ in source.reader.file_summaries() if not any(w.startswith(name) for w in wrong)}
    listed = {entry["name"]: entry["records"] for entry in sidecar.facts.get("files") or ()}
    if len(listed) == len(counts) == 1:  # they may have been renamed since
        listed = dict.fromkeys(_basenames(counts), *listed.values())
    return [
        Finding.of(
            FormatError(
                f"not as many records as the sidecar {sidecar.name!r} lists",
                path=path,
                expected=listed[name],
                found=counts[path],
            )
        )
        for path, name in zip(counts, _basenames(counts), strict=True)
        if name in listed and listed[name] != counts[path]
    ]


def _basenames(paths: Iterable[str]) -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in paths]
