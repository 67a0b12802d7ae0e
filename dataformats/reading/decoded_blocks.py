"""DecodedBlocks: blocks of a table that are kept decoded, so that each is decoded once for many reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        begins = np.flatnonzero(np.diff(block, prepend=-1))
        rows = np.split(records[order] - self._table.block_starts[block], begins[1:])
        chosen, step = block[begins].tolist(), self._table.blocks_together
        parts: list[_Columns] = []
        for first in range(0, len(chosen), step):
            for columns in self.get_many(chosen[first : first + step], fields):
                some = rows[len(parts)]
                parts.append({name: _rows_of(columns[name], some, may_share=len(chosen) > 1) for name in fields})
        joined = {name: concat_columns([part[name] for part in parts]) for name in fields}
        if (order[1:] > order[:-1]).all():
            return joined
        return {name: take_column(column, np.argsort(order, kind="stable")) for name, column in joined.items()}

    def get_many(self, blocks: Sequence[int], fields: tuple[str, ...]) -> list[_Columns]:
        """Return these columns of each block."""
        return self._cache.get_many(
            [(block, fields) for block in blocks],
            lambda keys: [(one, nbytes_of(one)) for one in self._table.read_blocks([key[0] for key in keys], fields)],
        )


def _rows_of(column: Column, rows: NDArray[np.int64], *, may_share: bool) -> Any:
    """Return these rows; if the result may share memory, a view of consecutive rows that are most of an array."""
    if may_share and isinstance(column, np.ndarray) and 2 * len(rows) > len(column) and (np.diff(rows) == 1).all():
        return column[rows[0] : rows[-1] + 1]
    return take_column(column, rows)


def _empty(type_: Type, name: str) -> Column:
    counts = np.zeros(0, np.int64) if type_.dims and type_.dtype is None else None
    return FieldDecoder(CodecResolver(trusted=True), type_, type_, name).decode(Blobs.join([]), counts)
