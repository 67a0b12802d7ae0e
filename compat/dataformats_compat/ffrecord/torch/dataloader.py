"""torch's DataLoader with `set_step`, which skips the batches that a run has used before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch.utils.data

__all__ = ["DataLoader", "SkipableSampler"]


class DataLoader(torch.utils.data.DataLoader[Any]):
    """torch's DataLoader, with the same orders and random numbers; worker processes are forked.

    A `dataset` of `ffrecord.torch` is read a batch at a time, any other as torch reads it.

    Args:
        dataset: The dataset; the other arguments go to torch's `DataLoader`.
        batch_size: Samples of a batch.
        shuffle: Shuffle every epoch.
        sampler: Gives indices.
        batch_sampler: Gives lists of indices.
        num_workers: Number of processes.
        collate_fn: Makes a batch from a list of samples.
        pin_memory: Copy tensors into page-locked memory.
        drop_last: Drop a last batch that is not full.
        timeout: Seconds to wait for a worker; 0 waits forever.
        worker_init_fn: Called in each worker with its number.
        generator: The random numbers of `shuffle`.
        prefetch_factor: Batches that each worker prepares ahead; without workers it has no effect.
        persistent_workers: Keep the workers after an epoch.
        skippable: False leaves out `set_step`, and keeps torch's batch sampler, which Lightning needs.

    Raises:
        AssertionError: `skippable` without batches (`batch_size=None`).

    Example:
        >>> import dataformats_compat.ffrecord.torch
        >>> loader = dataformats_compat.ffrecord.torch.DataLoader(range(10), batch_size=4)
        >>> loader.set_step(1)
        >>> [batch.tolist() for batch in loader]
        [[4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = 2,
        persistent_workers: bool = False,
        skippable: bool = True,
    ) -> None:
        self.skippable = skippable
        super().__init__(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context="fork" if num_workers else None,
            generator=generator,
            prefetch_factor=prefetch_factor if num_workers else None,
            persistent_workers=persistent_workers,
        )
        if skippable:
            if self.batch_sampler is None:
                raise AssertionError("set_step() counts batches: pass a batch_size, or skippable=False")
            # Torch refuses another batch sampler after its own constructor.
            object.__setattr__(self, "batch_sampler", SkipableSampler(self.batch_sampler))

    def set_step(self, step: int) -> None:
        """Skip the first `step` batches of every following iteration; `set_step(0)` ends this.

        Raises:
            AssertionError: There are not more than `step` batches, or the loader is not `skippable`.
        """
        sampler = self.batch_sampler
        if not isinstance(sampler, SkipableSampler):
            raise AssertionError("this loader was made with skippable=False")
        n = len(sampler.sampler)
        if not 0 <= step < n:
            raise AssertionError(f"expected a step in [0, {n}), found {step}")
        sampler.set_step(step)


class SkipableSampler(torch.utils.data.Sampler[Any]):
    """A sampler without its first elements, which it draws all the same.

    Args:
        sampler: Any sampler.

    Attributes:
        sampler: The sampler that draws the elements.
        step: Number of elements to skip.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.step: int = 0

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.sampler), self.step, None)

    def __len__(self) -> int:
        return len(self.sampler) - self.step

    def set_step(self, step: int) -> None:
        """Skip the first `step` elements."""
        self.step = step
