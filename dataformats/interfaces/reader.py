"""The contract of a reader: it locates the blobs of an opened dataset, and reads none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dataformats.batch import Blobs
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import FrameCheck
from dataformats.spec import Spec, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Extents:
    """Where blobs lie, and how to verify them.

    Attributes:
        file: int32[n], the number of each blob's file in `Reader.files`.
        offset: int64[n], first byte of the blob.
        length: int64[n], its bytes.
        head: Bytes before each blob that are read with it, for `check`.
        tail: Bytes behind each blob that are read with it, for `check`.
        stored: uint32[n], checksums known from an index, for `check`; `None` if there are none.
        check: Called with the bytes read (head and tail included) and these extents; returns the error of each
            damaged blob, by row. `None` if the format has nothing to check.
        problems: Blobs known to be unreadable before anything is read, row to error.
        fetch: Called with these extents, reads their blobs, if a library reads them and the file has no such ranges:
            then `offset` is a number that `fetch` understands, and `length` an estimate. `None`: they are ranges.
    """

    file: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    head: int = 0
    tail: int = 0
    stored: NDArray[np.uint32] | None = None
    check: Check | None = None
    problems: Mapping[int, FormatError] = field(default_factory=dict)
    fetch: Fetch | None = None

    def __len__(self) -> int:
        return len(self.offset)


class OutdatedIndexError(FormatError):
    """A file has other blobs than its index says: the file is damaged, or the index is of an earlier file.

    Such an index is of a file with the same name, size and time: see `CachesIndexes`.
    """


class Check(Protocol):
    """Verifies blobs that were read; pure, vectorized, thread-safe."""

    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return the error of each damaged blob, by row, with `offset_bytes`; path and record are added later."""
        ...


class Fetch(Protocol):
    """Reads the blobs of a format whose library reads them; thread-safe."""

    def __call__(self, extents: Extents) -> tuple[Blobs, dict[int, FormatError]]:
        """Return the blobs, and the error of each unreadable one, by row, with the path; such a blob is empty."""
        ...


class KernelCheck(ABC):
    """A check that a kernel also does, faster: the kernel finds out whether a blob is damaged, this check how.

    Attributes:
        kernel: The kernel's check, which rejects the same blobs.
    """

    kernel: FrameCheck

    @abstractmethod
    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return the error of each damaged blob: see `Check`."""


@dataclass(frozen=True, slots=True)
class Located:
    """The extents of one field of some records.

    Attributes:
        extents: All blobs, record after record.
        counts: int64[n], how many blobs each record has; `None` if each has exactly one. A field of an optional type
            has 1, or 0 if the record lacks it.
    """

    extents: Extents
    counts: NDArray[np.int64] | None = None


class BlobStarts(NamedTuple):
    """Where records begin in a file.

    Attributes:
        file: The file.
        rows: int64[n], the rows of the records among those that were asked for, ascending.
        offsets: int64[n], the first byte of each of them in the file.
    """

    file: StoredFile
    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Consecutive records of one file, from a sequential reader.

    Attributes:
        blobs: The stored bytes, one blob a record.
        problems: Blobs that are unreadable, row to error.
        base: Where in the file the first byte of the blobs' buffer lies.
    """

    blobs: Blobs
    problems: Mapping[int, FormatError] = field(default_factory=dict)
    base: int = 0


