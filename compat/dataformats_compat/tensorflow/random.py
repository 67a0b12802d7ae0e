"""`tf.random`: random numbers of numpy's generator. They are not TensorFlow's."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import numpy_dtype
from dataformats_compat.tensorflow.tensor import as_tensor, tensor_of

__all__ = ["normal", "set_seed", "shuffle", "truncated_normal", "uniform"]


class _State:
    """The generator of operations without a seed, and the seed of `set_seed`."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.generator = np.random.default_rng()
        self.n_operations = 0


_STATE = _State()


def set_seed(seed: int) -> None:
    """Seed the random operations that follow, and the datasets shuffled after this call.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.random.set_seed(1)
        >>> first = tf.random.uniform([3])
        >>> tf.random.set_seed(1)
        >>> bool((first == tf.random.uniform([3])).all())
        True
    """
    _STATE.seed = int(seed)
    _STATE.generator = np.random.default_rng(int(seed))
    _STATE.n_operations = 0


def generator() -> np.random.Generator:
    """Return the generator of random operations."""
    return _STATE.generator


def seed_of(seed: int | None) -> str:
    """Return the seed of a new shuffle, from its seed and `set_seed`; random if both are missing."""
    if seed is None and _STATE.seed is None:
        return secrets.token_hex(16)
    _STATE.n_operations += 1
    return f"{_STATE.seed}/{seed if seed is not None else f'operation {_STATE.n_operations}'}"


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: Any = None
) -> Any:
    """Return uniform random numbers from `minval` up to, not including, `maxval`.

    Raises:
        ValueError: The dtype is an integer, and `maxval` is `None`.
    """
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        if maxval is None:
            raise ValueError("expected maxval for integers, found None")
        numbers = generator().integers(minval, maxval, tuple(shape), kind)
    else:
        scale = (1 if maxval is None else maxval) - minval
        numbers = (generator().random(tuple(shape), np.float64) * scale + minval).astype(kind)
    return tensor_of(np.asarray(numbers))


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: Any = None
) -> Any:
    """Return normally distributed random numbers."""
    return tensor_of(np.asarray(generator().normal(mean, stddev, tuple(shape))).astype(numpy_dtype(dtype)))


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: Any = None
) -> Any:
    """Return normally distributed random numbers, at most two standard deviations from the mean."""
    numbers = np.asarray(normal(shape, dtype="float64"))
    while (outside := np.abs(numbers) > 2).any():
        numbers = np.where(outside, generator().normal(size=numbers.shape), numbers)
    return tensor_of((numbers * stddev + mean).astype(numpy_dtype(dtype)))


def shuffle(value: Any, seed: Any = None, name: Any = None) -> Any:
    """Return the rows of an array in random order."""
    return as_tensor(generator().permutation(np.asarray(value), axis=0))
