"""Compare a dataset with the source that it was converted from, record by record.

Records with equal stored bytes are equal. Of the others, the values are decoded and compared exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataformats.batch.differences import differing
from dataformats.columns.codec_resolver import as_bytes
from dataformats.converting.plan import check_names, copied_type, stores_payloads, with_new_types
from dataformats.errors import DataFormatsError, Remedy, SpecError
from dataformats.inspecting.difference import difference
from dataformats.inspecting.finding import Finding
from dataformats.interfaces import OutdatedIndexError
from dataformats.reading.source import RecordSource
from dataformats.spec import VALUE, Spec, Type

__all__ = ["Comparison", "Part"]

_LISTED = 10  # findings of each field
_FIELDS_REMEDY = Remedy("Pass {fields} or {rename} if that was intended.", fields=..., rename=...)

_Read: TypeAlias = Callable[[NDArray[np.int64]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some records of the dataset or of the source.

    Attributes:
        rows: int64[n], their numbers.
        columns: Their columns, or stored bytes, by the names of the dataset.
        errors: The errors of the records that cannot be read, by their numbers.
    """

    rows: NDArray[np.int64]
    columns: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[int, Exception] = field(default_factory=dict)


class Comparison:
    """Compares the records of a dataset with those of a source.

    Args:
        target: The dataset.
        source: The records that it should have.
        fields: The fields to compare, by their names in the source; `None` compares all fields of both.
        rename: Name in the source to name in the dataset.

    Attributes:
        findings: The fields and numbers of records that differ.
        differences: Field to the number of records that differ in it; `"value"` for whole records.

    Raises:
        UnknownNameError: The source has no such field.
        SpecError: Two fields would have the same name, or records of the source are computed and have no types.
    """

    def __init__(
        self, target: RecordSource, source: RecordSource, fields: Sequence[str] | None, rename: Mapping[str, str]
    ) -> None:
        check_names(source, rename)
        self.differences: Counter[str] = Counter()
        self.findings: list[Finding] = []
        chosen = {rename.get(name, name): name for name in (source.spec if fields is None else source.mask(fields))}
        common = {new: old for new, old in chosen.items() if new in target.spec}
        differs = len(common) < len(chosen) or (fields is None and len(common) < len(target.spec))
        by_bytes = fields is None and not rename and _same_payload(target, source)
        if len(target) < len(source):
            source = self._sound(source, len(target), _payloads(source) if by_bytes else _columns(source, common))
        self.findings += _count_findings(len(source), len(target))
        self._target, self._n = target, len(source)
        self._ways: list[tuple[_Read, _Read]] = []  # of reading both, from the fastest to the most exact
        if by_bytes:
            self._ways.append((_payloads(target), _payloads(source)))
            differs |= bool(target.hidden_fields or source.hidden_fields)
        elif differs:
            self.findings += _field_findings(chosen, target.spec if fields is None else chosen)
        if common and not (differs and self._ways):  # bytes alone tell if records with other fields are equal
            self._ways += _ways(target, source, common)

    def _sound(self, source: RecordSource, n: int, read: _Read) -> RecordSource:
        """Return the source without its damaged records, if `n` are left: `convert` may have omitted them."""
        errors: dict[int, Exception] = {}
        for part in source.steps():
            errors |= _read(read, np.arange(part.start, part.stop)).errors
        if len(source) - len(errors) != n:
            return source
        self.findings += [Finding.of(error, index) for index, error in errors.items()]
        return source.take(np.setdiff1d(np.arange(len(source)), list(errors)))

    def read(self, rows: NDArray[np.int64]) -> Part:
        """Return records of the dataset for `compare`; those that the source does not have are left out."""
        return _read(self._ways[0][0], rows[rows < self._n]) if self._ways else Part(rows[:0])

    def compare(self, found: Part) -> list[Finding]:
        """Return the differences of some records, the first of each field only, and count all.

        Args:
            found: The result of `read`.
        """
        findings: list[Finding] = []
        expected, differs = found, dict[str, NDArray[np.bool_]]()
        for number, (read_target, read_source) in enumerate(self._ways):
            if number:
                found = _read(read_target, found.rows)
            expected = _read(read_source, found.rows)
            errors = {**found.errors, **expected.errors}
            findings += [Finding.of(errors[index], index) for index in sorted(errors)]
            if expected.errors:
                found = _read(read_target, expected.rows)
            differs = {name: differing(column, found.columns[name]) for name, column in expected.columns.items()}
            wrong = np.flatnonzero(np.logical_or.reduce([np.zeros(len(found.rows), np.bool_), *differs.values()]))
            if not len(wrong):
                return findings
            if number + 1 < len(self._ways):
                found = Part(found.rows[wrong])
        return findings + self._listed(differs, expected, found)

    def _listed(self, differs: Mapping[str, NDArray[np.bool_]], expected: Part, found: Part) -> list[Finding]:
        listed: list[Finding] = []
        spec = self._target.spec
        for name, wrong in differs.items():
            positions = np.flatnonzero(wrong).tolist()
            shown = positions[: max(0, _LISTED - self.differences[name])]
            self.differences.update([name] * len(positions))
            for position in shown:
                index = int(found.rows[position])
                place = self._target.origin(index)
                listed.append(
                    difference(
                        expected.columns[name][position],
                        found.columns[name][position],
                        path=None if place is None else place[0],
                        index=index,
                        field=None if self._target.single or name not in spec else name,
                        kind=spec.get(name),
                    )
                )
        return sorted(listed, key=lambda finding: finding.index or 0)


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


