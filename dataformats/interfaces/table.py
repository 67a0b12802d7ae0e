"""The contract of a table: the records of files that the library of their format decodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column
from dataformats.errors import CodecError, DataFormatsError, SpecError
from dataformats.interfaces.reader import OpenedFiles
from dataformats.spec import Spec, Type


class Table(OpenedFiles):  # a `RowTable` or a `BlockTable`
    """The records of the files of one dataset, decoded by a library. Thread-safe, usable after a fork.

    `Backend.open` returns a `RowTable` or a `BlockTable` instead of a `Reader` if records are not ranges of bytes. The
    core adds everything else: other types, checks of indices, damage by record, a cache of decoded blocks, fingerprint,
    views, pickles.

    Attributes:
        counts: int64[n_files], the records of each file.
        spec: Field to type, as the library gives the columns: numbers, `bytes`, `utf8`, sequences of them; an opaque
            type, if the column has the bytes of values that have no type here.
        decoded_bytes: The bytes of all columns in memory; an estimate.
        default_types: The types under which fields are read if nothing declares others: `json` for text that the files
            mark as JSON.
        spec_is_inferred: True if the types of text were guessed: to read it as other types, the files are opened again.
        single: True if the files name no fields: a record is the value of the field `value`, and no dict.
    """

    counts: NDArray[np.int64]
    spec: Spec
    decoded_bytes: int
    default_types: Mapping[str, Type] = MappingProxyType({})
    spec_is_inferred: bool = False
    single: bool = False

    def file_summaries(self) -> list[tuple[str, int, int]]:
        """Return name, records and bytes of each file."""
        return [(file.name, n, file.stored_size) for file, n in zip(self.files, self.counts.tolist(), strict=True)]

    @property
    def default_spec(self) -> Spec:
        """The types under which fields are read if nothing declares others."""
        return Spec({**self.spec, **self.default_types})


class RowTable(Table):
    """A table whose library reads any record alone."""

    @abstractmethod
    def read(self, records: NDArray[np.int64], fields: Sequence[str]) -> Mapping[str, Column]:
        """Return these columns of records.

        Args:
            records: int64[n], each in `[0, len)`, in any order.
            fields: Names of the spec.

        Raises:
            CodecError: A value of a record does not fit its type.
            FormatError: A record is damaged.
        """


class BadRowsError(DataFormatsError):
    """Some rows of a block cannot be read. A `BlockTable` raises it with the columns of the other rows.

    Args:
        columns: The columns of the other rows.
        failed: Row of the read to its error. A `SpecError` becomes a `CodecError`: the file holds a value that its own
            types do not have, so no spec of a caller is wrong.
    """

    def __init__(self, columns: Mapping[str, Column], failed: Mapping[int, DataFormatsError]) -> None:
        super().__init__(str(failed[min(failed)]))
        self.columns = columns
        self.failed: Mapping[int, DataFormatsError] = {
            row: CodecError(one.what, field=one.field, remedy=one.remedy) if isinstance(one, SpecError) else one
            for row, one in failed.items()
        }


class BlockTable(Table):
    """A table whose library decodes blocks of consecutive records: row groups, chunks. Each has one record or more.

    Attributes:
        block_starts: int64[n_blocks]: the first record of each block, ascending from 0.
        blocks_together: The most blocks to read at once, if the library reads several faster; all are in memory then.
    """

    block_starts: NDArray[np.int64]
    blocks_together: int = 1

    @abstractmethod
    def read_block(self, block: int, fields: Sequence[str]) -> Mapping[str, Column]:
        """Return these columns of all records of a block.

        Args:
            block: The number of the block.
            fields: Names of the spec.

        Raises:
            BadRowsError: Some of the records cannot be read.
            FormatError: The block is damaged.
        """

    def read_blocks(self, blocks: Sequence[int], fields: Sequence[str]) -> Sequence[Mapping[str, Column]]:
        """Return the columns of several blocks, in ascending order; see `read_block`."""
        return [self.read_block(block, fields) for block in blocks]


def starts_of(sizes: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `block_starts` of blocks of these sizes."""
    return np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64)
