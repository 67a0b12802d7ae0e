"""The order of a `Loader` as a sampler for PyTorch's `DataLoader`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch.utils.data

from dataformats.errors import StateMismatchError
from dataformats.integer_arguments import checked_int
from dataformats.loaders.adapters import as_readable
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.epochs import Grown
from dataformats.loaders.growth import n_stored_of, with_growth
from dataformats.loaders.plan import Plan
from dataformats.loaders.record_read import shuffle_for
from dataformats.loaders.shuffle import Shuffle
from dataformats.loaders.skips import Skips
from dataformats.loaders.state import State, validate

_AT_ONCE = 4096  # positions that are located together


class PlanSampler(torch.utils.data.Sampler[int]):
    """The records of a source in the order of a `Loader`, for a `DataLoader` over a `RecordDataset`.

    For programs that need a `DataLoader`, such as the `Trainer` of transformers, or Accelerate. Each iteration is one
    epoch, or the rest of one after `load_state_dict`; the next iteration is the next epoch. There are no ranks: such
    programs divide the batches themselves.

    Args:
        source: See `Loader`; not a mixture.
        shuffle: See `Loader`.
        seed: See `Loader`: the order is the same.
        block_records: See `Loader`.
        window_blocks: See `Loader`.

    Raises:
        ValueError: The source is empty, or an argument is outside its range.

    Example:
        >>> import dataformats
        >>> from dataformats.loaders.pytorch import PlanSampler, RecordDataset, collate
        >>> from torch.utils.data import DataLoader
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord", spec={"label": "int64"})
        >>> sampler = PlanSampler(digits, seed=1)
        >>> loader = DataLoader(RecordDataset(digits), batch_size=64, sampler=sampler, collate_fn=collate)
        >>> first = dataformats.Loader(digits, 64, seed=1)
        >>> next(iter(loader))["label"].tolist() == next(iter(first))["label"].tolist()
        True
        >>> sampler.state_after(64)["position"] == first.state_dict()["position"]
        True
    """

    def __init__(
        self,
        source: Any,
        *,
        shuffle: bool | Literal["window", "auto"] = "auto",
        seed: int = 0,
        block_records: int | None = None,
        window_blocks: int | None = None,
    ) -> None:
        self._source = as_readable(source)
        self._any_order = shuffle == "auto"  # a state decides
        sizes = {"block_records": block_records, "window_blocks": window_blocks}
        self._any_sizes = {"groups", *(name for name, size in sizes.items() if size is None)}
        order = shuffle_for(shuffle, [self._source], **sizes, groups=None)
        self._plan = Plan.of_one(len(self._source), order, checked_int("seed", seed, 0), blocks=Blocks.of(self._source))
        self._begin = 0  # where the next iteration begins
        self._running: _Indices | None = None  # the latest iteration that gave an index

    def __len__(self) -> int:
        """Return the number of records of the whole epoch that the next iteration is in."""
        _, first, stop = self._plan.epochs.at(self._begin)
        return stop - first

    def __iter__(self) -> Iterator[int]:
        return _Indices(self)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch, or the rest of it if a state in it was loaded."""
        epochs = self._plan.epochs
        if epoch != epochs.at(self._begin)[0]:
            self._begin = epochs.first(checked_int("epoch", epoch, 0))
        # Lightning names the epoch after the workers of a DataLoader have taken their first indices of it.
        if self._running is not None and epochs.at(self._running.first)[0] != epoch:
            self._running = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last index that the latest iteration gave; it is a state of `Loader`.

        A `DataLoader` with workers takes indices ahead of the batches that your loop has: use `state_after`, or
        torchdata's `StatefulDataLoader`.
        """
        return self._state(self._begin if self._running is None else self._running.position).to_json()

    def state_after(self, records: int) -> dict[str, Any]:
        """Return the state after this many records of the latest iteration were used, over all ranks."""
        begin = self._begin if self._running is None else self._running.first
        return self._state(begin + checked_int("records", records, 0)).to_json()

    def load_state_dict(self, state: Mapping[str, Any], *, grown: Grown | None = None) -> None:
        """Make the next iteration continue from a state of a sampler or a `Loader`.

        Args:
            state: The state.
            grown: See `Loader.load_state_dict`.

        Raises:
            StateMismatchError: It is damaged, its data, seed or shuffle differ, or it leaves out positions or records.
        """
        loaded = validate(
            state,
            self._state(0),
            any_order=self._any_order,
            any_sizes=self._any_sizes,
            any_skip_list=True,
            grow=lambda state: with_growth(state, self._source, self._source.fingerprint, grown),
        )
        remedy = "A sampler leaves out no positions and no records: continue with a Loader"
        if loaded.skips.ranges:
            raise StateMismatchError("number of skips", expected=0, found=len(loaded.skips.ranges), remedy=remedy)
        if loaded.skip_list:
            raise StateMismatchError("skip list", expected="none", found=loaded.skip_list, remedy=remedy)
        epochs = (*loaded.lengths, *loaded.lengths)
        self._plan = replace(self._plan, shuffle=Shuffle.from_json(loaded.shuffle), grown=epochs)
        self._begin, self._running = loaded.position, None

    def _run(self, indices: _Indices) -> None:
        # Not in __iter__: a DataLoader with workers begins two iterations, and uses the second one.
        self._running, self._begin = indices, indices.stop

    def _state(self, position: int) -> State:
        plan = self._plan
        fingerprint = self._source.fingerprint
        state = State(position, plan.seed, fingerprint, plan.shuffle.to_json(), plan.version, None, Skips())
        return replace(state, lengths=(plan.epochs,), n_stored=n_stored_of(self._source))


class _Indices(Iterator[int]):
    """The records of the rest of an epoch, from position `first` on, where the sampler stands at the first index.

    Not where it stands when the iteration is made: Lightning names the epoch after that.
    """

    def __init__(self, sampler: PlanSampler) -> None:
        self._sampler = sampler
        self.first = self.position = self.stop = -1
        self._located: list[int] = []  # indices in reverse

    def __next__(self) -> int:
        sampler = self._sampler
        if self.stop < 0:
            self.first = self.position = sampler._begin
            self.stop = sampler._plan.epochs.at(self.first)[2]
            sampler._run(self)
        if self.position >= self.stop:
            raise StopIteration
        if not self._located:
            positions = range(self.position, min(self.position + _AT_ONCE, self.stop))
            self._located = sampler._plan.locate(positions).record[::-1].tolist()
        self.position += 1
        return self._located.pop()