def _same_payload(target: RecordSource, source: RecordSource) -> bool:
    """True if equal stored bytes are equal records, as `convert` copies them."""
    same = target.payload == source.payload or "bytes" in (target.payload, source.payload)
    return same and stores_payloads(target) and stores_payloads(source)


def _ways(target: RecordSource, source: RecordSource, common: Mapping[str, str]) -> Iterator[tuple[_Read, _Read]]:
    """Yield the ways of reading fields: blobs as they are stored if both have one type, then values.

    Args:
        target: The dataset.
        source: The source.
        common: Name in the dataset to name in the source.
    """
    rename = {old: new for new, old in common.items()}
    source = _typed(source, {new: target.spec[new] for new in common}, rename)
    target = _typed(target, {new: source.spec[old] for new, old in common.items()}, {})
    opaque = {new for new, old in common.items() if new in target.opaque_fields or old in source.opaque_fields}
    target, source = _with_bytes(target, opaque), _with_bytes(source, {common[new] for new in opaque})
    copied = {new for new, old in common.items() if copied_type(source.spec[old], target.spec[new], None) is not None}
    same = dict(zip(common, common, strict=True))
    with suppress(SpecError):  # raised if records are computed: there are no blobs
        blobs = target.with_spec(as_bytes(target.spec, copied))
        yield (
            _columns(blobs, same),
            _columns(source.with_spec(as_bytes(source.spec, {common[new] for new in copied})), common),
        )
    yield _columns(target, same), _columns(source, common)


def _typed(source: RecordSource, types: Mapping[str, Type], rename: Mapping[str, str]) -> RecordSource:
    """Return the source with these types for fields whose types it does not declare."""
    try:
        typed = with_new_types(source, Spec(types), rename)
    except SpecError:  # it computes its records
        return source
    if not source.spec_is_inferred:
        return typed
    wanted = {name: types[rename.get(name, name)] for name in typed.spec if rename.get(name, name) in types}
    integers = {name: kind for name, kind in wanted.items() if _is_integer(kind) and _is_integer(typed.spec[name])}
    return typed.with_spec({**typed.spec, **integers})


def _is_integer(kind: Type) -> bool:
    return kind.dtype is not None and kind.dtype.kind in "iu"


def _with_bytes(source: RecordSource, fields: set[str]) -> RecordSource:
    """Return the source with the stored blobs of these fields; if it computes its records, with their values."""
    try:
        return source.with_spec(as_bytes(source.spec, fields)) if fields else source
    except SpecError:
        return source


def _payloads(source: RecordSource) -> _Read:
    return lambda rows: {VALUE: source.read_bytes(rows)}


def _columns(source: RecordSource, names: Mapping[str, str]) -> _Read:
    fields = tuple(names.values())

    def read(rows: NDArray[np.int64]) -> Mapping[str, Any]:
        columns = source.read(rows, fields).columns
        return {new: columns[old] for new, old in names.items()}

    return read


def _read(read: _Read, rows: NDArray[np.int64]) -> Part:
    """Return the records at `rows`, without those that cannot be read."""
    try:
        return Part(rows, read(rows)) if len(rows) else Part(rows)
    except OutdatedIndexError:
        raise
    except DataFormatsError:
        errors = dict(_errors(read, rows))
        if not errors:
            raise
    sound = rows[~np.isin(rows, list(errors))]
    return Part(sound, read(sound) if len(sound) else {}, errors)


def _errors(read: _Read, rows: NDArray[np.int64]) -> Iterator[tuple[int, Exception]]:
    for row in rows:
        try:
            read(row[None])
        except DataFormatsError as error:
            yield int(row), error
