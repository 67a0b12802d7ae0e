"""TableSource: the records of a table, with columns converted to the declared types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs, Column, Nullable, Ragged, RecordBatch, concat_columns, take_column
from dataformats.columns.column_cast import can_cast, can_read_bits, cast_column
from dataformats.columns.field_decoder import decode_part
from dataformats.columns.masks import check_part, elements_of, insert_missing
from dataformats.errors import DataFormatsError, SpecError
from dataformats.interfaces import FetchesRecords, SequenceCodec
from dataformats.interfaces.record_source import Fields, OnCorrupt
from dataformats.interfaces.source_facts import Origin, SourceFacts, SpecFacts, SpecProvenance
from dataformats.interfaces.table import BlockTable, RowTable, Table
from dataformats.reading.blob_reader import fields_in_memory
from dataformats.reading.dataset_schema import DeclaredSchema, with_types
from dataformats.reading.decoded_blocks import DecodedBlocks
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.scan import as_indices, as_numbers, digest_of
from dataformats.sidecars.file_digest import file_digest
from dataformats.spec import Spec, SpecLike, Type
from dataformats.storage.decoded_cache import DECODED_CACHE, DecodedCache
from dataformats.storage.native.file_set import open_files
from dataformats.storage.threads import concurrent_map

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments

_BLOBS = ("bytes", "utf8")
_ALL_BYTES = 2**62  # all blocks fit

_Mask = dict[str, bool | range]
_Read = tuple[dict[str, Column], dict[int, DataFormatsError]]


class TableSource(DecodingSource, FetchesRecords):
    """The records of files that a library decodes. Values that the files hold as bytes or text may have a codec's type.

    Args:
        arguments: The arguments of `open`.
        format: The name of the format.
        table: The opened files.
        declared: The schema that the call or a sidecar declares.
        blocks: The decoded blocks of another source of this table, to share.
    """

    def __init__(
        self,
        arguments: OpenArguments,
        format: str,
        table: Table,
        declared: DeclaredSchema,
        blocks: DecodedBlocks | None = None,
    ) -> None:
        self._arguments = arguments
        self._format = format
        self._table = table
        self._declared = declared
        self._spec = _checked_spec(table, declared.spec)
        self._n = int(table.counts.sum())
        self._fingerprint: str | None = None
        self._facts: SourceFacts | None = None
        open_files([], arguments.io, [])  # refuses an unknown `io`
        in_memory = fields_in_memory(arguments.cache, table.spec)
        if blocks is None and isinstance(table, BlockTable):
            blocks = DecodedBlocks(table, DecodedCache(_ALL_BYTES) if in_memory else DECODED_CACHE)
        self._blocks = blocks

    # ---- description

    @property
    def facts(self) -> SourceFacts:
        if self._facts is None:
            files = self._table.files
            self._facts = SourceFacts(
                format=self._format,
                paths=tuple(file.name for file in files),
                nbytes=sum(file.size for file in files),
                decodes_blocks=isinstance(self._table, BlockTable),
            )
        return self._facts

    @property
    def spec_facts(self) -> SpecFacts:
        provenance: SpecProvenance = "inferred" if self._table.spec_is_inferred else "files"
        if self._declared.spec is not None:
            provenance = "saved" if self._declared.is_saved else "declared"
        return SpecFacts(None, provenance, self._declared.codecs.opaque(self._spec))

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def reader(self) -> Table:
        """The opened files."""
        return self._table

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        return self._table.block_starts if isinstance(self._table, BlockTable) else None

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        return self._table.decoded_bytes / max(1, self._n)

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        records = as_numbers(indices)
        files = np.searchsorted(np.cumsum(self._table.counts), records, side="right")
        return [Origin(self.paths[file], index) for file, index in zip(files.tolist(), records.tolist(), strict=True)]

    def __len__(self) -> int:
        return self._n

    @property
    def fingerprint(self) -> str:
        if self._fingerprint is None:
            self._fingerprint = self._fingerprint_of(len(self._table.files))
        return self._fingerprint

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        ends = np.append(0, np.cumsum(self._table.counts))
        n_files = int(np.searchsorted(ends, n, side="right")) - 1
        return self._fingerprint_of(n_files) if ends[n_files] == n else None

    def _fingerprint_of(self, n_files: int) -> str:
        files, counts = self._table.files[:n_files], self._table.counts[:n_files]
        digests = concurrent_map(file_digest, files, local=all(file.local is not None for file in files))
        facts = [f"{file.size} {digest}" for file, digest in zip(files, digests, strict=True)]
        return digest_of([self.format, *facts], counts.astype("<i8").tobytes())

    def with_spec(self, spec: SpecLike) -> TableSource:
        spec = self._declared.with_named_types(self._spec, Spec(spec))
        if self._table.spec_is_inferred and spec != self._spec:
            return cast("TableSource", replace(self._arguments, spec=spec).open(lambda _: None))
        return TableSource(self._arguments, self._format, self._table, self._declared.of(spec), self._blocks)

    # ---- reading

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        if on_corrupt not in ("raise", "omit"):
            raise ValueError(f"expected on_corrupt 'raise' or 'omit', found {on_corrupt!r}")
        records, mask = as_indices(indices, self._n), self.mask(fields)
        try:
            columns, failed = self._columns(records, mask)
        except DataFormatsError:
            columns, failed = self._one_by_one(records, mask, on_corrupt)
        if failed and on_corrupt == "raise":
            row = min(failed)
            raise self._with_place(failed[row], int(records[row])).with_traceback(None)  # a block keeps it
        kept = np.delete(records, [*failed]) if failed else records
        errors = {int(records[row]): self._with_place(error, int(records[row])) for row, error in failed.items()}
        return RecordBatch(columns, kept, errors, self._table.single)

    def _one_by_one(self, records: NDArray[np.int64], mask: _Mask, on_corrupt: OnCorrupt) -> _Read:
        """Read each record alone, to find those that fail; only the first of them if they raise."""
        found = [self._columns(records[:0], mask)[0]]
        failed: dict[int, DataFormatsError] = {}
        for row in range(len(records)):
            try:
                columns, bad = self._columns(records[row : row + 1], mask)
                found.append(columns)
                if bad:
                    failed[row] = bad[0]
            except DataFormatsError as error:
                failed[row] = error
            if failed and on_corrupt == "raise":
                break
        return {name: concat_columns([one[name] for one in found]) for name in mask}, failed

    def _with_place(self, error: DataFormatsError, index: int) -> DataFormatsError:
        path, index, _ = self.origins([index])[0]
        for name, value in (("path", path), ("index", index)):
            if hasattr(error, name):
                setattr(error, name, value)
        return error

    def _columns(self, records: NDArray[np.int64], mask: _Mask) -> _Read:
        """Return the columns of the records, and the errors of the rows that the table cannot read."""
        names, failed = tuple(mask), dict[int, DataFormatsError]()
        if isinstance(self._table, RowTable):
            found = self._table.read(records, names)
        else:
            assert self._blocks is not None
            found, failed = self._blocks.read(records, names)
        return {name: self._column(found[name], name, part) for name, part in mask.items()}, failed

    def _column(self, stored: Any, name: str, part: bool | range) -> Column:
        if not isinstance(part, range):
            return self._typed(stored, name)
        kind = self._spec[name]
        is_encoded = not kind.dims and kind.element != self._table.spec[name].element
        if is_encoded and isinstance(self._declared.codecs.codec(kind), SequenceCodec):
            return self._typed(stored, name, part)
        return _part(self._typed(stored, name), part, name)

    def _typed(self, column: Any, name: str, part: range | None = None) -> Column:
        stored, kind = self._table.spec[name], self._spec[name]
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
            for block in np.unique(self._blocks.blocks_of(as_indices(indices, self._n))).tolist():
                self._blocks.get_many([block], tuple(self.mask(fields)))

    # ---- life

    def close(self) -> None:
        if self._blocks is not None:
            self._blocks.drop()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._arguments.reopen_table, (self.spec, self.fingerprint)


def _part(column: Column, part: range, name: str) -> Column:
    if not isinstance(column, Nullable):
        return elements_of(column, part, name)
    check_part(part, np.where(column.present, np.iinfo(np.int64).max, 0), name)
    values = elements_of(column.values, part, name)
    assert isinstance(values, (np.ndarray, list))  # as the whole ones
    return Nullable(values, column.present)


def _checked_spec(table: Table, declared: Spec | None) -> Spec:
    """Return the declared types of fields, and the stored ones of the others.

    Raises:
        SpecError: The files have no such field, or its values cannot be read as the type.
    """
    stored = table.spec
    for name, kind in (declared or {}).items():
        if name not in stored:
            raise SpecError(f"the files have no such field: {', '.join(stored)}", field=name)
        if not _can_be(stored[name], kind):
            raise SpecError(f"stored as {stored[name]}, which cannot be read as {kind}", field=name)
    marked = Spec({n: replace(k, codec="json") if n in table.documents else k for n, k in stored.items()})
    return with_types(marked, declared or Spec({}))


def _can_be(stored: Type, type_: Type) -> bool:
    """True if stored values can be read as a type: as the same one, cast, or if a codec decodes their bytes."""
    decodes = type_.codec in ("bytes", "json") if stored.codec == "utf8" else stored.codec == "bytes"
    is_list = stored.codec in _BLOBS and stored.dims == (None,) and len(type_.dims) == 1
    has_dims = stored.dims == type_.dims or is_list
    if can_cast(stored, type_) or can_read_bits(stored, type_):
        return True
    return has_dims and (stored.element == type_.element or (decodes and type_.dtype is None))
