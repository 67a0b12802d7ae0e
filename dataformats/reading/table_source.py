"""TableSource: the records of a table, with columns converted to the declared types."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs, Column, Nullable, Ragged, RecordBatch, take_column
from dataformats.columns.column_cast import can_cast, cast_column
from dataformats.columns.field_decoder import decode_part
from dataformats.columns.masks import check_part, elements_of, insert_missing
from dataformats.columns.shaped_fields import ShapedFields
from dataformats.errors import SpecError
from dataformats.interfaces import Backend, SequenceCodec
from dataformats.interfaces.record_source import Fields
from dataformats.interfaces.table import BlockTable, RowTable, Table
from dataformats.reading.blob_reader import fields_in_memory
from dataformats.reading.dataset_schema import DatasetSchema, DeclaredSchema
from dataformats.reading.decode_fallback import OnFailure, read_records
from dataformats.reading.decoded_blocks import DecodedBlocks
from dataformats.reading.file_source import FileSource
from dataformats.reading.scan import as_indices, digest_of
from dataformats.sidecars.file_digest import file_digest
from dataformats.spec import Spec, Type
from dataformats.storage.decoded_cache import DECODED_CACHE, DecodedCache
from dataformats.storage.native.file_set import open_files
from dataformats.storage.threads import concurrent_map

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments

_ALL_BYTES = 2**62  # all blocks fit

_Mask = dict[str, bool | range]


class TableSource(FileSource):
    """The records of files that a library decodes. Values that the files hold as bytes or text may have a codec's type.

    Args:
        arguments: The arguments of `open`.
        backend: The format.
        table: The opened files.
        declared: The schema that the call or a sidecar declares.
        blocks: The decoded blocks of another source of this table, to share.
    """

    def __init__(
        self,
        arguments: OpenArguments,
        backend: Backend,
        table: Table,
        declared: DeclaredSchema,
        blocks: DecodedBlocks | None = None,
    ) -> None:
        self._table = table
        super().__init__(arguments, backend, declared, DatasetSchema(backend, table, declared, arguments.index))
        self._types = self.spec
        self._shaped = ShapedFields(self.spec)
        open_files([], arguments.io, [])  # refuses an unknown `io`
        in_memory = fields_in_memory(arguments.cache, table.spec)
        if blocks is None and isinstance(table, BlockTable):
            blocks = DecodedBlocks(table, DecodedCache(_ALL_BYTES) if in_memory else DECODED_CACHE)
        self._blocks = blocks

    # ---- description

    @property
    def reader(self) -> Table:
        return self._table

    @property
    def _decodes_blocks(self) -> bool:
        return isinstance(self._table, BlockTable)

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        return self._table.block_starts if isinstance(self._table, BlockTable) else None

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        return self._table.decoded_bytes / max(1, len(self))

    def _compute_fingerprint(self) -> str:
        return self._fingerprint_of(len(self._table.files))

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        ends = np.append(0, np.cumsum(self._table.counts))
        n_files = int(np.searchsorted(ends, n, side="right")) - 1
        return self._fingerprint_of(n_files) if ends[n_files] == n else None

    def _fingerprint_of(self, n_files: int) -> str:
        files, counts = self._table.files[:n_files], self._table.counts[:n_files]
        digests = concurrent_map(file_digest, files, local=all(file.local is not None for file in files))
        facts = [f"{file.size} {digest}" for file, digest in zip(files, digests, strict=True)]
        return digest_of([self.format, *facts], counts.astype("<i8").tobytes())

    def with_whole_spec(self, spec: Spec) -> FileSource:
        if self._table.spec_is_inferred and spec != self.spec:
            return replace(self._arguments, spec=spec).open(lambda _: None)
        return super().with_whole_spec(spec)

    def _with(self, declared: DeclaredSchema) -> TableSource:
        return TableSource(self._arguments, self._backend, self._table, declared, self._blocks)

    # ---- reading

    def _read(self, indices: ArrayLike, fields: Fields, on_failure: OnFailure) -> RecordBatch:
        records, mask = as_indices(indices, len(self)), self.mask(fields)

        def columns(rows: NDArray[np.int64] | None) -> dict[str, Column]:
            return self._columns(records if rows is None else records[rows], mask)

        def located(error: Exception, row: int) -> Exception:
            return self._located(error, int(records[row]))

        return read_records(columns, located, records, on_failure, single=self._table.single)

    def _located(self, error: Exception, index: int) -> Exception:
        """Return a copy of an error with the file and the record; a block keeps the given one."""
        found = copy.copy(error)
        path, index, _ = self.origins([index])[0]
        for name, value in (("path", path), ("index", index)):
            if hasattr(found, name):
                setattr(found, name, value)
        return found

    def _columns(self, records: NDArray[np.int64], mask: _Mask) -> dict[str, Column]:
        stored = self._shaped.stored(mask)
        names = tuple(stored)
        if isinstance(self._table, RowTable):
            found = self._table.read(records, names)
        else:
            assert self._blocks is not None
            found = self._blocks.read(records, names)
        columns = {name: self._column(found[name], name, part) for name, part in stored.items()}
        return self._shaped.columns(columns, mask)

    def _column(self, stored: Any, name: str, part: bool | range) -> Column:
        if not isinstance(part, range):
            return self._typed(stored, name)
        kind = self._types[name]
        is_encoded = not kind.dims and kind.element != self._table.spec[name].element
        if is_encoded and isinstance(self._declared.codecs.codec(kind), SequenceCodec):
            return self._typed(stored, name, part)
        return _part(self._typed(stored, name), part, name)

    def _typed(self, column: Any, name: str, part: range | None = None) -> Column:
        stored, kind = self._table.spec[name], self._types[name]
        if kind is stored or kind == stored:  # most are the same object: a comparison takes microseconds
            return column  # type: ignore[no-any-return]
        present = np.ones(len(column), np.bool_)
        if getattr(column, "present", None) is not None:
            present, rows = column.present, np.flatnonzero(column.present)
            column = take_column(column.values, rows) if isinstance(column, Nullable) else column.take(rows)
        is_empty = kind.is_blob_list and kind.dims[0] is None and not kind.optional  # instead of missing
        if not (present.all() or kind.optional or is_empty):
            raise SpecError(f"expected {kind}, found nothing", field=name, index=int(present.argmin()))
        if (kind.element, kind.dims) != (stored.element, stored.dims):
            if part is not None:
                check_part(part, np.where(present, np.iinfo(np.int64).max, 0), name)
            if can_cast(stored, kind):
                column = cast_column(column, kind, name)
            else:
                column = self._decoded(replace(column, present=None), kind, name, part)
        column = insert_missing(column, present, optional=kind.optional)
        return replace(column, present=None) if is_empty and isinstance(column, Ragged) else column

    def _decoded(self, column: Ragged, type_: Type, name: str, part: range | None) -> Column:
        counts = None
        if type_.dims:
            counts, column = column.lengths, column.values  # type: ignore[assignment]
        values = np.asarray(column.values)
        blobs = Blobs(values, column.offsets[:-1], column.lengths)
        codec = self._declared.codecs.codec(type_)
        if part is not None and isinstance(codec, SequenceCodec):
            return decode_part(codec, blobs, None, part, name)
        return self._declared.codecs.decode(type_.required, blobs, counts, field=name)

    def fetch(self, indices: ArrayLike, fields: Fields = None) -> None:
        if self._blocks is not None:
            for block in np.unique(self._blocks.blocks_of(as_indices(indices, len(self)))).tolist():
                self._blocks.get_many([block], tuple(self._shaped.stored(self.mask(fields))))

    # ---- life

    def close(self) -> None:
        if self._blocks is not None:
            self._blocks.drop()


def _part(column: Column, part: range, name: str) -> Column:
    if not isinstance(column, Nullable):
        return elements_of(column, part, name)
    check_part(part, np.where(column.present, np.iinfo(np.int64).max, 0), name)
    values = elements_of(column.values, part, name)
    assert isinstance(values, (np.ndarray, list))  # as the whole ones
    return Nullable(values, column.present)
