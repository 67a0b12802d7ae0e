"""FileSource: what a source of files says of itself, how it is pickled, and its types, whatever the files are."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dataformats.batch import RecordBatch
from dataformats.fork_hooks import after_fork
from dataformats.interfaces import Backend, FetchesRecords, Reader, Table
from dataformats.interfaces.record_source import Fields, OnCorrupt
from dataformats.interfaces.source_facts import Origin, SourceFacts, SpecFacts, SpecProvenance
from dataformats.reading.dataset_schema import DatasetSchema, DeclaredSchema
from dataformats.reading.decode_fallback import OnFailure
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.pickled_source import PickledSource, pack_files, versions_of
from dataformats.reading.scan import as_numbers
from dataformats.spec import Spec, SpecLike, Type

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments


class FileSource(DecodingSource, FetchesRecords):  # a `BlobSource` or a `TableSource`
    """The records of one dataset on a disk or behind a URL.

    Args:
        arguments: The arguments of `open`.
        backend: The format.
        declared: The schema that the call or a sidecar declares.
        schema: The types of the records.

    Attributes:
        partitions: Fields that the names of folders tell, each with the text of each file; `None` for none.
    """

    partitions: Mapping[str, Sequence[str | None]] = MappingProxyType({})

    def __init__(
        self, arguments: OpenArguments, backend: Backend, declared: DeclaredSchema, schema: DatasetSchema
    ) -> None:
        self._arguments = arguments
        self._backend = backend
        self._declared = declared
        self._schema = schema
        self._n: int | None = None
        self._fingerprint: str | None = None
        self._facts: SourceFacts | None = None
        self._with_specs: dict[tuple[tuple[str, Type, tuple[str, ...], bool], ...], FileSource] = {}
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    # ---- description

    @property
    @abstractmethod
    def reader(self) -> Reader | Table:
        """The opened files."""

    @property
    def backend(self) -> Backend:
        """The format, which opens and writes its files."""
        return self._backend

    @property
    def cache(self) -> str | Sequence[str] | None:
        """Which files are held in memory or on the local disk: see `open`."""
        return self._arguments.cache

    @property
    def facts(self) -> SourceFacts:
        if self._facts is None:
            files = self.reader.files
            self._facts = SourceFacts(
                format=self._backend.name,
                paths=tuple(file.name for file in files),
                nbytes=self.reader.nbytes,
                is_compressed=any(file.is_compressed for file in files),  # also with `cache="memory"`
                decodes_blocks=self._decodes_blocks,
                key_field=self._backend.key_field,
            )
        return self._facts

    @property
    @abstractmethod
    def _decodes_blocks(self) -> bool:
        """True if reads decode blocks of records; builds no index."""

    @property
    def spec_facts(self) -> SpecFacts:
        schema, declared = self._schema, self._declared
        provenance: SpecProvenance = "files" if declared.spec is None else "saved" if declared.is_saved else "declared"
        # An unknown codec that the call names is an error.
        named = () if self._arguments.spec is None else self._arguments.spec
        return SpecFacts(
            payload=schema.payload,
            provenance="inferred" if schema.spec_is_inferred else provenance,
            opaque_fields={name: kind for name, kind in schema.opaque_fields.items() if name not in named},
            left_out={name: getattr(error, "what", "") or str(error) for name, error in self.reader.left_out.items()},
        )

    @property
    def spec(self) -> Spec:
        return self._schema.spec

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        records = as_numbers(indices)
        names, counts, _ = zip(*self.reader.file_summaries(), strict=True)
        shards = np.searchsorted(np.cumsum(counts), records, side="right")
        return [Origin(names[shard], index) for shard, index in zip(shards.tolist(), records.tolist(), strict=True)]

    def __len__(self) -> int:
        if self._n is None:
            self._n = int(self.reader.counts.sum())
        return self._n

    @property
    def fingerprint(self) -> str:
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = self._compute_fingerprint()
            return self._fingerprint

    @abstractmethod
    def _compute_fingerprint(self) -> str: ...

    # ---- the same records, otherwise

    def with_spec(self, spec: SpecLike) -> FileSource:
        spec = Spec(spec)
        return self.with_whole_spec(spec if self._schema.single else self._declared.with_named_types(self.spec, spec))

    def with_whole_spec(self, spec: Spec) -> FileSource:
        """Return the same records read under another spec of all fields; infers none."""
        # Types are equal whatever their names of classes are.
        types = tuple((name, kind, kind.class_names, kind.arrow_type is None) for name, kind in spec.items())
        if types not in self._with_specs:  # a read with decode= asks for the same one every time
            self._schema.check(spec)
            self._with_specs[types] = self._with(self._declared.of(spec))
        return self._with_specs[types]

    @abstractmethod
    def _with(self, declared: DeclaredSchema) -> FileSource:
        """Return a source of the same opened files under another schema."""

    def infer_fully(self, progress: Callable[[int], None] | None = None) -> Spec:
        """Infer the spec from all sound records instead of samples, and keep it until a file changes.

        Args:
            progress: Called with the number of records after each step.
        """
        return self.spec

    # ---- reading

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        if on_corrupt not in ("raise", "omit"):
            raise ValueError(f"expected on_corrupt 'raise' or 'omit', found {on_corrupt!r}")
        return self._read(indices, fields, on_corrupt)

    @abstractmethod
    def _read(self, indices: ArrayLike, fields: Fields, on_failure: OnFailure) -> RecordBatch: ...

    def check(self, indices: ArrayLike) -> RecordBatch:
        """Return the sound ones of these records; `failed` also has those that do not fit the spec."""
        return self._read(indices, None, "collect")

    # ---- pickles

    @property
    def versions(self) -> bytes | None:
        """The result of `versions_of` for its files."""
        return versions_of(self.reader)

    def adopt(self, payload: str | None, spec: Spec, fingerprint: str | None) -> None:
        """Use what another process inferred and computed, instead of doing it again; `None` if it must be."""
        self._schema.adopt(payload, spec)
        self._fingerprint = fingerprint

    def adopt_memory(self, memory: Any) -> None:
        """Use the files in memory of the process that spawned this one; `None`: it has none."""

    @property
    def _shared_memory(self) -> Any:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = PickledSource(
            fingerprint=self.fingerprint,
            payload=self._schema.payload,
            spec=self.spec,
            is_declared=self._declared.spec is not None,
            declared=self._declared.metadata,
            files=pack_files(self.reader),
            versions=self.versions,
            memory=self._shared_memory,
        )
        return self._arguments.reopen, (pickled,)
