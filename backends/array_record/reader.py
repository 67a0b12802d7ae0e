"""ArrayRecordReader: numbers the records of files, and reads them by the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.array_record.library import LibraryFiles
from dataformats.batch import Blobs
from dataformats.errors import CorruptRecordError, FormatError
from dataformats.fork_hooks import cached_property
from dataformats.interfaces import Extents, Located, Reader, StoredFile
from dataformats.sidecars.file_digest import file_digest
from dataformats.spec import VALUE
from dataformats.storage.threads import concurrent_map

_DAMAGE = (RuntimeError, IndexError, MemoryError, ValueError)  # that the library raises
_THREADS_BYTES = 4 * 2**20


class ArrayRecordReader(Reader):
    """The records of ArrayRecord files. The library verifies the hash of each chunk that it reads."""

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files = files
        self._library = LibraryFiles(files)

    @cached_property
    def _facts(self) -> list[tuple[int, str]]:
        """The records of each file, and the options that it was written with."""
        return concurrent_map(self._facts_of, range(len(self.files)), local=self._are_local)

    def _facts_of(self, number: int) -> tuple[int, str]:
        with self._library.reader(number) as reader:
            return reader.num_records(), reader.writer_options_string() or ""

    @property
    def _are_local(self) -> bool:
        return all(file.local is not None for file in self.files)

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.array([n for n, _ in self._facts], np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    @cached_property
    def _mean_bytes(self) -> NDArray[np.int64]:
        return np.array([file.size for file in self.files], np.int64) // np.maximum(self.counts, 1)

    def writer_options(self) -> set[str]:
        """Return the options that the files were written with, as the library tells them."""
        return {options for _, options in self._facts if options}

    def metadata(self) -> dict[str, str]:
        return {"options": " and ".join(sorted(self.writer_options()))}

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        ends = np.cumsum(self.counts)
        file = np.searchsorted(ends, indices, side="right").astype(np.int32)
        number = indices - (ends - self.counts)[file]
        return {VALUE: Located(Extents(file, number, self._mean_bytes[file], fetch=self._fetch))}

    def digest(self, update: Callable[[bytes], None]) -> None:
        for digest in concurrent_map(file_digest, self.files, local=self._are_local):
            update(digest.encode())

    def _fetch(self, extents: Extents) -> tuple[Blobs, dict[int, FormatError]]:
        blobs: list[bytes] = [b""] * len(extents)
        problems: dict[int, FormatError] = {}
        order = np.lexsort((extents.offset, extents.file))  # a chunk is decompressed once for its records
        cuts = np.flatnonzero(np.diff(extents.file[order])) + 1
        for rows in np.split(order, cuts) if len(order) else ():
            number, records = int(extents.file[rows[0]]), extents.offset[rows].tolist()
            found = self._read(number, records, int(extents.length[rows].sum()))
            for row, blob in zip(rows.tolist(), found, strict=True):
                if isinstance(blob, bytes):
                    blobs[row] = blob
                else:
                    problems[row] = blob
        return Blobs.join(blobs), problems

    def _read(self, number: int, records: list[int], n_bytes: int) -> Sequence[bytes | FormatError]:
        """Return these records of a file, each or its error.

        Reading one by one takes a fifth of the time of the library's batches, which go through its table of all chunks.
        Their threads pay for megabytes.
        """
        with self._library.reader(number) as reader:
            try:
                if n_bytes >= _THREADS_BYTES:
                    found: list[bytes] = reader.read(records)
                    return found
                return [_record(reader, record) for record in records]
            except _DAMAGE:
                pass
        sound = self._library.open(number)  # after an error, the other one reads no more
        return [self._record_or_error(sound, number, record) for record in records]

    def _record_or_error(self, reader: object, number: int, record: int) -> bytes | FormatError:
        try:
            blob: bytes = reader.read([record])[0]  # type: ignore[attr-defined]  # this call leaves the reader as it is
        except _DAMAGE as error:
            what = "the chunk of the record cannot be read"
            return CorruptRecordError(what, path=self.files[number].name, found=str(error))
        return blob


def _record(reader: object, record: int) -> bytes:
    reader.seek(record)  # type: ignore[attr-defined]
    blob: bytes = reader.read()  # type: ignore[attr-defined]
    return blob
