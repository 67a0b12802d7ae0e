"""Loader: connects plan, steps, prefetching and state, and holds the cursor."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dataformats.batch.jax_trees import register_with_jax
from dataformats.errors import StateMismatchError
from dataformats.foreign_names import LOADER, no_attribute, suggest_arguments
from dataformats.fork_hooks import cached_property
from dataformats.integer_arguments import checked_int
from dataformats.interfaces import Decode
from dataformats.loaders.adapters import Readable, as_readable
from dataformats.loaders.advice import LoaderSetup
from dataformats.loaders.batch import Batch, conversions
from dataformats.loaders.batch_builder import BatchBuilder, DamagePolicy
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.epochs import Grown
from dataformats.loaders.growth import begins_with, n_stored_of, with_growth
from dataformats.loaders.mixture import Mixture
from dataformats.loaders.next_use import PlannedUse
from dataformats.loaders.pack_batch import Pack
from dataformats.loaders.plan import Place, Plan
from dataformats.loaders.prefetch_session import PrefetchSession, StartMethod
from dataformats.loaders.prefetcher import BatchTask, BuiltBatch
from dataformats.loaders.quarantine import Quarantined, quarantine_entry
from dataformats.loaders.ranks import nodes_of, resolve, streams_of_node
from dataformats.loaders.read_ahead import ReadAhead
from dataformats.loaders.record_read import block_cache_for, decodes_neighbors, shuffle_for
from dataformats.loaders.rng import Randomness
from dataformats.loaders.shuffle import Shuffle
from dataformats.loaders.skip_list import SkipEntry, SkipList
from dataformats.loaders.skips import MAX_POSITION, Skips
from dataformats.loaders.state import State, state_mismatch, validate
from dataformats.loaders.stats import LoaderStats, MinuteReport, Totals
from dataformats.loaders.step_sizes import StepSize, StepSizes
from dataformats.loaders.steps import Steps
from dataformats.loaders.trace import TracedRecord, trace
from dataformats.loaders.user_functions import UserFunctions
from dataformats.reading.field_operations import with_stored_bytes

_OF_DATALOADERS = {"collate_fn", "dataset", "num_workers", "sampler"}
_FOR_DATALOADERS = (
    "Iterate it; to pass over batches, call loader.advance. Code that needs a DataLoader takes "
    "DataLoader(RecordDataset(source), sampler=PlanSampler(source)), both of dataformats.loaders.pytorch"
)
_COUNTED = (
    "Lightning counts batches, and would end this epoch elsewhere. Resume with the same batch_size times ranks, or "
    "from a checkpoint of the end of an epoch"
)
_GROWN = (
    "Lightning would cut the longer epochs, because it counts the batches of the first one. Load the state with "
    "grown='now', or from the end of an epoch"
)
_ENDED = -2  # the epoch of an iteration that is over: no position has it


class Loader:
    """Batches of a source, epoch after epoch, in an order that resumes exactly from any position.

    Which records a batch holds is a pure function of the data, the seed and the position; workers, ranks and batch
    size do not change the sequence. A loader has one cursor: a new iteration takes it over, and the old one raises.

    It is iterable itself and needs no `DataLoader` around it. Each batch is a `dataformats.Batch`: a dict of columns
    with their positions. Records that are not dicts have one column, `"value"`.

    Args:
        source: A `RecordSource`, a `Mixture`, or any sequence with `len` and `[]`.
        batch_size: Records per rank and step, at least 1.
        shuffle: True: all records of an epoch in random order, another one each epoch. `"window"`: blocks of
            `block_records` consecutive records in random order, and records shuffled within `window_blocks` such
            blocks, so that reads stay close together. For files behind URLs, this window and the next one are kept in
            memory, if they have at most 2 GiB. False: in order. `"auto"`: `"window"` if a file of any source is behind
            a URL, where a random order would request each record alone, is compressed, or is decoded in blocks, as
            Parquet is; else True. The state has the order, not `"auto"`.
        seed: Whole number in `[0, 2**63)`; another seed gives another order.
        rank: The number of this process among `world_size`, or `"auto"`: from `torch.distributed` or JAX if they are
            initialized, else from the launcher's environment. It looks once, when the loader is first used, so that a
            trainer may start its processes in between.
        world_size: How many processes train on the same data.
        resume: False: each iteration is the whole first epoch, whatever was iterated before, as validation wants it.
        drop_last: Leave out the rest of an epoch that does not fill a step.
        pad_last: Fill batches of that rest up to `batch_size` by repeating rows, marked in `batch.padding`.
        workers: How many workers build batches; 0: the caller's own thread does.
        worker_type: `"thread"` or `"process"`; processes are for transforms that are slow in Python.
        prefetch: Batches that each worker builds ahead, at least 1.
        decode: Field to the operation that decodes it instead of its codec, as `{"image": RandomResizedCrop(224)}`:
            see `dataformats.images`. Its random numbers depend on seed and position alone.
        transform: `transform(record)` or `transform(record, rng)`; `rng` is a `numpy.random.Generator` whose
            numbers depend on seed and position alone. Fields of the source keep the types of their columns.
        batch_transform: `batch_transform(batch)` or `batch_transform(batch, rng)`, with the `rng` of the first
            position.
        collate: Makes the columns of a batch from a list of records; see `dataformats.pad` and `dataformats.pack`.
        on_corrupt: `"raise"` the error of a damaged record, `"omit"` the record, or omit it and list it in
            `loader.quarantined` (`"quarantine"`).
        skip: Records and positions that the run leaves out: the path of a skip list, or entries as `skip_list` takes
            them, the same on every rank. A record is delivered in no epoch, and leaves a hole in its batch: all other
            records keep their step, rank and row order. Positions are taken out as by the method `skip`.
        new_skip: True: a loaded state may have another skip list, or none. `skip` applies from its position on.
        to: `"numpy"`, `"torch"` or `"jax"`.
        device: The device of the tensors with `to="torch"`; a device or a sharding with `to="jax"`. Copies overlap with
            the computation.
        block_records: See `shuffle`; `None`: records of about 1 MiB together, at most 1024; or as in a loaded state.
        window_blocks: See `shuffle`; `None`: 256, divided by the number of components that are compressed or decoded in
            blocks (at least 16); or as in a loaded state.
        groups: Streams of windows with `shuffle="window"`; the ranks of a node read from one stream, and so download
            only the blocks of that. `None`: the number of nodes, or as in a loaded state. It is part of the order:
            with other ranks, a run continues in the same order, and downloads more if they do not match the groups.
        prefetch_bytes: No batch is begun while waiting batches have this many bytes.
        start_method: How worker processes start: `"spawn"`, `"forkserver"` or `"fork"`; `None` takes a safe one.
        hang_timeout_s: Seconds without progress, in which no thread of the worker's process runs either, after which it
            is given up with a `WorkerError`; `None`: never. A worker that computes, or gets bytes, goes on.
        report: `report(stats)`, called once a minute with the `LoaderStats` of that minute, in the caller's thread
            between two batches. Its exceptions are raised there, and no batch is lost.

    Raises:
        ValueError: An argument is outside its range, the source is empty, or no full step fits an epoch. If it depends
            on `rank="auto"`, the first iteration raises it.
        TypeError: `source` is not a sequence.

    Example:
        >>> import dataformats
        >>> spec = {"image": "uint8[8,8]", "label": "int64"}
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord", spec=spec)
        >>> loader = dataformats.Loader(digits, 64, seed=1)
        >>> for batch in loader:
        ...     if loader.position == 640:
        ...         state = loader.state_dict()
        ...         break
        >>> batch["image"].shape
        (64, 8, 8)
        >>> resumed = dataformats.Loader(digits, 100, seed=1, workers=1)
        >>> resumed.load_state_dict(state)
        >>> next(iter(resumed)).positions[:3].tolist()
        [640, 641, 642]
    """

    @suggest_arguments
    def __init__(
        self,
        source: Any,
        batch_size: int,
        *,
        shuffle: bool | Literal["window", "auto"] = "auto",
        seed: int = 0,
        rank: int | Literal["auto"] = 0,
        world_size: int = 1,
        resume: bool = True,
        drop_last: bool = False,
        pad_last: bool = False,
        workers: int = 2,
        worker_type: Literal["thread", "process"] = "thread",
        prefetch: int = 2,
        decode: Decode | None = None,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[..., Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        on_corrupt: DamagePolicy = "raise",
        skip: str | os.PathLike[str] | SkipList | Iterable[SkipEntry] = (),
        new_skip: bool = False,
        to: Literal["numpy", "torch", "jax"] = "numpy",
        device: Any = None,
        block_records: int | None = None,
        window_blocks: int | None = None,
        groups: int | None = None,
        prefetch_bytes: int = 2**30,
        start_method: StartMethod | None = None,
        hang_timeout_s: float | None = 60.0,
        report: Callable[[LoaderStats], object] | None = None,
    ) -> None:
        batch_size = checked_int("batch_size", batch_size, 1)
        seed = checked_int("seed", seed, 0)
        if pad_last and isinstance(collate, Pack):
            raise ValueError(
                "pad_last repeats the rows of records, but packed rows hold several: for batches of one shape, "
                "pass rows= to pack"
            )
        self._asked_rank = rank, world_size
        self._mixture = source if isinstance(source, Mixture) else None
        decode = decode or {}
        sources = (source,) if self._mixture is None else self._mixture.sources
        self._sources = tuple(with_stored_bytes(as_readable(one), decode) for one in sources)
        self._any_order = shuffle == "auto"  # a state decides
        sizes = {"block_records": block_records, "window_blocks": window_blocks, "groups": groups}
        self._any_sizes = {name for name, size in sizes.items() if size is None}
        self._knows_groups = groups is not None
        self._plan = self._make_plan(shuffle_for(shuffle, self._sources, **sizes), seed)
        self._batch_size, self._drop_last, self._resume = batch_size, drop_last, resume
        self._skip_list, self._new_skip = self._skip_list_of(skip), new_skip
        self._skips = self._skip_list.add_to(Skips(), 0)
        self._begin_steps(StepSizes(), 0, 0)
        start, finish = conversions(to, device)
        # Threads begin to convert the batches that they build; batches of processes are converted in the caller's.
        starts_in_worker = worker_type == "thread"
        self._conversions = [step for step in (None if starts_in_worker else start, finish) if step is not None]
        self._builder = BatchBuilder(
            self._sources,
            self._plan,
            UserFunctions(transform, collate, batch_transform),
            Randomness(seed),
            on_corrupt,
            batch_size if pad_last else 0,
            {number: indices for number, indices in enumerate(self._skip_list.records) if len(indices)},
            start if starts_in_worker else None,
            dict(decode),
        )
        if rank != "auto":
            _ = self._steps  # checks the arguments
        self._session = PrefetchSession(
            worker_type,
            workers,
            start_method,
            prefetch=prefetch,
            prefetch_bytes=prefetch_bytes,
            hang_timeout_s=hang_timeout_s,
        )
        register_with_jax(Batch)
        self._position = 0
        self._is_counted = False  # True if Lightning keeps the number of batches of an epoch
        self._loaded_step_records: int | None = None
        self._quarantined: dict[tuple[int, int], Quarantined] = {}
        self._totals = Totals()
        self._report = None if report is None else MinuteReport(report)
        self._setup = partial(LoaderSetup, self._sources, workers, worker_type, workers * prefetch)
        self._received = time.perf_counter()
        self._cursor: Callable[[], _LoaderIterator | None] = _no_cursor  # weak: a loader that is dropped ends at once
        self._last_epoch: int | None = None  # the last epoch of the tasks under way; `None`: they are endless

    # ---- position

    @property
    def position(self) -> int:
        """How many records were consumed over all ranks since training began, including those left out."""
        return self._position

    @property
    def epoch(self) -> int:
        """The epoch of the next batch; 0 is the first."""
        return self._plan.epochs.at(self._position)[0]

    @property
    def step(self) -> int:
        """How many batches each rank received since training began; after `set_epoch`, as if it had begun there.

        A trainer that resumes continues its own count from here: `position // batch_size` is another number after an
        epoch whose last batch was short, and after a change of ranks or batch size.
        """
        return self._step_at(self._position)

    @property
    def seed(self) -> int:
        """The seed of the order, and of the generators that transforms receive."""
        return self._plan.seed

    @property
    def batch_size(self) -> int:
        """Records per rank and step."""
        return self._batch_size

    @property
    def quarantined(self) -> list[Quarantined]:
        """Damaged records that `on_corrupt="quarantine"` found on this rank; see `skip_list`."""
        return list(self._quarantined.values())

    def __len__(self) -> int:
        """Return how many batches this whole epoch has, the same on every rank, wherever the cursor is."""
        return self._steps.count(self._plan.epochs.at(self._position)[1])

    @property
    def remaining(self) -> int:
        """How many batches are left of this epoch."""
        return self._steps.count(self._position)

    def locate(self, positions: ArrayLike) -> Place:
        """Return which records some positions are, past or future.

        Args:
            positions: One, or int[n].

        Returns:
            `Place(component, epoch, record)`, int64[n] each: the source in a mixture (0 without one), how often that
            source was completed before, and the record's index in it.
        """
        _ = self._rank  # the number of nodes may decide the order
        return self._plan.locate(np.atleast_1d(positions))

    def trace(self, step: int | None = None, *, position: int | None = None) -> list[TracedRecord]:
        """Return the records of one step of the run on all ranks, past or future: those behind a spike of the loss.

        Steps before a resume have the batch size and the ranks of then, which the state has. No record is read. Records
        that a skip list names are among them: their positions belong to the step.

        Args:
            step: The number of a step, from 0: `loader.step` before the batch was received.
            position: A position, instead of its step.

        Raises:
            LookupError: The run has no such step, its size is unknown, or the position belongs to no step.

        Example:
            >>> import dataformats
            >>> photos = dataformats.open("tests/golden/real/photos.tfrecord")
            >>> loader = dataformats.Loader(photos, 2, world_size=2, seed=3)
            >>> [(record.rank, record.index, record.offset_bytes) for record in loader.trace(1)]
            [(0, 2, 46085), (0, 6, 125160), (1, 7, 138081), (1, 1, 28756)]
        """
        if (step is None) == (position is None):
            raise TypeError("trace() takes a step or a position, and not both")
        number = self._step_at(checked_int("position", position, 0) + 1) - 1 if step is None else step
        size = self._step_sizes.of_step(checked_int("step", number, 0))
        found = self._steps_of(size).nth(size.position, number - size.step)
        if position is not None and position not in found.positions:
            raise LookupError(f"position {position} belongs to no step: it is skipped, or drop_last leaves it out")
        return trace(number, found, size.world_size, self._plan, self._sources)

    # ---- iterating

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the rest of this epoch, which is all of it if the cursor is at its beginning."""
        if not self._resume:
            self._begin_steps(StepSizes(), 0, 0)
            self._move(0)
        return self._begin(self.epoch)

    def forever(self) -> Iterator[Any]:
        """Return an endless iterator over this epoch and all later ones."""
        return self._begin(None)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; do nothing if the cursor is in that epoch, so a resumed one continues.

        Raises:
            ValueError: `epoch` is negative or huge.
        """
        epochs = self._plan.epochs
        position = epochs.first(checked_int("epoch", epoch, 0))
        if position >= MAX_POSITION:
            raise ValueError(f"epoch: expected a number below {epochs.at(MAX_POSITION)[0]}, found {epoch}")
        if epoch != self.epoch:
            self._begin_steps(StepSizes(), 0, 0)
            self._move(position)

    @property
    def batch_sampler(self) -> Any:
        """For Lightning, which calls `set_epoch` of the sampler in it. A loader that is new begins with that epoch.

        Lightning loads no state of a loader from a checkpoint that it saved at the end of an epoch.
        """
        return _BatchSampler(self)

    def advance(self, batches: int) -> None:
        """Pass over this many batches of this epoch without reading them, at most to its end."""
        stop = self._plan.epochs.at(self._position)[2]
        position = self._position
        for _ in range(checked_int("batches", batches, 0)):
            position = min(self._steps.at(position).after, stop)
            if position == stop:
                break
        self._move(position)

    def skip(self, start: int, stop: int) -> None:
        """Leave out the positions `[start, stop)`, on every rank; the other positions keep their records.

        Call it on every rank with the same numbers. It is part of the state. Steps before positions that were consumed
        already cannot be traced any more.
        """
        if start < self._position:
            self._begin_steps(StepSizes(), self._position, self.step)
        self._skips = self._skips.add(start, stop)
        self.__dict__.pop("_steps", None)  # the next use makes them anew
        self._session.is_stale = True

    def skip_list(self, entries: Iterable[SkipEntry]) -> SkipList:
        """Return a list of records and positions of these data, to save for `skip=` of the next start.

        Args:
            entries: Each is the index of a record, a pair `(start, stop)` of positions, or a record that `trace`
                returned or `quarantined` has.

        Raises:
            ValueError, TypeError: An entry is wrong.
            StateMismatchError: The data have no such record.
        """
        lengths = tuple(map(len, self._sources))
        sizes = tuple(zip(lengths, n_stored_of(self._data) or lengths, strict=True))
        return self._skip_list_of(SkipList.of(entries, self._fingerprint, sizes))

    def _skip_list_of(self, skip: str | os.PathLike[str] | SkipList | Iterable[SkipEntry]) -> SkipList:
        if isinstance(skip, (str, os.PathLike)):
            skip = SkipList.load(skip)
        elif not isinstance(skip, SkipList):
            entries = list(skip)
            return self.skip_list(entries) if entries else SkipList.of((), "")  # a fingerprint reads records
        is_earlier = skip.fingerprint != self._fingerprint and begins_with(self._data, skip.fingerprint, skip.sizes)
        fingerprint = skip.fingerprint if is_earlier else self._fingerprint  # the data may have grown since
        skip.check(fingerprint, [len(source) for source in self._sources])
        return skip

    def _move(self, position: int) -> None:
        """Continue at another position; an iteration over an epoch then ends with the epoch of that position."""
        self._position = position
        self._session.is_stale = True
        self._stop_ahead()
        cursor = self._cursor()
        if cursor is not None and cursor.epoch not in (None, _ENDED):
            cursor.epoch = self.epoch

    def _begin(self, epoch: int | None) -> _LoaderIterator:
        cursor = _LoaderIterator(self, epoch)
        self._session.is_stale |= self._last_epoch not in (None, epoch)
        self._cursor = weakref.ref(cursor)
        return cursor

    def _next_batch(self, cursor: _LoaderIterator) -> Any:
        if cursor is not self._cursor():
            raise RuntimeError("this iteration is over: a loader has one cursor, and another began or it was closed")
        if cursor.epoch is not None and not (cursor.epoch == self.epoch and self.remaining):
            self._steps.at(self._position)  # raises if the run has no position left
            # Positions that drop_last or a skip leaves out of the epoch are consumed.
            self._position = max(self._position, self._plan.epochs.first(cursor.epoch + 1))
            cursor.epoch = _ENDED
            raise StopIteration
        if self._report is not None:
            self._report.look(self._totals, lambda: self._setup(self._plan.shuffle.kind))
        begin = time.perf_counter()
        _ = self._rank  # completes the builder
        try:
            built = self._session.take(self._builder, partial(self._tasks, cursor.epoch))
        except StopIteration:
            self._steps.at(self._position)  # raises: the run has no position left
            raise
        batch = built.batch
        if self._conversions:
            arrived = time.perf_counter()
            for convert in self._conversions:
                batch = convert(batch)
            built.timings.add_transfer(time.perf_counter() - arrived)
        self._commit(built, begin)
        return batch

    def _tasks(self, epoch: int | None) -> Iterator[BatchTask]:
        """Return the tasks from the cursor on, to the end of this epoch unless it is `None`."""
        self._last_epoch = epoch
        return self._steps.rank_tasks(self._position, *self._rank, epoch)

    @cached_property
    def _rank(self) -> tuple[int, int]:
        rank, world_size = resolve(*self._asked_rank)
        plan = self._plan
        if not self._knows_groups and plan.shuffle.kind == "window":
            groups = world_size if decodes_neighbors(self._sources) else nodes_of(world_size)
            plan = replace(plan, shuffle=replace(plan.shuffle, groups=groups))
        self._follow(plan, rank, world_size)
        return rank, world_size

    @cached_property
    def _steps(self) -> Steps:
        return self._steps_of(StepSize(0, 0, self._batch_size, self._rank[1], self._drop_last))

    def _steps_of(self, size: StepSize) -> Steps:
        streams = self._plan.streams if self._plan.shuffle.groups > 1 else None
        return Steps(self._plan.epochs, size.batch_size * size.world_size, size.drop_last, self._skips, streams)

    def _begin_steps(self, earlier: StepSizes, position: int, step: int) -> None:
        """Count steps from a position on, with the sizes of earlier steps."""
        self._steps_begin = earlier, position, step
        self.__dict__.pop("_step_sizes", None)  # the next use makes them anew

    @cached_property
    def _step_sizes(self) -> StepSizes:
        earlier, position, step = self._steps_begin
        return earlier.then(StepSize(position, step, self._batch_size, self._rank[1], self._drop_last))

    def _step_at(self, position: int) -> int:
        size = self._step_sizes.at(position)
        return size.step + self._steps_of(size).between(size.position, position)

    def _follow(self, plan: Plan, rank: int, world_size: int) -> None:
        """Build batches in the order of this plan."""
        # While appended records come, each stream of windows is two.
        shuffle = replace(plan.shuffle, groups=plan.shuffle.groups * (2 if plan.grown else 1))
        cache = block_cache_for(self._sources, shuffle, world_size)
        kind, has_blocks = plan.shuffle.kind, any(plan.blocks)
        is_decoded_ahead = has_blocks if kind == "none" else kind == "window" and decodes_neighbors(self._sources)
        is_ahead = cache is not None or is_decoded_ahead
        next_use = None
        if cache is not None and not plan.grown:
            streams = streams_of_node(rank, world_size, plan.shuffle.groups)
            next_use = PlannedUse(self._sources, plan, streams, cache.block_bytes, repeats=not self._resume)
        ahead = ReadAhead(self._sources, plan, cache, next_use) if is_ahead else None
        self._plan, self._builder = plan, replace(self._builder, plan=plan, ahead=ahead)

    def _commit(self, built: BuiltBatch, begin: float) -> None:
        now = time.perf_counter()
        self._totals.add(built, now - begin, now - self._received)
        self._received = now
        self._position = built.after
        if built.failed and self._builder.on_corrupt == "quarantine":
            for position, error in built.failed:
                place = self._plan.locate([position])
                key = int(place.component[0]), int(place.record[0])
                self._quarantined[key] = quarantine_entry(self._sources, *key, error)
        self._session.is_stale = False

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run: a small dict of JSON values, the same on every rank.

        It counts the batches that the caller received, and not those that were built ahead.
        """
        return self._state().to_json()

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True, *, grown: Grown | None = None) -> None:
        """Continue from a state, at the next batch; works during an iteration too.

        World size, workers, batch size and the weights of a mixture may differ from the state. With `shuffle="auto"`
        the order may, too: the loader then continues in the order of the state.

        Args:
            state: The result of `state_dict`, before or after JSON.
            strict: False: take position, weights and skips even if the data, seed or shuffle differ.
            grown: The data may have grown: further records, in the same files or in new ones, follow the old ones.
                `"now"`: the rest of this epoch and the new records come in one shuffled order; `"next_epoch"`: this
                epoch ends with the old records. Each record comes once an epoch. The state keeps it. A component of a
                mixture counts its own epochs.

        Raises:
            StateMismatchError: It is damaged, or its data, seed or shuffle differ; says which, and what to do.
            ValueError: `grown` is wrong, or `strict` is False, too.
        """
        if grown is not None and not strict:
            raise ValueError("grown= compares the data with the state: pass it without strict=False")
        loaded = validate(
            state,
            self._state(),
            strict=strict,
            any_order=self._any_order,
            any_sizes=self._any_sizes,
            any_skip_list=self._new_skip,
            grow=lambda state: with_growth(state, self._data, self._fingerprint, grown),
        )
        skips = self._skip_list.add_to(loaded.skips, loaded.position)
        plan, epochs = replace(self._plan, shuffle=Shuffle.from_json(loaded.shuffle), grown=()), loaded.lengths
        if self._mixture is None:
            plan = replace(plan, grown=(*epochs, *epochs))
        else:
            try:
                plan = self._mixture.plan(plan.shuffle, plan.seed, loaded.weights, loaded.position, epochs)
            except ValueError as error:
                raise state_mismatch("weights", str(error), loaded.weights) from error
        if "_steps" in self.__dict__:
            replace(self._steps, epochs=plan.epochs, skips=skips)  # checks them
        # All that may raise is above: a state is loaded completely or not at all.
        self._skips, self._knows_groups = skips, self._knows_groups or strict
        self.__dict__.pop("_steps", None)  # the next use makes them anew
        if plan != self._plan:
            self._session.close()  # its workers have the old plan
            self._follow(plan, *self.__dict__.get("_rank", (0, 1)))
        if loaded.step_sizes or loaded.step:
            self._begin_steps(loaded.step_sizes, loaded.position, loaded.step)
        else:  # a sampler counts no steps: they have been of this size
            self._begin_steps(StepSizes(), 0, 0)
        self._loaded_step_records = loaded.step_records
        self._move(loaded.position)

    def _state(self) -> State:
        earlier, _, step = self._steps_begin
        is_known = "_rank" in self.__dict__
        return State(
            self._position,
            self._plan.seed,
            self._fingerprint,
            self._plan.shuffle.to_json(),
            self._plan.version,
            self._plan.history if self._mixture is not None else None,
            self._skips,
            self.step if is_known else step,
            self.epoch,
            self._step_sizes if is_known else earlier,
            self._step_records if self._is_counted else None,
            self._skip_list.digest,
            self._plan.all_epochs if self._mixture is not None else (self._plan.epochs,),
            n_stored_of(self._data),
        )

    @property
    def _at_beginning(self) -> bool:
        """True if no record of this epoch was consumed."""
        return self._plan.epochs.at(self._position)[1] == self._position

    @property
    def _step_records(self) -> int:
        return self._batch_size * self._rank[1]

    @cached_property
    def _fingerprint(self) -> str:
        return self._data.fingerprint

    @property
    def _data(self) -> Readable | Mixture:
        return self._sources[0] if self._mixture is None else self._mixture

    def _make_plan(self, shuffle: Shuffle, seed: int) -> Plan:
        if self._mixture is not None:
            return self._mixture.plan(shuffle, seed)
        n = len(self._sources[0])
        if not n:
            raise ValueError("the source is empty: expected at least one record to load")
        return Plan.of_one(n, shuffle, seed, blocks=Blocks.of(self._sources[0]))

    def stats(self) -> LoaderStats:
        """Return how the time was spent since the start, and a hint if the loader limits the speed."""
        return self._totals.stats(self._setup(self._plan.shuffle.kind))

    # ---- the end

    def _stop_ahead(self) -> None:
        if self._builder.ahead is not None:
            self._builder.ahead.close()

    def close(self) -> None:
        """End the workers and discard their batches; a new iteration starts them again."""
        self._cursor = _no_cursor
        self._session.close()
        self._stop_ahead()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(
            f"a Loader has no batch {index}, only an iteration, and needs no DataLoader. {_FOR_DATALOADERS}"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _OF_DATALOADERS:
            message = f"'Loader' object has no attribute {name!r}, because it is no DataLoader. {_FOR_DATALOADERS}"
            raise AttributeError(message, name=name, obj=self)
        raise no_attribute(self, name, LOADER)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Loader cannot be pickled because it has workers: pickle its source and its state_dict(). To build "
            "batches in other processes, pass worker_type='process' to the Loader"
        )

    def __repr__(self) -> str:
        _, first, stop = self._plan.epochs.at(self._position)
        return (
            f"Loader(position {self.position:,}, epoch {self.epoch} of {stop - first:,} records, "
            f"batch_size {self._batch_size}, shuffle {self._plan.shuffle.kind}, seed {self._plan.seed}, "
            "rank {} of {})".format(*self.__dict__.get("_rank", self._asked_rank))
        )


class _BatchSampler:
    """The part of a DataLoader's batch sampler that Lightning uses; its own sampler is itself."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    @property
    def sampler(self) -> _BatchSampler:
        return self

    def set_epoch(self, epoch: int) -> None:
        loader = self._loader
        if loader._loaded_step_records not in (None, loader._step_records) and not loader._at_beginning:
            raise StateMismatchError(
                "records per step", expected=loader._loaded_step_records, found=loader._step_records, remedy=_COUNTED
            )
        first, _ = loader._plan.epochs.lengths[-1]
        if first > loader.position:
            raise StateMismatchError(
                "length of epochs", expected="the same", found=f"another from {first}", remedy=_GROWN
            )
        loader._is_counted, loader._loaded_step_records = True, None
        if loader._resume and loader.position == 0:
            loader.set_epoch(epoch)


class _LoaderIterator:
    """An iteration over a loader.

    Attributes:
        epoch: The epoch that it ends with; `None` if it is endless.
    """

    def __init__(self, loader: Loader, epoch: int | None) -> None:
        self._loader = loader
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._loader._next_batch(self)


def _no_cursor() -> None:
    return None
