"""OutputSchema: format, payload and spec of new data."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataformats.columns.codec_resolver import CodecResolver, as_bytes
from dataformats.errors import Remedy, SpecError, UnknownNameError
from dataformats.interfaces import (
    Backend,
    BlobBackend,
    BlobWriter,
    FieldsBackend,
    FieldsWriter,
    FilePlace,
    RecordCodec,
    WritesSingleValues,
    checked_options,
)
from dataformats.registry import backends, codecs_beside
from dataformats.spec import ML_TYPES, Spec, Type
from dataformats.storage.remote.names import shown_url
from dataformats.writing.encoding import NEEDS_SPEC, Encode, FieldsEncoder, PayloadEncoder, value_encoder


class OutputSchema:
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
        SpecError: The format is only read, or cannot hold the spec; every offending field is named.
        TypeError: The format has no such option.
        ValueError: It has no such compression.
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
        self.spec = spec
        self.options: dict[str, Any] = checked_options(self.backend, "create", options)
        self.stored: Spec | None = stored
        self.payload: str | None = payload or "bytes"
        self._create: Callable[..., BlobWriter | FieldsWriter]
        if isinstance(self.backend, BlobBackend):
            if payload is None:
                self.payload = self.backend.value_payload if spec is None else self.backend.payload_for(spec)
            self._create = self.backend.create
            is_inferred = self.backend.guess_payload([]) == "bytes"
            self.needs_sidecar: bool = spec is not None or self.payload != "bytes" or not is_inferred
        elif isinstance(self.backend, FieldsBackend):
            self._init_fields(self.backend, payload)

    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return the names of the shards of a folder. Shards of a hidden folder are not hidden."""
        return list(self.backend.shard_names(stem.lstrip("."), count, **self.options))

    def shard_name(self, stem: str, number: int) -> str:
        """Return the name of one shard if their number is not known yet."""
        return self.backend.shard_name(stem.lstrip("."), number, **self.options)

    def _init_fields(self, backend: FieldsBackend, payload: str | None) -> None:
        """Set what differs if fields are stored separately."""
        if self.spec:
            if payload is not None:
                remedy = Remedy("Leave out {payload}.", payload=payload)
                raise SpecError(f"{backend.name} stores each field separately", remedy=remedy)
            self.payload = None
            if self.stored is None:
                shaped = [name for name, kind in self.spec.items() if kind.shape_fields]
                self.stored = backend.stored_spec(as_bytes(self.spec, shaped), **self.options)
            _check_optional(backend, {**self.spec, **self.stored})
            self._create = functools.partial(backend.create, stored=self.stored)
            has_names = any(kind.class_names for kind in self.spec.values())
            self.needs_sidecar = not backend.stores_full_spec or self.spec != self.stored or has_names
        elif self.spec is None and isinstance(backend, WritesSingleValues):
            self._create = backend.create_values
            self.needs_sidecar = self.payload != "bytes"
        else:
            remedy = Remedy("Pass {spec} with a type for each field.", spec=...)
            found = "single values" if self.spec is None else "records without any"
            raise SpecError(f"{backend.name} stores fields, not {found}", remedy=remedy)

    def encoder(self, codecs: Mapping[str, Any] | None, spec: Spec | None = None, *, trusted: bool = True) -> Encode:
        """Return a function from a record to its bytes, or to the blobs of its fields.

        Args:
            codecs: See `create`.
            spec: The types of the records' values, if they differ from the declared types: `bytes` for blobs that are
                encoded already.
            trusted: False if a file named the types.

        Raises:
            SpecError: The payload needs a spec, or holds no fields, or cannot hold this spec.
        """
        resolver = CodecResolver(codecs, trusted=trusted, installed=codecs_beside(self.backend.name))
        given = spec if spec is not None else self.spec
        _check_written(given or {})
        if self.stored is not None and given is not None:
            return FieldsEncoder(given, self.stored, resolver)
        codec = resolver.codec(Type.parse(str(self.payload)))
        if isinstance(codec, RecordCodec):
            if given is None:
                raise SpecError(f"the payload {self.payload!r} holds fields", remedy=NEEDS_SPEC)
            for kind in given.values():
                resolver.codec(kind.element)  # raises for an unknown one before anything is written
            return PayloadEncoder(codec.bind(given, resolver))
        if given is not None:
            remedy = Remedy("Leave out {spec} or {payload}.", spec=..., payload=...)
            raise SpecError(f"the payload {self.payload!r} holds single values, not fields", remedy=remedy)
        return value_encoder(codec)

    def create(self, partial: Path, resume: bool, place: FilePlace) -> BlobWriter | FieldsWriter:
        """Return a writer of one file or folder."""
        known = {"place": place} if self._takes("place") else {}
        return self._create(partial, resume=resume, **known, **self.options)

    def _takes(self, parameter: str) -> bool:
        return parameter in _parameters(type(self.backend).create)  # type: ignore[attr-defined]  # both kinds have it

    def counted(self, n_records: int) -> OutputSchema:
        """Return the schema for `n_records` records; some formats write faster if they know the number."""
        if "records" in self.options or not self._takes("records"):
            return self
        schema = copy.copy(self)
        schema.options = {**self.options, "records": n_records}
        return schema

    def sidecar(self) -> dict[str, Any] | None:
        """Return the metadata that the format cannot store; `None` if it stores all."""
        if not self.needs_sidecar:
            return None
        spec: dict[str, Any] = {} if self.spec is None else {"spec": self.spec.to_json()}
        if self.spec and self.stored and isinstance(self.backend, FieldsBackend) and self.backend.infers_types:
            stored = self.stored
            known = {name: kind for name, kind in self.spec.items() if kind != stored[name] or kind.class_names}
            spec = {"spec": Spec(known).to_json(), "other_fields": True} if known else {}
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"format": self.backend.name, **payload, **spec}


