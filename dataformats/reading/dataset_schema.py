"""Resolve payload, spec and codecs of a dataset: from the call, from a sidecar, or by sampling records."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dataformats.columns.batch_decoder import BatchDecoder, bind
from dataformats.columns.codec_resolver import CodecResolver, as_bytes
from dataformats.columns.column_cast import can_cast
from dataformats.columns.stored_type import stored_type, unreadable_type
from dataformats.errors import CorruptRecordError, Remedy, SpecError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.inferred_spec import load_inferred, save_inferred
from dataformats.interfaces import Backend, Codec, Reader, RecordCodec, RecordCoder, Table
from dataformats.registry import codecs_beside
from dataformats.spec import VALUE, Spec, Type

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments

_MAX_PAYLOAD_SAMPLES = 16  # samples that tell the payload of declared fields


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """Payload, spec and codecs as the call or a sidecar declares them.

    Attributes:
        payload: The codec of whole records; `None` infers it from samples.
        spec: The types of fields; `None` infers all from samples.
        payload_codecs: Resolves the payload to its codec.
        codecs: Resolves the types of fields, and of single values.
        is_saved: True if a sidecar declares the spec.
        is_whole: True if the spec has all fields. If it has some, the others have the types of the files, or inferred
            types.
        saved: The types of a sidecar, with which the records were written; `None` without one.
    """

    payload: str | None
    spec: Spec | None
    payload_codecs: CodecResolver
    codecs: CodecResolver
    is_saved: bool = False
    is_whole: bool = False
    saved: Spec | None = None

    def of(self, spec: Spec) -> DeclaredSchema:
        """Return the same with another spec, of all fields."""
        return replace(self, spec=spec, is_saved=self.is_saved and self.spec == spec, is_whole=True)

    def with_named_types(self, spec: Spec, named: Spec) -> Spec:
        """Return a spec with the types that the call of `with_spec` names.

        Raises:
            UnknownNameError: A new type has an unknown codec, or one that `open` must name.
        """
        for name, kind in named.items():
            if name not in spec or spec[name].element != kind.element:
                self.codecs.known_codec(kind)
        return with_types(spec, named)

    def over(self, stored: Spec) -> Spec:
        """Return the declared types and, for the other fields, the types of the files.

        If the call names an unsafe codec, such as `pickle`, for some fields, other fields of it are read as bytes.
        """
        if self.spec is None or self.is_whole:
            return self.spec or stored
        of_files = CodecResolver(self.codecs.overrides, trusted=False, installed=self.codecs.installed)
        untrusted = of_files.opaque(stored).keys() - self.codecs.opaque(stored).keys()
        return with_types(as_bytes(stored, untrusted), self.spec)

    def written(self, spec: Spec) -> Spec:
        """Return the types that decode the records under a spec: numbers as they were written, to be cast.

        Raises:
            SpecError: The sidecar's type of a field cannot be cast to the spec's type.
        """
        found = dict(spec)
        for name, kind in spec.items():
            stored = kind if self.saved is None else self.saved.get(name, kind)
            if stored.dtype is None or kind.dtype is None or stored.codec == kind.codec:
                continue
            if not can_cast(stored.element, kind.element):
                raise unreadable_type(stored, name, kind)
            found[name] = replace(kind, codec=stored.codec)
        return Spec(found)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of a sidecar that declare the same."""
        spec = self.spec if self.is_saved else None
        types, saved = (None if one is None else one.to_json() for one in (spec, self.saved))
        return {"payload": self.payload, "spec": types, "other_fields": not self.is_whole, "saved": saved}


