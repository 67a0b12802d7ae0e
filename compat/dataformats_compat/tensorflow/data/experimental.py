"""`tf.data.experimental`: old names of functions in `tf.data`."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

from dataformats_compat.tensorflow.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from dataformats_compat.tensorflow.data.dataset import Dataset
from dataformats_compat.tensorflow.missing import missing_from

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "AutoShardPolicy", "bucket_by_sequence_length",
    "cardinality", "group_by_window", "map_and_batch", "parallel_interleave", "sample_from_datasets",
    "shuffle_and_repeat", "unbatch",
]  # fmt: skip

__getattr__: Any = missing_from(__name__)


class AutoShardPolicy(enum.IntEnum):
    """How a distributed program divides a dataset: accepted in options, without effect. Use `Dataset.shard`."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


def _applied(method: str) -> Callable[..., Callable[[Dataset], Dataset]]:
    def applied(*args: Any, **named: Any) -> Callable[[Dataset], Dataset]:
        return operator.methodcaller(method, *args, **named)

    applied.__doc__ = f"Return a function for `Dataset.apply`: `Dataset.{method}`."
    return applied


bucket_by_sequence_length: Any = _applied("bucket_by_sequence_length")
group_by_window: Any = _applied("group_by_window")
unbatch: Any = _applied("unbatch")
sample_from_datasets: Any = Dataset.sample_from_datasets


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


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply`: `Dataset.shuffle`, then `Dataset.repeat`."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)
