"""The keyed permutation: the order of a shuffled dataset, in O(1) memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.kernels.dispatch import kernels

_INT64 = np.dtype(np.int64)


def permute(indices: ArrayLike, domain: int, key: tuple[int, int]) -> NDArray[np.int64]:
    """Map each index by the permutation of `[0, domain)` that `key` selects, `(n,) int64`.

    It is a bijection for every key and domain. The result depends only on key, domain and index: not on machine, byte
    order or version. It passes the statistics in the tests, but it is not a cipher.

    Args:
        indices: Integers in `[0, domain)`, `(n,)`.
        domain: The number of indices, in `[1, 2**63)`.
        key: Two integers in `[0, 2**64)`; all of their bits count.

    Raises:
        ValueError: An index, the domain or the key is outside its range.
        TypeError: `indices` are not integers.
    """
    indices = _int64(indices)
    out = np.empty(len(indices), np.int64)
    kernels().permute(indices, domain, key, out)
    return out


def permute_back(indices: ArrayLike, domain: int, key: tuple[int, int]) -> NDArray[np.int64]:
    """Map each index by the inverse of `permute`, which has the same arguments and errors."""
    indices = _int64(indices)
    out = np.empty(len(indices), np.int64)
    kernels().permute_back(indices, domain, key, out)
    return out


def _int64(numbers: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(numbers)
    if array.dtype is _INT64 and array.flags.c_contiguous and array.flags.aligned:
        return array  # the common case, faster than `require`
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, found {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        raise ValueError(f"indices must be below 2**63, found {array.max()}")
    return np.require(array, dtype=np.int64, requirements=["C", "A"])