def declared_schema(arguments: OpenArguments, format: str, metadata: Mapping[str, Any]) -> DeclaredSchema:
    """Return the schema that the call declares, else the sidecar's.

    Only the call may name codecs that are not safe, or that belong neither to this package nor to the format's; a
    sidecar's types may be opaque names, as in any file. A codec that the call names as the payload is not trusted as
    the type of a field that a file names, nor the other way round.

    Args:
        arguments: The arguments of `open`.
        format: The format of the files.
        metadata: The metadata of the sidecar; its spec belongs to its payload alone. The call's types replace some of
            the sidecar's, or all of them. `other_fields` is true if the spec lacks fields, whose types are inferred.
    """
    payload, spec = arguments.payload, arguments.spec
    installed = codecs_beside(format)

    def resolver(kinds: Iterable[Type]) -> CodecResolver:
        return CodecResolver(arguments.codecs, trusted=frozenset(kind.codec for kind in kinds), installed=installed)

    payload_codecs = resolver([] if payload is None else [Type.parse(payload)])
    codecs = payload_codecs if spec is None else resolver(spec.values())  # single values without a spec are payloads
    saved = spec_of_json(metadata["spec"]) if spec_applies(payload, metadata) else None
    written = saved if saved is not None else spec_of_json(metadata.get("saved"))
    payload = payload if payload is not None else metadata.get("payload")
    is_whole = not metadata.get("other_fields", False)
    if spec is None and saved is not None:
        return DeclaredSchema(payload, saved, payload_codecs, resolver([]), True, is_whole, saved)
    declared = DeclaredSchema(payload, spec, payload_codecs, codecs, saved=written)
    return declared if saved is None else replace(declared.of(declared.over(saved)), is_whole=is_whole)


def spec_of_json(types: Mapping[str, Any] | None) -> Spec | None:
    """Return a spec whose types may be opaque names."""
    return None if types is None else Spec({name: Type.named(text) for name, text in types.items()})


def spec_applies(payload: str | None, metadata: Mapping[str, Any]) -> bool:
    """True if a sidecar has a spec, and it is of this payload, which the call names or leaves to the sidecar."""
    return metadata.get("spec") is not None and payload in (None, metadata.get("payload"))


