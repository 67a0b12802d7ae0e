"""Read the stored blobs of a dataset's records: any records, samples of each file, or a file from its start."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column
from dataformats.batch.value_slices import StoredBlobs, ValueSlice, join_blobs
from dataformats.errors import FormatError, UnknownNameError
from dataformats.indexing.extent_table import ExtentTable
from dataformats.interfaces import (
    CachesIndexes,
    Extents,
    FilesPerField,
    Located,
    OutdatedIndexError,
    Reader,
    RecordChunk,
    SequentialReader,
)
from dataformats.kernels import buffers
from dataformats.reading.blob_locations import RecordRun, positions_except, split_at_problems
from dataformats.spec import VALUE
from dataformats.storage.files import LocalFile
from dataformats.storage.native.fast_read import RECORD_BYTES, PinnedRows, read, read_record
from dataformats.storage.native.file_set import FileSet, open_files
from dataformats.storage.one_ahead import prefetch
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.reference_read import Fetched, read_blobs, readable_lengths
from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.threads import concurrent_map

WHOLE_RECORDS: Mapping[str, bool | range] = {VALUE: True}
"""The stored field of formats that store one blob a record."""

_SAMPLES = 512
_REMOTE_FILES = 32  # that samples are taken from
_GROUP_CHUNKS = 64
_GROUP_BYTES = 2**20
_SAMPLE_BYTES = 64 * 2**20
_MAX_RUN_BYTES = 2 * 2**20  # more is read in several threads
_GAP = 2**18  # bytes between blobs that are decompressed with them


class IndexDoubtError(Exception):
    """Indexes may be of other files, and must be compared with theirs; the read is then repeated.

    Attributes:
        paths: The files.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(*paths)
        self.paths = paths


