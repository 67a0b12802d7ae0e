"""Makes the batch of a task: reads its records, transforms, collates and pads them."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged
from dataformats.errors import FormatError
from dataformats.loaders.batch import Batch
from dataformats.loaders.collate import plain, rows_of, stacked
from dataformats.loaders.plan import Plan
from dataformats.loaders.prefetch import BatchTask, BuiltBatch, Progress, Timings
from dataformats.loaders.records import Got, Records
from dataformats.loaders.rng import Randomness
from dataformats.spec import VALUE
from dataformats.storage.threads import IO_WAIT

__all__ = ["BatchBuilder", "ColumnCollate", "DamagePolicy", "UserFunctions"]

DamagePolicy = Literal["raise", "skip", "quarantine"]
"""What becomes of a damaged record: its error is raised, or it is a hole in its batch, which may be remembered."""

Numbers = NDArray[np.int64]


@runtime_checkable
class ColumnCollate(Protocol):
    """A collate that can do without records, which is faster where no `transform` makes them."""

    def __call__(self, records: list[Any]) -> Any:
        """Return the columns of some records."""
        ...

    def of_columns(self, columns: Mapping[str, Any], numbers: Numbers) -> dict[str, Any]:
        """Return what calling it with the records of these columns would; `numbers` are theirs, for errors."""
        ...


@dataclass(frozen=True)
class UserFunctions:
    """What the caller wants done, in this order. Pickles if the functions do.

    Attributes:
        transform: Of a record, or of a record and its generator.
        collate: Of a list of records.
        batch_transform: Of a batch, or of a batch and a generator.
    """

    transform: Callable[..., Any] | None = None
    collate: Callable[[list[Any]], Any] | None = None
    batch_transform: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name in ("transform", "collate", "batch_transform"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function, found {function!r}")

    def __bool__(self) -> bool:
        """Return True where there is one; by identity, for who knows what a callable takes for equal."""
        return not (self.transform is None and self.collate is None and self.batch_transform is None)

    def __reduce__(self) -> tuple[Any, ...]:
        return UserFunctions, (self.transform, self.collate, self.batch_transform)  # without what is made of them

    @cached_property
    def of_record(self) -> Callable[[Any, np.random.Generator], Any]:
        """`transform`, which there is, of a record and its generator."""
        return _with_rng(self.transform)

    @cached_property
    def of_batch(self) -> Callable[[Any, np.random.Generator], Any]:
        """`batch_transform`, which there is, of a batch and a generator."""
        return _with_rng(self.batch_transform)


@dataclass(frozen=True)
class BatchBuilder:
    """Makes batches, as `BuildBatch` promises.

    Attributes:
        records: Where records come from.
        plan: Which record a position is.
        functions: What is done to them.
        randomness: Whose generators the functions get.
        on_corrupt: What becomes of a damaged record.
        pad_to: Rows that a batch is filled up to; 0: none.
        holes: Component to the numbers of its records that are left out unread.
    """

    records: Records
    plan: Plan
    functions: UserFunctions
    randomness: Randomness
    on_corrupt: DamagePolicy = "raise"
    pad_to: int = 0
    holes: Mapping[int, Numbers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_corrupt not in ("raise", "skip", "quarantine"):
            raise ValueError(f"on_corrupt must be 'raise', 'skip' or 'quarantine', found {self.on_corrupt!r}")

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        try:
            return self._make(task, progress)
        except StopIteration as error:  # which whoever iterates over the loader would take for its end
            raise RuntimeError("a function of the caller, or its data, raised StopIteration") from error

    def _make(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        has_functions = bool(self.functions)
        busy = time.thread_time() if has_functions else 0.0  # a system call: not where nobody asks
        timings = Timings()
        positions, got, failed = self._read(task.positions, timings, progress)
        n = len(positions)
        if not n:  # it has no rows of its own, and borrows one
            positions, got, _ = self._first_of(task.spare, timings, progress)
        begin = time.perf_counter()
        if not has_functions:
            batch = self._batch(got, positions, n, progress)
            timings.decode += time.perf_counter() - begin
        else:
            with self.randomness.torch_draws():  # the caller's functions may draw, and shall by position
                batch = self._batch(got, positions, n, progress)
            timings.transform += time.perf_counter() - begin
            timings.process = time.thread_time() - busy
        return BuiltBatch(batch, n, _nbytes(batch), failed, timings)

    def describe(self, position: int) -> str:
        """Return which record a position is, with its file where that is known: `"record 17 of 'a.tfrecord'"`."""
        place = self.plan.locate([position])
        return self.records.describe(int(place.component[0]), int(place.record[0]))

    # ---- reading

    def _read(
        self, positions: Numbers, timings: Timings, progress: Progress
    ) -> tuple[Numbers, Got, list[tuple[int, Exception]]]:
        """Return which of these positions hold records, the records, and what could not be read."""
        if len(positions):
            progress(int(positions[0]))
        component, record = self.plan.records(positions)
        if self.holes:
            kept = self._is_whole(component, record)
            component = None if component is None else component[kept]
            positions, record = positions[kept], record[kept]
        begin, waited = time.perf_counter(), IO_WAIT.seconds
        try:
            got = self.records.read(component, record, "raise" if self.on_corrupt == "raise" else "omit")
        except FormatError as error:
            _note(error, f"read for the positions {positions[0]} to {positions[-1]}; on_corrupt='skip' leaves it out")
            raise
        waited = IO_WAIT.seconds - waited
        timings.read += waited
        timings.decode += time.perf_counter() - begin - waited
        if got.rows is None:
            return positions, got, []
        return positions[got.rows], got, [(int(positions[row]), error) for row, error in got.failed]

    def _is_whole(self, component: Numbers | None, record: Numbers) -> NDArray[np.bool_]:
        if component is None:
            component = np.zeros_like(record)
        whole = np.ones(len(record), bool)
        for number, holes in self.holes.items():
            whole &= (component != number) | ~np.isin(record, holes)
        return whole

    def _first_of(
        self, spare: Numbers, timings: Timings, progress: Progress
    ) -> tuple[Numbers, Got, list[tuple[int, Exception]]]:
        """Return the first record that can be read of these positions.

        Raises:
            FormatError: None can, and so nobody knows what the caller's functions make of one.
        """
        failed: list[tuple[int, Exception]] = []
        for row in range(len(spare)):
            positions, got, wrong = self._read(spare[row : row + 1], timings, progress)
            if len(positions):
                return positions, got, wrong
            failed += wrong
        if failed and (self.pad_to or self.functions):
            _note(failed[-1][1], f"as {len(spare)} others: there is no record to tell what an empty batch looks like")
            raise failed[-1][1]
        return self._read(spare[:0], timings, progress)

    # ---- what is made of it

    def _batch(self, got: Got, positions: Numbers, n: int, progress: Progress) -> Any:
        """Return the batch of `n` records, or of 0 whose fields and dtypes one that it borrowed tells."""
        columns = self._collated(got, positions, progress)
        padding = np.zeros(len(positions), bool)
        if n < self.pad_to and len(positions):
            rows = np.arange(self.pad_to) % len(positions)
            padding = np.arange(self.pad_to) >= n
            columns, positions = _taken(columns, rows), positions[rows]
        batch = self._batch_transformed(columns, positions, padding)
        if not n and not padding.any():
            return _cut(batch)
        return batch

    def _collated(self, got: Got, positions: Numbers, progress: Progress) -> Any:
        transform, collate = self.functions.transform, self.functions.collate
        if transform is None and collate is None:
            values = got.columns.get(VALUE) if got.single else None
            if isinstance(values, list) and any(isinstance(value, Mapping) for value in values):
                return stacked(values, got.numbers)  # dicts that differ, which it tells apart
            return plain(got.columns, got.numbers)
        if transform is None and not got.single and isinstance(collate, ColumnCollate):
            return collate.of_columns(got.columns, got.numbers)
        records = list(got.records())
        if transform is not None:
            records = self._transformed(records, positions, progress)
        if collate is None:
            return stacked(records, got.numbers)
        self.randomness.of_collate(_first(positions))  # for what torch draws there
        return _returned("collate", collate(records))

    def _transformed(self, records: list[Any], positions: Numbers, progress: Progress) -> list[Any]:
        transform = self.functions.of_record
        made = []
        for position, record in zip(positions.tolist(), records, strict=True):
            progress(position)
            rng = self.randomness.at(position)
            try:
                made.append(_returned("transform", transform(record, rng)))
            except Exception as error:
                _note(error, f"raised by transform for {self.describe(position)} (position {position})")
                raise
        return made

    def _batch_transformed(self, columns: Any, positions: Numbers, padding: NDArray[np.bool_]) -> Any:
        if not isinstance(columns, (dict, Mapping)):  # the first is quickly told
            return columns
        batch = Batch(columns, positions, padding)
        if self.functions.batch_transform is None:
            return batch
        rng = self.randomness.of_batch(_first(positions))
        made = _returned("batch_transform", self.functions.of_batch(batch, rng))
        if isinstance(made, Mapping) and not isinstance(made, Batch):
            return Batch(made, positions, padding)
        return made


def _with_rng(function: Any) -> Callable[[Any, np.random.Generator], Any]:
    """Return the function as one of two arguments: it gets the second if it has a place for it.

    That is an argument called `rng`, or else the second one that it must be given.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins do not say
        return lambda thing, rng: function(thing)
    named = parameters.get("rng")
    if named is not None and named.kind is not named.POSITIONAL_ONLY:
        return lambda thing, rng: function(thing, rng=rng)
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters.values() if one.kind in places and one.default is one.empty]
    return function if len(needed) >= 2 else lambda thing, rng: function(thing)