class DatasetSchema:
    """Payload, spec and codecs of the records of a reader, each resolved at its first use. Thread-safe.

    Args:
        backend: The format.
        reader: The opened files.
        declared: The schema that the call or a sidecar declares.
        index: Where an inferred spec is kept: see `open`.
        samples: Yields some sound records, spread over all files; a table needs none.
    """

    def __init__(
        self,
        backend: Backend,
        reader: Reader | Table,
        declared: DeclaredSchema,
        index: str,
        samples: Callable[[], Iterable[bytes]] = tuple,
    ) -> None:
        self._backend = backend
        self._reader = reader
        self._declared = declared
        self._index = index
        self._samples = samples
        self._payload = declared.payload
        self._spec: Spec | None = None
        self._codec: Codec | None = None
        self._coder: RecordCoder | None = None
        self._decoder: BatchDecoder | None = None
        self._unlock()
        after_fork(self, "_unlock")
        if declared.spec is not None and (reader.spec is not None or not declared.is_saved):
            self.check(declared.spec)

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    @property
    def payload(self) -> str | None:
        """The codec of whole records; `None` in formats that store fields apart."""
        if self._reader.spec is not None:
            return None
        with self._lock:
            if self._payload is None:
                few = (
                    None if self._declared.spec is None else _MAX_PAYLOAD_SAMPLES
                )  # a payload without these fields is an error
                self._payload = self._backend.guess_payload(itertools.islice(self._samples(), few))
            return self._payload

    @property
    def payload_codec(self) -> Codec | None:
        """The codec of whole records; `None` in formats that store fields apart."""
        name = self.payload
        if name is not None and self._codec is None:
            self._codec = self._declared.payload_codecs.known_codec(Type.named(name))
        return self._codec

    def check(self, spec: Spec) -> None:
        """Raise `SpecError` if the files, or the payload, if it is known already, cannot have these types.

        The types of a sidecar are trusted: a type that this version does not know is opaque, or damage.
        """
        stored = self._reader.spec
        if stored is not None:
            for name, kind in spec.items():
                if name not in stored:
                    raise SpecError(f"the files have no such field: {', '.join(stored)}", field=name)
                if self._declared.saved is None or self._declared.saved.get(name) != kind:
                    with contextlib.suppress(CorruptRecordError):  # a read raises it
                        stored_type(self._reader, name, kind)
        elif self._payload is not None and isinstance(codec := self.payload_codec, RecordCodec):
            codec.bind(spec, self._declared.codecs)

    @property
    def spec_is_inferred(self) -> bool:
        """True if the spec was inferred from records: neither the call nor a sidecar declares it."""
        reader = self._reader
        is_guess = reader.spec_is_inferred if isinstance(reader, Table) else isinstance(self.payload_codec, RecordCodec)
        return is_guess and self._declared.spec is None

    @property
    def opaque_fields(self) -> Mapping[str, Type]:
        """The fields whose types, named by the files or a sidecar, no codec may decode."""
        if self.single or self.spec_is_inferred:
            return {}
        opaque = self._declared.codecs.opaque(self.spec)
        return {name: kind for name, kind in opaque.items() if not self._is_damage(name, kind)}

    def _is_damage(self, field: str, opaque: Type) -> bool:
        """True if the format has a fixed list of types that lacks this one."""
        with contextlib.suppress(SpecError):
            try:
                if self._reader.spec is not None:
                    stored_type(self._reader, field, opaque)
            except CorruptRecordError:
                return True
        return False

    @property
    def spec(self) -> Spec:
        """The fields.

        Raises:
            SpecError: The call declares fields, but records are single values.
        """
        spec = self._spec
        if spec is None:
            with self._lock:
                spec = self._spec = self._resolved() if self._spec is None else self._spec
        return spec

    def _resolved(self) -> Spec:
        declared, reader = self._declared.spec, self._reader
        stored = reader.default_spec if isinstance(reader, Table) else reader.spec
        if stored is None and self.single and declared is not None and tuple(declared) != (VALUE,):
            raise SpecError(
                f"records of the payload {self.payload!r} are single values without fields",
                remedy=Remedy("Leave out {spec}, or pass the {payload} that has fields.", spec=..., payload=...),
            )
        if declared is None or not self._declared.is_whole:
            return self._declared.over(self._payload_spec() if stored is None else stored)
        if stored is None or not self._declared.is_saved:
            return declared  # nothing is sampled
        return Spec({name: _known_by(stored[name], kind) for name, kind in declared.items()})

    def _payload_spec(self) -> Spec:
        codec = self.payload_codec
        if not isinstance(codec, RecordCodec):
            return Spec({VALUE: Type.named(str(self.payload))})
        known = load_inferred(self._reader.files, self._index)
        if known is not None and known.get("payload") == self.payload:
            return Spec(known["spec"])
        return codec.infer(self._samples())

    @property
    def single(self) -> bool:
        """True if records are single values."""
        if isinstance(self._reader, Table):
            return self._reader.single
        return self._reader.spec is None and not isinstance(self.payload_codec, RecordCodec)

    @property
    def coder(self) -> RecordCoder | None:
        """Encodes and decodes the payload; `None` if records are single values or their fields are stored apart."""
        codec = self.payload_codec
        if not isinstance(codec, RecordCodec):
            return None
        with self._lock:
            if self._coder is None:
                written = self._declared.written(self.spec)
                self._coder = codec.bind(written, self._declared.codecs, inferred=self.spec_is_inferred)
            return self._coder

    @property
    def decoder(self) -> BatchDecoder:
        """The decoder of batches, bound at its first use."""
        decoder = self._decoder
        if decoder is None:
            with self._lock:  # or what was adopted meanwhile would be lost
                coder = self.coder
                written = self.spec if coder is None else self._declared.written(self.spec)
                assert isinstance(self._reader, Reader)
                decoder = self._decoder = bind(self._reader, self.spec, self._declared.codecs, coder, written)
        return decoder

    def adopt(self, payload: str | None, spec: Spec) -> None:
        """Use what another process inferred, instead of inferring it again."""
        with self._lock:
            self._payload, self._spec, self._codec, self._coder, self._decoder = payload, spec, None, None, None

    def infer_from(self, records: Iterable[bytes]) -> Spec:
        """Infer the spec from these records instead of samples, and keep it until a file changes."""
        codec = self.payload_codec
        if not self.spec_is_inferred or not isinstance(codec, RecordCodec):
            return self.spec
        spec = codec.infer(records)
        self.adopt(self.payload, spec)
        save_inferred(self._reader.files, self._index, {"payload": self.payload, "spec": spec.to_json()})
        return spec


def _known_by(stored: Type, saved: Type) -> Type:
    """Return the type of a sidecar with what only the files tell of the field."""
    return replace(saved.named_as(stored), arrow_type=stored.arrow_type if saved.required == stored.required else None)


def with_types(spec: Spec, declared: Spec) -> Spec:
    """Return a spec with other types of some fields, or the declared types if they are of all fields.

    Fields that were integers and stay integers keep their class names.
    """
    named = {name: kind.named_as(spec[name]) if name in spec else kind for name, kind in declared.items()}
    return Spec(named if spec.keys() <= named.keys() else {**spec, **named})
