"""Views of a source: select, slice, take, where, split, map. Making a view reads and copies nothing."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import RecordBatch
from dataformats.errors import SpecError
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.source_facts import SourceFacts, SpecFacts
from dataformats.reading.conditions import Condition, Where, condition_of, is_true
from dataformats.reading.derived_source import DerivedSource, SourceRecords
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.scan import as_indices, describe_record, digest_of, scan_by_reading
from dataformats.spec import VALUE, Spec, SpecLike

_WHERE_THREADS = 4
_WHERE_RECORDS = 256


def take(source: RecordSource, indices: ArrayLike | range) -> DecodingSource:
    """Return a view of these records: see `RecordSource.take`."""
    ends = (indices[0], indices[-1]) if isinstance(indices, range) and indices else ()
    if isinstance(indices, range) and all(0 <= end < len(source) for end in ends):
        return TakeView(source, indices)
    return TakeView(source, as_indices(indices, len(source)))


def where(source: RecordSource, condition: Where) -> DecodingSource:
    """Return a view of the records for which a condition is true: see `RecordSource.where`."""
    return TakeView(source, np.flatnonzero(evaluate(source, condition)))


def split(source: RecordSource, fractions: Sequence[float], seed: int) -> tuple[DecodingSource, ...]:
    """Return disjoint views: see `RecordSource.split`."""
    return tuple(TakeView(source, part) for part in random_parts(len(source), fractions, seed))


def random_parts(n: int, fractions: Sequence[float], seed: int) -> list[NDArray[np.int64]]:
    """Return disjoint parts of the numbers in `[0, n)`, each ascending: see `RecordSource.split`."""
    numbers = all(isinstance(part, Real) for part in fractions)
    if not fractions or not numbers or any(not 0 < part < 1 for part in fractions) or sum(fractions) > 1 + 1e-9:
        raise ValueError(f"expected fractions in (0, 1), together at most 1, found {fractions!r:.80}")
    bounds = [round(bound * n) for bound in itertools.accumulate(fractions)]
    if sum(fractions) > 1 - 1e-9:
        bounds.pop()  # the fractions cover everything
    return [np.sort(part) for part in np.split(_shuffled(n, seed), bounds)]


def evaluate(source: RecordSource, where: Where, on_corrupt: OnCorrupt = "raise") -> NDArray[np.bool_]:
    """Return for each record if a condition is true; True for damaged ones, if they do not raise."""
    condition = condition_of(where)
    if isinstance(condition, Condition):
        return condition.mask(source, on_corrupt)
    function = condition

    def of_part(part: range) -> list[bool]:
        batch = source.read(part, on_corrupt=on_corrupt)
        results = {}
        for index, record in zip(batch.indices.tolist(), batch, strict=True):
            try:
                results[index] = is_true(function, record)
            except Exception as error:
                error.add_note(f"raised by where= for {describe_record(source.origins([index])[0])}")
                raise
        return [results.get(number, True) for number in part]

    n = len(source)
    parts = [range(first, min(first + _WHERE_RECORDS, n)) for first in range(0, n, _WHERE_RECORDS)]
    with ThreadPoolExecutor(_WHERE_THREADS) as threads:
        return np.array([*itertools.chain.from_iterable(threads.map(of_part, parts))], bool)


class _View(DerivedSource):
    """A source made from another source."""

    def __init__(self, parent: RecordSource) -> None:
        super().__init__(parent)
        self._parent = parent

    def made_from(self, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
        mine, theirs = self._to_parent(indices)
        yield SourceRecords(self._parent, np.arange(len(mine)), theirs, fields)

    def _to_parent(self, indices: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices as an array, and the indices of the same records in the parent."""
        mine = as_indices(indices, len(self))
        return mine, mine

    @property
    def facts(self) -> SourceFacts:
        return self._parent.facts

    @property
    def spec_facts(self) -> SpecFacts:
        return self._parent.spec_facts

    @property
    def spec(self) -> Spec:
        return self._parent.spec

    @property
    def fingerprint(self) -> str:
        return self._parent.fingerprint

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        return self._parent.fingerprint_of_first(n, n_stored)

    def __len__(self) -> int:
        return len(self._parent)

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        return self._parent.read(indices, fields, on_corrupt)

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        return self._parent.block_starts

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        return self._parent._read_record(index, fields)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        return self._parent.read_bytes(self._to_parent(indices)[1])

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        return self._parent.scan(fields)

    def present_fields(self, index: int) -> dict[str, bool | range]:
        return self._parent.present_fields(index)


