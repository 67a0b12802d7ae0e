"""The keyed permutation in plain numpy: eight rounds of a keyed mix on the bits of an index, with cycle walking.

Definition and reasons: `permute/permutation.h`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDS = 8
MIN_BITS = 6
_BLOCK = 1 << 16  # bounds the temporary arrays
_WORD = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15

Words = NDArray[np.uint64]


def permute(indices: NDArray[np.int64], domain: int, key: tuple[int, int], out: NDArray[np.int64], /) -> None:
    """Write the image of each index: the contract is `dataformats.kernels.permute`."""
    _walk(_Plan.make(*_checked(domain, key)).forth, indices, domain, out)


def permute_back(indices: NDArray[np.int64], domain: int, key: tuple[int, int], out: NDArray[np.int64], /) -> None:
    """Write the preimage of each index: the contract is `dataformats.kernels.permute_back`."""
    _walk(_Plan.make(*_checked(domain, key)).back, indices, domain, out)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The rounds of one key and domain. All arithmetic is modulo `2**bits`, in uint64."""

    bits: int
    rounds: list[tuple[int, int, int]]  # odd multiplier, addend, odd multiplier

    @classmethod
    def make(cls, domain: int, key: tuple[int, int]) -> _Plan:
        first = _mixed(key[0] ^ _mixed((domain + _GAMMA) & _WORD))
        second = _mixed((key[1] + _GAMMA) & _WORD)
        constants = [
            _mixed((_mixed((first + number * _GAMMA) & _WORD) + second) & _WORD) for number in range(3 * ROUNDS)
        ]
        rounds = [(constants[n] | 1, constants[n + 1], constants[n + 2] | 1) for n in range(0, 3 * ROUNDS, 3)]
        return cls(max(MIN_BITS, (domain - 1).bit_length()), rounds)

    def forth(self, words: Words) -> Words:
        for multiplier, addend, second in self.rounds:
            words = self._fold(self._affine(words, multiplier, addend), self.bits // 3 + 1)
            words = self._fold(self._affine(words, second, 0), self.bits // 2 + 1)
        return words

    def back(self, words: Words) -> Words:
        # A shift by more than half the bits is its own inverse, one by more than a third takes two steps.
        for multiplier, addend, second in reversed(self.rounds):
            words = self._fold(words, self.bits // 2 + 1)
            words = self._affine(words, pow(second, -1, 2**64), 0)
            words = self._fold(self._fold(words, self.bits // 3 + 1), 2 * (self.bits // 3 + 1))
            inverse = pow(multiplier, -1, 2**64)
            words = self._affine(words, inverse, -addend * inverse & _WORD)
        return words

    def _affine(self, words: Words, multiplier: int, addend: int) -> Words:
        moved: Words = (words * np.uint64(multiplier) + np.uint64(addend)) & np.uint64(2**self.bits - 1)
        return moved

    def _fold(self, words: Words, shift: int) -> Words:
        folded: Words = words ^ (words >> np.uint64(shift))
        return folded


def _walk(one_pass: Callable[[Words], Words], indices: NDArray[np.int64], domain: int, out: NDArray[np.int64]) -> None:
    _check_arrays(indices, out)
    outside = np.flatnonzero((indices < 0) | (indices >= domain))
    if outside.size:
        i = int(outside[0])
        raise ValueError(f"index {i} ({indices[i]}) is outside [0, {domain})")
    for first in range(0, len(indices), _BLOCK):
        words = one_pass(indices[first : first + _BLOCK].astype(np.uint64))
        while (again := np.flatnonzero(words >= np.uint64(domain))).size:
            words[again] = one_pass(words[again])
        out[first : first + _BLOCK] = words


def _mixed(word: int) -> int:
    """The finalizer of SplitMix64."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


def _checked(domain: int, key: object) -> tuple[int, tuple[int, int]]:
    domain = operator.index(domain)
    if not 1 <= domain < 2**63:
        raise ValueError(f"domain must be in [1, 2**63), found {domain}")
    if not isinstance(key, tuple) or len(key) != 2:
        raise TypeError(f"key must be a tuple of two integers, found {key!r}")
    words = operator.index(key[0]), operator.index(key[1])
    for word in words:
        if not 0 <= word <= _WORD:
            raise ValueError(f"a key is two integers in [0, 2**64), found {word}")
    return domain, words


def _check_arrays(indices: NDArray[Any], out: NDArray[Any]) -> None:
    if indices.ndim != 1 or indices.dtype != np.int64 or not (indices.flags.c_contiguous and indices.flags.aligned):
        raise TypeError("indices must be a contiguous int64 array of one dimension")
    if out.ndim != 1 or out.dtype != np.int64 or not out.flags.carray:
        raise TypeError("out must be a writable contiguous int64 array of one dimension")
    if len(indices) != len(out):
        raise ValueError(f"indices and out must be equally long, found {len(indices)} and {len(out)}")
