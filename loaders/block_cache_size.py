"""The cache of blocks of remote files that suits the order of a loader."""

from __future__ import annotations

from collections.abc import Sequence

from dataformats.loaders.adapters import Readable
from dataformats.loaders.shuffle import Shuffle
from dataformats.reading.source import RecordSource
from dataformats.storage.remote.block_cache import BlockCache

__all__ = ["block_cache_for"]

_MOST_BYTES = 2**30
_ORDERED_BLOCK_BYTES = 2**20
_ORDERED_BLOCKS = 32
_LEAST_BLOCK_BYTES = 2**12
_BLOCKS_OF_WINDOW = 4  # a block of records touches one more: a quarter of the bytes is read twice


def block_cache_for(sources: Sequence[Readable], shuffle: Shuffle) -> BlockCache | None:
    """Return a cache for two groups of blocks of records of each source, or for the next records in order.

    `None` if records come in any order, or two groups are more than 1 GiB: then each record is a request.
    """
    files = [source for source in sources if isinstance(source, RecordSource) and source.nbytes]
    if shuffle.kind == "global" or not files:
        return None
    n_files = sum(source._files_per_record for source in files)  # that a batch reads from
    if shuffle.kind == "none":
        return BlockCache((_ORDERED_BLOCKS + 2 * n_files) * _ORDERED_BLOCK_BYTES, _ORDERED_BLOCK_BYTES)
    # Of one file; the average, because a cache has blocks of one size.
    window_bytes = int(sum(source._mean_bytes for source in files) * shuffle.block_records / n_files)
    block_bytes = min(max(window_bytes // _BLOCKS_OF_WINDOW, _LEAST_BLOCK_BYTES), _ORDERED_BLOCK_BYTES)
    limit = 2 * shuffle.window_blocks * n_files * (window_bytes + 2 * block_bytes)
    return BlockCache(limit, block_bytes) if limit <= _MOST_BYTES else None
