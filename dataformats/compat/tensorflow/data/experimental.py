"""`tf.data.experimental`: old names of functions in `tf.data`."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from dataformats.compat.tensorflow.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from dataformats.compat.tensorflow.data.dataset import Dataset
from dataformats.compat.tensorflow.missing import missing

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "AutoShardPolicy", "bucket_by_sequence_length",
    "cardinality", "group_by_window", "map_and_batch", "parallel_interleave", "sample_from_datasets",
    "shuffle_and_repeat", "unbatch",
]  # fmt: skip


class AutoShardPolicy(enum.IntEnum):
    """How a distributed program divides a dataset: accepted in options, without effect. Use `Dataset.shard`."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


def cardinality(dataset: Dataset) -> Any:
    """Return the number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`."""
    return dataset.cardinality()


def parallel_interleave(
    map_func: Callable[..., Dataset], cycle_length: int, block_length: int = 1, **ignored: Any
) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.interleave`."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.map`, then `Dataset.batch`."""
    calls = AUTOTUNE if num_parallel_calls is None else num_parallel_calls
    return lambda dataset: dataset.map(map_func, calls).batch(batch_size, drop_remainder)


def bucket_by_sequence_length(*args: Any, **named: Any) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.bucket_by_sequence_length`."""
    return lambda dataset: dataset.bucket_by_sequence_length(*args, **named)


def group_by_window(*args: Any, **named: Any) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.group_by_window`."""
    return lambda dataset: dataset.group_by_window(*args, **named)


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.shuffle`, then `Dataset.repeat`."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def unbatch() -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.unbatch`."""
    return lambda dataset: dataset.unbatch()


def sample_from_datasets(datasets: Any, weights: Any = None, seed: int | None = None) -> Dataset:
    """Return `Dataset.sample_from_datasets`."""
    return Dataset.sample_from_datasets(datasets, weights, seed)


def __getattr__(name: str) -> Any:
    raise missing(f"data.experimental.{name}")
