"""DecodedBlocks: blocks of a table that are kept decoded, so that each is decoded once for many reads."""

from __future__ import annotations

from collections.abc import Mapping

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
        block = self.blocks_of(records)
        chosen, owner = np.unique(block, return_inverse=True)
        parts = []
        for place, number in enumerate(chosen.tolist()):
            rows = records[owner == place] - self._table.block_starts[number]
            columns = self.get(number, fields)
            parts.append({name: take_column(column, rows) for name, column in columns.items()})
        if not parts:
            return {name: _empty(self._table.spec[name], name) for name in fields}
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
        is_sorted = bool(np.all(owner[1:] >= owner[:-1]))
        joined = {name: concat_columns([part[name] for part in parts]) for name in fields}
        return joined if is_sorted else {name: take_column(column, order) for name, column in joined.items()}

    def get(self, block: int, fields: tuple[str, ...]) -> _Columns:
        """Return these columns of a block."""
        return self._cache.get((block, fields), lambda: self._decode(block, fields))

    def _decode(self, block: int, fields: tuple[str, ...]) -> tuple[_Columns, int]:
        columns = self._table.read_block(block, fields)
        return columns, nbytes_of(columns)


def _empty(type_: Type, name: str) -> Column:
    counts = np.zeros(0, np.int64) if type_.dims and type_.dtype is None else None
    return FieldDecoder(CodecResolver(trusted=True), type_, type_, name).decode(Blobs.join([]), counts)
