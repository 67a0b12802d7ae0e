"""Concatenate sources, and merge the columns of several reads."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import RecordBatch, take_rows
from dataformats.columns.common_type import types_known_in
from dataformats.errors import SpecError
from dataformats.interfaces.declared_spec import declared_spec, is_single
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.source_facts import SourceFacts, SpecFacts, common_provenance
from dataformats.reading.derived_source import DerivedSource, SourceRecords
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.incomplete_data import class_notes
from dataformats.reading.scan import as_indices, digest_of
from dataformats.reading.views import stored_length
from dataformats.spec import Spec, SpecLike


class _Concatenated(DerivedSource):
    """Several sources of the same spec, one after the other."""

    @property
    def joined(self) -> tuple[RecordSource, ...]:
        return (self,)

    def made_from(self, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
        numbers, starts = as_indices(indices, len(self)), self._starts
        owners = np.searchsorted(starts, numbers, side="right") - 1
        for part in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == part)
            yield SourceRecords(self.sources[part], rows, numbers[rows] - starts[part], fields)

    @property
    def facts(self) -> SourceFacts:
        parts = [part.facts for part in self.sources]
        return SourceFacts(
            format="+".join(dict.fromkeys(part.format for part in parts)),
            paths=tuple(path for part in parts for path in part.paths),
            nbytes=sum(part.nbytes for part in parts),
            files_per_record=max(part.files_per_record for part in parts),
            is_compressed=any(part.is_compressed for part in parts),
            decodes_blocks=all(part.decodes_blocks for part in parts),
            key_field=parts[0].key_field if len({part.key_field for part in parts}) == 1 else "",
        )

    @property
    def spec_facts(self) -> SpecFacts:
        parts = [part.spec_facts for part in self.sources]
        payloads = {part.payload for part in parts}
        return SpecFacts(
            payload=payloads.pop() if len(payloads) == 1 else None,
            provenance=common_provenance(parts),
            opaque_fields={name: kind for part in parts for name, kind in part.opaque_fields.items()},
            left_out={name: why for part in parts for name, why in part.left_out.items()},
        )

    @property
    def spec(self) -> Spec:
        return Spec(types_known_in(self.sources[0].spec, [("", part.spec) for part in self.sources]))

    @property
    def fingerprint(self) -> str:
        prints = [part.fingerprint for part in self.sources]
        return prints[0] if len(prints) == 1 else digest_of(prints)

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        ends = self._starts[1:]
        whole = int(np.searchsorted(ends, n, side="right"))
        prints: list[str | None] = [part.fingerprint for part in self.sources[:whole]]
        if rest := n - int(self._starts[whole]):
            part = self.sources[whole]
            prints.append(part.fingerprint_of_first(rest) if stored_length(part) == len(part) else None)
        known = [one for one in prints if one is not None]
        has_blocks = all(part.block_starts is not None for part in self.sources[: len(prints)])
        if len(known) < len(prints) or has_blocks != (self.block_starts is not None):  # else windows would differ
            return None
        return known[0] if len(known) == 1 else digest_of(known)

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        parts = [part.block_starts for part in self.sources]
        if any(part is None for part in parts):
            return None
        return np.concatenate([part + start for part, start in zip(parts, self._starts[:-1], strict=True)])

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(part) for part in self.sources)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        if indices is not None:
            return super().record_bytes(indices)
        return sum(len(part) * part.record_bytes() for part in self.sources) / max(1, len(self))

    def with_spec(self, spec: SpecLike) -> DecodingSource:
        return _Concatenated(*(part.with_spec(spec) for part in self.sources))

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        numbers = as_indices(indices, len(self))
        batches, places = [], []
        failed: dict[int, Exception] = {}
        for part in self.made_from(numbers, fields):
            batch = part.source.read(part.indices, fields, on_corrupt)
            batches.append(batch)
            if not batch.failed:
                places.append(part.rows)
                continue
            is_sound = ~np.isin(part.indices, list(batch.failed))
            places.append(part.rows[is_sound])
            lost = zip(numbers[part.rows[~is_sound]].tolist(), part.indices[~is_sound].tolist(), strict=True)
            failed |= {index: batch.failed[there] for index, there in lost}
        if not batches:
            return self.sources[0].read([], fields)
        columns, rows = interleave([batch.columns for batch in batches], places)
        return RecordBatch(columns, numbers[rows], failed, batches[0].single)

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        number = index
        for part in self.sources:
            n = len(part)
            if number < n:
                return part._read_record(number, fields)
            number -= n
        raise IndexError(f"index {index} is out of range for {len(self)} records")

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        numbers = as_indices(indices, len(self))
        found: dict[int, bytes] = {}
        for part in self.made_from(numbers):
            found |= zip(part.rows.tolist(), part.source.read_bytes(part.indices), strict=True)
        return [found[row] for row in range(len(numbers))]

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        first = 0
        for part in self.sources:
            for batch in part.scan(fields):
                yield RecordBatch(batch.columns, batch.indices + first, batch.failed, batch.single)
            first += len(part)


def interleave(
    parts: Sequence[Mapping[str, Any]], rows: Sequence[NDArray[np.int64]]
) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Return the columns of several reads as one, sorted by row.

    Args:
        parts: The columns of each read, one or more, all of the same fields and types.
        rows: int64[m] each, the row of each of its records in the whole.

    Returns:
        The columns, and their rows, ascending.
    """
    found = np.concatenate(rows)
    order = np.argsort(found, kind="stable")
    owners = np.repeat(np.arange(len(rows)), [len(one) for one in rows])[order]
    places = np.concatenate([np.arange(len(one)) for one in rows])[order]
    columns = {name: take_rows([part[name] for part in parts], owners, places) for name in parts[0]}
    return columns, found[order]