def _note(error: Exception, note: str) -> None:
    """Add a note once; an exception that takes none stays as it is."""
    with suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _returned(name: str, value: Any) -> Any:
    if value is None:
        raise TypeError(f"{name} returned None: was its return forgotten?")
    return value


def _first(positions: Numbers) -> int:
    return int(positions[0]) if len(positions) else 0


def _taken(columns: Any, rows: Numbers) -> Any:
    if not isinstance(columns, Mapping):
        raise TypeError(f"pad_last needs columns that can be repeated; collate returned {type(columns).__name__}")
    return {name: rows_of(column, rows) for name, column in columns.items()}


def _cut(batch: Any) -> Any:
    """Return a batch without its rows."""
    none = np.zeros(0, np.int64)
    if not isinstance(batch, Batch):
        return rows_of(batch, none)
    return Batch({name: rows_of(column, none) for name, column in batch.items()}, none, np.zeros(0, bool))


def _nbytes(thing: Any) -> int:
    """Return the bytes of the arrays in a batch."""
    if type(thing) is np.ndarray:  # what most are, and quickly told
        return thing.nbytes
    if isinstance(thing, (dict, Mapping)):
        return sum(map(_nbytes, thing.values()))
    if isinstance(thing, (list, tuple)):
        return sum(map(_nbytes, thing))
    if isinstance(thing, Ragged):
        return _nbytes(thing.values) + thing.offsets.nbytes
    if isinstance(thing, Nullable):
        return _nbytes(thing.values) + thing.present.nbytes
    return len(thing) if isinstance(thing, (bytes, str)) else int(getattr(thing, "nbytes", 0))
