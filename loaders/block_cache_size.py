"""The cache of blocks of remote files that suits the order of a loader."""

from __future__ import annotations

from collections.abc import Sequence

from dataformats.loaders.adapters import Readable
from dataformats.loaders.shuffle import Shuffle
from dataformats.storage.block_cache import BlockCache

__all__ = ["block_cache_for"]

_MOST_BYTES = 2**30
_ORDERED_BLOCK_BYTES = 2**20
_ORDERED_BLOCKS = 32
_LEAST_BLOCK_BYTES = 2**14
_BLOCKS_OF_WINDOW = 4  # a block of records touches one more: a quarter of the bytes is read twice


def block_cache_for(sources: Sequence[Readable], shuffle: Shuffle) -> BlockCache | None:
    """Return a cache for two groups of blocks of records of each source, or for the next records in order.

    `None` if records come in any order, or two groups are more than 1 GiB: then each record is a request.
    """
    n_records = sum(map(len, sources))
    n_bytes = sum(getattr(source, "nbytes", 0) for source in sources)
    if shuffle.kind == "global" or not n_bytes:
        return None
    if shuffle.kind == "none":
        return BlockCache(_ORDERED_BLOCKS * _ORDERED_BLOCK_BYTES, _ORDERED_BLOCK_BYTES)
    window_bytes = n_bytes * shuffle.block_records // n_records
    block_bytes = max(_LEAST_BLOCK_BYTES, 1 << max(0, (window_bytes // _BLOCKS_OF_WINDOW).bit_length() - 1))
    block_bytes = min(block_bytes, _ORDERED_BLOCK_BYTES)
    limit = 2 * len(sources) * shuffle.window_blocks * (window_bytes + 2 * block_bytes)
    return BlockCache(limit, block_bytes) if limit <= _MOST_BYTES else None