def check_alike(specs: Mapping[str, Spec | None]) -> Spec | None:
    """Return the spec of sources whose records fit in one batch, and warn if their class names differ.

    Args:
        specs: A name for each source, and its spec; `None` for a mapped source or a plain sequence.

    Raises:
        SpecError: The specs differ; the message names every field that does.
    """
    (one, first), *others = specs.items()
    for other, spec in others:
        if (spec is None) != (first is None):
            raise SpecError(
                f"cannot combine {one} with {other}: only one has a spec (a mapped source or a plain sequence has none)"
            )
        if spec is None or first is None:
            continue
        names = dict.fromkeys([*first, *spec])
        differs = [f"{n}: {first.get(n)} and {spec.get(n)}" for n in names if first.get(n) != spec.get(n)]
        if differs or tuple(first) != tuple(spec):
            raise SpecError(f"{one} and {other} differ in {'; '.join(differs) or 'the order of fields'}")
    named = [(name, spec) for name, spec in specs.items() if spec is not None]
    known = types_known_in(first or {}, named)
    new = {field: known[field] for field in known if not any(spec[field].class_conflict for _, spec in named)}
    for note in class_notes(new):
        warnings.warn(str(note), UserWarning, stacklevel=3)
    return None if first is None else Spec(known)


def concat(sources: Sequence[RecordSource]) -> DecodingSource:
    """Return a source of all records of several sources, one source after the other.

    Args:
        sources: Sources of any formats with the same spec.

    Raises:
        SpecError: The specs differ; the message names every field that does.

    Example:
        >>> import dataformats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> len(dataformats.concat([digits, digits[:3]]))
        1800
    """
    parts = list(sources)
    for part in parts:
        if not isinstance(part, RecordSource):
            raise TypeError(f"expected a list of sources, found {type(part).__name__} in it")
    if not parts:
        raise TypeError("expected a list of one source or more, found an empty list")
    check_alike({f"source {number}": declared_spec(part) for number, part in enumerate(parts)})
    if len({is_single(part) for part in parts}) > 1:
        raise SpecError("cannot combine single values with records that have the field 'value'")
    nested = (part.sources if isinstance(part, _Concatenated) else [part] for part in parts)
    return _Concatenated(*itertools.chain.from_iterable(nested))
