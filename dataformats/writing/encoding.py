"""How a record becomes what a format stores: one blob, or the blobs of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.exact import exact
from dataformats.errors import CodecError, Remedy, SpecError
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

__all__ = ["Encode", "Encoded", "WriteSchema", "refuse"]

Encoded = bytes | Mapping[str, Sequence[bytes]]
"""A record as stored: one blob, or the blobs of each field."""
Encode = Callable[[Any], Encoded]


_NEEDS_SPEC = Remedy("For records with fields, pass {spec} with a type for each field.", spec=...)


class WriteSchema:
    """What records are encoded as.

    Args:
        format: The file format.
        payload: The codec of whole records; `None` is the format's for this spec.
        spec: The fields; `None` where records are single values, or where a reader infers them.
        options: The format's own.

    Attributes:
        stored: For formats that store fields apart, the types under which they are stored; else `None`.

    Raises:
        SpecError: The format cannot hold the spec; every offending field is named.
    """

    def __init__(self, format: str, payload: str | None, spec: Spec | None, options: Mapping[str, Any]) -> None:
        self.backend: Backend = backends.get(format)
        self.spec = spec
        self.options: dict[str, Any] = dict(options)
        self.stored: Spec | None = None
        self.payload: str | None = payload or "bytes"
        check_options(self.backend, "create", options)
        needs_spec = isinstance(self.backend, FieldsBackend) and not isinstance(self.backend, WritesSingleValues)
        if needs_spec and spec is None:
            remedy = Remedy("Pass {spec} with a type for each field.", spec=...)
            raise SpecError(f"{format} stores fields, not single values", remedy=remedy)
        if isinstance(self.backend, FieldsBackend) and spec is not None:
            if payload is not None:
                remedy = Remedy("Leave out {payload}.", payload=payload)
                raise SpecError(f"{format} stores each field separately", remedy=remedy)
            self.stored = self.backend.stored_spec(spec, **options)
            self.payload = None
        elif isinstance(self.backend, BlobBackend) and payload is None and spec is not None:
            self.payload = self.backend.payload_for(spec)

    def encoder(self, codecs: Mapping[str, Any] | None, spec: Spec | None = None, *, trusted: bool = True) -> Encode:
        """Return what turns a record into its bytes, or into the blobs of its fields.

        Args:
            codecs: As in `create`.
            spec: Types that records come in, where they differ from the declared ones: `bytes` for blobs that are
                encoded already.
            trusted: False where a file named the types.

        Raises:
            SpecError: The payload needs a spec, or holds none, or cannot hold this one.
        """
        resolver = CodecResolver(codecs, trusted=trusted)
        given = spec if spec is not None else self.spec
        if self.stored is not None and given is not None:
            return FieldsEncoder(given, self.stored, resolver)
        codec = resolver.codec(Type.parse(str(self.payload)))
        if isinstance(codec, RecordCodec):
            if given is None:
                raise SpecError(f"the payload {self.payload!r} holds fields", remedy=_NEEDS_SPEC)
            return _of_mappings(codec.bind(given, resolver).encode)
        if given is not None:
            remedy = Remedy("Leave out {spec} or {payload}.", spec=..., payload=...)
            raise SpecError(f"the payload {self.payload!r} holds single values, not fields", remedy=remedy)
        return _guarded(codec)

    def create(self, partial: Path, resume: bool) -> BlobWriter | FieldsWriter:
        """Return a writer of one file or folder."""
        if isinstance(self.backend, FieldsBackend) and self.stored is not None:
            return self.backend.create(partial, stored=self.stored, resume=resume, **self.options)
        if isinstance(self.backend, WritesSingleValues):
            return self.backend.create_values(partial, resume=resume, **self.options)
        assert isinstance(self.backend, BlobBackend)  # there is no third kind; for the type checker
        return self.backend.create(partial, resume=resume, **self.options)

    def facts(self) -> dict[str, Any] | None:
        """Return what a reader cannot tell from the files; `None` where there is nothing."""
        told = not isinstance(self.backend, BlobBackend) or self.backend.guess_payload([]) == "bytes"
        if told and self.spec is None and self.payload == "bytes":
            return None
        tells = isinstance(self.backend, FieldsBackend) and self.backend.stores_full_spec
        if tells and self.spec is not None and self.spec == self.stored:
            return None
        spec = {} if self.spec is None else {"spec": self.spec.to_json()}
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"format": self.backend.name, **payload, **spec}


class FieldsEncoder:
    """Turns a record into the blobs of its fields, all or none.

    Args:
        given: The types that values come in.
        stored: The types under which they are stored.
        codecs: From types to codecs.
    """

    def __init__(self, given: Spec, stored: Spec, codecs: CodecResolver) -> None:
        self._given = given
        self._stored = stored
        self._codecs = codecs
        for kind in given.values():
            codecs.codec(kind)  # an unknown one is refused here, before anything is written

    def __call__(self, record: Any) -> dict[str, list[bytes]]:
        """Return field to blobs.

        Raises:
            SpecError: A field is missing, unknown, or does not fit its type.
            CodecError: A value does not encode.
        """
        if not isinstance(record, Mapping):
            raise SpecError(f"expected a mapping of fields, found {type(record).__name__}")
        for name in record:
            if name not in self._given:
                raise SpecError("the spec has no such field", field=str(name))
        for name in self._given:
            if name not in record:
                raise SpecError("the record lacks this field; the format holds every field of every record", field=name)
        return {name: self._blobs(name, kind, record[name]) for name, kind in self._given.items()}

    def _blobs(self, name: str, given: Type, value: Any) -> list[bytes]:
        stored = self._stored[name]
        if given == stored or given.dtype is None:
            return self._codecs.encode(given, value, field=name)
        return self._codecs.encode(stored, exact(given, value, field=name), field=name)


def refuse(_record: Any) -> bytes:
    """Refuse a record: a writer that copies stored bytes encodes nothing."""
    raise TypeError("this writer copies stored bytes")


def _of_mappings(encode: Callable[[Mapping[str, Any]], bytes]) -> Encode:
    def checked(record: Any) -> bytes:
        if not isinstance(record, Mapping):
            raise SpecError(f"expected a mapping of fields, found {type(record).__name__}")
        return encode(record)

    return checked


def _guarded(codec: Codec) -> Encode:
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
