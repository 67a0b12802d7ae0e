"""DecodedBlocks: blocks of a table that are kept decoded, so that each is decoded once for many reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, nbytes_of, take_rows
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.interfaces.table import BlockTable
from dataformats.reading.concat import interleave
from dataformats.spec import Type
from dataformats.storage.decoded_cache import DecodedCache

__all__ = ["DecodedBlocks"]

_PART = 1 / 4
"""The part of the kept bytes that one read holds at once: records of more blocks are copied block by block."""

_Columns = Mapping[str, Column]
_Numbers = NDArray[np.int64]


class DecodedBlocks:
    """Decodes blocks of a table; the least recently used are dropped. Thread-safe; empty after a fork.

    Args:
        table: The blocks.
        limit_bytes: The most bytes that are kept, besides the block that was used last.
    """

    def __init__(self, table: BlockTable, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._table = table
        self._ends = np.append(table.block_starts[1:], table.counts.sum())
        block_bytes = table.decoded_bytes / max(1, len(table.block_starts))
        most = int(limit_bytes * _PART / max(1.0, block_bytes))  # these are in the cache, too
        self._step = max(table.blocks_together, min(most, len(table.block_starts)))
        self._cache: DecodedCache[tuple[int, tuple[str, ...]], _Columns] = DecodedCache(limit_bytes)

    def blocks_of(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the block of each record, int64[n]."""
        return np.searchsorted(self._ends, records, side="right")

    def read(self, records: NDArray[np.int64], fields: tuple[str, ...]) -> dict[str, Column]:
        """Return the columns of these records, int64[n] in `[0, len)`, in any order."""
        if not len(records):
            return {name: _empty(self._table.spec[name], name) for name in fields}
        block = self.blocks_of(records)
        chosen, owners = np.unique(block, return_inverse=True)
        rows = records - self._table.block_starts[block]
        if len(chosen) <= self._step:
            return self._take(chosen, owners, rows, fields)
        group = owners // self._step
        places = [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]
        parts = []
        for number, here in enumerate(places):
            first = number * self._step
            parts.append(self._take(chosen[first : first + self._step], owners[here] - first, rows[here], fields))
        return interleave(parts, places)[0]

    def _take(self, blocks: _Numbers, owners: _Numbers, rows: _Numbers, fields: tuple[str, ...]) -> dict[str, Column]:
        """Return row `rows[i]` of block `blocks[owners[i]]` for each `i`."""
        columns = self._cache.get([(block, fields) for block in blocks.tolist()])
        if columns is None:
            columns = []
            for first in range(0, len(blocks), self._table.blocks_together):
                columns += self.get_many(blocks[first : first + self._table.blocks_together].tolist(), fields)
        return {name: take_rows([one[name] for one in columns], owners, rows) for name in fields}

    def get_many(self, blocks: Sequence[int], fields: tuple[str, ...]) -> list[_Columns]:
        """Return these columns of each block."""
        return self._cache.get_many(
            [(block, fields) for block in blocks],
            lambda keys: [(one, nbytes_of(one)) for one in self._table.read_blocks([key[0] for key in keys], fields)],
        )


def _empty(type_: Type, name: str) -> Column:
    counts = np.zeros(0, np.int64) if type_.dims and type_.dtype is None else None
    return FieldDecoder(CodecResolver(trusted=True), type_, type_, name).decode(Blobs.join([]), counts)
