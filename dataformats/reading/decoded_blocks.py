"""DecodedBlocks: blocks of a table that are kept decoded, so that each is decoded once for many reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, nbytes_of, take_rows
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.fork_hooks import no_fork
from dataformats.interfaces.table import BlockTable
from dataformats.reading.concat import interleave
from dataformats.spec import Type
from dataformats.storage.decoded_cache import DecodedCache

_PART = 1 / 4
"""The part of the kept bytes that one read holds beside the cache at most: then it copies the rows of these blocks."""

_Columns = Mapping[str, Column]


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
        kept = self._cache.get([(one, fields) for one in chosen.tolist()])
        parts, places = [], []
        runs = [(0, kept)] if kept is not None else self._runs(chosen.tolist(), fields)
        for first, blocks in runs:
            here = np.flatnonzero((owners >= first) & (owners < first + len(blocks)))
            columns = {name: [one[name] for one in blocks] for name in fields}
            parts.append({name: take_rows(columns[name], owners[here] - first, rows[here]) for name in fields})
            places.append(here)
        return parts[0] if len(parts) == 1 else interleave(parts, places)[0]

    def _runs(self, chosen: list[int], fields: tuple[str, ...]) -> Iterator[tuple[int, list[_Columns]]]:
        """Yield runs of these blocks that are a part of the kept bytes, each with the place of its first block."""
        first, run, n_bytes, step = 0, list[_Columns](), 0, self._table.blocks_together
        for at in range(0, len(chosen), step):
            blocks = self.get_many(chosen[at : at + step], fields)
            run += blocks
            n_bytes += sum(map(nbytes_of, blocks))
            if n_bytes > self.limit_bytes * _PART or at + step >= len(chosen):
                yield first, run
                first, run, n_bytes = at + step, [], 0

    def get_many(self, blocks: Sequence[int], fields: tuple[str, ...]) -> list[_Columns]:
        """Return these columns of each block."""

        def decode(keys: Sequence[tuple[int, tuple[str, ...]]]) -> list[tuple[_Columns, int]]:
            with no_fork():
                return [(one, nbytes_of(one)) for one in self._table.read_blocks([key[0] for key in keys], fields)]

        return self._cache.get_many([(block, fields) for block in blocks], decode)


def _empty(type_: Type, name: str) -> Column:
    counts = np.zeros(0, np.int64) if type_.dims and type_.dtype is None else None
    return FieldDecoder(CodecResolver(trusted=True), type_, type_, name).decode(Blobs.join([]), counts)
