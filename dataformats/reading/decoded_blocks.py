"""DecodedBlocks: blocks of a table that are kept decoded, so that each is decoded once for many reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column, nbytes_of, take_rows
from dataformats.columns.empty_column import empty_column
from dataformats.errors import DataFormatsError
from dataformats.fork_hooks import no_fork
from dataformats.interfaces.table import BadRowsError, BlockTable
from dataformats.reading.concat import interleave
from dataformats.storage.decoded_cache import DECODED_CACHE, DecodedCache, Owner

_SHARE = 1 / 4
"""A read that needs more than this share of the cache copies its rows some blocks at a time."""

_Columns = Mapping[str, Column]


class DecodedBlock(NamedTuple):
    """A block in memory.

    Attributes:
        columns: The columns of the rows that can be read.
        failed: The other rows, ascending, each with its error.
    """

    columns: _Columns
    failed: Mapping[int, DataFormatsError]


class DecodedBlocks:
    """Decodes the blocks of a table, and reads records from them. Thread-safe.

    Args:
        table: The blocks.
        cache: Keeps decoded blocks.
    """

    def __init__(self, table: BlockTable, cache: DecodedCache = DECODED_CACHE) -> None:
        self._table = table
        self._cache = cache
        self._owner = cache.owner(self)
        self._ends = np.append(table.block_starts[1:], table.counts.sum())

    def blocks_of(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the block of each record, int64[n]."""
        return np.searchsorted(self._ends, records, side="right")

    def read(self, records: NDArray[np.int64], fields: tuple[str, ...]) -> dict[str, Column]:
        """Return the columns of records.

        Args:
            records: int64[n] in `[0, len)`, in any order.
            fields: Names of the spec.

        Raises:
            DataFormatsError: A record cannot be read.
        """
        if not len(records):
            return {name: empty_column(self._table.spec[name], name) for name in fields}
        block = self.blocks_of(records)
        chosen, owners = np.unique(block, return_inverse=True)
        rows = records - self._table.block_starts[block]
        kept = self._cache.get([(self._owner, one, fields) for one in chosen.tolist()])
        parts, places = [], []
        for first, blocks in [(0, kept)] if kept is not None else self._runs(chosen.tolist(), fields):
            here = np.flatnonzero((owners >= first) & (owners < first + len(blocks)))
            for number, block_of_run in enumerate(blocks, first):
                if block_of_run.failed:
                    mine = here[owners[here] == number]
                    rows[mine] = _sound_rows(rows[mine], block_of_run.failed)
            columns = {name: [one.columns[name] for one in blocks] for name in fields}
            parts.append({name: take_rows(columns[name], owners[here] - first, rows[here]) for name in fields})
            places.append(here)
        return parts[0] if len(parts) == 1 else interleave(parts, places)[0]

    def _runs(self, chosen: list[int], fields: tuple[str, ...]) -> Iterator[tuple[int, list[DecodedBlock]]]:
        """Yield runs of these blocks that are a share of the cache, each with the place of its first block."""
        first, run, n_bytes, step = 0, list[DecodedBlock](), 0, self._table.blocks_together
        for at in range(0, len(chosen), step):
            blocks = self.get_many(chosen[at : at + step], fields)
            run += blocks
            n_bytes += sum(nbytes_of(one.columns) for one in blocks)
            if n_bytes > self._cache.limit_bytes * _SHARE or at + step >= len(chosen):
                yield first, run
                first, run, n_bytes = at + step, [], 0

    def get_many(self, blocks: Sequence[int], fields: tuple[str, ...]) -> list[DecodedBlock]:
        """Return these columns of each block."""

        def decode(keys: Sequence[tuple[Owner, int, tuple[str, ...]]]) -> list[tuple[DecodedBlock, int]]:
            with no_fork():
                found = self._decoded([number for _, number, _ in keys], fields)
            return [(one, nbytes_of(one.columns)) for one in found]

        return self._cache.get_many([(self._owner, block, fields) for block in blocks], decode)

    def drop(self) -> None:
        """Drop all decoded blocks."""
        self._cache.drop(self._owner)

    def _decoded(self, blocks: Sequence[int], fields: tuple[str, ...]) -> list[DecodedBlock]:
        try:
            return [DecodedBlock(columns, {}) for columns in self._table.read_blocks(blocks, fields)]
        except BadRowsError as error:
            if len(blocks) == 1:
                return [DecodedBlock(error.columns, dict(sorted(error.failed.items())))]
            return [one for block in blocks for one in self._decoded([block], fields)]


def _sound_rows(rows: NDArray[np.int64], failed: Mapping[int, DataFormatsError]) -> NDArray[np.int64]:
    """Return the rows of the columns, which lack those that failed; raise the error of the first such row."""
    bad = np.array([*failed])
    is_bad = np.isin(rows, bad)
    if is_bad.any():
        raise failed[int(rows[is_bad.argmax()])]
    return rows - np.searchsorted(bad, rows)
