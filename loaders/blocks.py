"""Blocks: the blocks that a source decodes at once, and the line of them that a window order makes of an epoch."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dataformats.interfaces.record_source import RecordSource
from dataformats.kernels import permute

_Numbers = NDArray[np.int64]


class Blocks:
    """Blocks of consecutive records, such as row groups. Equal if the blocks are; pickles.

    Args:
        starts: int64[n_blocks], the first record of each, ascending from 0.
        n: All records.
    """

    def __init__(self, starts: _Numbers, n: int) -> None:
        self.starts: _Numbers = np.ascontiguousarray(starts, np.int64)
        self.n: int = n
        self._digest = hashlib.blake2b(self.starts.tobytes() + b"%d" % n, digest_size=16).digest()

    @classmethod
    def of(cls, source: Any) -> Self | None:
        """Return the blocks of a source; `None` if it decodes each record alone."""
        starts = source.block_starts if isinstance(source, RecordSource) else None
        return None if starts is None or len(starts) == len(source) else cls(starts, len(source))

    @lru_cache(16)  # noqa: B019  # keeps a few of them
    def part(self, begin: int, end: int) -> Blocks | None:
        """Return the blocks of the records `[begin, end)` alone; `None` if each of them is a block."""
        inside = self.starts[(self.starts > begin) & (self.starts < end)] - begin
        return None if len(inside) + 1 == end - begin else Blocks(np.append(0, inside), end - begin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocks) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


class Line(NamedTuple):
    """The blocks of one epoch in random order.

    Attributes:
        blocks: int64[n_blocks], the number of the block in each slot.
        starts: int64[n_blocks], the place in the line at which each slot begins.
        bounds: int64[n_windows], the places at which windows begin: with whole blocks.
    """

    blocks: _Numbers
    starts: _Numbers
    bounds: _Numbers


@lru_cache(16)
def line_of(blocks: Blocks, key: tuple[int, int], window_records: int) -> Line:
    """Return the line of an epoch.

    Args:
        blocks: The blocks.
        key: The key of their permutation.
        window_records: A window has the blocks that begin within as many records.
    """
    n = len(blocks.starts)
    order = permute(np.arange(n), n, key)
    sizes = np.diff(np.append(blocks.starts, blocks.n))[order]
    starts = np.cumsum(sizes) - sizes
    is_first = np.diff(starts // window_records, prepend=-1) > 0
    return Line(order, starts, starts[is_first])
