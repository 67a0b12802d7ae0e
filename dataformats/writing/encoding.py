"""Encode records as a format stores them: one blob, or the blobs of each field."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, StoredRecords
from dataformats.batch.column_types import items_of
from dataformats.batch.stored_records import MISSING_LIST, join_values
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.exact_cast import to_exact_array
from dataformats.columns.numbers import NumberColumn
from dataformats.errors import CodecError, Remedy, SpecError
from dataformats.interfaces import Codec, RecordCoder
from dataformats.spec import VALUE, Spec, Type

Encoded = bytes | Mapping[str, Sequence[bytes]]
"""A record as stored: one blob, or the blobs of each field."""
Encode = Callable[[Any], Encoded]
Chunk = tuple[Sequence[Encoded] | StoredRecords, BaseException | None]
"""Encoded records, and the error of the record after them."""

_CHUNK_RECORDS = 64  # encoded together: more would not stay in the processor's cache
_FIELDS_RECORDS, _FIELDS_BYTES = 256, 2**21  # the same if fields are encoded one after the other
NEEDS_SPEC = Remedy("For records with fields, pass {spec} with a type for each field.", spec=...)


class FieldsEncoder:
    """Encodes a record into the blobs of its fields.

    Args:
        spec: The types of the values.
        stored: The types under which they are stored.
        codecs: Resolves types to codecs.
    """

    def __init__(self, spec: Spec, stored: Spec, codecs: CodecResolver) -> None:
        for kind in spec.values():
            codecs.codec(kind)  # raises for an unknown one before anything is written
        self._encoders = {name: _field_encoder(name, kind, stored[name], codecs) for name, kind in spec.items()}
        self._optional = {name for name, kind in spec.items() if kind.optional and stored[name].optional}
        self._batch = {name: _batch_encoder(kind, stored[name], codecs) for name, kind in spec.items()}

    def __call__(self, record: Any) -> dict[str, Sequence[bytes]]:
        """Return field to blobs.

        Raises:
            SpecError: A field is missing, unknown, or does not fit its type.
            CodecError: A value does not encode.
        """
        if type(record) is not dict or record.keys() != self._encoders.keys():
            _check_mapping(record)
            self._check_names(record)
            return {name: encode(record.get(name)) for name, encode in self._encoders.items()}
        return {name: encode(record[name]) for name, encode in self._encoders.items()}

    def rows(self, format: str, records: Sequence[Any]) -> tuple[StoredRecords, BaseException | None]:
        """Return the records before the first that raises an error, as they are stored, and this error."""
        found: dict[str, Blobs] = {}
        n_fields = len(self._encoders)
        if {*map(type, records)} == {dict} and {*map(len, records)} == {n_fields}:
            with contextlib.suppress(KeyError):
                columns = {name: [record[name] for record in records] for name in self._encoders}
                found = {name: blobs for name in columns if (blobs := self._at_once(name, columns[name])) is not None}
        rest = {name: encode for name, encode in self._encoders.items() if name not in found}
        if not rest:
            return StoredRecords(format, {name: (blobs, None) for name, blobs in found.items()}), None
        rows: list[dict[str, Sequence[bytes]]] = []
        failure: BaseException | None = None
        try:
            for record in records:
                row = {name: encode(record[name]) for name, encode in rest.items()} if found else self(record)
                rows.append(row)
        except BaseException as error:
            failure = error
        one_by_one = {name: join_values([row[name] for row in rows]) for name in rest}
        at_once = {name: (blobs.take(slice(0, len(rows))), None) for name, blobs in found.items()}
        return StoredRecords(format, {name: (at_once | one_by_one)[name] for name in self._encoders}), failure

    def columns(self, format: str, columns: Mapping[str, Column]) -> StoredRecords | None:
        """Return the records of these columns as they are stored; `None` if they have other fields, or lack some.

        Raises:
            SpecError: A value does not fit its type.
            CodecError: A value does not encode.
        """
        lacks = any(getattr(column, "present", None) is not None for column in columns.values())
        if lacks or columns.keys() != self._encoders.keys():
            return None
        return StoredRecords(format, {name: self._column(name, columns[name]) for name in self._encoders})

    def _column(self, name: str, column: Column) -> tuple[Blobs, NDArray[np.int64] | None]:
        blobs, encode = self._at_once(name, column), self._encoders[name]
        return join_values([encode(value) for value in items_of(column)]) if blobs is None else (blobs, None)

    def _at_once(self, name: str, column: Column) -> Blobs | None:
        """Return the blobs of a column, or of a list of values; `None` if they must be encoded one by one."""
        try:
            blobs = self._batch[name](column)
        except MemoryError:
            raise
        except Exception:  # encoding one by one reports the error of the first value
            return None
        return blobs if blobs is not None and len(blobs) == len(column) else None

    def _check_names(self, record: Mapping[str, Any]) -> None:
        for name in record:
            if name not in self._encoders:
                raise SpecError("the spec has no such field", field=str(name))
        for name in self._encoders:
            if name not in record and name not in self._optional:
                what = "the record lacks this field; every record needs every field whose type has no '?'"
                raise SpecError(what, field=name, remedy="Give it a value, or declare its type with '?'")


def _field_encoder(name: str, type_: Type, stored: Type, codecs: CodecResolver) -> Callable[[Any], Sequence[bytes]]:
    """Return the function from a value to its blobs."""
    if type_.is_blob_list and type_.optional:
        encode_list = codecs.encoder(type_, name)
        return lambda value: MISSING_LIST if value is None else encode_list(value)
    if type_ == stored or type_.dtype is None:
        return codecs.encoder(type_, name)
    encode = codecs.encoder(stored, name)
    return lambda value: encode(None if value is None and type_.optional else to_exact_array(type_, value, field=name))


def _batch_encoder(type_: Type, stored: Type, codecs: CodecResolver) -> Callable[[Column], Blobs | None]:
    """Return the function from a column to one blob a value, or to `None`: see `CodecResolver.batch_encoder`."""
    dtype = type_.dtype
    if type_ == stored or dtype is None:
        return codecs.batch_encoder(type_)
    encode, numbers = codecs.batch_encoder(stored), NumberColumn(type_)

    def encode_exact(column: Column) -> Blobs | None:
        if isinstance(column, list) and type_.dims:
            return encode([to_exact_array(type_, value) for value in column])
        blobs = numbers.blobs(column) if type_.fixed else None
        return None if blobs is None else encode(blobs.buffer.view(dtype).reshape(len(column), *type_.dims))

    return encode_exact


def encode_chunks(encode: Encode, records: Sequence[Any], format: str) -> Generator[Chunk, None, None]:
    """Encode records a few at a time."""
    begin, size = 0, 1 if isinstance(encode, FieldsEncoder) else _CHUNK_RECORDS
    while begin < len(records):
        chunk = records[begin : begin + size]
        begin += len(chunk)
        if isinstance(encode, FieldsEncoder):
            stored, failure = encode.rows(format, chunk)
            size = max(1, min(_FIELDS_RECORDS, _FIELDS_BYTES * len(chunk) // max(1, stored.n_bytes)))
            yield stored, failure
        else:
            yield _encode_all(encode, chunk)


def _encode_all(encode: Encode, records: Sequence[Any]) -> Chunk:
    encoded: list[Encoded] = []
    try:
        for record in records:
            encoded.append(encode(record))  # noqa: PERF401  # an error keeps those before it
    except BaseException as error:
        return encoded, error
    return encoded, None


def encode_in_threads(encode: Encode, records: Iterable[Any], workers: int) -> Generator[Chunk, None, None]:
    """Encode records in parallel, and yield them in order; at most four for each worker are submitted at a time."""
    pending: deque[Future[Encoded]] = deque()
    iterator, failure = iter(records), None
    with ThreadPoolExecutor(workers) as threads:
        while failure is None:
            try:
                pending.append(threads.submit(encode, next(iterator)))
            except BaseException as error:
                failure = error  # raised when the records before it are appended
            if len(pending) >= 4 * workers:
                yield _result(pending.popleft())
        yield from map(_result, pending)
    if not isinstance(failure, StopIteration):
        yield [], failure


def _result(future: Future[Encoded]) -> Chunk:
    try:
        return [future.result()], None
    except BaseException as error:
        return [], error


def refuse_record(_record: Any) -> bytes:
    """Raise `TypeError`: a writer that copies stored bytes encodes no records."""
    raise TypeError("this writer copies stored bytes")


def _check_mapping(record: Any) -> None:
    if not isinstance(record, Mapping):
        raise SpecError(f"expected a mapping of fields, found {type(record).__name__}")


class PayloadEncoder:
    """Encodes a record with fields into one blob, by a payload.

    Args:
        coder: The payload, bound to the types of the fields.
    """

    def __init__(self, coder: RecordCoder) -> None:
        self._coder = coder

    def __call__(self, record: Any) -> bytes:
        """Return the bytes of a record.

        Raises:
            SpecError: It does not fit the spec.
            CodecError: A value does not encode.
        """
        if type(record) is not dict:
            _check_mapping(record)
        return self._coder.encode(record)

    def columns(self, format: str, columns: Mapping[str, Column]) -> StoredRecords | None:
        """Return the records of these columns as they are stored; `None` if they must be encoded one by one."""
        blobs = self._coder.encode_columns(columns)
        return None if blobs is None else StoredRecords(format, {VALUE: (blobs, None)})


def value_encoder(codec: Codec) -> Encode:
    """Return the encoder of single values."""

    def encode(value: Any) -> bytes:
        try:
            return codec.encode(value)
        except (CodecError, SpecError):
            raise
        except Exception as error:
            remedy = NEEDS_SPEC if isinstance(value, Mapping) else None
            what = f"cannot encode {type(value).__name__}: {error}"
            raise CodecError(what, codec=codec.name, remedy=remedy) from error

    return encode
