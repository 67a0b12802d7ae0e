"""Records of tables: anything that gives an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataformats.batch import RecordBatch, StoredRecords
from dataformats.batch.arrow_types import MEDIA, type_for_arrow
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import batch_of_arrow, spec_of_arrow
from dataformats.errors import CodecError, SpecError
from dataformats.spec import VALUE, Spec, Type
from dataformats.writing.encoding import Encode, FieldsEncoder, PayloadEncoder
from dataformats.writing.output_schema import OutputSchema

_RECORDS = 1024
_BYTES = 4 * 2**20


def is_table(records: Any) -> bool:
    """Return True for a table, a frame or a reader, and False for a source, which is a sequence of records as well."""
    return hasattr(records, "__arrow_c_stream__") and not isinstance(records, Sequence)


class TableRecords:
    """The rows of a table in batches, to be encoded for new data.

    Values are those that `to_arrow` gives: text and bytes of a field whose type has no Arrow type, such as `json` or
    `tree`, are its stored bytes.

    Args:
        table: Anything with `__arrow_c_stream__`.
        schema: The schema of the new data.
        codecs: See `create`.

    Attributes:
        encode: The function that converts a record to its stored form.
    """

    def __init__(self, table: Any, schema: OutputSchema, codecs: Mapping[str, Any] | None) -> None:
        try:
            self._reader = pyarrow().RecordBatchReader.from_stream(table)
        except pyarrow().ArrowException as error:
            raise SpecError(f"{type(table).__name__} is not a table of Arrow: {error}") from error
        self._format = schema.backend.name
        declared: Mapping[str, Type] = schema.spec or {VALUE: Type.parse(str(schema.payload))}
        spec = spec_of_arrow(self._reader.schema)
        stored = [name for name, kind in spec.items() if name in declared and _is_stored(kind, declared[name])]
        self._spec = Spec({n: replace(kind, codec="bytes") if n in stored else kind for n, kind in spec.items()})
        self.encode: Encode = schema.encoder(codecs)
        if stored and schema.spec is None:
            self.encode = lambda blob: blob
        elif stored:
            carried = {n: replace(k, codec="bytes", args=()) if n in stored else k for n, k in declared.items()}
            self.encode = schema.encoder(codecs, Spec(carried))

    def __iter__(self) -> Iterator[RecordBatch]:
        for batch in self._reader:
            step = max(1, min(_RECORDS, _BYTES * batch.num_rows // max(1, _bytes_of(batch))))
            for first in range(0, batch.num_rows, step):
                rows = batch.slice(first, step)
                try:
                    found = iter([self._batch(rows)])
                except SpecError:  # one by one: those before it are written
                    found = (self._batch(rows.slice(row, 1)) for row in range(rows.num_rows))
                yield from found

    def _batch(self, rows: Any) -> RecordBatch:
        try:
            rows.validate(full=True)  # text is UTF-8, and offsets stay within the data
        except pyarrow().ArrowInvalid as error:
            raise SpecError(f"not a valid table: {error}") from error
        lacking = {name: rows.column(name).null_count > 0 for name in self._spec}
        spec = {name: replace(kind, optional=lacking[name]) for name, kind in self._spec.items()}
        return batch_of_arrow(rows, Spec(spec))

    def stored(self, batch: RecordBatch) -> StoredRecords | None:
        """Return the records as they are stored; `None` if they must be encoded one by one."""
        if not isinstance(self.encode, FieldsEncoder | PayloadEncoder):
            return None
        try:
            return self.encode.columns(self._format, batch.columns)
        except (SpecError, CodecError):  # one by one, those before it are written
            return None


def _bytes_of(batch: Any) -> int:
    """Return the bytes of a batch. pyarrow before 24 counts only the whole buffers of views."""
    try:
        return int(batch.nbytes)
    except pyarrow().ArrowTypeError:
        return int(batch.get_total_buffer_size())


def _is_stored(found: Type, declared: Type) -> bool:
    """Return True if a column holds the stored bytes of a type, or its text."""
    has_no_arrow_type = declared.codec not in MEDIA and type_for_arrow(declared).codec != declared.codec
    return has_no_arrow_type and found.codec in ("bytes", "utf8")
