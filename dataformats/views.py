"""Sources made of sources: select, slice, take, where, split, shard, map, concat."""

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

from dataformats.batch import Nullable, Ragged, RecordBatch, concat_columns, take_column
from dataformats.errors import SpecError, UnknownNameError
from dataformats.source import Fields, FieldStats, OnCorrupt, RecordSource
from dataformats.spec import VALUE, Spec
from dataformats.storage.ahead import read_ahead

__all__ = ["SourceBase", "as_indices", "concat", "scan_by_reading", "steps", "until_failure"]

_SCAN_BYTES = 4 * 2**20
_SCAN_RECORDS = 1024
_WHERE_THREADS = 4


def as_indices(indices: ArrayLike | range, length: int) -> NDArray[np.int64]:
    """Return record numbers as int64[n].

    Raises:
        TypeError: Not whole numbers, or not one-dimensional.
        IndexError: One is outside `[0, length)`.
    """
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"expected a list of record numbers, found {array.dtype} of shape {array.shape}")
    wrong = np.flatnonzero((array < 0) | (array >= length))
    if len(wrong):
        raise IndexError(f"record {array[wrong[0]]} is outside [0, {length})")
    return array.astype(np.int64)


class SourceBase(RecordSource):
    """What every source does alike, given `read`, `scan` and `__len__`."""

    @abstractmethod
    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        """Yield all records in order as batches of any size, reading ahead; needs no index."""

    @property
    def hides_fields(self) -> bool:
        """True where the stored payloads hold fields that the spec leaves out."""
        return False

    def scan_bytes(self) -> Iterator[bytes]:
        """Yield the stored payloads of all records in order, as `read_bytes` gives them."""
        for blobs in read_ahead(self.read_bytes(part) for part in steps(self)):
            yield from blobs

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
        return tuple(_Taken(self, np.sort(part)) for part in np.split(order, bounds))

    def shard(self, index: int, count: int) -> RecordSource:
        if not 0 <= index < count:
            raise ValueError(f"expected 0 <= index < count, found index {index} and count {count}")
        n = len(self)
        return _Taken(self, range(index * n // count, (index + 1) * n // count))

    def stats(self, field: str | None = None) -> FieldStats:
        name = field if field is not None else VALUE
        moments, missing, records, of_lengths = _Moments(), 0, 0, False
        for batch in self.scan([name]):
            numbers, absent = _measure(batch.columns[name])
            of_lengths = not _is_number(batch.columns[name])
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
        spec: Mapping[str, object] = _declared(self) or {}
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
    def hides_fields(self) -> bool:
        return self._parent.hides_fields

    @property
    def nbytes(self) -> int:
        return self._parent.nbytes

    @property
    def paths(self) -> tuple[str, ...]:
        return self._parent.paths

    @property
    def fingerprint(self) -> str:
        return self._parent.fingerprint

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
        return _digest([self._parent.fingerprint], numbers.astype("<i8").tobytes())

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
        return scan_by_reading(self, fields)

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
        records = [self._function(record) for record in batch]
        if records and all(isinstance(record, dict) and record.keys() == records[0].keys() for record in records):
            columns = {name: [record[name] for record in records] for name in records[0]}
            return RecordBatch(columns, batch.indices, batch.failed)
        return RecordBatch({VALUE: records}, batch.indices, batch.failed, single=True)

    def __repr__(self) -> str:
        return f"Mapped by {getattr(self._function, '__qualname__', self._function)!s} over\n{self._parent!r}"


class _Concatenated(SourceBase):
    """Several sources of one spec, one after the other."""

    def __init__(self, parts: Sequence[SourceBase]) -> None:
        self._parts = list(parts)

    @property
    def format(self) -> str:
        return "+".join(dict.fromkeys(part.format for part in self._parts))

    @property
    def payload(self) -> str | None:
        payloads = {part.payload for part in self._parts}
        return payloads.pop() if len(payloads) == 1 else None

    @property
    def spec(self) -> Spec:
        return self._parts[0].spec

    @property
    def single(self) -> bool:
        return self._parts[0].single

    @property
    def spec_is_inferred(self) -> bool:
        return any(part.spec_is_inferred for part in self._parts)

    @property
    def hides_fields(self) -> bool:
        return any(part.hides_fields for part in self._parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for part in self._parts for path in part.paths)

    @property
    def fingerprint(self) -> str:
        prints = [part.fingerprint for part in self._parts]
        return prints[0] if len(prints) == 1 else _digest(prints)

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(part) for part in self._parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def with_spec(self, spec: Spec) -> SourceBase:
        return _Concatenated([part.with_spec(spec) for part in self._parts])

    def _owners(self, indices: ArrayLike) -> tuple[NDArray[np.int64], Iterator[tuple[int, NDArray[np.int64]]]]:
        """Return the numbers, and for each part that has some of them their positions."""
        numbers = as_indices(indices, len(self))
        owner = np.searchsorted(self._starts, numbers, side="right") - 1
        return numbers, ((part, np.flatnonzero(owner == part)) for part in np.unique(owner).tolist())

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        numbers, owners = self._owners(indices)
        starts = self._starts
        batches, places = [], []
        failed: dict[int, Exception] = {}
        for part, here in owners:
            batch = self._parts[part].read(numbers[here] - starts[part], fields, on_corrupt)
            failed |= {int(index + starts[part]): error for index, error in batch.failed.items()}
            kept = ~np.isin(numbers[here] - starts[part], list(batch.failed)) if batch.failed else slice(None)
            batches.append(batch)
            places.append(here[kept])
        if not batches:
            return self._parts[0].read([], fields)
        place = np.concatenate(places)
        back = np.argsort(place, kind="stable")
        columns = {
            name: take_column(concat_columns([batch.columns[name] for batch in batches]), back)
            for name in batches[0].columns
        }
        return RecordBatch(columns, numbers[place[back]], failed, batches[0].single)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        numbers, owners = self._owners(indices)
        found: dict[int, bytes] = {}
        for part, here in owners:
            blobs = self._parts[part].read_bytes(numbers[here] - self._starts[part])
            found |= dict(zip(here.tolist(), blobs, strict=True))
        return [found[position] for position in range(len(numbers))]

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        first = 0
        for part in self._parts:
            for batch in part.scan(fields):
                yield RecordBatch(batch.columns, batch.indices + first, batch.failed, batch.single)
            first += len(part)

    def close(self) -> None:
        for part in self._parts:
            part.close()


def concat(sources: Sequence[RecordSource]) -> RecordSource:
    """Return a source of all records of several sources, one source after the other.

    Args:
        sources: Sources of any formats with the same spec.

    Raises:
        SpecError: The specs differ; every field that does is named.

    Example:
        >>> import dataformats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> len(dataformats.concat([digits, digits[:3]]))
        1800
    """
    parts = [part for part in sources if isinstance(part, SourceBase)]
    if not parts or len(parts) != len(sources):
        raise TypeError("expected a list of one source or more")
    first = _declared(parts[0])
    for number, part in enumerate(parts[1:], 1):
        spec = _declared(part)
        if (spec is None) != (first is None):
            raise SpecError(f"of sources 0 and {number} one is made by map() and has no spec")
        if spec is None or first is None:
            continue
        names = dict.fromkeys([*first, *spec])
        differs = [f"{n}: {first.get(n)} and {spec.get(n)}" for n in names if first.get(n) != spec.get(n)]
        if differs or tuple(first) != tuple(spec):
            raise SpecError(f"sources 0 and {number} differ in {'; '.join(differs) or 'the order of fields'}")
    return _Concatenated(parts)


def _declared(source: SourceBase) -> Spec | None:
    """Return the spec; `None` where records are what a function returns."""
    try:
        return source.spec
    except SpecError:
        return None


def scan_by_reading(source: SourceBase, fields: Fields) -> Iterator[RecordBatch]:
    """Yield all records of a source by reads of a few megabytes each, one ahead."""
    for batch in read_ahead(source.read(part, fields, "omit") for part in steps(source)):
        yield from until_failure(batch)


def steps(source: SourceBase) -> Iterator[range]:
    """Yield ranges that cover all records of a source, a few megabytes each."""
    n = len(source)
    step = max(1, min(_SCAN_RECORDS, _SCAN_BYTES * max(1, n) // max(1, source.nbytes)))
    return (range(first, min(first + step, n)) for first in range(0, n, step))


def until_failure(batch: RecordBatch) -> Iterator[RecordBatch]:
    """Yield what comes before the first failed record of a batch, then raise its error."""
    if not batch.failed:
        yield batch
        return
    first = min(batch.failed)
    keep = np.flatnonzero(batch.indices < first)
    if len(keep):
        columns = {name: take_column(column, keep) for name, column in batch.columns.items()}
        yield RecordBatch(columns, batch.indices[keep], {}, batch.single)
    raise batch.failed[first]


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


def _names(fields: Sequence[str]) -> Sequence[str]:
    if isinstance(fields, str):
        raise TypeError(f"expected a list of field names, found the string {fields!r}")
    return fields


def _digest(parts: Sequence[str], data: bytes = b"") -> str:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part.encode())
    state.update(data)
    return state.hexdigest()


class _Moments:
    """Range, mean and variance of numbers that come in parts (Chan, Golub, LeVeque 1979)."""

    def __init__(self) -> None:
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._least = np.inf
        self._most = -np.inf

    def add(self, numbers: NDArray[np.float64]) -> None:
        if not numbers.size:
            return
        n, mean = self._n + numbers.size, float(numbers.mean())
        shift = mean - self._mean
        self._squares += float(((numbers - mean) ** 2).sum()) + shift**2 * self._n * numbers.size / n
        self._mean += shift * numbers.size / n
        self._n = n
        self._least, self._most = min(self._least, numbers.min()), max(self._most, numbers.max())

    def summary(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return (least, most, mean, standard deviation)."""
        if not self._n:
            return None, None, None, None
        return float(self._least), float(self._most), self._mean, (self._squares / self._n) ** 0.5


def _is_number(column: Any) -> bool:
    return isinstance(column.values if isinstance(column, Nullable) else column, np.ndarray)


def _measure(column: Any) -> tuple[NDArray[Any], int]:
    """Return the numbers that statistics are about, and how many records lack the field."""
    present = getattr(column, "present", None)
    missing = 0 if present is None else int((~present).sum())
    if isinstance(column, Nullable):
        return _measure(take_column(column.values, np.flatnonzero(column.present)))[0], missing
    if isinstance(column, Ragged):
        return column.lengths if present is None else column.lengths[present], missing
    if isinstance(column, list):
        return np.array([len(value) for value in column if hasattr(value, "__len__")]), missing
    return column.reshape(-1), missing
