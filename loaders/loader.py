"""Loader: wires plan, steps, feed and state together, and holds the cursor."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dataformats.errors import WorkerError
from dataformats.fork_hooks import after_fork
from dataformats.loaders.adapters import as_readable
from dataformats.loaders.batch_builder import BatchBuilder, DamagePolicy, UserFunctions
from dataformats.loaders.jax_support import register_with_jax
from dataformats.loaders.mixture import Mixture
from dataformats.loaders.output import AheadOfTime, output_format
from dataformats.loaders.plan import Place, Plan, Shuffle
from dataformats.loaders.prefetch import BuiltBatch, Prefetcher
from dataformats.loaders.prefetch_options import PrefetchOptions, StartMethod, checked_int
from dataformats.loaders.quarantine import Quarantined, holes_in
from dataformats.loaders.ranks import resolve
from dataformats.loaders.records import Records
from dataformats.loaders.rng import Randomness
from dataformats.loaders.skips import MAX_POSITION, Skips
from dataformats.loaders.state import State, validate
from dataformats.loaders.stats import LoaderStats, Totals
from dataformats.loaders.steps import Step, Steps

__all__ = ["Loader"]

_ENDED = -2  # the epoch of an iteration that is over: its end lies at no position


class Loader:
    """Batches of a source, epoch after epoch, in an order and from a position that can be continued exactly.

    Which records a batch holds is a pure function of the data, the seed and the position; workers, ranks and batch
    size do not change the sequence. One loader has one cursor: a new iteration takes over, the old one raises.

    It is iterable itself, and needs no `DataLoader` around it. Each batch is a `dataformats.Batch`: a dict of columns
    that knows its positions. Records that are no dicts have one column, `"value"`.

    Args:
        source: A `RecordSource`, a `Mixture`, or any sequence with `len` and `[]`.
        batch_size: Records a rank and step, at least 1.
        shuffle: True: all records of an epoch, in an order of their own for each epoch. `"window"`: blocks of
            `block_records` neighbours in any order, and records within `window_blocks` such blocks, so that reads
            stay near each other. False: in order.
        seed: Whole number in `[0, 2**63)`; another one, another order.
        rank: The number of this process among `world_size`, or `"auto"`: from `torch.distributed` or JAX where
            they are initialised, else from the launcher's environment.
        world_size: How many processes train on the same data.
        drop_last: Leave out the end of an epoch that is no full step.
        pad_last: Fill the batches of such an end up to `batch_size` by repeating rows, marked in `batch.padding`.
        workers: How many make batches; 0: the caller's own thread does.
        worker_type: `"thread"`, or `"process"` for functions in Python that would wait for each other.
        prefetch: Batches a worker is ahead, at least 1.
        transform: `transform(record)` or `transform(record, rng)`; `rng` is a `numpy.random.Generator` whose
            numbers depend on seed and position alone.
        batch_transform: `batch_transform(batch)` or `batch_transform(batch, rng)`, with the first position's.
        collate: Makes the columns of a batch of a list of records; see `dataformats.pad`.
        on_corrupt: `"raise"` the error of a damaged record, `"skip"` it, or also note it in `loader.quarantined`.
        quarantine: What an earlier run found, `(path, index, reason)` each; left out without being read.
        to: `"numpy"` or `"torch"`.
        device: With `to="torch"`: where tensors shall be; copies run beside the computation.
        block_records: See `shuffle`.
        window_blocks: See `shuffle`.
        prefetch_bytes: No batch is begun while as many bytes wait for the caller.
        start_method: Of worker processes: `"spawn"`, `"forkserver"` or `"fork"`; `None` takes what is safe.
        hang_timeout_s: A worker that makes no progress for so many seconds is given up with a `WorkerError`;
            `None`: never.

    Raises:
        ValueError: An argument is outside its range, the source is empty, or no full step fits an epoch.
        TypeError: `source` is no sequence.

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

    def __init__(
        self,
        source: Any,
        batch_size: int,
        *,
        shuffle: bool | Literal["window"] = True,
        seed: int = 0,
        rank: int | Literal["auto"] = 0,
        world_size: int = 1,
        drop_last: bool = False,
        pad_last: bool = False,
        workers: int = 2,
        worker_type: Literal["thread", "process"] = "thread",
        prefetch: int = 2,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[..., Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        on_corrupt: DamagePolicy = "raise",
        quarantine: Iterable[Iterable[Any]] = (),
        to: Literal["numpy", "torch"] = "numpy",
        device: Any = None,
        block_records: int = 1024,
        window_blocks: int = 16,
        prefetch_bytes: int = 2**30,
        start_method: StartMethod | None = None,
        hang_timeout_s: float | None = 60.0,
    ) -> None:
        batch_size = checked_int("batch_size", batch_size, 1)
        seed = checked_int("seed", seed, 0)
        self._rank, self._world_size = resolve(rank, world_size)
        self._mixture = source if isinstance(source, Mixture) else None
        self._records = Records(tuple(map(as_readable, (source,) if self._mixture is None else self._mixture.sources)))
        self._plan = self._planned(Shuffle.of(shuffle, block_records, window_blocks), seed)
        self._steps = Steps(self._plan.n, batch_size * self._world_size, drop_last, Skips())
        self._batch_size = batch_size
        self._maker = BatchBuilder(
            self._records,
            self._plan,
            UserFunctions(transform, collate, batch_transform),
            Randomness(seed),
            on_corrupt,
            batch_size if pad_last else 0,
            holes_in(quarantine, self._records),
        )
        self._workers = PrefetchOptions(worker_type, workers, prefetch, prefetch_bytes, start_method, hang_timeout_s)
        self._form = output_format(to, device)
        register_with_jax()
        self._position = 0
        self._quarantined: dict[tuple[int, int], Quarantined] = {}
        self._totals = Totals(worker_type, workers)
        self._received = time.perf_counter()
        self._cursor: Callable[[], _Cursor | None] = _no_cursor  # weak: a loader that is dropped ends at once
        self._feed: Prefetcher | None = None
        self._is_stale = True  # the feed makes other batches than those that come next
        after_fork(self, "_forget_feed")

    # ---- where it stands

    @property
    def position(self) -> int:
        """How many records were consumed over all ranks since training began, holes included."""
        return self._position

    @property
    def epoch(self) -> int:
        """The epoch that the next batch lies in; 0 is the first."""
        return self._position // self._plan.n

    @property
    def seed(self) -> int:
        """The seed of the order, and of the generators that transforms get."""
        return self._plan.seed

    @property
    def batch_size(self) -> int:
        """Records a rank and step."""
        return self._batch_size

    @property
    def quarantined(self) -> list[Quarantined]:
        """What `on_corrupt="quarantine"` found so far on this rank; pass it to the next start as `quarantine=`."""
        return list(self._quarantined.values())

    def __len__(self) -> int:
        """Return how many batches this whole epoch has, on every rank alike, wherever the cursor stands."""
        return self._steps.count(self.epoch * self._plan.n)

    @property
    def remaining(self) -> int:
        """How many batches are left of this epoch."""
        return self._steps.count(self._position)

    def locate(self, positions: ArrayLike) -> Place:
        """Return which records some positions are, past ones and future ones alike.

        Args:
            positions: One, or int[n].

        Returns:
            `Place(component, epoch, record)`, int64[n] each: which source of a mixture (0 without one), which walk
            through it, and the number of the record in it.
        """
        return self._plan.locate(np.atleast_1d(positions))

    # ---- iterating

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the rest of this epoch: all of it, unless the cursor stands inside."""
        return self._begun(self.epoch)

    def forever(self) -> Iterator[Any]:
        """Return an iterator over this epoch and all that follow."""
        return self._begun(None)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; inside that epoch already, stay: what was resumed goes on.

        Raises:
            ValueError: `epoch` is negative or huge.
        """
        position = checked_int("epoch", epoch, 0) * self._plan.n
        if position >= MAX_POSITION:
            raise ValueError(f"epoch must lie below {MAX_POSITION // self._plan.n}, found {epoch}")
        if epoch != self.epoch:
            self._move(position)

    def advance(self, batches: int) -> None:
        """Pass over so many batches of this epoch without reading them, at most to its end."""
        stop = (self.epoch + 1) * self._plan.n
        position = self._position
        for _ in range(checked_int("batches", batches, 0)):
            position = min(self._steps.at(position).after, stop)
            if position == stop:
                break
        self._move(position)

    def _move(self, position: int) -> None:
        """Go on at another position; an iteration ends with the epoch that it is in."""
        self._position = position
        self._is_stale = True
        cursor = self._cursor()
        if cursor is not None and cursor.epoch not in (None, _ENDED):
            cursor.epoch = self.epoch

    def _begun(self, epoch: int | None) -> _Cursor:
        cursor = _Cursor(self, epoch)
        self._cursor = weakref.ref(cursor)
        return cursor

    def _deliver(self, cursor: _Cursor) -> Any:
        if cursor is not self._cursor():
            raise RuntimeError("a loader has one cursor: another iteration of it has begun, or it was closed")
        step = self._steps.at(self._position)
        if cursor.epoch is not None and cursor.epoch != step.epoch:
            # What drop_last or a skip leaves out of the epoch is passed.
            self._position = max(self._position, (cursor.epoch + 1) * self._plan.n)
            cursor.epoch = _ENDED
            raise StopIteration
        begin = time.perf_counter()
        feed = self._started()
        # Whatever interrupts this, an error or Ctrl-C: a batch that was taken and not delivered is made again.
        self._is_stale = True
        try:
            made = feed.take()
        except WorkerError:
            self._drop_feed()  # with the worker that hangs
            raise
        begun = made.batch if self._workers.kind == "thread" else self._form.begin(made.batch)
        batch = self._form.end(begun)
        self._commit(made, step, begin)
        self._is_stale = False
        return batch

    def _started(self) -> Prefetcher:
        """Return the feed, which makes the batches from the cursor's position on."""
        if self._feed is None:
            ahead = self._workers.kind == "thread"
            self._feed = self._workers.prefetcher(AheadOfTime(self._maker, self._form) if ahead else self._maker)
            self._finalizer = weakref.finalize(self, self._feed.close)
        if self._is_stale:
            # These know no loader, which would live as long as its workers.
            self._feed.start(self._steps.rank_tasks(self._position, self._rank, self._world_size))
        return self._feed

    def _commit(self, made: BuiltBatch, step: Step, begin: float) -> None:
        now = time.perf_counter()
        self._totals.add(made, now - begin, now - self._received)
        self._received = now
        self._position = step.after
        if made.failed and self._maker.on_corrupt == "quarantine":
            for position, error in made.failed:
                self._note(position, error)

    def _note(self, position: int, error: Exception) -> None:
        place = self._plan.locate([position])
        component, record = int(place.component[0]), int(place.record[0])
        origin = self._records.components[component].origin(record)
        path = "" if origin is None else origin[0]
        self._quarantined[component, record] = Quarantined(path, record, str(error), component)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return where the run stands: a small dict for JSON, the same on every rank.

        It counts the batches that the caller received, and none that were made ahead.
        """
        return self._state().to_json()

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Go on from a state, at the next batch; also while iterating.

        World size, workers, batch size and the weights of a mixture may be others than when it was taken.

        Args:
            state: What `state_dict` returned, before or after JSON.
            strict: False: take position, weights and skips of a state of other data, seed or shuffle.

        Raises:
            StateMismatchError: It is of other data, another seed or shuffle, or damaged; what differs, and what to do.
        """
        loaded = validate(state, self._state(), strict=strict)
        plan = self._plan
        if self._mixture is not None:
            plan = self._mixture.plan(plan.shuffle, plan.seed, loaded.weights, loaded.position)
        # What may be refused comes first: a state is loaded whole or not at all.
        self._steps = replace(self._steps, n=plan.n, skips=loaded.skips)
        if plan != self._plan:
            self._drop_feed()  # which holds the plan that was
            self._plan, self._maker = plan, replace(self._maker, plan=plan)
        self._move(loaded.position)

    def skip(self, first: int, last: int) -> None:
        """Leave out the positions `[first, last)`, on every rank alike; the others keep their records.

        Call it on every rank with the same numbers. It is part of the state.
        """
        self._steps = replace(self._steps, skips=self._steps.skips.add(first, last))
        self._is_stale = True

    def _state(self) -> State:
        return State(
            self._position,
            self._plan.seed,
            self._fingerprint,
            self._plan.shuffle.to_json(),
            self._plan.version,
            self._plan.history if self._mixture is not None else None,
            self._steps.skips,
        )

    @cached_property
    def _fingerprint(self) -> str:
        return (self._records.components[0] if self._mixture is None else self._mixture).fingerprint

    def _planned(self, shuffle: Shuffle, seed: int) -> Plan:
        if self._mixture is not None:
            return self._mixture.plan(shuffle, seed)
        n = len(self._records.components[0])
        if not n:
            raise ValueError("the source is empty: there is no record to load")
        return Plan.of_one(n, shuffle, seed)

    def stats(self) -> LoaderStats:
        """Return what the time went into, and a hint where the loader limits."""
        return self._totals.stats()

    # ---- the end

    def close(self) -> None:
        """End workers and let go of what they made; iterating again starts them anew."""
        self._cursor = _no_cursor
        self._drop_feed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Loader holds workers and does not pickle: pickle its source and its state_dict()")

    def __repr__(self) -> str:
        return (
            f"Loader(position {self.position:,}, epoch {self.epoch} of {self._plan.n:,} records, "
            f"batch_size {self._batch_size}, shuffle {self._plan.shuffle.kind}, seed {self._plan.seed}, "
            f"rank {self._rank} of {self._world_size})"
        )

    def _drop_feed(self) -> None:
        if self._feed is not None:
            self._finalizer()
        self._feed, self._is_stale = None, True

    def _forget_feed(self) -> None:
        """In a forked child: threads and processes are the parent's."""
        if self._feed is not None:
            self._finalizer.detach()
        self._feed, self._is_stale = None, True


class _Cursor:
    """An iteration of a loader.

    Attributes:
        epoch: The epoch that it ends with; `None`: it does not end.
    """

    def __init__(self, loader: Loader, epoch: int | None) -> None:
        self._loader = loader
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._loader._deliver(self)


def _no_cursor() -> None:
    return None