@functools.cache  # reading a signature takes longer than creating a file
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _check_written(spec: Mapping[str, Type]) -> None:
    """Raise `SpecError` for types that are only read."""
    wider = {name: replace(kind, codec="float32") for name, kind in spec.items() if kind.codec in ML_TYPES}
    wider |= {name: replace(kind, args=()) for name, kind in spec.items() if kind.shape_fields}
    if wider:
        raise SpecError.of(
            SpecError(
                f"values of {spec[name].element} are read, not written",
                field=name,
                remedy=Remedy("Pass {spec}.", spec={name: str(kind)}),
            )
            for name, kind in wider.items()
        )


def _check_optional(backend: FieldsBackend, spec: Mapping[str, Type]) -> None:
    """Raise `SpecError` for optional types if records of the format cannot lack a field."""
    wrong = [] if backend.stores_optional_fields else [name for name, kind in spec.items() if kind.optional]
    if wrong:
        what = f"every {backend.name} record has every field"
        remedy = "Write another format, such as Parquet or TFRecord, or leave the field out."
        raise SpecError.of(
            SpecError(f"{what}, found the type {spec[name]}", field=name, remedy=remedy) for name in wrong
        )


def format_of(path: object) -> str:
    """Return the format that the name of a new file belongs to.

    Raises:
        UnknownNameError: It belongs to none, or to several.
    """
    matching = _formats_of(path)
    matching = _writable(matching) or matching
    if len(matching) != 1:
        remedy, writable = Remedy("Pass {format}.", format=...), _writable(one.name for one in backends.values())
        raise UnknownNameError("format for the name", name=_last_name(path), known=writable, remedy=remedy)
    return matching[0]


def check_copy_name(path: object, format: str) -> None:
    """Raise `SpecError` if the name of new data belongs to another format than the copied records."""
    matching = [name for name in _formats_of(path) if _last_name(path).endswith(backends.get(name).suffixes)]
    if matching and format not in matching:
        what = f"{shown_url(path)!r} is a name of {matching[0]} data, and the records stay {format}"
        raise SpecError(what, remedy="Choose another name, or convert the data")


def _writable(formats: Iterable[str]) -> list[str]:
    return [name for name in formats if isinstance(backends.get(name), BlobBackend | FieldsBackend)]


def _formats_of(path: object) -> list[str]:
    name = _last_name(path)
    return [backend.name for backend in backends.values() if backend.matches_name(name)]


def _last_name(path: object) -> str:
    return shown_url(path).rstrip("/").rsplit("/", 1)[-1].lower()
