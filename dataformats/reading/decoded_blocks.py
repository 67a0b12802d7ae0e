"""DecodedBlocks: blocks of a table that are kept decoded, so that each is decoded once for many reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, concat_columns, nbytes_of, take_column
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.interfaces.table import BlockTable
from dataformats.spec import Type
from dataformats.storage.decoded_cache import DecodedCache

__all__ = ["DecodedBlocks"]

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
        order = np.argsort(block, kind="stable")
        block = block[order]
        begins = np.flatnonzero(np.diff(block, prepend=-1)).tolist()
        local = np.split(records[order] - self._table.block_starts[block], begins[1:])
        chosen, step = block[begins].tolist(), self._table.blocks_together
        parts: list[_Columns] = []
        for first in range(0, len(chosen), step):
            found = self._get_many(chosen[first : first + step], fields)
            parts += [
                {name: _rows_of(column, rows, len(chosen) > 1) for name, column in columns.items()}
                for columns, rows in zip(found, local[first:], strict=False)
            ]
        joined = {name: concat_columns([part[name] for part in parts]) for name in fields}
        if (order[1:] > order[:-1]).all():
            return joined
        places = np.argsort(order, kind="stable")
        return {name: take_column(column, places) for name, column in joined.items()}

    def get(self, block: int, fields: tuple[str, ...]) -> _Columns:
        """Return these columns of a block."""
        return self._get_many([block], fields)[0]

    def _get_many(self, blocks: list[int], fields: tuple[str, ...]) -> list[_Columns]:
        def decode(keys: list[tuple[int, tuple[str, ...]]]) -> list[tuple[_Columns, int]]:
            found = self._table.read_blocks([block for block, _ in keys], fields)
            return [(columns, nbytes_of(columns)) for columns in found]

        return self._cache.get_many([(block, fields) for block in blocks], decode)


def _rows_of(column: Column, rows: NDArray[np.int64], may_share: bool) -> Any:
    """Return these rows; a view of consecutive rows of an array if the result may share memory with the column."""
    first, last = int(rows[0]), int(rows[-1])
    if may_share and isinstance(column, np.ndarray) and len(rows) == last - first + 1 and (np.diff(rows) == 1).all():
        return column[first : last + 1]
    return take_column(column, rows)


def _empty(type_: Type, name: str) -> Column:
    counts = np.zeros(0, np.int64) if type_.dims and type_.dtype is None else None
    return FieldDecoder(CodecResolver(trusted=True), type_, type_, name).decode(Blobs.join([]), counts)
