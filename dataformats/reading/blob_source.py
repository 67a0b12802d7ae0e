"""BlobSource: records that are ranges of bytes, through a reader, `storage` and codecs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs, RecordBatch, StoredRecords
from dataformats.batch.value_slices import join_blobs
from dataformats.columns.batch_decoder import DECODE_ERRORS, BatchDecoder, Mask
from dataformats.columns.stored_type import stored_type
from dataformats.errors import FormatError, SpecError
from dataformats.fork_hooks import cached_property
from dataformats.interfaces import (
    Backend,
    BlobStarts,
    CachesIndexes,
    FilesPerField,
    Located,
    Reader,
)
from dataformats.interfaces.record_source import Fields
from dataformats.interfaces.source_facts import Origin, SourceFacts
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.blob_locations import BlobLocations, RecordRun, blob_starts
from dataformats.reading.blob_reader import WHOLE_RECORDS, BlobReader, IndexDoubtError
from dataformats.reading.dataset_schema import DatasetSchema, DeclaredSchema
from dataformats.reading.decode_fallback import OnFailure, decode, decode_fetched
from dataformats.reading.file_source import FileSource
from dataformats.reading.fingerprint import files_fingerprint
from dataformats.reading.scan import as_numbers, check_bounds, read_parts, scan_by_reading, steps, until_failure
from dataformats.spec import VALUE, Spec, Type
from dataformats.storage.compressed.chunked_file import ChunkedFile
from dataformats.storage.native.fast_read import PinnedRows
from dataformats.storage.one_ahead import prefetch

if TYPE_CHECKING:
    from dataformats.reading.opening import OpenArguments

_DECODED_RECORDS = 8192
_MAX_MASKS = 1024
_MAX_MEASURED = 16  # compressed files that are measured for a mean
_WHOLE = tuple(WHOLE_RECORDS)


P = ParamSpec("P")
T = TypeVar("T")


def _comparing_indexes(read: Callable[Concatenate[BlobSource, P], T]) -> Callable[Concatenate[BlobSource, P], T]:
    """Repeat a read that doubts the indexes of files, after these were compared with the files."""

    @functools.wraps(read)
    def repeated(self: BlobSource, /, *arguments: P.args, **named: P.kwargs) -> T:
        while True:
            try:
                return read(self, *arguments, **named)
            except IndexDoubtError as doubt:
                self._compare_indexes(doubt.paths)

    return repeated


class BlobSource(FileSource):
    """The records of files that a reader locates. `storage` reads their bytes, and codecs decode them.

    Args:
        arguments: The arguments of `open`.
        backend: The format.
        reader: The opened files.
        declared: The schema that the call or a sidecar declares.
        blobs: The blob reader of another source of these files, to share; `None` opens them.
    """

    def __init__(
        self,
        arguments: OpenArguments,
        backend: Backend,
        reader: Reader,
        declared: DeclaredSchema,
        blobs: BlobReader | None = None,
    ) -> None:
        self._reader = reader
        self._blobs = blobs or BlobReader(reader, arguments.io, arguments.cache, arguments.max_record_bytes)
        super().__init__(
            arguments, backend, declared, DatasetSchema(backend, reader, declared, arguments.index, self._blobs.samples)
        )

    # ---- description

    @property
    def facts(self) -> SourceFacts:
        if self._facts is None:
            files_per_record = len(self._blobs.fields) if isinstance(self._reader, FilesPerField) else 1
            self._facts = replace(super().facts, files_per_record=files_per_record)
        return self._facts

    @property
    def _decodes_blocks(self) -> bool:
        return bool(_in_chunks(self._reader.files))

    def guessed_payloads(self) -> Iterator[tuple[str, str]]:
        """Yield files with the payload of their first records, judged by these alone; none if a payload is declared."""
        if self._declared.payload is None and self._reader.spec is None:
            for file, samples in self._blobs.samples_of_files():
                if any(samples):
                    yield file, self._backend.guess_payload(samples)

    @property
    def reader(self) -> Reader:
        """The reader, which knows where the blobs lie."""
        return self._reader

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        if indices is not None:
            records = as_numbers(indices)
            located = self._reader.locate(records, self._blobs.fields).values()
            return sum(int(np.maximum(one.extents.length, 0).sum()) for one in located) / max(1, len(records))
        filled = np.flatnonzero(self._reader.counts)
        if not self.facts.is_compressed or not len(filled):
            return super().record_bytes()
        some = filled[np.unique(np.linspace(0, len(filled) - 1, _MAX_MEASURED).astype(np.int64))]  # decompressed
        return float(sum(self._reader.files[number].size for number in some) / self._reader.counts[some].sum())

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        return self._chunk_starts

    @cached_property
    def _chunk_starts(self) -> NDArray[np.int64] | None:
        """The first record that begins in each chunk, if all files are decompressed in chunks."""
        files = _in_chunks(self._reader.files)
        if files is None or not len(self):
            return None
        owners = np.repeat(np.arange(len(files)), [len(file.starts) for file in files])
        places, ends = np.concatenate([file.starts for file in files]), np.cumsum(self._reader.counts)
        low = (ends - self._reader.counts)[owners]
        high = np.where(places > 0, ends[owners], low)  # a file begins with a record
        while len(here := np.flatnonzero(low < high)):
            middle = (low[here] + high[here]) // 2
            begins = self._reader.locate(middle, WHOLE_RECORDS)[VALUE].extents.offset
            is_before = begins < places[here]
            low[here], high[here] = np.where(is_before, middle + 1, low[here]), np.where(is_before, high[here], middle)
        starts: NDArray[np.int64] = np.unique(low)
        return starts[: np.searchsorted(starts, ends[-1])]

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        return self._located_origins(as_numbers(indices)) if offsets else super().origins(indices)

    @_comparing_indexes
    def _located_origins(self, records: NDArray[np.int64]) -> list[Origin]:
        fields = WHOLE_RECORDS if self._reader.spec is None else self._schema.decoder.all_fields
        places = BlobLocations(self._reader.files, self._locate(records, records, fields), {})
        found = ((places.place(row), index) for row, index in enumerate(records.tolist()))
        return [Origin(path, index, -1 if offset is None else offset) for (path, offset), index in found]

    def blob_starts(self, indices: NDArray[np.int64]) -> Iterator[BlobStarts]:
        """Yield where these records begin in each file that has some of them, or some of their fields; reads none."""
        fields = WHOLE_RECORDS if self._reader.spec is None else self._schema.decoder.all_fields
        return blob_starts(self._reader.files, self._locate(indices, indices, fields))

    @_comparing_indexes
    def _compute_fingerprint(self) -> str:
        return files_fingerprint(self.format, self._blobs)

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        if n == len(self):
            return self.fingerprint
        options = replace(self._arguments, counts=None)

        def open_files(files: Sequence[StoredFile]) -> Reader:
            return cast("Reader", self._backend.open(files, options, **options.backend_options))

        try:
            found = self._reader.first(n, open_files)
            if found is not None and (_in_chunks(found.files) is None) != (self.block_starts is None):
                return None  # windows would differ
            blobs = None if found is None else BlobReader(found, options.io, None, options.max_record_bytes)
            return None if blobs is None else files_fingerprint(self.format, blobs)
        except FormatError:
            return None

    # ---- the same records, otherwise

    def _with(self, declared: DeclaredSchema) -> BlobSource:
        return BlobSource(self._arguments, self._backend, self._reader, declared, self._blobs)

    def adopt_memory(self, memory: Any) -> None:
        self._blobs.adopt_memory(memory)

    @property
    def _shared_memory(self) -> Any:
        return self._blobs.files.shared()

    def infer_fully(self, progress: Callable[[int], None] | None = None) -> Spec:
        return self._schema.infer_from(self._all_sound(progress))

    def _all_sound(self, progress: Callable[[int], None] | None) -> Iterator[bytes]:
        for part in steps(self):
            yield from self._sound(part)
            if progress is not None:
                progress(len(part))

    @_comparing_indexes
    def _sound(self, part: range) -> list[bytes]:
        return self._blobs.sound(np.arange(part.start, part.stop))

    # ---- reading

    def mask(self, fields: Fields) -> dict[str, bool | range]:
        return self._mask(self._schema.decoder, fields)

    def _mask(self, decoder: BatchDecoder, fields: Fields) -> dict[str, bool | range]:
        if fields is None:
            return decoder.all_fields
        try:
            known = decoder.masks.get(fields) if isinstance(fields, tuple) else None
        except TypeError:  # no names; `mask` says so
            known = None
        if known is None:
            known = super().mask(fields)
            if isinstance(fields, tuple) and len(decoder.masks) < _MAX_MASKS:
                decoder.masks[fields] = known
        return known

    @_comparing_indexes
    def fetch(self, indices: ArrayLike, fields: Fields = None) -> None:
        if self.cache == "memory":
            return
        mask = WHOLE_RECORDS if self._reader.spec is None else self._schema.decoder.stored(self.mask(fields))
        self._blobs.fetch_blocks(self._locate(as_numbers(indices), indices, mask))

    @_comparing_indexes
    def _read(self, indices: ArrayLike, fields: Fields, on_failure: OnFailure) -> RecordBatch:
        """Read by the fast path: all records are sound and fit the spec; else by its reference, which finds errors."""
        decoder, blobs = self._schema.decoder, self._blobs
        mask = self._mask(decoder, fields)
        stored_fields = WHOLE_RECORDS if self._reader.spec is None else decoder.stored(mask)
        records = as_numbers(indices)
        rows = blobs.read_rows(records, mask) if decoder.spec is self._reader.spec else None
        if rows is not None:
            return RecordBatch(rows, records, {}, decoder.single)
        located = blobs.table.locate(records, tuple(stored_fields)) or self._locate(records, indices, stored_fields)
        stored = blobs.read(located, decoder.slices(mask))
        if stored is not None:
            try:
                return RecordBatch(decoder.decode(stored, mask), records, {}, decoder.single)
            except DECODE_ERRORS:
                pass
        if isinstance(located, PinnedRows):
            located = self._locate(records, indices, stored_fields)
        places = BlobLocations(self._reader.files, located, blobs.read_by_reference(located))
        return decode_fetched(decoder, places, records, mask, on_failure)

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        """Read one record by the shortest path, if it is sound and short; else as a batch of one."""
        decoder, blobs = self._schema.decoder, self._blobs
        mask = decoder.all_fields if fields is None else self._mask(decoder, fields)
        stored = blobs.read_record(index, _WHOLE if self._reader.spec is None else tuple(decoder.stored(mask)))
        if stored is not None:
            try:
                return decoder.decode_record(stored, mask)
            except MemoryError:
                raise
            except Exception:  # the batch raises it again, with file, record and field
                pass
        return self._read([index], fields, "raise")[0]

    def _locate(self, records: NDArray[np.int64], indices: ArrayLike, fields: Mask) -> dict[str, Located]:
        return self._blobs.locate(check_bounds(records, indices, len(self)), fields)

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        return list(self.read_blobs(indices))

    def read_blobs(self, indices: ArrayLike) -> Blobs:
        """Return the stored payloads of these records in one buffer; raises the errors of `read_bytes`."""
        if self._reader.spec is not None:
            raise SpecError(f"records of {self.format} have no stored bytes: the fields are stored apart. Use read().")
        return self._read_fields(indices, _WHOLE)[0]

    def stored_record(self, index: int, fields: tuple[str, ...] = _WHOLE) -> list[Any]:
        """Return the stored bytes of one record, in writable buffers: its payload, or the blob of each of these fields.

        Args:
            index: The record's number in `[0, len)`.
            fields: Fields that are stored apart, with one blob a record each.

        Raises:
            FormatError: The record is damaged.
        """
        stored = self._blobs.read_record(index, fields)
        return [blobs.contiguous()[0] for blobs in self._read_fields([index], fields)] if stored is None else stored

    @_comparing_indexes
    def _read_fields(self, indices: ArrayLike, fields: tuple[str, ...]) -> list[Blobs]:
        """Return the blobs of these stored fields; raises the error of the first damaged record."""
        records = as_numbers(indices)
        pinned = self._blobs.table.locate(records, fields)
        stored = None if pinned is None else self._blobs.read(pinned)
        if stored is not None:
            return [join_blobs(blobs) for blobs, _ in stored.values()]
        located = self._locate(records, indices, dict.fromkeys(fields, True))
        places = BlobLocations(self._reader.files, located, self._blobs.fetch_located(located))
        for _, error in sorted(places.problems(records).items()):
            raise error
        return [blobs for blobs, _ in places.stored().values()]

    def present_fields(self, index: int) -> dict[str, bool | range]:
        index = range(len(self))[index]
        found = self._reader.present_fields(index)
        if found is None:
            return super().present_fields(index)
        # Numbers of any length may be one blob: only the blob tells how many.
        unknown = [name for name, kind in self.spec.items() if found.get(name) is True and kind.dims[:1] == (None,)]
        columns = self.read([index], unknown).columns if unknown else {}
        return {
            name: range(len(columns[name][0])) if name in columns else found[name]
            for name in self.spec
            if name in found
        }

    # ---- sequential reading

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        if not self._blobs.reads_sequentially:
            yield from scan_by_reading(self, fields)
            return
        mask = self.mask(fields)
        for run in self._runs():
            n = len(run.blobs)
            parts = (range(begin, min(begin + _DECODED_RECORDS, n)) for begin in range(0, n, _DECODED_RECORDS))
            for batch in read_parts(functools.partial(self._decode_run, run, mask), parts):
                yield from until_failure(batch)

    def _runs(self) -> Iterator[RecordRun]:
        """Yield sound records from the first file on, without an index, up to the first problem; then raise it."""
        for run, problem in self._blobs.runs(self._check_count):
            yield run
            if problem is not None:
                raise problem

    def _decode_run(self, run: RecordRun, mask: Mask, part: range) -> RecordBatch:
        """Return the records in these rows of a run, with the errors of those that do not decode."""
        chosen = run.part(part.start, part.stop)
        indices = np.arange(chosen.first, chosen.first + len(chosen.blobs))
        stored = {VALUE: (chosen.blobs, None)}
        return decode(self._schema.decoder, stored, indices, mask, "collect", places=chosen)

    def scan_stored(self) -> Iterator[StoredRecords]:
        """Yield all records in order as they are stored, a few megabytes at a time, reading ahead.

        The first damaged record raises its error, after all records before it.
        """
        if not self._blobs.reads_sequentially:
            yield from prefetch(read_parts(self._stored, steps(self)))
            return
        for run in self._runs():
            yield StoredRecords(self.format, {VALUE: (run.blobs, None)}, framed=True)

    @_comparing_indexes
    def _stored(self, part: range) -> StoredRecords:
        indices = np.arange(part.start, part.stop)
        located = self._blobs.locate(indices, self._blobs.fields)
        places = BlobLocations(self._reader.files, located, self._blobs.fetch_located(located))
        for _, error in sorted(places.problems(indices).items()):
            raise error
        checksums = located[VALUE].extents.stored if self._reader.spec is None else None
        return StoredRecords(self.format, places.stored(), checksums)

    def _check_count(self, file: int, n: int) -> None:
        """Compare a file that was read to its end with its index, if `len` has counted more or fewer records."""
        known = isinstance(self._reader, CachesIndexes) and self._n is not None
        if known and n != self._reader.counts[file]:
            self._compare_indexes([self._reader.files[file].name])

    @_comparing_indexes
    def field_lengths(self, indices: ArrayLike, field: str) -> NDArray[np.int64]:
        records = as_numbers(indices)
        stored = Type("bytes") if self._reader.spec is None else stored_type(self._reader, field, self.spec[field])
        is_plain = stored.dims[:1] == (None,) and stored.item.fixed
        located = self._locate(records, indices, {field: True})[field] if is_plain else None
        if stored.dtype is None or located is None or located.extents.fetch is not None or located.extents.problems:
            return super().field_lengths(records, field)
        ends = np.cumsum(np.append(0, located.extents.length))  # the blobs of a record may be any number
        counts = np.ones(len(records), np.int64) if located.counts is None else located.counts
        n_bytes: NDArray[np.int64] = np.diff(ends[np.cumsum(np.append(0, counts))])
        return n_bytes // (stored.dtype.itemsize * math.prod(size or 1 for size in stored.dims[1:]))

    def _compare_indexes(self, paths: Sequence[str]) -> None:
        self._blobs.compare_indexes(paths)
        with self._lock:
            self._fingerprint = None

    # ---- life

    def close(self) -> None:
        self._blobs.close()


def _in_chunks(files: Sequence[StoredFile]) -> list[ChunkedFile] | None:
    """Return the files if all are decompressed in chunks."""
    found = [file for file in files if isinstance(file, ChunkedFile)]
    return found if len(found) == len(files) else None