class SelectView(_View):
    """Some of the fields."""

    def __init__(self, parent: RecordSource, fields: tuple[str, ...]) -> None:
        super().__init__(parent)
        self._fields = fields

    @property
    def spec(self) -> Spec:
        return self._parent.spec.select(self._fields)

    @property
    def spec_facts(self) -> SpecFacts:
        facts = self._parent.spec_facts
        return replace(facts, opaque_fields={n: k for n, k in facts.opaque_fields.items() if n in self._fields})

    def made_from(self, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
        return super().made_from(indices, self._fields if fields is None else self.mask(fields))

    def with_spec(self, spec: SpecLike) -> DecodingSource:
        return SelectView(self._parent.with_spec(spec), self._fields)

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        return self._parent.read(indices, self.mask(fields), on_corrupt)

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        return self._parent._read_record(index, self._fields if fields is None else self.mask(fields))

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        return self._parent.scan(self.mask(fields))

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        raise SpecError("stored payloads hold all fields: call read_bytes() before select()")

    def present_fields(self, index: int) -> dict[str, bool | range]:
        found = self._parent.present_fields(index)
        return {name: found[name] for name in self._fields if name in found}


class TakeView(_View):
    """Some of the records, in any order."""

    _order: range | NDArray[np.int64]

    def __init__(self, parent: RecordSource, order: range | NDArray[np.int64]) -> None:
        if isinstance(parent, TakeView):
            order = _compose(parent._order, order)
            parent = parent._parent
        super().__init__(parent)
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint_of(self._order, len(self._parent), self._parent.fingerprint)

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        n_stored = n if n_stored is None else n_stored
        is_known = stored_length(self._parent) == len(self._parent) >= n_stored
        of_parent = self._parent.fingerprint_of_first(n_stored) if is_known else None
        return None if of_parent is None else self._fingerprint_of(self._order[:n], n_stored, of_parent)

    def _fingerprint_of(self, order: range | NDArray[np.int64], n_stored: int, of_parent: str) -> str:
        numbers = np.arange(order.start, order.stop, order.step) if isinstance(order, range) else order
        if np.array_equal(numbers, np.arange(n_stored)):
            return of_parent
        return digest_of([of_parent], numbers.astype("<i8").tobytes())

    def with_spec(self, spec: SpecLike) -> DecodingSource:
        return TakeView(self._parent.with_spec(spec), self._order)

    def _to_parent(self, indices: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        mine = as_indices(indices, len(self))
        order = self._order
        return mine, order.start + order.step * mine if isinstance(order, range) else order[mine]

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        mine, theirs = self._to_parent(indices)
        batch = self._parent.read(theirs, fields, on_corrupt)
        if not batch.failed:
            return RecordBatch(batch.columns, mine, {}, batch.single)
        kept = ~np.isin(theirs, list(batch.failed))
        failed = {int(i): batch.failed[int(t)] for i, t in zip(mine[~kept], theirs[~kept], strict=True)}
        return RecordBatch(batch.columns, mine[kept], failed, batch.single)

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        starts, order = self._parent.block_starts, self._order
        if starts is None or not isinstance(order, range) or order.step != 1 or not order:
            return None
        inside = starts[(starts > order.start) & (starts < order.stop)] - order.start
        return np.concatenate([np.zeros(1, np.int64), inside])

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        return self._parent._read_record(int(self._order[index]), fields)

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        return scan_by_reading(self, fields)

    def present_fields(self, index: int) -> dict[str, bool | range]:
        return self._parent.present_fields(int(self._to_parent([range(len(self))[index]])[1][0]))


class MapView(_View):
    """The results of a function of each record."""

    def __init__(self, parent: RecordSource, function: Callable[[Any], Any]) -> None:
        if not callable(function):
            raise TypeError(f"expected a function of a record, found {function!r}")
        super().__init__(parent)
        self._function = function

    @property
    def spec_facts(self) -> SpecFacts:
        return SpecFacts()

    def made_from(self, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
        self.mask(fields)
        return super().made_from(indices)

    @property
    def spec(self) -> Spec:
        raise SpecError("records of map() are results of a function, which have no spec")

    def mask(self, fields: Fields) -> dict[str, bool | range]:
        if fields is not None:
            raise SpecError("records of map() have no declared fields: call select() before map()")
        return {}

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        self.mask(fields)
        batch = self._parent.read(indices, None, on_corrupt)
        return batch_of([self._function(record) for record in batch], batch.indices, batch.failed)

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        self.mask(fields)
        result = self._function(self._parent._read_record(index, None))
        return batch_of([result], np.array([index]), {})[0]

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        self.mask(fields)
        return self._mapped(self._parent.scan())

    def _mapped(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the results of the function; if it raises, those before it first."""
        for batch in batches:
            results: list[Any] = []
            try:
                for record in batch:
                    results.append(self._function(record))  # noqa: PERF401  # those before an error are kept
            except Exception:
                yield batch_of(results, batch.indices[: len(results)], {})
                raise
            yield batch_of(results, batch.indices, batch.failed)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        raise SpecError("records of map() are not stored: call read_bytes() before map()")

    def present_fields(self, index: int) -> dict[str, bool | range]:
        record = self[index]
        return dict.fromkeys(record, True) if isinstance(record, dict) else {VALUE: True}

    def __repr__(self) -> str:
        return f"Mapped by {getattr(self._function, '__qualname__', self._function)!s} over\n{self._parent!r}"


def stored_length(source: RecordSource) -> int:
    """Return the number of records of the data of a source: of a view that takes some of them, more than its `len`."""
    if isinstance(source, TakeView):
        return len(source._parent)
    return stored_length(source._parent) if isinstance(source, _View) else len(source)


def _compose(outer: range | NDArray[np.int64], inner: range | NDArray[np.int64]) -> range | NDArray[np.int64]:
    if isinstance(outer, range) and isinstance(inner, range):
        step = outer.step * inner.step
        start = outer[inner[0]] if inner else 0
        return range(start, start + len(inner) * step, step)
    if isinstance(outer, range):
        return outer.start + outer.step * np.asarray(inner)
    return outer[np.arange(inner.start, inner.stop, inner.step) if isinstance(inner, range) else inner]


def _shuffled(n: int, seed: int) -> NDArray[np.int64]:
    """Return [0, n) ordered by a keyed hash: the same on every machine and with every numpy."""
    digest = hashlib.blake2b(f"dataformats split {seed}".encode(), digest_size=8).digest()
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(digest, "little"))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")


def batch_of(records: list[Any], indices: NDArray[np.int64], failed: Mapping[int, Exception]) -> RecordBatch:
    """Return computed records as a batch: columns are lists if all records are dicts of the same fields."""
    if records and all(isinstance(record, dict) and record.keys() == records[0].keys() for record in records):
        columns = {name: [record[name] for record in records] for name in records[0]}
        return RecordBatch(columns, indices, failed)
    return RecordBatch({VALUE: records}, indices, failed, single=True)
