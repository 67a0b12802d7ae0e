"""Views of a source: select, slice, take, where, split, shard, map."""

from __future__ import annotations

import hashlib
import itertools
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Ragged, RecordBatch
from dataformats.errors import SpecError, UnknownNameError
from dataformats.interfaces.source import Fields, FieldStats, OnCorrupt, RecordSource
from dataformats.reading.scan import as_indices, digest_of, scan_by_reading, steps
from dataformats.reading.stats import RunningStats, is_number, measure
from dataformats.spec import VALUE, Spec
from dataformats.storage.prefetch import prefetch

__all__ = ["SourceBase", "batch_of"]

_WHERE_THREADS = 4


class SourceBase(RecordSource):
    """What every source does alike, given `read`, `scan` and `__len__`."""

    @abstractmethod
    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        """Yield all records in order as batches of any size, reading ahead; needs no index."""

    def steps(self) -> Iterator[range]:
        """Yield ranges that cover all records, a few megabytes each."""
        return steps(self)

    def declared(self) -> Spec | None:
        """Return the spec; `None` where records are what a function returns."""
        try:
            return self.spec
        except SpecError:
            return None

    @property
    def hidden_fields(self) -> tuple[str, ...]:
        """The fields that the stored payloads (those that were sampled) hold and the spec leaves out."""
        return ()

    def scan_bytes(self) -> Iterator[bytes]:
        """Yield the stored payloads of all records in order, as `read_bytes` gives them."""
        for blobs in prefetch(self.read_bytes(part) for part in self.steps()):
            yield from blobs

    def origin(self, index: int) -> tuple[str, int] | None:
        """Return the file of a record, and its number in the data set as errors name it; `None`: it has none."""
        return None

    @property
    def single(self) -> bool:
        """True where a record is one value."""
        return tuple(self.spec) == (VALUE,)

    @property
    def spec_is_inferred(self) -> bool:
        """True where nobody gave the spec and the records told it."""
        return False

    def with_spec(self, spec: Spec) -> SourceBase:
        """Return the same records read under another spec of the same fields.

        Raises:
            SpecError: The records are made, not stored.
        """
        raise SpecError("these records are not stored under a spec")

    def mask(self, fields: Fields) -> dict[str, bool | range]:
        """Return what `fields` asks for: each field whole (`True`) or a range of a sequence's elements.

        Raises:
            UnknownNameError: A field that the spec lacks.
        """
        if fields is None:
            return dict.fromkeys(self.spec, True)
        wanted = dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(_names(fields), True)
        for name, part in wanted.items():
            if name not in self.spec:
                raise UnknownNameError("field", name=name, known=self.spec)
            if isinstance(part, range) and not self.spec[name].dims:
                raise SpecError(f"a range needs a sequence, found {self.spec[name]}", field=name)
        return {name: part for name, part in wanted.items() if part is not False}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.take(range(len(self))[key])
        index: Any
        index, fields = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        try:
            number = range(len(self))[operator.index(index)]
        except TypeError:
            raise TypeError(f"expected a record number or a slice, found {key!r}; see take() and read()") from None
        except IndexError:
            raise IndexError(f"record {index} is outside [{-len(self)}, {len(self)})") from None
        return self.read([number], fields)[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return list(self.read(indices))

    def __iter__(self) -> Iterator[Any]:
        for batch in self.scan():
            yield from batch

    def available(self, index: int) -> dict[str, bool | range]:
        batch = self.read([range(len(self))[index]])
        found: dict[str, bool | range] = {}
        for name, column in batch.columns.items():
            present = getattr(column, "present", None)
            if present is None or present[0]:
                sequence = isinstance(column, Ragged) and column.item == "array"
                found[name] = range(len(column[0])) if sequence else True
        return found

    def select(self, *fields: str) -> RecordSource:
        return _Selected(self, tuple(self.mask(fields)))

    def map(self, function: Callable[[Any], Any]) -> RecordSource:
        if not callable(function):
            raise TypeError(f"expected a function of a record, found {function!r}")
        return _Mapped(self, function)

    def take(self, indices: ArrayLike | range) -> RecordSource:
        ends = (indices[0], indices[-1]) if isinstance(indices, range) and indices else ()
        if isinstance(indices, range) and all(0 <= end < len(self) for end in ends):
            return _Taken(self, indices)
        return _Taken(self, as_indices(indices, len(self)))

    def where(self, mask: ArrayLike | Callable[[Any], bool]) -> RecordSource:
        chosen = self._evaluate(mask) if callable(mask) else np.asarray(mask)
        if chosen.dtype != np.bool_ or chosen.shape != (len(self),):
            raise ValueError(f"expected bool[{len(self)}], found {chosen.dtype}{list(chosen.shape)}")
        return _Taken(self, np.flatnonzero(chosen))

    def split(self, *fractions: float, seed: int = 0) -> tuple[RecordSource, ...]:
        if not fractions or any(not 0 < part < 1 for part in fractions) or sum(fractions) > 1 + 1e-9:
            raise ValueError(f"expected fractions in (0, 1), together at most 1, found {fractions}")
        order = _shuffled(len(self), seed)
        bounds = [round(bound * len(self)) for bound in itertools.accumulate(fractions)]
        if sum(fractions) > 1 - 1e-9:
            bounds.pop()  # nothing is left for a rest
        return tuple(_Taken(self, np.sort(part)) for part in np.split(order, bounds))

    def shard(self, index: int, count: int) -> RecordSource:
        if not 0 <= index < count:
            raise ValueError(f"expected 0 <= index < count, found index {index} and count {count}")
        n = len(self)
        return _Taken(self, range(index * n // count, (index + 1) * n // count))

    def stats(self, field: str | None = None) -> FieldStats:
        name = field if field is not None else VALUE
        moments, missing, records, of_lengths = RunningStats(), 0, 0, False
        for batch in self.scan([name]):
            numbers, absent = measure(batch.columns[name])
            of_lengths = not is_number(batch.columns[name])
            moments.add(numbers.astype(np.float64))
            missing += absent
            records += len(batch)
        return FieldStats(records - missing, missing, *moments.summary(), of_lengths)

    def _evaluate(self, function: Callable[[Any], bool]) -> NDArray[np.bool_]:
        def evaluate(part: range) -> list[bool]:
            return [bool(function(record)) for record in self.read(part)]

        parts = [range(first, min(first + 256, len(self))) for first in range(0, len(self), 256)]
        with ThreadPoolExecutor(_WHERE_THREADS) as threads:
            return np.array([*itertools.chain.from_iterable(threads.map(evaluate, parts))], bool)

    def __repr__(self) -> str:
        size = f"{self.nbytes:,} bytes in {len(self.paths)} file{'s' if len(self.paths) != 1 else ''}"
        lines = [f"{type(self).__name__.strip('_')}: {self.format}, {self._count()}, {size}"]
        if self.payload is not None:
            lines.append(f"payload: {self.payload}")
        spec: Mapping[str, object] = self.declared() or {}
        width = max((len(name) for name in spec), default=0)
        lines += [f"  {name:{width}}  {kind}" for name, kind in spec.items()]
        return "\n".join(lines)

    def _count(self) -> str:
        return f"{len(self):,} records"


class _View(SourceBase):
    """A source that stands on another one."""

    def __init__(self, parent: SourceBase) -> None:
        self._parent = parent

    @property
    def format(self) -> str:
        return self._parent.format

    @property
    def payload(self) -> str | None:
        return self._parent.payload

    @property
    def spec(self) -> Spec:
        return self._parent.spec

    @property
    def single(self) -> bool:
        return self._parent.single

    @property
    def spec_is_inferred(self) -> bool:
        return self._parent.spec_is_inferred

    @property
    def hidden_fields(self) -> tuple[str, ...]:
        return self._parent.hidden_fields

    @property
    def nbytes(self) -> int:
        return self._parent.nbytes

    @property
    def paths(self) -> tuple[str, ...]:
        return self._parent.paths

    @property
    def fingerprint(self) -> str:
        return self._parent.fingerprint

    def origin(self, index: int) -> tuple[str, int] | None:
        return self._parent.origin(index)

    def __len__(self) -> int:
        return len(self._parent)

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        return self._parent.read(indices, fields, on_corrupt)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        return self._parent.read_bytes(indices)

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        return self._parent.scan(fields)

    def available(self, index: int) -> dict[str, bool | range]:
        return self._parent.available(index)

    def close(self) -> None:
        self._parent.close()


class _Selected(_View):
    """Some of the fields."""

    def __init__(self, parent: SourceBase, fields: tuple[str, ...]) -> None:
        super().__init__(parent)
        self._fields = fields

    @property
    def spec(self) -> Spec:
        return self._parent.spec.select(self._fields)

    def with_spec(self, spec: Spec) -> SourceBase:
        return _Selected(self._parent.with_spec(Spec({**self._parent.spec, **spec})), self._fields)

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        return self._parent.read(indices, self.mask(fields), on_corrupt)

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        return self._parent.scan(self.mask(fields))

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        raise SpecError("the stored payloads hold all fields; read_bytes before select")

    def available(self, index: int) -> dict[str, bool | range]:
        found = self._parent.available(index)
        return {name: found[name] for name in self._fields if name in found}


class _Taken(_View):
    """Some of the records, in any order."""

    _order: range | NDArray[np.int64]

    def __init__(self, parent: SourceBase, order: range | NDArray[np.int64]) -> None:
        if isinstance(parent, _Taken):
            order = _compose(parent._order, order)
            parent = parent._parent
        super().__init__(parent)
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    @property
    def fingerprint(self) -> str:
        order = self._order
        numbers = np.arange(order.start, order.stop, order.step) if isinstance(order, range) else order
        if np.array_equal(numbers, np.arange(len(self._parent))):
            return self._parent.fingerprint
        return digest_of([self._parent.fingerprint], numbers.astype("<i8").tobytes())

    def origin(self, index: int) -> tuple[str, int] | None:
        return self._parent.origin(int(self._order[index]))

    def with_spec(self, spec: Spec) -> SourceBase:
        return _Taken(self._parent.with_spec(spec), self._order)

    def _to_parent(self, indices: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        mine = as_indices(indices, len(self))
        order = self._order
        return mine, order.start + order.step * mine if isinstance(order, range) else order[mine]

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        mine, theirs = self._to_parent(indices)
        batch = self._parent.read(theirs, fields, on_corrupt)
        if not batch.failed:
            return RecordBatch(batch.columns, mine, {}, batch.single)
        kept = ~np.isin(theirs, list(batch.failed))
        failed = {int(i): batch.failed[int(t)] for i, t in zip(mine[~kept], theirs[~kept], strict=True)}
        return RecordBatch(batch.columns, mine[kept], failed, batch.single)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        return self._parent.read_bytes(self._to_parent(indices)[1])

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        return scan_by_reading(self, self.steps(), fields)

    def available(self, index: int) -> dict[str, bool | range]:
        return self._parent.available(int(self._to_parent([range(len(self))[index]])[1][0]))


class _Mapped(_View):
    """Records after a function."""

    def __init__(self, parent: SourceBase, function: Callable[[Any], Any]) -> None:
        super().__init__(parent)
        self._function = function

    @property
    def payload(self) -> str | None:
        return None

    @property
    def spec(self) -> Spec:
        raise SpecError("the records of map() are whatever its function returns; they have no spec")

    @property
    def single(self) -> bool:
        return True

    def mask(self, fields: Fields) -> dict[str, bool | range]:
        if fields is not None:
            raise SpecError("the records of map() have no declared fields; select before map")
        return {}

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        self.mask(fields)
        return self._apply(self._parent.read(indices, None, on_corrupt))

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        self.mask(fields)
        return (self._apply(batch) for batch in self._parent.scan())

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        raise SpecError("the records of map() are not stored; read_bytes before map")

    def available(self, index: int) -> dict[str, bool | range]:
        record = self[index]
        return dict.fromkeys(record, True) if isinstance(record, dict) else {VALUE: True}

    def _apply(self, batch: RecordBatch) -> RecordBatch:
        return batch_of([self._function(record) for record in batch], batch.indices, batch.failed)

    def __repr__(self) -> str:
        return f"Mapped by {getattr(self._function, '__qualname__', self._function)!s} over\n{self._parent!r}"


def _compose(outer: range | NDArray[np.int64], inner: range | NDArray[np.int64]) -> range | NDArray[np.int64]:
    if isinstance(outer, range) and isinstance(inner, range):
        step = outer.step * inner.step
        start = outer[inner[0]] if inner else 0
        return range(start, start + len(inner) * step, step)
    if isinstance(outer, range):
        return outer.start + outer.step * np.asarray(inner)
    return outer[np.arange(inner.start, inner.stop, inner.step) if isinstance(inner, range) else inner]


def _shuffled(n: int, seed: int) -> NDArray[np.int64]:
    """Return [0, n) ordered by a keyed hash: the same on every machine, whatever numpy's generators become."""
    digest = hashlib.blake2b(f"dataformats split {seed}".encode(), digest_size=8).digest()
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(digest, "little"))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")


def batch_of(records: list[Any], indices: NDArray[np.int64], failed: Mapping[int, Exception]) -> RecordBatch:
    """Return the batch of records that somebody made: columns are lists; other things than like dicts are values."""
    if records and all(isinstance(record, dict) and record.keys() == records[0].keys() for record in records):
        columns = {name: [record[name] for record in records] for name in records[0]}
        return RecordBatch(columns, indices, failed)
    return RecordBatch({VALUE: records}, indices, failed, single=True)


def _names(fields: Sequence[str]) -> Sequence[str]:
    if isinstance(fields, str):
        raise TypeError(f"expected a list of field names, found the string {fields!r}")
    return fields
