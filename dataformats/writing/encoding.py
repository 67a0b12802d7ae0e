"""Encode records as a format stores them: one blob, or the blobs of each field."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, StoredRecords
from dataformats.batch.column_types import items_of
from dataformats.batch.stored_records import join_values
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.exact import exact
from dataformats.columns.numbers import Numbers
from dataformats.errors import CodecError, Remedy, SpecError, UnknownNameError
from dataformats.interfaces import (
    Backend,
    BlobBackend,
    BlobWriter,
    Codec,
    FieldsBackend,
    FieldsWriter,
    RecordCodec,
    WritesSingleValues,
    check_options,
)
from dataformats.registry import backends
from dataformats.spec import Spec, Type

__all__ = ["Encode", "Encoded", "FieldsEncoder", "WriteSchema", "format_of", "refuse"]

Encoded = bytes | Mapping[str, Sequence[bytes]]
"""A record as stored: one blob, or the blobs of each field."""
Encode = Callable[[Any], Encoded]

_NEEDS_SPEC = Remedy("For records with fields, pass {spec} with a type for each field.", spec=...)


class WriteSchema:
    """Format, payload and spec of new data.

    Args:
        format: The file format.
        payload: The codec of whole records; `None` is the format's for this spec.
        spec: The fields; `None` if records are single values, or if a reader infers them.
        options: The options of the format.
        stored: If fields are stored separately, the types under which they are stored; `None` chooses them.

    Attributes:
        backend: The format.
        payload: The codec of whole records; `None` if fields are stored separately.
        spec: The fields.
        options: The options of the format.
        needs_sidecar: True if the format cannot store all of it.
        stored: If fields are stored separately, the types under which they are stored; else `None`.

    Raises:
        SpecError: The format cannot hold the spec; every offending field is named.
        TypeError: The format has no such option.
    """

    def __init__(
        self,
        format: str,
        payload: str | None,
        spec: Spec | None,
        options: Mapping[str, Any],
        stored: Spec | None = None,
    ) -> None:
        self.backend: Backend = backends.get(format)
        check_options(self.backend, "create", options)
        self.spec = spec
        self.options: dict[str, Any] = dict(options)
        self.stored: Spec | None = stored
        self.payload: str | None = payload or "bytes"
        self._create: Callable[..., BlobWriter | FieldsWriter]
        if isinstance(self.backend, BlobBackend):
            if payload is None and spec is not None:
                self.payload = self.backend.payload_for(spec)
            self._create = self.backend.create
            is_inferred = self.backend.guess_payload([]) == "bytes"
            self.needs_sidecar: bool = spec is not None or self.payload != "bytes" or not is_inferred
        elif isinstance(self.backend, FieldsBackend):
            self._init_fields(self.backend, payload)
        else:
            raise TypeError(f"{format}: expected a BlobBackend or a FieldsBackend, found {type(self.backend).__name__}")

    def _init_fields(self, backend: FieldsBackend, payload: str | None) -> None:
        """Set what differs if fields are stored separately."""
        if self.spec is not None:
            if payload is not None:
                remedy = Remedy("Leave out {payload}.", payload=payload)
                raise SpecError(f"{backend.name} stores each field separately", remedy=remedy)
            self.payload = None
            if self.stored is None:
                self.stored = backend.stored_spec(self.spec, **self.options)
            self._create = functools.partial(backend.create, stored=self.stored)
            self.needs_sidecar = not backend.stores_full_spec or self.spec != self.stored
        elif isinstance(backend, WritesSingleValues):
            self._create = backend.create_values
            self.needs_sidecar = self.payload != "bytes"
        else:
            remedy = Remedy("Pass {spec} with a type for each field.", spec=...)
            raise SpecError(f"{backend.name} stores fields, not single values", remedy=remedy)

    def encoder(self, codecs: Mapping[str, Any] | None, spec: Spec | None = None, *, trusted: bool = True) -> Encode:
        """Return a function from a record to its bytes, or to the blobs of its fields.

        Args:
            codecs: As in `create`.
            spec: The types of the records' values, if they differ from the declared types: `bytes` for blobs that are
                encoded already.
            trusted: False if a file named the types.

        Raises:
            SpecError: The payload needs a spec, or holds no fields, or cannot hold this spec.
        """
        resolver = CodecResolver(codecs, trusted=trusted)
        given = spec if spec is not None else self.spec
        if self.stored is not None and given is not None:
            return FieldsEncoder(given, self.stored, resolver)
        codec = resolver.codec(Type.parse(str(self.payload)))
        if isinstance(codec, RecordCodec):
            if given is None:
                raise SpecError(f"the payload {self.payload!r} holds fields", remedy=_NEEDS_SPEC)
            for kind in given.values():
                resolver.codec(kind.element)  # raises for an unknown one before anything is written
            return _mapping_encoder(codec.bind(given, resolver).encode)
        if given is not None:
            remedy = Remedy("Leave out {spec} or {payload}.", spec=..., payload=...)
            raise SpecError(f"the payload {self.payload!r} holds single values, not fields", remedy=remedy)
        return _value_encoder(codec)

    def create(self, partial: Path, resume: bool) -> BlobWriter | FieldsWriter:
        """Return a writer of one file or folder."""
        return self._create(partial, resume=resume, **self.options)

    def counted(self, n_records: int) -> WriteSchema:
        """Return the schema of so many records, which some formats write faster if they know it."""
        if "records" in self.options or "records" not in inspect.signature(self.backend.create).parameters:  # type: ignore[attr-defined]  # both kinds have it
            return self
        options = {**self.options, "records": n_records}
        return WriteSchema(self.backend.name, self.payload, self.spec, options)

    def sidecar(self) -> dict[str, Any] | None:
        """Return the metadata that the format cannot store; `None` if it stores all."""
        if not self.needs_sidecar:
            return None
        spec = {} if self.spec is None else {"spec": self.spec.to_json()}
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"format": self.backend.name, **payload, **spec}


class FieldsEncoder:
    """Encodes a record into the blobs of its fields.

    Args:
        given: The types of the values.
        stored: The types under which they are stored.
        codecs: Resolves types to codecs.
    """

    def __init__(self, given: Spec, stored: Spec, codecs: CodecResolver) -> None:
        for kind in given.values():
            codecs.codec(kind)  # raises for an unknown one before anything is written
        self._encoders = {name: _field_encoder(name, kind, stored[name], codecs) for name, kind in given.items()}
        self._batch = {name: _batch_encoder(kind, stored[name], codecs) for name, kind in given.items()}

    def __call__(self, record: Any) -> dict[str, list[bytes]]:
        """Return field to blobs.

        Raises:
            SpecError: A field is missing, unknown, or does not fit its type.
            CodecError: A value does not encode.
        """
        if type(record) is not dict or record.keys() != self._encoders.keys():
            _check_mapping(record)
            self._check_names(record)
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
        rows: list[dict[str, list[bytes]]] = []
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
            if name not in record:
                raise SpecError("the record lacks this field; every record needs every field", field=name)


def _field_encoder(name: str, given: Type, stored: Type, codecs: CodecResolver) -> Callable[[Any], list[bytes]]:
    """Return the function from a value to its blobs."""
    if given == stored or given.dtype is None:
        return codecs.encoder(given, name)
    encode = codecs.encoder(stored, name)
    return lambda value: encode(exact(given, value, field=name))


def _batch_encoder(given: Type, stored: Type, codecs: CodecResolver) -> Callable[[Column], Blobs | None]:
    """Return the function from a column to one blob a value, or to `None`: see `CodecResolver.batch_encoder`."""
    dtype = given.dtype
    if given == stored or dtype is None:
        return codecs.batch_encoder(given)
    encode, numbers = codecs.batch_encoder(stored), Numbers(given)

    def encode_exact(column: Column) -> Blobs | None:
        if isinstance(column, list) and given.dims:
            return encode([exact(given, value) for value in column])
        blobs = numbers.blobs(column) if given.fixed else None
        return None if blobs is None else encode(blobs.buffer.view(dtype).reshape(len(column), *given.dims))

    return encode_exact


def format_of(path: object) -> str:
    """Return the format that the name of a new file belongs to.

    Raises:
        UnknownNameError: It belongs to none, or to several.
    """
    name = str(path).rstrip("/").rsplit("/", 1)[-1].lower()
    matching = [format for format in backends if backends.get(format).matches_name(name)]
    if len(matching) != 1:
        remedy = Remedy("Pass {format}.", format=...)
        raise UnknownNameError("format for the name", name=name, known=backends, remedy=remedy)
    return matching[0]


def refuse(_record: Any) -> bytes:
    """Raise `TypeError`: a writer that copies stored bytes encodes no records."""
    raise TypeError("this writer copies stored bytes")


def _check_mapping(record: Any) -> None:
    if not isinstance(record, Mapping):
        raise SpecError(f"expected a mapping of fields, found {type(record).__name__}")


def _mapping_encoder(encode: Callable[[Mapping[str, Any]], bytes]) -> Encode:
    def checked(record: Any) -> bytes:
        if type(record) is not dict:
            _check_mapping(record)
        return encode(record)

    return checked


def _value_encoder(codec: Codec) -> Encode:
    def encode(value: Any) -> bytes:
        try:
            return codec.encode(value)
        except (CodecError, SpecError):
            raise
        except Exception as error:
            remedy = _NEEDS_SPEC if isinstance(value, Mapping) else None
            what = f"cannot encode {type(value).__name__}: {error}"
            raise CodecError(what, codec=codec.name, remedy=remedy) from error

    return encode