class OpenedFiles(ABC):  # a `Reader` or a `Table`
    """The opened files of one dataset. Thread-safe. They are not pickled: a source opens them again.

    Attributes:
        files: The files, in reading order.
        left_out: The fields of the files that cannot be read, not even as bytes, each with the reason.
        lacking: What the dataset lacks otherwise, such as entries of metadata for some files.
        warnings: What `open` warns of in sound files, such as columns that follow each other.
    """

    files: Sequence[StoredFile]
    left_out: Mapping[str, DataFormatsError] = MappingProxyType({})
    lacking: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def nbytes(self) -> int:
        """Size of all files in bytes, of those without records, too; builds no index."""
        return sum(file.stored_size for file in self.files)

    def metadata(self) -> dict[str, str]:
        """Return further facts of the files, for `info`: compression, a version, the program that wrote them."""
        return {}

    def notes(self) -> Iterator[str]:
        """Yield what stands out in the files, for `info`; reads no record."""
        yield from ()

    def checksums(self) -> Iterator[tuple[StoredFile, Mapping[str, str]]]:
        """Yield files whose checksums the dataset lists: `"crc32"`, or the name in `hashlib`, to hexadecimal digits."""
        yield from ()


class Reader(OpenedFiles):
    """An opened dataset of one format: it locates blobs, and reads none. Extents number its files.

    Attributes:
        spec: The fields, for formats that store them apart; `None` if a record is one blob.
    """

    spec: Spec | None = None

    @property
    @abstractmethod
    def counts(self) -> NDArray[np.int64]:
        """int64[n_files], the records of each file; builds missing indexes."""

    def file_summaries(self) -> list[tuple[str, int, int]]:
        """Return name, records and bytes of each shard: a file, or a folder of files."""
        sizes = [file.stored_size for file in self.files]
        return list(zip([file.name for file in self.files], self.counts.tolist(), sizes, strict=True))

    @abstractmethod
    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        """Return the extents of these records, for each requested field.

        Args:
            indices: int64[n], each in `[0, sum(counts))`.
            fields: The fields, each whole (`True`) or a range of a sequence's elements; `VALUE` in formats
                that store one blob a record.
        """

    def all_extents(self, field: str) -> Extents | None:
        """Return the extents of all records, problems included; called only if they fit in memory.

        Args:
            field: A stored field; `VALUE` in formats that store one blob a record.

        Returns:
            As many extents as records; `None` if not all are known yet, or records may have several blobs.
        """
        located = self.locate(np.arange(int(self.counts.sum())), {field: True})[field]
        return located.extents if located.counts is None else None

    def range_of(self, field: str, first: int, n: int) -> tuple[int, int, int] | None:
        """Return file, offset and length of a field of `n` records from `first` on; `None` if no one range holds it."""
        return None

    @abstractmethod
    def digest(self, update: Callable[[bytes], None]) -> None:
        """Give `update` all record lengths and stored checksums, for the fingerprint; no paths, no times."""

    def first(self, n: int, open_files: Callable[[Sequence[StoredFile]], Reader]) -> Reader | None:
        """Return a reader of the files as they were with the first `n` records alone, fewer than all.

        By default it knows the files before a shard. A format whose files grow overrides it.

        Args:
            n: Number of records.
            open_files: Opens some of the files.

        Returns:
            The reader; `None` if these files are unknown.
        """
        starts = np.append(0, np.cumsum(self.counts))
        stop = int(np.searchsorted(starts, n, side="right")) - 1
        return open_files(self.files[:stop]) if starts[stop] == n else None

    @property
    def stored_spec(self) -> Spec | None:
        """The types under which fields are stored, as `FieldsBackend.create` takes them."""
        return self.spec

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return the type that decodes the stored blobs of a field, given the type that the spec declares.

        `bytes` (with dims, for a sequence) is always allowed: the blobs as they are.

        Raises:
            SpecError: The stored values cannot be that type.
        """
        raise SpecError("the format does not store fields apart", field=field)

    def present_fields(self, index: int) -> dict[str, bool | range] | None:
        """Return the fields of a record: see `RecordSource.present_fields`; `None` if only its blob shows them."""
        return None


@runtime_checkable
class SequentialReader(Protocol):
    """A reader that can go through a file without an index."""

    def iter_chunks(self, file: int) -> Iterator[RecordChunk]:
        """Yield the records of one file, in order; damage that ends the file is the last problem of the last chunk."""
        ...
