"""What the stored bytes of a data set mean: payload, fields and codecs, as told or as samples show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.decode import FieldDecoder
from dataformats.errors import CorruptRecordError, Remedy, SpecError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.sidecar import load_inferred, save_inferred
from dataformats.interfaces import Backend, BlobBackend, Codec, Reader, RecordCodec, RecordCoder
from dataformats.spec import VALUE, Spec, Type

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments

__all__ = ["BoundSchema", "DatasetSchema", "DeclaredSchema", "declared_schema"]


Samples = Callable[[], "Callable[[], Iterable[bytes]] | None"]
"""As `weakref.WeakMethod`."""


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """Payload, spec and codecs as the call or a sidecar declares them.

    Attributes:
        payload: The codec of whole records; `None` infers it from samples.
        spec: The fields; `None` infers them from samples.
        codecs: Resolves types to codecs.
    """

    payload: str | None
    spec: Spec | None
    codecs: CodecResolver


def declared_schema(arguments: OpenArguments, facts: Mapping[str, Any]) -> DeclaredSchema:
    """Return what the call declares, else what the sidecar does.

    Only the call may name codecs that are not safe; a sidecar's types may be opaque names, as in any file.

    Args:
        arguments: Of the call.
        facts: Of the sidecar; its spec is of its payload alone.
    """
    payload, spec, codecs = arguments.payload, arguments.spec, arguments.codecs
    kinds = [*(spec or {}).values(), *([Type.parse(payload)] if payload is not None else [])]
    resolver = CodecResolver(codecs, trusted=frozenset(kind.codec for kind in kinds))
    if spec is None and facts.get("spec") is not None and payload in (None, facts.get("payload")):
        spec = Spec({name: Type.named(text) for name, text in facts["spec"].items()})
    return DeclaredSchema(payload if payload is not None else facts.get("payload"), spec, resolver)


@dataclass(frozen=True, slots=True)
class BoundSchema:
    """What every read needs of it, put together once.

    Attributes:
        spec: The fields.
        coder: What decodes whole records; `None` where they are single values or fields are stored apart.
        single: True where records are single values.
        whole: The mask of all fields.
        fields: What decodes the fields that are stored apart, as far as anybody asked.
    """

    spec: Spec
    coder: RecordCoder | None
    single: bool
    whole: dict[str, bool | range]
    fields: dict[str, FieldDecoder] = field(default_factory=dict)


class DatasetSchema:
    """Payload, spec and codecs of the records of a reader, each found out when it is asked for. Thread-safe.

    Args:
        backend: The format.
        reader: The opened files.
        declared: What the call or a sidecar declares.
        index: Where an inferred spec is kept, as `open` has it.
        samples: Refers to what yields some sound records, spread over all files: weakly, because its owner owns this.
    """

    def __init__(
        self, backend: Backend, reader: Reader, declared: DeclaredSchema, index: str, samples: Samples
    ) -> None:
        self._backend = backend
        self._reader = reader
        self._declared = declared
        self._index = index
        self._samples = samples
        self._payload, self._spec = declared.payload, declared.spec
        self._codec: Codec | None = None
        self._coder: RecordCoder | None = None
        self._decoding: BoundSchema | None = None
        for name in declared.spec or () if reader.spec is not None else ():
            if name not in reader.spec:  # type: ignore[operator]  # it is not None
                raise SpecError(f"the files have no such field: {', '.join(reader.spec or ())}", field=name)
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    def _samples_now(self) -> Iterable[bytes]:
        samples = self._samples()
        return () if samples is None else samples()

    @property
    def payload(self) -> str | None:
        """The codec of whole records; `None` in formats that store fields apart."""
        if self._reader.spec is not None:
            return None
        with self._lock:
            if self._payload is None and isinstance(self._backend, BlobBackend):
                self._payload = self._backend.guess_payload(self._samples_now())
            return self._payload or "bytes"

    @property
    def payload_codec(self) -> Codec | None:
        """The codec of whole records; `None` in formats that store fields apart."""
        name = self.payload
        if name is not None and self._codec is None:
            self._codec = self._declared.codecs.codec(Type.named(name))
        return self._codec

    @property
    def spec_is_inferred(self) -> bool:
        """True where nobody gave the spec and the records told it."""
        return self._declared.spec is None and isinstance(self.payload_codec, RecordCodec)

    @property
    def hidden_fields(self) -> tuple[str, ...]:
        """Fields that samples hold and the spec leaves out."""
        codec = self.payload_codec
        if self._declared.spec is None or not isinstance(codec, RecordCodec):
            return ()
        return tuple(name for name in codec.infer(_parsing(codec, self._samples_now())) if name not in self.spec)

    @property
    def spec(self) -> Spec:
        """The fields.

        Raises:
            SpecError: The call gives fields to records that have none.
        """
        with self._lock:
            if self._spec is None:
                self._spec = self._reader.spec or self._payload_spec()
            elif self._reader.spec is None and self.single and tuple(self._spec) != (VALUE,):
                raise SpecError(
                    f"records of the payload {self.payload!r} are single values without fields",
                    remedy=Remedy("Leave out {spec}, or pass the {payload} that has fields.", spec=..., payload=...),
                )
            return self._spec

    def _payload_spec(self) -> Spec:
        codec = self.payload_codec
        if not isinstance(codec, RecordCodec):
            return Spec({VALUE: Type.named(str(self.payload))})
        known = load_inferred(self._reader.files, self._index)
        if known is not None and known.get("payload") == self.payload:
            return Spec(known["spec"])
        return codec.infer(_parsing(codec, self._samples_now()))

    @property
    def single(self) -> bool:
        """True where records are single values."""
        return self._reader.spec is None and not isinstance(self.payload_codec, RecordCodec)

    @property
    def coder(self) -> RecordCoder | None:
        """What encodes and decodes the payload; `None` where records are single values or fields stored apart."""
        codec = self.payload_codec
        if not isinstance(codec, RecordCodec):
            return None
        with self._lock:
            if self._coder is None:
                self._coder = codec.bind(self.spec, self._declared.codecs, inferred=self.spec_is_inferred)
            return self._coder

    @property
    def decoding(self) -> BoundSchema:
        """All that a read needs, put together at the first use."""
        known = self._decoding
        if known is None:
            with self._lock:  # or what was adopted meanwhile would be forgotten
                known = self._decoding = BoundSchema(self.spec, self.coder, self.single, dict.fromkeys(self.spec, True))
        return known

    def adopt(self, payload: str | None, spec: Spec) -> None:
        """Take what was inferred before, in another process, in place of inferring it again."""
        with self._lock:
            self._payload, self._spec, self._codec, self._coder, self._decoding = payload, spec, None, None, None

    def infer_from(self, records: Iterable[bytes]) -> Spec:
        """Infer the spec from these records in place of samples, and keep it until a file changes."""
        codec = self.payload_codec
        if not self.spec_is_inferred or not isinstance(codec, RecordCodec):
            return self.spec
        spec = codec.infer(_parsing(codec, records))
        self.adopt(self.payload, spec)
        save_inferred(self._reader.files, self._index, {"payload": self.payload, "spec": spec.to_json()})
        return spec


def _parsing(codec: RecordCodec, blobs: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blobs that parse, unknown fields and all; the others say so when they are read."""
    for blob in blobs:
        try:
            codec.decode(blob)
        except (CorruptRecordError, ValueError):
            continue
        yield blob
