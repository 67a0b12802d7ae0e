"""Verify a dataset: every length, checksum and record; perhaps against its source."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dataformats.columns.codec_resolver import as_bytes
from dataformats.converting import opened_source
from dataformats.converting.executors import chosen_executor
from dataformats.converting.selection import Selection
from dataformats.errors import FormatError, Remedy, SpecError, UnknownNameError
from dataformats.inspecting.checks import Checks
from dataformats.inspecting.comparison import DatasetDiff
from dataformats.inspecting.description import shown_path
from dataformats.inspecting.finding import Finding
from dataformats.inspecting.finding_groups import FindingGroup, Findings
from dataformats.inspecting.record_profile import RecordProfile
from dataformats.interfaces import OutdatedIndexError
from dataformats.interfaces.record_source import RecordSource
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.conditions import Where
from dataformats.reading.file_source import FileSource
from dataformats.reading.incomplete_data import AmbiguousDataError
from dataformats.reading.opening import arguments_of
from dataformats.reading.partitions import with_partitions
from dataformats.reading.scan import as_numbers
from dataformats.registry import backends
from dataformats.sidecars.file_comparison import compare_entry
from dataformats.sidecars.file_digest import checksum_of
from dataformats.sidecars.sidecar import Sidecar, load_sidecar
from dataformats.spec import Spec
from dataformats.storage.links import LinkError
from dataformats.storage.paths import resolve
from dataformats.storage.remote.files import FsspecFile

_NAMED = ("format", "payload", "spec", "codecs")


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`.

    Attributes:
        path: The path given, or the files of the source.
        format: The file format; `None` if the data could not be opened.
        records: The number of records checked.
        nbytes: Size of all files in bytes.
        findings: The first errors, at most `max_findings`, in the order of the records; empty if the data are sound.
        seconds: Wall time.
        opaque: The fields whose types no codec decodes, with these types: read, but not decoded.
        against: The source that the records were compared with; `None` if they were not compared.
        differences: Field to the number of records that differ from the source in it; `"value"` for whole records.
            `findings` has the first ten of each field.
        n_findings: The number of all errors, including errors that `findings` leaves out.
        groups: The errors by kind, field and message, at most `max_findings` groups.

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
    against: str | None = None
    differences: Mapping[str, int] = field(default_factory=dict)
    n_findings: int = 0
    groups: tuple[FindingGroup, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there are no findings."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self) | {"ok": self.ok}


def verify(
    path: Any,
    *,
    against: RecordSource | Any = None,
    fields: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    where: Where | None = None,
    shuffle_seed: int | None = None,
    limit: int | None = None,
    source_options: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    workers: int = 0,
    progress: Callable[[int, int], None] | None = None,
    max_findings: int = 1000,
    **options: Any,
) -> VerifyReport:
    """Check every length, checksum and record of a dataset against its payload and spec, or against its source, too.

    If no spec is given, it is first inferred from all records, and cached. A field whose type the first records do not
    show is a finding: elsewhere, without the cache, a loader would stop at it. Damage becomes a finding, not an error.
    Files without one are read once more, whole, if a sidecar or the dataset itself (MDS) lists their checksums.

    With `against`, record `i` must be equal to record `i` of the source, as `convert` writes it. If the dataset lacks
    as many records as the source has damaged ones, these count as omitted. Records with equal stored bytes are equal.
    The values of other records are compared exactly: dtype, shape and bits, so that a NaN equals a NaN of the same
    bits. If one of both does not declare the type of a field, it is read with the type of the other. Memory is bounded.

    Args:
        path: A path as in `open`, or a source.
        against: The source to compare the records with, or its path.
        fields: The fields to compare, by their names in `against`; `None` compares all fields of both. Without
            `against`, the argument of `open`: the arrays of HDF5 that are fields.
        rename: Names in the dataset, by their names in `against`.
        where: The condition of the conversion: see `convert`.
        shuffle_seed: The seed of the conversion.
        limit: The limit of the conversion.
        source_options: Arguments of `open`, if `against` is a path.
        executor: Checks the records in parts: any `concurrent.futures.Executor`. The findings are the same for each.
        workers: Number of worker processes; 0 checks in the calling process.
        progress: Called with (records done, records in all); each counts twice if the spec is inferred.
        max_findings: The most findings, and the most groups of them, that the report holds; all are counted.
        **options: Arguments of `open`, if `path` is a path.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: The files of `against` cannot be opened.
        SpecError: `spec=` does not parse, or the records of `against` are computed and have no types.
        TypeError: The source or a codec cannot be pickled for `workers`.
        UnknownNameError: No such format, codec or field.
        ValueError: `executor` and `workers` are both given, or `max_findings` is not positive.
        WorkerError: A process of the executor died.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> dataformats.verify("tests/golden/real/photos.tfrecord").ok
        True
        >>> report = dataformats.verify("tests/golden/tfrecord/corrupt/data_bit.tfrecord")
        >>> [(finding.index, finding.kind, finding.offset_bytes) for finding in report.findings]
        [(3, 'ChecksumError', 368)]

        Against the source of a conversion:

        >>> path = pathlib.Path(tempfile.mkdtemp()) / "names.syr"
        >>> report = dataformats.convert("tests/golden/real/photos.tfrecord", path, fields=["name", "width"])
        >>> dataformats.verify(path, against="tests/golden/real/photos.tfrecord", fields=["name", "width"]).ok
        True
    """
    begin = time.perf_counter()
    if against is None and fields is not None and not isinstance(path, RecordSource):
        options, fields = {**options, "fields": fields}, None
    if against is None and (
        rename or source_options or any(x is not None for x in (fields, where, shuffle_seed, limit))
    ):
        raise TypeError("fields=, rename=, where=, shuffle_seed=, limit= and source_options= need against=")
    with chosen_executor(executor, workers) as used:
        if against is None:
            return Verification(path, options, used, bool(workers), progress, max_findings).report()
        with opened_source(against, source_options or {}) as source:
            selection = Selection(source, where, shuffle_seed, limit, "omit")
            chosen = as_numbers(selection.records(0, len(selection))) if selection.facts else None
            compare = functools.partial(
                DatasetDiff, source=source, fields=fields, rename=rename or {}, chosen=chosen, limit=max_findings
            )
            report = Verification(path, options, used, bool(workers), progress, max_findings, compare).report()
    return replace(report, against=shown_path(against), seconds=time.perf_counter() - begin)


@dataclass(frozen=True)
class Verification:
    """One call of `verify`.

    Attributes:
        path: The path, or the source.
        options: Arguments of `open`.
        executor: Runs the checks; `None` runs them here.
        in_processes: True if other processes must receive the source.
        progress: Called with the records done, and in all.
        limit: The most findings that a report holds.
        compare: Returns the comparison of the opened dataset; `None` compares nothing.
        known: Findings that are not reported again.
        profile: Returns the profile of the records of the opened dataset; `None` makes none.
        begin: When it began.
    """

    path: Any
    options: Mapping[str, Any]
    executor: Executor | None
    in_processes: bool
    progress: Callable[[int, int], None] | None
    limit: int
    compare: Callable[[RecordSource], DatasetDiff] | None = None
    known: frozenset[Finding] = frozenset()
    profile: Callable[[RecordSource], RecordProfile] | None = None
    begin: float = field(default_factory=time.perf_counter)

    def report(self) -> VerifyReport:
        """Return the report; if an index was out of date, begin again with the new one."""
        try:
            return self._report()
        except OutdatedIndexError:
            pass  # it was built again
        try:
            return self._report()
        except OutdatedIndexError as error:  # the index of another file
            return self._report_of_each([Finding.of(error)])

    def _report(self) -> VerifyReport:
        findings, before = Findings(self.limit), list[Finding]()  # findings about whole files go into `before`
        try:
            source = _opened(self.path, self.options, before)
            infers = isinstance(source, FileSource) and source.spec_facts.provenance == "inferred"
            counter = _Counter(self.progress, len(source) * (2 if infers else 1))
            listed = None
            if isinstance(source, FileSource):
                listed = _listed_files(self.path, self.options)
                before += _count_findings(source, listed, before)
                sampled = source.spec
                before += _late_types(source.paths, sampled, source.infer_fully(counter.add))
        except OutdatedIndexError:
            raise
        except (FormatError, UnknownNameError, SpecError) as error:
            if not isinstance(error, FormatError) and any(self.options.get(name) is not None for name in _NAMED):
                raise  # the arguments are wrong, not the data
            return self._report_of_each([*before, Finding.of(error)])
        findings.add(finding for finding in before if finding not in self.known)
        whole = with_partitions(source, Spec({})) if isinstance(source, FileSource) else source
        comparison = None if self.compare is None else self.compare(whole)
        if comparison is not None:
            findings.add_all(comparison.findings)
        opaque = source.spec_facts.opaque_fields
        profile = None if self.profile is None else self.profile(source)
        read = source.with_spec(as_bytes(source.spec, opaque)) if opaque else source
        checks = Checks(read if profile is None else profile.source, comparison, profile)
        if self.in_processes:
            checks.check_pickles()
        differences: Counter[str] = Counter()
        for n, found in checks.run(self.executor, differences):
            findings.add(found)
            counter.add(n)
        if profile is not None:
            findings.add(profile.findings())
        if isinstance(source, FileSource):
            findings.add(_checksum_findings(source, listed, findings.findings))
        report = self._report_with(findings, source.format, len(source), source.nbytes, Spec(opaque).to_text())
        return replace(report, differences=dict(differences))

    def _report_of_each(self, known: list[Finding]) -> VerifyReport:
        """Return the report of files that cannot be opened together: each file is verified separately.

        Args:
            known: The findings until then; the last one is why the files cannot be opened together.
        """
        findings = Findings(self.limit)
        names: list[Any] = []
        with suppress(LinkError):  # a link that is not followed is the finding
            names = _file_names(self.path, self.options)
        if len(names) < 2:
            findings.add(finding for finding in known if finding not in self.known)
            return self._report_with(findings, None, 0, 0, {})
        findings.add(known[:-1])
        each = replace(self, progress=None, compare=None, known=self.known.union(known[:-1]))
        reports = [replace(each, path=name).report() for name in names]
        for report in reports:
            findings.add_all(report)
        if not findings.n_findings:
            findings.add(known)
        return self._report_with(
            findings,
            next((report.format for report in reports if report.format is not None), None),
            sum(report.records for report in reports),
            sum(report.nbytes for report in reports),
            {name: kind for report in reports for name, kind in report.opaque.items()},
        )

    def _report_with(
        self, findings: Findings, format: str | None, records: int, nbytes: int, opaque: Mapping[str, str]
    ) -> VerifyReport:
        return VerifyReport(
            shown_path(self.path),
            format,
            records,
            nbytes,
            tuple(findings.findings),
            time.perf_counter() - self.begin,
            opaque,
            n_findings=findings.n_findings,
            groups=findings.groups,
        )


def _file_names(path: Any, options: Mapping[str, Any]) -> list[Any]:
    """Return the paths, or the remote files, of a list, a glob or a folder that can be opened separately."""
    if isinstance(path, RecordSource):
        return []
    found = _resolved(path, options)
    files = [entry for entry in found if not isinstance(entry, Folder)]
    for folder in (entry for entry in found if isinstance(entry, Folder)):
        in_files = [backend for backend in backends.values() if not backend.in_folders]
        files += next((mine for backend in in_files if (mine := backend.find(folder))), [])
    return [file.reopenable if isinstance(file, FsspecFile) else file.name for file in files]


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


def _opened(path: Any, options: Mapping[str, Any], findings: list[Finding]) -> RecordSource:
    """Return the source; a file that is not as its sidecar says becomes a finding."""
    if isinstance(path, RecordSource):
        return path

    def report(error: FormatError) -> None:
        if not isinstance(error, AmbiguousDataError):
            findings.append(Finding.of(error))

    return arguments_of(path, **options).open(report)


def _late_types(paths: Sequence[str], sampled: Spec, found: Spec) -> Iterator[Finding]:
    """Yield a finding for each field whose type the samples do not show: a read of the other records would fail."""
    for name, kind in found.items():
        if sampled.get(name) != kind:
            what = f"sampled records have {sampled.get(name, 'no such field')}, all records have {kind}"
            remedy = Remedy("Pass {spec}, or run dataformats index --full --beside.", spec={name: str(kind)})
            yield Finding.of(SpecError(what, path=paths[0], field=name, remedy=remedy))


def _resolved(path: Any, options: Mapping[str, Any]) -> list[StoredFile | Folder]:
    return resolve(path, options.get("storage_options"), follow_links=options.get("follow_links", False))


def _listed_files(path: Any, options: Mapping[str, Any]) -> tuple[Sidecar, StoredFile | Folder] | None:
    """Return the sidecar of a path, and the file or folder that it is about; `None` without one."""
    found = [] if isinstance(path, RecordSource) else _resolved(path, options)
    sidecar = load_sidecar(found[0]) if len(found) == 1 else None
    return None if sidecar is None or sidecar.previous is not None else (sidecar, found[0])


def _checksum_findings(
    source: FileSource, listed: tuple[Sidecar, StoredFile | Folder] | None, known: list[Finding]
) -> Iterator[Finding]:
    """Yield a finding for each file whose checksum is not as the dataset or a sidecar lists it, but not twice."""
    checksums: list[tuple[StoredFile, Mapping[str, str], int | None, str]]
    checksums = [(file, expected, None, "the dataset") for file, expected in source.reader.checksums()]
    if listed is not None:
        sidecar, entry = listed
        diff = compare_entry(sidecar.name, entry, sidecar.metadata.get("files") or ())
        checksums += [(*one, f"the sidecar {sidecar.name!r}") for one in diff.checksums()]
    wrong = {finding.path for finding in known}
    for file, expected, size, lister in checksums:
        for algorithm, digits in expected.items():
            found = None if file.name in wrong else checksum_of(file, algorithm, size)
            if found is not None and found != digits.lower():
                wrong.add(file.name)
                what, remedy = f"the content is not as {lister} lists it", "Restore the file."
                expected_sum, found_sum = f"{algorithm} {digits}", f"{algorithm} {found}"
                error = FormatError(what, path=file.name, expected=expected_sum, found=found_sum, remedy=remedy)
                yield Finding.of(error)
        file.release()


def _count_findings(
    source: FileSource, listed_files: tuple[Sidecar, StoredFile | Folder] | None, known: list[Finding]
) -> list[Finding]:
    """Compare the numbers of records of the files without a finding with the sidecar's."""
    if listed_files is None:
        return []
    sidecar = listed_files[0]
    wrong = [str(finding.path) for finding in known]
    counts = {name: n for name, n, _ in source.reader.file_summaries() if not any(w.startswith(name) for w in wrong)}
    files = sidecar.metadata.get("files") or ()
    grows = any(entry.get("grows") for entry in files)  # other programs append and do not change the sidecar
    listed = {entry["name"]: entry["records"] for entry in files}
    if len(listed) == len(counts) == 1:  # they may have been renamed since
        listed = dict(zip(_basenames(counts), listed.values(), strict=True))
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
        if name in listed and (listed[name] > counts[path] if grows else listed[name] != counts[path])
    ]


def _basenames(paths: Iterable[str]) -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in paths]
