"""Compare a dataset with the source that it was converted from, record by record.

Records with equal stored bytes are equal. Other records are decoded, and their values compared exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable
from dataformats.columns.codec_resolver import as_bytes
from dataformats.converting.conversion_schema import check_names, copied_type, stores_payloads, with_new_types
from dataformats.display.differences import find_differences
from dataformats.errors import DataFormatsError, Remedy, SpecError
from dataformats.inspecting.finding import Finding
from dataformats.inspecting.finding_groups import Findings
from dataformats.inspecting.value_difference import difference
from dataformats.interfaces import OutdatedIndexError
from dataformats.interfaces.declared_spec import is_single
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.scan import split_by_bytes
from dataformats.spec import VALUE, Spec, Type

LISTED = 10
"""The most findings of each field."""
_FIELDS_REMEDY = Remedy("Pass {fields} or {rename} if that was intended.", fields=..., rename=...)

_Read: TypeAlias = Callable[[NDArray[np.int64]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some records of the dataset or of the source.

    Attributes:
        rows: int64[n], their indices.
        columns: Their columns, or stored bytes, by the names of the dataset.
        errors: The errors of the records that cannot be read, by index.
    """

    rows: NDArray[np.int64]
    columns: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[int, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceIndices:
    """Maps the numbers of some records of the dataset to numbers in the source.

    Attributes:
        first: The index of the first of them in the dataset.
        chosen: int64[n], their indices in the source; `None` if these are the same.
    """

    first: int = 0
    chosen: NDArray[np.int64] | None = None

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices in the source of these records of the dataset."""
        return rows if self.chosen is None else self.chosen[rows - self.first]

    def part(self, start: int, stop: int) -> SourceIndices:
        """Return the numbers of some records alone, for another process."""
        return SourceIndices() if self.chosen is None else SourceIndices(start, self.chosen[start:stop])


@dataclass(slots=True)
class Compared:
    """The result of a comparison.

    Attributes:
        findings: The records that cannot be compared.
        differences: Field and finding of the first records that differ, in the order of the records.
        counts: Field to the number of records that differ in it.
        rows: int64[n], the records that differ or cannot be compared, in order.
    """

    findings: list[Finding] = field(default_factory=list)
    differences: list[tuple[str, Finding]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


_SAME = SourceIndices()


class DatasetDiff:
    """Compares the records of a dataset with a source.

    Args:
        dataset: The dataset to check.
        source: The records that it should have.
        fields: The fields to compare, by their names in the source; `None` compares all fields of both.
        rename: Name in the source to name in the dataset.
        chosen: int64[n], the indices of these records in the source; `None` for all.
        limit: The most findings that are kept.
        n: Number of records to compare, which both have; `None` compares all.

    Attributes:
        findings: The fields and numbers of records that differ.
        numbers: The numbers of all records in the source.

    Raises:
        UnknownNameError: The source has no such field.
        SpecError: Two fields would have the same name, or records of the source are computed and have no types.
    """

    def __init__(
        self,
        dataset: RecordSource,
        source: RecordSource,
        fields: Sequence[str] | None,
        rename: Mapping[str, str],
        chosen: NDArray[np.int64] | None,
        *,
        limit: int,
        n: int | None = None,
    ) -> None:
        check_names(source, rename)
        self.findings: Findings = Findings(limit)
        self.numbers: SourceIndices = SourceIndices(0, chosen)
        self._n = n if n is not None else len(source) if chosen is None else len(chosen)
        wanted = {rename.get(name, name): name for name in (source.spec if fields is None else source.mask(fields))}
        common = {new: old for new, old in wanted.items() if new in dataset.spec}
        differs = len(common) < len(wanted) or (fields is None and len(common) < len(dataset.spec))
        by_bytes = fields is None and not rename and _same_payload(dataset, source)
        if len(dataset) < self._n:
            read = _Payloads(source) if by_bytes else _Columns(source, common)
            self._omit_damaged(source, len(dataset), read, limit)
        self.findings.add(_count_findings(self._n, len(dataset)))
        self._dataset = dataset
        self._ways: list[tuple[_Read, _Read]] = []  # ways to read both, from the fastest to the most exact
        if by_bytes:
            self._ways.append((_Payloads(dataset), _Payloads(source)))
        elif differs:
            self.findings.add(_field_findings(wanted, dataset.spec if fields is None else wanted))
        if common and not (differs and self._ways):  # bytes alone tell if records with other fields are equal
            self._ways += _ways(dataset, source, common)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {
            "findings": Findings(1),
            "numbers": SourceIndices(),
        }  # a task has the indices of its records

    def _omit_damaged(self, source: RecordSource, n: int, read: _Read, limit: int) -> None:
        """Omit the damaged records of the source, if `n` are left: `convert` may have omitted them."""
        findings, damaged = Findings(limit), np.zeros(self._n, np.bool_)
        for part in split_by_bytes(source, range(self._n)):
            errors = _read(read, np.arange(part.start, part.stop), self.numbers).errors
            damaged[list(errors)] = True
            findings.add(Finding.of(error, index) for index, error in errors.items())
        if self._n - findings.n_findings != n:
            return
        self.findings = findings
        self.numbers = SourceIndices(0, self.numbers(np.flatnonzero(~damaged)))
        self._n = n

    def read(self, rows: NDArray[np.int64]) -> Part:
        """Return records of the dataset for `compare`; those that the source does not have are left out."""
        return _read(self._ways[0][0], rows[rows < self._n]) if self._ways else Part(rows[:0])

    def compare(self, found: Part, numbers: SourceIndices, before: Mapping[str, int]) -> Compared:
        """Return the differences of some records, the first of each field only, and count all.

        Args:
            found: The result of `read`.
            numbers: The numbers of these records, or of more.
            before: Field to the number of differences that were found before.
        """
        result = Compared()
        expected, differs = found, dict[str, NDArray[np.bool_]]()
        for number, (read_dataset, read_source) in enumerate(self._ways):
            if number:
                found = _read(read_dataset, found.rows)
            expected = _read(read_source, found.rows, numbers)
            errors = {**found.errors, **expected.errors}
            result.findings += [Finding.of(errors[index], index) for index in sorted(errors)]
            result.rows = np.union1d(result.rows, np.array([*errors], np.int64))
            if expected.errors:
                found = _read(read_dataset, expected.rows)
            differs = {name: find_differences(column, found.columns[name]) for name, column in expected.columns.items()}
            wrong = np.flatnonzero(np.logical_or.reduce([np.zeros(len(found.rows), np.bool_), *differs.values()]))
            if not len(wrong):
                return result
            if number + 1 < len(self._ways):
                found = Part(found.rows[wrong])
            else:
                result.rows = np.union1d(result.rows, found.rows[wrong])
        for name, places in differs.items():
            rows = np.flatnonzero(places).tolist()
            result.counts.update([name] * len(rows))
            shown = rows[: max(0, LISTED - before.get(name, 0))]
            result.differences += [(name, self._difference(name, row, expected, found)) for row in shown]
        result.differences.sort(key=lambda pair: pair[1].index or 0)
        return result

    def _difference(self, name: str, row: int, expected: Part, found: Part) -> Finding:
        spec, index = self._dataset.spec, int(found.rows[row])
        return difference(
            _value(expected.columns[name], row),
            _value(found.columns[name], row),
            path=self._dataset.origins([index])[0].path or None,
            index=index,
            field=None if is_single(self._dataset) or name not in spec else name,
            type_=spec.get(name),
        )


def _value(column: Any, row: int) -> Any:
    """Return the value of a row, a number with its dtype."""
    has_dtype = isinstance(column, Nullable) and isinstance(column.values, np.ndarray) and column.present[row]
    return column.values[row] if has_dtype else column[row]


def _count_findings(expected: int, found: int) -> Iterator[Finding]:
    if expected != found:
        message = f"expected {expected} records, found {found}"
        yield Finding("Difference", message, expected=str(expected), found=str(found))


def _field_findings(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Finding]:
    for name in dict.fromkeys([*expected, *found]):
        if not (name in expected and name in found):
            what = "the source has no such field" if name in found else "expected this field of the source, found none"
            message = f"field {name!r}: {what}. {_FIELDS_REMEDY}"
            yield Finding("Difference", message, remedy=_FIELDS_REMEDY, field=name)


def _same_payload(dataset: RecordSource, source: RecordSource) -> bool:
    """True if equal stored bytes are equal records, as `convert` copies them."""
    same = dataset.payload == source.payload or "bytes" in (dataset.payload, source.payload)
    return same and stores_payloads(dataset) and stores_payloads(source)


def _ways(dataset: RecordSource, source: RecordSource, common: Mapping[str, str]) -> Iterator[tuple[_Read, _Read]]:
    """Yield the ways of reading fields: blobs as they are stored if both have one type, then values.

    Args:
        dataset: The dataset to check.
        source: The source.
        common: Name in the dataset to name in the source.
    """
    rename = {old: new for new, old in common.items()}
    in_dataset, in_source = (one.spec_facts.opaque_fields for one in (dataset, source))  # takes time for every field
    source = _typed(source, as_bytes(dataset.spec, in_dataset).select([*common]), rename)
    dataset = _typed(dataset, {new: as_bytes(source.spec, in_source)[old] for new, old in common.items()}, {})
    opaque = {new for new, old in common.items() if new in in_dataset or old in in_source}
    dataset, source = _with_bytes(dataset, opaque), _with_bytes(source, {common[new] for new in opaque})
    copied = {new for new, old in common.items() if copied_type(source.spec[old], dataset.spec[new], None) is not None}
    same = dict(zip(common, common, strict=True))
    with suppress(SpecError):  # raised if records are computed: there are no blobs
        blobs = dataset.with_spec(as_bytes(dataset.spec, copied))
        yield (
            _Columns(blobs, same),
            _Columns(source.with_spec(as_bytes(source.spec, {common[new] for new in copied})), common),
        )
    yield _Columns(dataset, same), _Columns(source, common)


def _typed(source: RecordSource, types: Mapping[str, Type], rename: Mapping[str, str]) -> RecordSource:
    """Return the source with these types for fields whose types it does not declare."""
    try:
        typed = with_new_types(source, Spec(types), rename)
    except SpecError:  # it computes its records
        return source
    if source.spec_facts.provenance != "inferred":
        return typed
    wanted = {name: types[rename.get(name, name)] for name in typed.spec if rename.get(name, name) in types}
    integers = {name: kind for name, kind in wanted.items() if _is_integer(kind) and _is_integer(typed.spec[name])}
    return typed.with_spec(integers)


def _is_integer(type_: Type) -> bool:
    return type_.dtype is not None and type_.dtype.kind in "iu"


def _with_bytes(source: RecordSource, fields: set[str]) -> RecordSource:
    """Return the source with the stored blobs of these fields; if it computes its records, with their values."""
    try:
        return source.with_spec(as_bytes(source.spec, fields)) if fields else source
    except SpecError:
        return source


@dataclass(frozen=True, slots=True)
class _Payloads:
    """Reads the stored bytes of records."""

    source: RecordSource

    def __call__(self, rows: NDArray[np.int64]) -> Mapping[str, Any]:
        return {VALUE: self.source.read_bytes(rows)}


@dataclass(frozen=True, slots=True)
class _Columns:
    """Reads fields; `names` has their names in the dataset, and those in this source."""

    source: RecordSource
    names: Mapping[str, str]

    def __call__(self, rows: NDArray[np.int64]) -> Mapping[str, Any]:
        columns = self.source.read(rows, tuple(self.names.values())).columns
        return {new: columns[old] for new, old in self.names.items()}


def _read(read: _Read, rows: NDArray[np.int64], numbers: SourceIndices = _SAME) -> Part:
    """Return the records at `rows`, without those that cannot be read."""
    try:
        return Part(rows, read(numbers(rows))) if len(rows) else Part(rows)
    except OutdatedIndexError:
        raise
    except DataFormatsError:
        errors = dict(_errors(read, rows, numbers))
        if not errors:
            raise
    sound = rows[~np.isin(rows, list(errors))]
    return Part(sound, read(numbers(sound)) if len(sound) else {}, errors)


def _errors(read: _Read, rows: NDArray[np.int64], numbers: SourceIndices) -> Iterator[tuple[int, Exception]]:
    for row in rows:
        try:
            read(numbers(row[None]))
        except DataFormatsError as error:
            yield int(row), error
