"""Build the batch of a task: read its records, call the caller's functions, collate and pad."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import RecordBatch, nbytes_of
from dataformats.errors import FormatError
from dataformats.interfaces import Decode, FieldOperation
from dataformats.interfaces.record_source import OnCorrupt
from dataformats.loaders.adapters import Readable
from dataformats.loaders.batch import Batch
from dataformats.loaders.collate import rows_of, stack_columns, stack_records
from dataformats.loaders.plan import Plan
from dataformats.loaders.prefetcher import BatchTask, BuiltBatch, Progress, Timings
from dataformats.loaders.read_ahead import ReadAhead
from dataformats.loaders.record_read import read_records
from dataformats.loaders.rng import Randomness
from dataformats.loaders.user_functions import ColumnCollate, UserFunctions, check_returned
from dataformats.reading.field_operations import decode_fields
from dataformats.reading.scan import describe_record
from dataformats.spec import VALUE
from dataformats.storage.read_context import READ_CONTEXT

DamagePolicy = Literal["raise", "omit", "quarantine"]
"""How a damaged record is treated: raise its error, leave it out, or leave it out and remember it."""

Numbers = NDArray[np.int64]
_Failures = list[tuple[int, Exception]]


@dataclass(frozen=True)
class BatchBuilder:
    """Builds batches, as `BuildBatch` requires.

    Attributes:
        sources: The source of each component.
        plan: Maps positions to records.
        functions: The caller's functions.
        randomness: Generators for these functions.
        on_corrupt: How a damaged record is treated.
        pad_to: Number of rows that a batch is padded to; 0 for no padding.
        holes: Component to int64[n], the indices of its records that are left out unread, ascending, n > 0.
        decode: Operations that decode fields; the sources give the stored bytes of these.
        ahead: Fetches the records of the next batches from remote files.
        convert: Last step, in the thread that builds the batch; see `Loader(to=, device=)`.
    """

    sources: tuple[Readable, ...]
    plan: Plan
    functions: UserFunctions
    randomness: Randomness
    on_corrupt: DamagePolicy = "raise"
    pad_to: int = 0
    holes: Mapping[int, Numbers] = field(default_factory=dict)
    convert: Callable[[Any], Any] | None = None
    decode: Decode = field(default_factory=dict)
    ahead: ReadAhead | None = None

    def __post_init__(self) -> None:
        if self.on_corrupt not in ("raise", "omit", "quarantine"):
            raise ValueError(f"on_corrupt: expected 'raise', 'omit' or 'quarantine', found {self.on_corrupt!r}")

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        start = time.perf_counter()
        has_functions = bool(self.functions)
        cpu = time.thread_time() if has_functions else 0.0  # a system call: only if needed
        timings = Timings()
        try:
            positions, records, failed = self._read(task.positions, timings, progress)
            n = len(positions)
            if not n:  # an empty batch borrows a record
                positions, records = self._read_spare(task.spare, timings, progress)
            if has_functions:
                with self.randomness.torch_draws():  # what the caller's functions draw depends on the position
                    batch = self._build(records, positions, n, timings, progress)
                timings.process = time.thread_time() - cpu
            else:
                batch = self._build(records, positions, n, timings, progress)
        except StopIteration as error:  # would end the caller's loop over the loader
            raise RuntimeError("transform, collate, batch_transform or the source raised StopIteration") from error
        n_bytes = nbytes_of(batch)
        end = time.perf_counter()
        if self.convert is not None:
            batch = self.convert(batch)
            converted = time.perf_counter()
            timings.transfer, end = converted - end, converted
        timings.total = end - start
        return BuiltBatch(batch, n, n_bytes, failed, timings, task.after)

    def describe(self, position: int) -> str:
        """Return which record a position is, with its file if that is known: `"record 17 of 'a.tfrecord'"`."""
        place = self.plan.locate([position])
        return describe_record(self.sources[int(place.component[0])].origins(place.record)[0])

    # ---- reading

    def _read(self, positions: Numbers, timings: Timings, progress: Progress) -> tuple[Numbers, RecordBatch, _Failures]:
        """Return the positions whose records were read, these records, and (position, error) of the damaged ones."""
        if len(positions):
            progress(int(positions[0]))
        component, indices = self.plan.records(positions)
        if self.holes:
            present = self._outside_holes(component, indices)
            component = None if component is None else component[present]
            positions, indices = positions[present], indices[present]
        begin, waited, decoded = time.perf_counter(), READ_CONTEXT.waited_s, timings.decode
        on_corrupt: OnCorrupt = "raise" if self.on_corrupt == "raise" else "omit"
        decode = partial(self._decode, positions, on_corrupt, timings=timings) if self.decode else None
        cache = None
        try:
            if self.ahead is not None and len(positions):
                cache = self.ahead.reach(positions)
                if self.ahead.cache is not None:  # it waited for requests, not for decoded blocks
                    READ_CONTEXT.waited_s += time.perf_counter() - begin
            with READ_CONTEXT.reading_through(cache):
                records, rows, failed = read_records(self.sources, component, indices, on_corrupt, decode)
        except FormatError as error:
            _add_note(
                error,
                f"raised while reading positions {positions[0]} to {positions[-1]}; "
                "pass on_corrupt='omit' to leave damaged records out",
            )
            raise
        spent, waited = time.perf_counter() - begin, READ_CONTEXT.waited_s - waited
        if not waited and not any(self.plan.blocks):  # a source that is no file: all of its work is reading
            waited = spent - (timings.decode - decoded)
        timings.read += waited
        timings.decode = decoded + spent - waited
        if rows is None:
            return positions, records, []
        return positions[rows], records, [(int(positions[row]), error) for row, error in failed]

    def _decode(
        self,
        positions: Numbers,
        on_corrupt: OnCorrupt,
        source: Readable,
        batch: RecordBatch,
        rows: Numbers,
        *,
        timings: Timings,
    ) -> RecordBatch:
        def generator(_: FieldOperation, row: int) -> np.random.Generator:
            return self.randomness.of_operation(int(positions[rows[row]]))

        begin = time.perf_counter()
        decoded = decode_fields(source, batch, self.decode, generator, on_corrupt)
        timings.decode += time.perf_counter() - begin
        return decoded

    def _outside_holes(self, component: Numbers | None, indices: Numbers) -> NDArray[np.bool_]:
        if component is None:
            component = np.zeros_like(indices)
        outside = np.ones(len(indices), bool)
        for number, holes in self.holes.items():
            nearest = holes[np.searchsorted(holes[:-1], indices)]  # O(log holes) for each index, unlike np.isin
            outside &= (component != number) | (nearest != indices)
        return outside

    def _read_spare(self, spare: Numbers, timings: Timings, progress: Progress) -> tuple[Numbers, RecordBatch]:
        """Return the first of these positions whose record can be read, and the record.

        Raises:
            FormatError: None can be read, and the result of the caller's functions on a record is needed.
        """
        failed: _Failures = []
        for row in range(len(spare)):
            positions, records, failures = self._read(spare[row : row + 1], timings, progress)
            if len(positions):
                return positions, records
            failed += failures
        if failed and (self.pad_to or self.functions):
            error = failed[-1][1]
            _add_note(error, f"{len(spare)} other records failed as well: an empty batch needs one for its columns")
            raise error
        positions, records, _ = self._read(spare[:0], timings, progress)
        return positions, records

    # ---- building

    def _build(self, records: RecordBatch, positions: Numbers, n: int, timings: Timings, progress: Progress) -> Any:
        """Return the batch of `n` records; if `n` is 0, `records` is the one it borrows for its fields and dtypes."""
        begin = time.perf_counter()
        columns = self._collate(records, positions, timings, progress)
        padding = np.zeros(len(positions), bool)
        if n < self.pad_to and len(positions):
            rows = np.arange(self.pad_to) % len(positions)
            padding = np.arange(self.pad_to) >= n
            columns, positions = _repeat_rows(columns, rows), positions[rows]
        batch = self._transform_batch(columns, positions, padding, timings)
        timings.collate = time.perf_counter() - begin - timings.transform
        if not n and not padding.any():
            return _without_rows(batch)
        return batch

    def _collate(self, records: RecordBatch, positions: Numbers, timings: Timings, progress: Progress) -> Any:
        transform, collate = self.functions.transform, self.functions.collate
        if transform is None and collate is None:
            values: Any = records.columns.get(VALUE) if records.single else None
            if isinstance(values, list) and any(isinstance(value, Mapping) for value in values):
                return stack_records(values, records.indices)  # dicts with different keys
            return stack_columns(records.columns, records.indices)
        if transform is None and not records.single and isinstance(collate, ColumnCollate):
            return collate.of_columns(records.columns, records.indices)
        begin = time.perf_counter()
        items = list(records)
        if transform is not None:
            items = self._transform_records(items, positions, progress)
            timings.transform += time.perf_counter() - begin
        if collate is None:
            return stack_records(items, records.indices, records.columns)
        self.randomness.of_collate(_first(positions))  # seeds what torch draws there
        if isinstance(collate, ColumnCollate):
            return collate(items, records.indices, records.columns)
        return check_returned("collate", collate(items))

    def _transform_records(self, records: list[Any], positions: Numbers, progress: Progress) -> list[Any]:
        transform = self.functions.on_record
        items = []
        for position, record in zip(positions.tolist(), records, strict=True):
            progress(position)
            rng = self.randomness.at(position)
            try:
                items.append(check_returned("transform", transform(record, rng)))
            except Exception as error:
                _add_note(error, f"raised by transform for {self.describe(position)} (position {position})")
                raise
        return items

    def _transform_batch(self, columns: Any, positions: Numbers, padding: NDArray[np.bool_], timings: Timings) -> Any:
        if not isinstance(columns, (dict, Mapping)):  # dict first: the check against it is fast
            return columns
        batch = Batch(columns, positions, padding)
        if self.functions.batch_transform is None:
            return batch
        begin = time.perf_counter()
        rng = self.randomness.of_batch(_first(positions))
        result = check_returned("batch_transform", self.functions.on_batch(batch, rng))
        timings.transform += time.perf_counter() - begin
        if isinstance(result, Mapping) and not isinstance(result, Batch):
            return Batch(result, positions, padding)
        return result


def _add_note(error: Exception, note: str) -> None:
    """Add a note once; an exception that accepts none stays as it is."""
    with suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _first(positions: Numbers) -> int:
    return int(positions[0]) if len(positions) else 0


def _repeat_rows(columns: Any, rows: Numbers) -> Any:
    if not isinstance(columns, Mapping):
        raise TypeError(
            f"pad_last cannot repeat rows: expected collate to return a dict of columns, found {type(columns).__name__}"
        )
    return {name: rows_of(column, rows) for name, column in columns.items()}


def _without_rows(batch: Any) -> Any:
    none = np.zeros(0, np.int64)
    if not isinstance(batch, Batch):
        return rows_of(batch, none)
    return Batch({name: rows_of(column, none) for name, column in batch.items()}, none, np.zeros(0, bool))