def fields_in_memory(cache: str | Sequence[str] | None, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields that `open(cache=...)` asks to hold in memory; `("value",)` are whole records.

    Raises:
        UnknownNameError: There is no such field.
        ValueError: No such cache.
    """
    if cache is None or (isinstance(cache, str) and cache.startswith("disk:")):
        return ()
    if cache != "memory" and (isinstance(cache, str) or not isinstance(cache, Sequence)):
        raise ValueError(f"expected cache='memory', 'disk:PATH' or a list of fields, found {cache!r}")
    names = tuple(fields) if isinstance(cache, str) else tuple(cache)
    for name in names:
        if name not in fields and tuple(fields) != tuple(WHOLE_RECORDS):
            raise UnknownNameError("field", name=name, known=fields)
    return names


class BlobReader:
    """Reads blobs by the fast path, or by its reference. Thread-safe.

    Args:
        reader: Knows where they lie.
        io: How files are read: see `open`.
        cache: Which files are held in memory: see `open`.
        max_bytes: A longer blob is refused.

    Raises:
        ValueError: No such `io` or `cache`, or the files cannot be mapped.
        UnknownNameError: `cache` names a field that the files do not have.

    Attributes:
        reader: Knows where the blobs lie.
        fields: The mask of all stored fields.
        table: The extents that the kernels hold.
    """

    def __init__(self, reader: Reader, io: str, cache: str | Sequence[str] | None, max_bytes: int) -> None:
        self.reader: Reader = reader
        self.fields: Mapping[str, bool | range] = (
            WHOLE_RECORDS if reader.spec is None else dict.fromkeys(reader.spec, True)
        )
        self._io = io
        self._in_memory = self._files_in_memory(cache)
        self._max_bytes = max_bytes
        # The reference path knows the limit of each file.
        self._fast_max_bytes = min((file.most_record_bytes(max_bytes) for file in reader.files), default=max_bytes)
        self._record_max_bytes = min(RECORD_BYTES, self._fast_max_bytes)
        self._files: FileSet | None = open_files(reader.files, io, self._in_memory)
        self.table: ExtentTable = ExtentTable(reader if self._files.gathers else None)
        self._compared: set[str] = set()
        self._located = threading.local()  # when this thread located blobs last: how many files were compared

    def _files_in_memory(self, cache: str | Sequence[str] | None) -> list[int]:
        names = fields_in_memory(cache, self.fields)
        if not isinstance(self.reader, FilesPerField):
            return list(range(len(self.reader.files))) if names else []
        return sorted({number for name in names for number in self.reader.files_of(name)})

    @property
    def files(self) -> FileSet:
        """The files, opened again if they were closed."""
        files = self._files
        if files is None:
            files = self._files = open_files(self.reader.files, self._io, self._in_memory)
        return files

    def adopt_memory(self, memory: Any) -> None:
        """Use the files in memory of the process that spawned this one; `memory` is from `FileSet.shared` there."""
        if memory is not None:
            self._files = open_files(self.reader.files, self._io, self._in_memory, memory)

    def close(self) -> None:
        """Close the files; a read that still runs in another thread keeps those that it reads from."""
        for file in self.reader.files:
            file.release()
        self._files = None

    def compare_indexes(self, paths: Sequence[str]) -> None:
        """Compare the indexes of these files with the files, after `IndexDoubtError`.

        Raises:
            OutdatedIndexError: A file has another number of records.
        """
        assert isinstance(self.reader, CachesIndexes)  # or there was no doubt
        for path in {*paths} - self._compared:
            self.reader.compare_index(path)
            self.table = ExtentTable(self.reader if self.files.gathers else None)
            self._compared.add(path)

    def _raise_doubt(self, problems: Iterable[FormatError]) -> None:
        paths = {str(problem.path) for problem in problems if isinstance(problem, OutdatedIndexError)}
        # Another thread may have compared them after this one had located the blobs.
        if not paths <= self._compared or (paths and len(self._compared) > self._located.n_compared):
            raise IndexDoubtError(sorted(paths))

    # ---- some records

    def locate(self, records: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        """Return the extents of these records, each in `[0, n)`."""
        begin = time.perf_counter()
        self._located.n_compared = len(self._compared)
        located = self.reader.locate(records, fields)
        READ_CONTEXT.waited_s += time.perf_counter() - begin
        return located

    def fetch_blocks(self, located: Mapping[str, Located]) -> None:
        """Fetch the bytes of these blobs into the cache of this thread if their files are remote; decompress others."""
        cache = READ_CONTEXT.cache
        gap = _GAP if self.reader.files and self.reader.files[0].is_compressed else 0
        ranges: list[tuple[FsspecFile, int, int]] = []
        for one in located.values():
            for number, first, end in _joined(one.extents, gap, self._fast_max_bytes):
                file = self.reader.files[number]
                if isinstance(file, FsspecFile):
                    ranges.append((file, first, end - first))
                elif file.is_compressed:
                    file.decompress(first, end)
        if cache is not None and cache.saves:
            cache.fetch(ranges)

    def read(
        self, located: Mapping[str, Located] | PinnedRows, slices: Sequence[ValueSlice | None] = ()
    ) -> StoredBlobs | None:
        """Try the fast path. Returns `None` if any blob needs the reference path."""
        begin = time.perf_counter()
        files = self._files
        stored = read(self.files if files is None else files, located, self._fast_max_bytes, slices)
        READ_CONTEXT.waited_s += time.perf_counter() - begin
        return stored

    def read_rows(self, records: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Column] | None:
        """Return columns of stored types, one read each, of consecutive records; `None`: `read` must read them."""
        n, spec = len(records), self.reader.spec
        if not n or spec is None or records.item(n - 1) - (first := records.item(0)) != n - 1:
            return None
        if records.tobytes() != np.arange(first, first + n, dtype=np.int64).tobytes():
            return None
        begin = time.perf_counter()
        ranges: list[tuple[LocalFile, int, int, np.dtype[Any]]] = []  # `list[...]()` takes 5 us
        for name, part in fields.items():
            found, dtype = self.reader.range_of(name, first, n), spec[name].dtype
            if found is None or part is not True or dtype is None or dtype.char == "V":  # void, without ml_dtypes
                return None
            number, offset, n_bytes = found
            file = self.files.local[number]
            if file is None or offset + n_bytes > file.size or n_bytes > min(_MAX_RUN_BYTES, n * self._fast_max_bytes):
                return None
            ranges.append((file, offset, n_bytes, dtype))
        columns: dict[str, Column] = {}
        for name, (file, offset, n_bytes, dtype) in zip(fields, ranges, strict=True):
            values = buffers.empty(n_bytes)
            try:
                file.read_into(offset, values.data)
            except (FormatError, OSError):
                return None  # `read` finds the record
            if dtype.kind == "b" and (values > 1).any():
                return None
            columns[name] = values.view(dtype).reshape(n, *spec[name].dims)
        READ_CONTEXT.waited_s += time.perf_counter() - begin
        return columns

    def read_record(self, record: int, fields: tuple[str, ...]) -> list[bytearray] | None:
        """Return the blobs of these stored fields of one record; `None` if it must be read as a batch."""
        table, files = self.table.known(fields), self._files
        if table is None:
            return None
        return read_record(self.files if files is None else files, table, record, self._record_max_bytes)

    def read_by_reference(self, located: Mapping[str, Located]) -> dict[str, Fetched]:
        """Return the blobs of each field, with the problem of each blob that cannot be read.

        Raises:
            IndexDoubtError: A blob is not where the index of its file says, and the two were not compared yet.
        """
        begin = time.perf_counter()
        extents = [one.extents for one in located.values()]
        try:
            fetched = read_blobs(self.files, extents, max_bytes=self._max_bytes)
        except OutdatedIndexError as error:
            self._raise_doubt([error])
            raise
        READ_CONTEXT.waited_s += time.perf_counter() - begin
        self._raise_doubt(problem for one in fetched for problem in one.problems.values())
        return dict(zip(located, fetched, strict=True))

    def fetch(self, records: NDArray[np.int64]) -> dict[str, Fetched]:
        """Return the blobs of all fields of these records, by either path."""
        return self.fetch_located(self.locate(records, self.fields))

    def fetch_located(self, located: Mapping[str, Located]) -> dict[str, Fetched]:
        """Return these blobs, by either path."""
        stored = self.read(located)
        if stored is None:
            return self.read_by_reference(located)
        return {name: Fetched(join_blobs(blobs), {}) for name, (blobs, _) in stored.items()}

    def sound(self, records: NDArray[np.int64]) -> list[bytes]:
        """Return the blobs of these records, without those that cannot be read."""
        fetched = self.fetch(records)[VALUE]
        return [blob for row, blob in enumerate(fetched.blobs) if row not in fetched.problems]

    # ---- without an index

    @property
    def reads_sequentially(self) -> bool:
        """True if `runs` can be used; files that are held in memory are read there instead."""
        return isinstance(self.reader, SequentialReader) and not self._in_memory

    def samples(self) -> Iterator[bytes]:
        """Yield up to 512 sound records, the first ones of files spread over all: some 64 MiB at most.

        They come from at most 512 local files, or 32 if one is not local: each takes a request. The very first record
        often suffices, so it is read alone.
        """
        return itertools.chain.from_iterable(self._samples())

    def _samples(self) -> Iterator[list[bytes]]:
        first = self._first(0, 1) if self.reader.files else []
        yield first
        for _, found in self.samples_of_files(_SAMPLES if self._are_local else _REMOTE_FILES):
            yield found[len(first) :]
            first = []

    @property
    def _are_local(self) -> bool:
        return all(file.local is not None for file in self.reader.files)

    def samples_of_files(self, most: int = _SAMPLES) -> Iterator[tuple[str, list[bytes]]]:
        """Yield up to `most` files, each with its samples."""
        n = len(self.reader.files)
        chosen = min(most, n)
        if not chosen:
            return
        each = -(-_SAMPLES // chosen)
        first = self._first(0, each)
        yield self.reader.files[0].name, first
        left = _SAMPLE_BYTES - sum(map(len, first))
        chosen = min(chosen, _SAMPLE_BYTES // max(1, _SAMPLE_BYTES - left))  # fewer files if their records are long
        numbers = [n * place // chosen for place in range(1, chosen)]
        samples = partial(self._first, count=each)
        parts = map(samples, numbers) if self._are_local else concurrent_map(samples, numbers, local=False)
        for number, found in zip(numbers, parts, strict=True):
            if left <= 0:
                return
            yield self.reader.files[number].name, found
            left -= sum(map(len, found))

    def _first(self, file: int, count: int) -> list[bytes]:
        if isinstance(self.reader, SequentialReader):
            found: list[bytes] = []
            for chunk in self.reader.iter_chunks(file):
                sound = positions_except(len(chunk.blobs), chunk.problems)
                found += chunk.blobs.take(sound[: count - len(found)])
                if len(found) >= count or sum(map(len, found)) > _SAMPLE_BYTES:
                    break
            return found
        counts = self.reader.counts
        first = int(counts[:file].sum())
        records = np.arange(first, first + min(count, int(counts[file])))
        lengths = readable_lengths(self.files, self.locate(records, WHOLE_RECORDS)[VALUE].extents)
        return self.sound(records[: np.searchsorted(np.cumsum(lengths), _SAMPLE_BYTES) + 1])

    def runs(self, count: Callable[[int, int], None] | None = None) -> Iterator[tuple[RecordRun, FormatError | None]]:
        """Yield the sound runs of records through all files, reading ahead, each with the problem that follows it.

        Needs a sequential reader. A problem that does not end its file is followed by the records behind it.

        Args:
            count: Called at the end of each file with its number and the number of its records.
        """
        first = 0
        reader, files = self.reader, self.reader.files
        if not isinstance(reader, SequentialReader):
            raise TypeError("the format has no sequential reader")
        for chunks in prefetch(_grouped(reader, len(files))):
            for number, chunk, n_before in chunks:
                if chunk is not None:
                    yield from split_at_problems(chunk, first, files[number].name)
                    first += len(chunk.blobs)
                elif count is not None:
                    count(number, n_before)


_Chunks = list[tuple[int, RecordChunk | None, int]]


def _grouped(reader: SequentialReader, n_files: int) -> Iterator[_Chunks]:
    """Yield the chunks of all files: file number, chunk, records of the file so far; at the end of a file `None`.

    Small ones come together, because passing one between threads costs as much as reading a small file. The first one
    comes alone: a caller that wants a few records does not wait for many.
    """
    group: _Chunks = []
    n_bytes, enough = 0, 0
    try:
        for number in range(n_files):
            n = 0
            for chunk in reader.iter_chunks(number):
                n += len(chunk.blobs)
                group.append((number, chunk, n))
                n_bytes += int(chunk.blobs.lengths.sum())
                if n_bytes >= enough or len(group) >= _GROUP_CHUNKS:
                    yield group
                    group, n_bytes, enough = [], 0, _GROUP_BYTES
            group.append((number, None, n))
    except Exception:
        yield group  # the records before the error
        raise
    yield group


def _joined(extents: Extents, gap: int, max_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield file, begin and end of the bytes of these extents, as one range if at most `gap` bytes are between.

    Extents longer than `max_bytes`, which reads refuse, are left out.
    """
    if not len(extents) or extents.fetch is not None:
        return
    begin, end = extents.offset - extents.head, extents.offset + extents.length + extents.tail
    end = np.where(extents.length > max_bytes, begin, end)
    order = np.lexsort((begin, extents.file))
    file, begin, end = extents.file[order], begin[order], end[order]
    ends = np.flatnonzero((np.diff(file, append=-1) != 0) | (np.append(begin[1:], 0) > end + gap))
    firsts = np.append(0, ends[:-1] + 1)
    yield from zip(file[ends].tolist(), begin[firsts].tolist(), end[ends].tolist(), strict=True)
