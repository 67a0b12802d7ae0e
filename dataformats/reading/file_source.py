"""StoredSource: the records of files, through a reader, `storage` and codecs."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs, Column, RecordBatch
from dataformats.batch.inline_values import SliceHints, SplitBlobs, ValueSlice, whole
from dataformats.columns.codec_resolver import as_bytes
from dataformats.columns.decode import FieldDecoder, elements_of
from dataformats.errors import CodecError, CorruptRecordError, FormatError, SpecError, UnknownNameError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.extent_table import Tables
from dataformats.interfaces import (
    Backend,
    Codec,
    FieldsBackend,
    Located,
    Reader,
    RecordCoder,
    SequentialReader,
)
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.error_context import (
    BlobLocations,
    RecordRun,
    by_record,
    cut,
    placed_at,
    sound,
    subset,
    without,
)
from dataformats.reading.scan import as_indices, as_numbers, scan_by_reading, until_failure, within
from dataformats.reading.schema import BoundSchema, DatasetSchema, DeclaredSchema
from dataformats.reading.source import Fields, OnCorrupt, RecordSource
from dataformats.spec import VALUE, Spec
from dataformats.storage.blob_read import Fetched, read_blobs
from dataformats.storage.file_set import FileSet
from dataformats.storage.memory_file import MappedFile, cache_files
from dataformats.storage.native_read import look_up
from dataformats.storage.prefetch import prefetch
from dataformats.storage.threads import IO_WAIT

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments

__all__ = ["FileSource"]

Stored = Mapping[str, tuple[Blobs | SplitBlobs, "NDArray[np.int64] | None"]]
"""What was read of each field, and how many blobs each record has of it: see `Located`."""

OnFailure = Literal["raise", "omit", "collect"]
"""As `OnCorrupt`; `"collect"` notes records that do not fit the spec as well."""

_SAMPLES = 512
_SAMPLE_BYTES = 64 * 2**20
_FIXED_RECORDS = 64
_DECODE = 1024
_BLOBS: Mapping[str, bool | range] = {VALUE: True}
_STEP_BYTES = 32 * 2**20  # far more than steps aim at: only overlapping or very uneven records come to that


class FileSource(RecordSource):
    """The records of one dataset on a disk or behind a URL.

    Args:
        arguments: Of the call of `open`.
        backend: The format.
        reader: The opened files.
        declared: What the call or a sidecar declares about the records.
    """

    def __init__(self, arguments: OpenArguments, backend: Backend, reader: Reader, declared: DeclaredSchema) -> None:
        self._arguments = arguments
        self._backend = backend
        self._reader = reader
        self._declared = declared
        self._max_bytes = arguments.max_record_bytes
        self._opened_files: FileSet | None = self._opened()
        self._lock = threading.RLock()
        self._meaning = DatasetSchema(backend, reader, declared, arguments.index, weakref.WeakMethod(self._samples))
        self._n: int | None = None
        self._fingerprint: str | None = None
        self._windows = SliceHints()
        self._tables = Tables(reader)
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    def _opened(self, given: Any = None) -> FileSet:
        """Return the files to read from, those that the call wants in memory as such.

        Args:
            given: The memory of the process that spawned this one.
        """
        files: list[StoredFile] = list(self._reader.files)
        if self._arguments.io == "mmap":
            return FileSet([MappedFile(file) for file in files], "mmap")
        held = self._held(self._arguments.cache)
        in_memory, memory = cache_files([files[number] for number in held], given)
        for number, file in zip(held, in_memory, strict=True):
            files[number] = file
        return FileSet(files, self._arguments.io, memory)

    @property
    def _files(self) -> FileSet:
        files = self._opened_files
        if files is None:  # it was closed
            files = self._opened_files = self._opened()
        return files

    def _held(self, cache: str | Sequence[str] | None) -> list[int]:
        """Return the numbers of the files that are to be held in memory."""
        if cache is None:
            return []
        if cache != "memory" and (isinstance(cache, str) or not isinstance(cache, Sequence)):
            raise ValueError(f"expected cache='memory' or a list of fields, found {cache!r}")
        fields = self._stored_fields if isinstance(cache, str) else tuple(cache)
        for name in fields:
            if self._reader.spec is not None and name not in self._reader.spec:
                raise UnknownNameError("field", name=name, known=self._reader.spec)
        return sorted({number for name in fields for number in self._reader.files_of(name)})

    def adopt_memory(self, given: Any) -> None:
        """Take over the files in memory of the process that spawned this one."""
        if given is not None:
            self._opened_files = self._opened(given)

    def with_spec(self, spec: Spec) -> FileSource:
        """Return the same records read under another spec."""
        return FileSource(self._arguments, self._backend, self._reader, replace(self._declared, spec=spec))

    def with_opaque_as_bytes(self) -> FileSource:
        """Return the same records with the fields that no codec may decode as the bytes that they are."""
        backend = self._backend
        if (
            self.single
            or self.spec_is_inferred
            or (isinstance(backend, FieldsBackend) and not backend.stores_full_spec)
        ):
            return self  # a format with dtypes of its own has no codecs that could be unknown
        opaque = self._declared.codecs.opaque(self.spec)
        return self.with_spec(as_bytes(self.spec, opaque)) if opaque else self

    # ---- what it is

    @property
    def format(self) -> str:
        return self._backend.name

    @property
    def payload(self) -> str | None:
        return self._meaning.payload

    @property
    def payload_codec(self) -> Codec | None:
        """The codec of whole records; `None` in formats that store fields apart."""
        return self._meaning.payload_codec

    @property
    def spec_is_inferred(self) -> bool:
        """True where nobody gave the spec and the records told it."""
        return self._meaning.spec_is_inferred

    @property
    def hidden_fields(self) -> tuple[str, ...]:
        return self._meaning.hidden_fields

    @property
    def spec(self) -> Spec:
        return self._meaning.spec

    @property
    def single(self) -> bool:
        return self._meaning.single

    @property
    def coder(self) -> RecordCoder | None:
        """What encodes and decodes the payload; `None` where records are single values or fields stored apart."""
        return self._meaning.coder

    def adopt(self, payload: str | None, spec: Spec) -> None:
        """Take what was inferred before, in another process, in place of inferring it again."""
        self._meaning.adopt(payload, spec)

    @property
    def reader(self) -> Reader:
        """What knows where the blobs lie."""
        return self._reader

    @property
    def nbytes(self) -> int:
        return sum(int(file.identity[0]) for file in self._reader.files)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.name for file in self._reader.files)

    def origin(self, index: int) -> tuple[str, int]:
        names, counts, _ = zip(*self._reader.file_summaries(), strict=True)
        return names[int(np.searchsorted(np.cumsum(counts), index, side="right"))], index

    @property
    def fingerprint(self) -> str:
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = self._compute_fingerprint()
            return self._fingerprint

    def _compute_fingerprint(self) -> str:
        state = hashlib.blake2b(digest_size=16)
        sizes = [int(file.identity[0]) for file in self._reader.files]
        state.update(repr((self.format, self._reader.counts.tolist(), sizes)).encode())
        self._reader.digest(state.update)
        n = len(self)
        places = np.unique(np.arange(_FIXED_RECORDS) * n // _FIXED_RECORDS) if n else np.zeros(0, np.int64)
        for name, (fetched, _) in self._fetch(places, dict.fromkeys(self._stored_fields, True)).items():
            state.update(name.encode())
            for position, blob in enumerate(fetched.blobs):
                state.update(b"!" if position in fetched.problems else len(blob).to_bytes(8, "little") + blob)
        return state.hexdigest()

    def __len__(self) -> int:
        if self._n is None:
            self._n = int(self._reader.counts.sum())
        return self._n

    # ---- reading

    def mask(self, fields: Fields) -> dict[str, bool | range]:
        return self._meaning.decoding.whole if fields is None else super().mask(fields)

    @property
    def _stored_fields(self) -> tuple[str, ...]:
        return (VALUE,) if self._reader.spec is None else tuple(self._reader.spec)

    def _fetch(
        self,
        indices: NDArray[np.int64],
        fields: Mapping[str, bool | range],
        windows: Callable[[str], ValueSlice | None] | None = None,
    ) -> dict[str, tuple[Fetched, Located]]:
        begin = time.perf_counter()
        stored = fields if self._reader.spec is not None else _BLOBS
        located = self._reader.locate(indices, stored)
        extents = [field.extents for field in located.values()]
        apart = [] if windows is None else [windows(name) for name in located]
        fetched = read_blobs(self._files, extents, max_bytes=self._max_bytes, windows=apart)
        IO_WAIT.seconds += time.perf_counter() - begin
        return {name: (got, located[name]) for name, got in zip(located, fetched, strict=True)}

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        if on_corrupt not in ("raise", "omit"):
            raise ValueError(f"expected on_corrupt 'raise' or 'omit', found {on_corrupt!r}")
        return self._read(indices, fields, on_corrupt)

    def check(self, indices: ArrayLike) -> dict[int, Exception]:
        """Return what is wrong with these records, record number to error: damage, and misfits with the spec."""
        return dict(self._read(indices, None, "collect").failed)

    def _read(self, indices: ArrayLike, fields: Fields, on_failure: OnFailure) -> RecordBatch:
        mask = self.mask(fields)
        numbers = as_numbers(indices)
        batch = self._looked_up(numbers, self._meaning.decoding, mask)
        return self._located(within(numbers, indices, len(self)), mask, on_failure) if batch is None else batch

    def _looked_up(
        self, numbers: NDArray[np.int64], known: BoundSchema, mask: Mapping[str, bool | range]
    ) -> RecordBatch | None:
        """Return the batch by the way that knows nothing but sound records; `None` where these need the other."""
        names = tuple(_BLOBS if self._reader.spec is None else mask)
        files = self._opened_files
        if files is None:
            files = self._files
        indexes = self._tables.of(names, len(numbers)) if names and files.gathers else None
        if indexes is None:
            return None
        begin = time.perf_counter()
        windows = self._windows.known
        apart = [windows.get(_window_key(name, mask)) for name in names] if windows else ()
        blobs = look_up(files, indexes, numbers, self._max_bytes, apart)
        IO_WAIT.seconds += time.perf_counter() - begin
        if blobs is None:
            return None
        stored = {name: (read, None) for name, read in zip(names, blobs, strict=True)}
        try:
            return RecordBatch(self._columns(stored, known, mask), numbers, {}, known.single)
        except (CorruptRecordError, CodecError, SpecError):
            return None

    def _located(
        self, numbers: NDArray[np.int64], mask: Mapping[str, bool | range], on_failure: OnFailure
    ) -> RecordBatch:
        fetched = self._fetch(numbers, mask, lambda name: self._windows.known.get(_window_key(name, mask)))
        damaged = by_record(fetched, numbers)
        if damaged and on_failure == "raise":
            raise damaged[min(damaged)]
        if not damaged:
            stored = {name: (got.read, where.counts) for name, (got, where) in fetched.items()}
            return self._decode(stored, numbers, mask, on_failure, BlobLocations(self._reader.files, fetched))
        kept = without(len(numbers), damaged)
        stored = {name: subset(got.blobs, where.counts, kept, len(numbers)) for name, (got, where) in fetched.items()}
        places = BlobLocations(self._reader.files, fetched, kept)
        batch = self._decode(stored, numbers[kept], mask, on_failure, places)
        failed = {int(numbers[position]): error for position, error in damaged.items()}
        return RecordBatch(batch.columns, batch.indices, failed | dict(batch.failed), batch.single)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        if self._reader.spec is not None:
            raise SpecError(f"{self.format} stores fields apart: a record has no bytes of its own; use read()")
        numbers = as_indices(indices, len(self))
        fetched = self._fetch(numbers, {VALUE: True})
        damaged = by_record(fetched, numbers)
        if damaged:
            raise damaged[min(damaged)]
        return list(fetched[VALUE][0].blobs)

    def available(self, index: int) -> dict[str, bool | range]:
        number = range(len(self))[index]
        found = self._reader.available(number)
        if found is None:
            return super().available(number)
        # Numbers of any length may be one blob, which alone knows how many there are.
        unknown = [name for name, kind in self.spec.items() if found[name] is True and kind.dims[:1] == (None,)]
        columns = self.read([number], unknown).columns if unknown else {}
        return {name: range(len(columns[name][0])) if name in columns else found[name] for name in self.spec}

    # ---- going through all

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        if not isinstance(self._reader, SequentialReader):
            yield from scan_by_reading(self, self.steps(), fields)
            return
        mask = self.mask(fields)
        for run, problem in self.runs():
            for begin in range(0, len(run.blobs), _DECODE):
                part = run.part(begin, begin + _DECODE)
                numbers = np.arange(part.first, part.first + len(part.blobs))
                yield from until_failure(self._decode({VALUE: (part.blobs, None)}, numbers, mask, "collect", part))
            if problem is not None:
                raise problem

    def scan_bytes(self) -> Iterator[bytes]:
        if not isinstance(self._reader, SequentialReader):
            yield from super().scan_bytes()
            return
        for run, problem in self.runs():
            yield from run.blobs
            if problem is not None:
                raise problem

    def infer_fully(self, progress: Callable[[int], None] | None = None) -> Spec:
        """Infer the spec from all sound records in place of a sample, and keep it until a file changes.

        Args:
            progress: Called with the number of records after each step.
        """
        return self._meaning.infer_from(self._all_sound(progress)) if self.spec_is_inferred else self.spec

    def _all_sound(self, progress: Callable[[int], None] | None) -> Iterator[bytes]:
        for part in self.steps():
            got = self._fetch(np.arange(part.start, part.stop), {VALUE: True})[VALUE][0]
            yield from (blob for position, blob in enumerate(got.blobs) if position not in got.problems)
            if progress is not None:
                progress(len(part))

    def runs(self) -> Iterator[tuple[RecordRun, FormatError | None]]:
        """Yield the sound runs of records through all files, reading ahead, each with the problem behind it.

        Only for readers that stream; a problem that does not end its file is followed by the records behind it.
        """
        first = 0
        reader = self._reader
        if not isinstance(reader, SequentialReader):
            raise TypeError(f"{self.format} has no sequential reader of its own")
        for number, file in enumerate(reader.files):
            for stretch in prefetch(reader.iter_chunks(number)):
                yield from cut(stretch, first, file.name)
                first += len(stretch.blobs)

    def _samples(self) -> Iterator[bytes]:
        """Yield up to 512 sound records, the first of each file, spread over all files."""
        files = self._reader.files
        chosen = [len(files) * i // min(_SAMPLES, len(files)) for i in range(min(_SAMPLES, len(files)))]
        each = -(-_SAMPLES // max(1, len(chosen)))
        for file in chosen:
            yield from self._first(file, each)

    def _first(self, file: int, count: int) -> list[bytes]:
        if isinstance(self._reader, SequentialReader):
            found: list[bytes] = []
            for stretch in self._reader.iter_chunks(file):
                found += itertools.islice(sound(stretch), count - len(found))
                if len(found) >= count or sum(map(len, found)) > _SAMPLE_BYTES:
                    break
            return found
        counts = self._reader.counts
        first = int(counts[:file].sum())
        numbers = np.arange(first, first + min(count, int(counts[file])))
        got = self._fetch(numbers, {VALUE: True})[VALUE][0]
        return [blob for position, blob in enumerate(got.blobs) if position not in got.problems]

    def steps(self) -> Iterator[range]:
        """Yield ranges that cover all records, few enough at a time that what they hold together is bounded."""
        waiting = list(super().steps())[::-1]
        while waiting:
            part = waiting.pop()
            if len(part) > 1 and self._located_bytes(part) > _STEP_BYTES:
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
            else:
                yield part

    def _located_bytes(self, part: range) -> int:
        located = self._reader.locate(np.arange(part.start, part.stop), dict.fromkeys(self._stored_fields, True))
        return sum(int(np.maximum(field.extents.length, 0).sum()) for field in located.values())

    # ---- decoding

    def _decode(
        self,
        read: Stored,
        numbers: NDArray[np.int64],
        mask: Mapping[str, bool | range],
        on_failure: OnFailure,
        places: RecordRun | BlobLocations,
    ) -> RecordBatch:
        """Return the batch of these blobs; where decoding fails, find the record that is to blame."""
        known = self._meaning.decoding
        try:
            return RecordBatch(self._columns(read, known, mask), numbers, {}, known.single)
        except (CorruptRecordError, CodecError, SpecError) as error:
            if not len(numbers) and on_failure != "collect":
                raise
            if len(numbers) == 1 and on_failure == "raise":
                raise self._blamed(error, numbers, 0, places) from error.__cause__
        stored = {name: (whole(blobs), counts) for name, (blobs, counts) in read.items()}
        failed: dict[int, Exception] = {}
        for position in range(len(numbers)):
            one = {name: subset(*part, np.array([position]), len(numbers)) for name, part in stored.items()}
            try:
                self._columns(one, known, mask)
            except (CorruptRecordError, CodecError, SpecError) as error:
                placed = self._blamed(error, numbers, position, places)
                # A record that does not fit the spec is not corrupt: leaving it out would hide a wrong spec.
                if on_failure == "raise" or (on_failure == "omit" and isinstance(error, SpecError)):
                    raise placed from error.__cause__
                failed[position] = placed
        kept = without(len(numbers), failed)
        good = {name: subset(*part, kept, len(numbers)) for name, part in stored.items()}
        by_number = {int(numbers[position]): error for position, error in failed.items()}
        # Where a whole field does not decode, no columns can be made of no records; for a list of errors none need be.
        columns = {} if on_failure == "collect" and not len(kept) else self._columns(good, known, mask)
        return RecordBatch(columns, numbers[kept], by_number, self.single)

    def _columns(self, stored: Stored, known: BoundSchema, mask: Mapping[str, bool | range]) -> dict[str, Column]:
        if known.coder is not None:
            return self._records(known.coder, stored[VALUE][0], mask)
        return {name: self._column(name, known, *stored[name], part) for name, part in mask.items()}

    def _records(
        self, coder: RecordCoder, read: Blobs | SplitBlobs, mask: Mapping[str, bool | range]
    ) -> dict[str, Column]:
        key = _window_key(VALUE, mask)
        if isinstance(read, SplitBlobs):
            columns = coder.decode_split(read, mask)
            if columns is not None:
                return columns
            self._windows.forget(key)
        blobs = whole(read)
        columns = coder.decode_batch(blobs, mask)
        self._windows.learn(key, len(blobs), lambda: coder.value_slice(blobs, mask))
        return columns

    def _values(self, field: FieldDecoder, read: Blobs | SplitBlobs, counts: NDArray[np.int64] | None) -> Column:
        """Return the column of a field that is stored apart."""
        key = _window_key(field.name, {field.name: True})
        if isinstance(read, SplitBlobs):
            column = field.around(read)
            if column is not None:
                return column
            self._windows.forget(key)
        blobs = whole(read)
        column = field.column(blobs, counts)
        if not field.kind.dims and counts is None:
            self._windows.learn(key, len(blobs), lambda: field.codec.value_slice(blobs))
        return column

    def _column(
        self,
        name: str,
        known: BoundSchema,
        read: Blobs | SplitBlobs,
        counts: NDArray[np.int64] | None,
        part: bool | range,
    ) -> Column:
        codecs = self._declared.codecs
        if self._reader.spec is None:
            return codecs.decode(known.spec[name], whole(read), counts)
        field = known.fields.get(name)
        if field is None:
            declared = known.spec[name]
            field = FieldDecoder(codecs, self._reader.stored_type_for(name, declared), declared, name)
            known.fields[name] = field
        if isinstance(part, range) and counts is not None:  # located already: the dims may be fewer than declared
            kind = replace(field.kind, dims=(None, *field.kind.dims[1:]))
            return codecs.decode(kind, whole(read), counts, field=name)
        column = self._values(field, read, counts)
        return column if not isinstance(part, range) else elements_of(column, part, name)

    def _blamed(
        self, error: Exception, numbers: NDArray[np.int64], position: int, places: RecordRun | BlobLocations
    ) -> Exception:
        field = getattr(error, "field", None)
        place = places.place(position, field)
        if isinstance(error, CodecError) and self._reader.spec is None and self.single:
            what = f"the payload does not decode as {error.codec!r}: {error.what}"
            corrupt = CorruptRecordError(what, path=place[0], index=int(numbers[position]), offset_bytes=place[1])
            corrupt.__cause__ = error.__cause__
            return corrupt
        return placed_at(error, int(numbers[position]), place)

    # ---- life

    def close(self) -> None:
        for file in self._reader.files:
            file.release()
        self._opened_files = None  # a read that still runs in another thread keeps what it reads from

    def __reduce__(self) -> tuple[Any, ...]:
        return self._arguments.reopen, (self.fingerprint, self.payload, self.spec.to_json(), self._files.shared())


def _window_key(stored: str, mask: Mapping[str, bool | range]) -> tuple[str, ...]:
    """Return what a window is known by: the stored field and, of whole records, the fields asked for."""
    return (VALUE, *mask) if stored == VALUE else (stored,)
