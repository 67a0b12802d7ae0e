"""Compare two datasets: fields, numbers of records, and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dataformats.converting import opened_source
from dataformats.inspecting.comparison import Compared, DatasetDiff
from dataformats.inspecting.description import shown_path
from dataformats.inspecting.finding import Finding
from dataformats.inspecting.finding_groups import Findings
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.scan import split_by_bytes
from dataformats.storage.one_ahead import prefetch


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The result of `diff`.

    Attributes:
        paths: The two datasets.
        formats: Their formats.
        records: Their numbers of records.
        compared: The number of records that were compared.
        fields: Field to its types in both, if these differ; `None` for a dataset that lacks the field.
        findings: The first differences, ten of each field at most, and the first damaged records.
        damaged: The number of damaged records, which are not compared.
        differences: Field to the number of records that differ in it; `"value"` for whole records.

    Example:
        >>> import dataformats
        >>> dataformats.diff("tests/golden/real/photos.tfrecord", "tests/golden/real/photos.tfrecord").equal
        True
    """

    paths: tuple[str, str]
    formats: tuple[str, str]
    records: tuple[int, int]
    compared: int
    fields: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    damaged: int = 0
    differences: Mapping[str, int] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """True if nothing differs, and no record is damaged."""
        return not (self.fields or self.findings or len(set(self.records)) > 1)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists for JSON."""
        return asdict(self) | {"equal": self.equal}


def diff(
    first: Any,
    second: Any,
    *,
    fields: Sequence[str] | None = None,
    limit: int | None = None,
    max_findings: int = 100,
    progress: Callable[[int, int], None] | None = None,
    source_options: Mapping[str, Any] | None = None,
) -> DiffReport:
    """Compare record `i` of two datasets for each `i`, as `verify(against=)` does; the formats may differ.

    Fields are compared by name, in any order. If just one dataset declares its types, the other is read with these.
    Numbers are compared bit by bit, so that a NaN equals a NaN of the same bits. Memory is bounded.

    Args:
        first: A path, as in `open` or of a table or a folder of images, or a source.
        second: Another one.
        fields: The fields to compare; `None` compares all that both have.
        limit: The most records to compare; `None` compares all.
        max_findings: The most differences and damaged records that the report lists.
        progress: Called with (records done, records in all).
        source_options: Arguments of `open` for both datasets, if they are paths.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: A dataset cannot be opened.
        UnknownNameError: A dataset lacks one of `fields`.
        ValueError: `max_findings` is not positive.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name, score in [("a.ffr", 1.5), ("b.syr", 2.5)]:
        ...     with dataformats.create(folder / name, spec={"score": "float32"}) as writer:
        ...         writer.append({"score": score})
        >>> report = dataformats.diff(folder / "a.ffr", folder / "b.syr")
        >>> report.differences, report.findings[0].expected, report.findings[0].found
        ({'score': 1}, '1.5', '2.5')
    """
    options = source_options or {}
    with opened_source(first, options) as old, opened_source(second, options) as new:
        n = min(len(old), len(new), *(() if limit is None else (limit,)))
        old.mask(fields)
        new.mask(fields)
        types = differing_types(old, new, fields)
        findings, differences, damaged = Findings(max_findings), Counter[str](), 0
        for done, compared in compare_all(dataset_diff(old, new, fields, n), new, n, differences):
            damaged += len(compared.findings)
            findings.add(compared.findings)
            findings.add(finding for _, finding in compared.differences)
            differences.update(compared.counts)
            if progress is not None:
                progress(done, n)
        return DiffReport(
            (shown_path(first), shown_path(second)),
            (old.format, new.format),
            (len(old), len(new)),
            n,
            types,
            tuple(findings.findings),
            damaged,
            dict(differences),
        )


def dataset_diff(old: RecordSource, new: RecordSource, fields: Sequence[str] | None, n: int) -> DatasetDiff:
    """Return the comparison of the first `n` records of two sources, by all fields that both have or by `fields`."""
    if fields is None and old.spec.keys() != new.spec.keys():
        fields = [name for name in old.spec if name in new.spec]
    return DatasetDiff(new, old, fields, {}, None, limit=1, n=n)


def differing_types(
    old: RecordSource, new: RecordSource, fields: Sequence[str] | None
) -> dict[str, tuple[str | None, str | None]]:
    """Return the fields whose types differ; a type that just one dataset declares counts for both."""
    found = {}
    for name in dict.fromkeys([*old.spec, *new.spec] if fields is None else fields):
        types = old.spec.get(name), new.spec.get(name)
        is_known = None in types or len({one.spec_facts.provenance == "inferred" for one in (old, new)}) == 1
        if types[0] != types[1] and is_known:
            found[name] = (str(types[0]) if types[0] else None, str(types[1]) if types[1] else None)
    return found


def compare_all(
    comparison: DatasetDiff, new: RecordSource, n: int, before: Mapping[str, int]
) -> Iterator[tuple[int, Compared]]:
    """Yield numbers of records that are done, and the differences of the last ones; reads one part ahead."""
    parts = (np.arange(part.start, part.stop) for part in split_by_bytes(new, range(n)))
    for rows, found in prefetch((rows, comparison.read(rows)) for rows in parts):
        yield int(rows[-1]) + 1, comparison.compare(found, comparison.numbers, before)
