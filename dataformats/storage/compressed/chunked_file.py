"""ChunkedFile: the decoded bytes of compressed chunks, as a file with random access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import BlocksInMemory, StoredFile
from dataformats.storage.decoded_cache import DECODED_CACHE
from dataformats.storage.threads import concurrent_map, for_each

Decode = Callable[[bytes, int], bytes]
"""Takes the bytes of a chunk and its decoded size, and returns the decoded bytes, at most one more than that size.

Thread-safe; a function that pickle finds by its name. It raises any exception for damaged data.
"""

_MAX_BYTES = 2**32  # decoded bytes of a chunk, which lie in memory as a whole
_SMALL_BYTES = 256 * 2**20
_EXPANSION = 1000  # larger chunks are rarely compressed more; zstd can 30,000 times


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """Where the chunks of a stored file lie, in the order of their decoded bytes.

    Attributes:
        offset: int64[n], the first stored byte of each chunk.
        stored_bytes: int64[n], its stored bytes.
        decoded_bytes: int64[n], its decoded bytes, as the file declares them.
    """

    offset: NDArray[np.int64]
    stored_bytes: NDArray[np.int64]
    decoded_bytes: NDArray[np.int64]


class ChunkedFile(StoredFile):
    """The decoded bytes of the chunks of a file, one behind the other, as a file. Thread-safe; picklable if `file` is.

    A chunk is decoded as a whole when one of its bytes is read, and kept. Damage in a chunk is an error of the reads
    that need it. Nothing is allocated for the size that a chunk declares, only for the bytes that it has.

    Args:
        file: The stored file.
        chunks: Where its chunks lie.
        decode: Decodes one chunk.
        compression: The name of the compression, such as `"zstd"`.

    Raises:
        FormatError: A chunk reaches outside the stored file, or has a negative size.
    """

    def __init__(self, file: StoredFile, chunks: ChunkTable, decode: Decode, compression: str) -> None:
        self._file = file
        self._chunks = chunks
        self._decode = decode
        self.compression: str = compression
        self._owner = DECODED_CACHE.owner(self)
        self._damaged: dict[int, FormatError] = {}
        _check(file, chunks)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(chunks.decoded_bytes)])
        self.name: str = file.name
        self.size: int = int(self._starts[-1])
        self.identity: tuple[str, ...] = (*file.identity, compression)
        self.has_name: bool = file.has_name

    def __reduce__(self) -> tuple[type[ChunkedFile], tuple[object, ...], dict[str, object]]:
        return type(self), (self._file, self._chunks, self._decode, self.compression), {"damage": self.damage}

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64[n]: the first decoded byte of each chunk."""
        return self._starts[:-1]

    @property
    def stored(self) -> StoredFile:
        """The file with the stored chunks."""
        return self._file

    def damaged_ranges(self) -> Sequence[tuple[range, FormatError]]:
        """Return the bytes that reads have found unreadable so far, each with its error."""
        starts = self._starts
        return [(range(int(starts[at]), int(starts[at + 1])), error) for at, error in sorted(self._damaged.items())]

    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` from decoded byte `offset` on; return the bytes read, fewer only at the end of the file.

        Raises:
            FormatError: A chunk is damaged; the error names its place in the stored file.
        """
        end = min(offset + len(out), self.size)
        if offset >= end:
            return 0
        first = int(np.searchsorted(self._starts, offset, side="right")) - 1
        stop = int(np.searchsorted(self._starts, end, side="left"))

        def copy(step: int) -> None:
            at = first + step
            begin = int(self._starts[at])
            here, until = max(offset, begin), min(end, int(self._starts[at + 1]))
            if here < until:
                out[here - offset : until - offset] = self._chunk(at)[here - begin : until - begin]

        if stop - first == 1:
            copy(0)
        elif self._file.local is not None:
            for_each(copy, stop - first)
        else:
            concurrent_map(copy, range(stop - first), local=False)
        return end - offset

    def decompress(self, first: int, end: int) -> None:
        """Decode the chunks of these bytes, and keep them."""
        begin = int(np.searchsorted(self._starts, first, side="right")) - 1
        for number in range(begin, int(np.searchsorted(self._starts, min(end, self.size), side="left"))):
            self._chunk(number)

    def blocks_in_memory(self, offsets: NDArray[np.int64]) -> BlocksInMemory | None:
        places = np.searchsorted(self._starts, offsets, side="right") - 1
        numbers, owners = np.unique(places, return_inverse=True)
        chunks = DECODED_CACHE.get([(self._owner, number) for number in numbers.tolist()])
        return None if chunks is None else BlocksInMemory(owners, self._starts[numbers], chunks)

    def file_beside(self, name: str) -> StoredFile | None:
        """Return the file `name` beside the stored one; `None` if it does not exist."""
        return self._file.file_beside(name)

    def release(self) -> None:
        DECODED_CACHE.drop(self._owner)
        self._file.release()

    def _chunk(self, number: int) -> memoryview:
        if number in self._damaged:
            raise copy(self._damaged[number])
        try:
            return DECODED_CACHE.get_many([(self._owner, number)], lambda _: [self._decoded(number)])[0]
        except _ChunkError as error:
            self._damaged[number] = error.as_format_error()
            raise copy(self._damaged[number]) from error.__cause__  # readers add the record to theirs

    def _decoded(self, number: int) -> tuple[memoryview, int]:
        chunks = self._chunks
        offset, stored, expected = (
            int(column[number]) for column in (chunks.offset, chunks.stored_bytes, chunks.decoded_bytes)
        )
        if expected > min(_MAX_BYTES, max(_SMALL_BYTES, _EXPANSION * stored)):
            what, found = "a compressed chunk is too long", f"{expected} bytes in {stored}"
            raise _ChunkError(what, self.name, offset, found=found)
        data = self._file.pread(offset, stored)
        if len(data) < stored:
            raise _ChunkError("the file ends in a compressed chunk", self.name, offset, f"{stored} bytes", len(data))
        try:
            decoded = self._decode(data, expected)
        except (ImportError, MemoryError):
            raise
        except Exception as error:
            what = "a compressed chunk is damaged"
            raise _ChunkError(what, self.name, offset, found=str(error)[:200]) from error
        if len(decoded) != expected:
            found = f"{len(decoded)} bytes" + (" or more" if len(decoded) > expected else "")
            what = "a compressed chunk does not have the size that the file declares"
            raise _ChunkError(what, self.name, offset, f"{expected} decoded bytes", found)
        return memoryview(decoded), expected


class _ChunkError(Exception):
    """A chunk that cannot be decoded."""

    def __init__(self, what: str, path: str, offset: int, expected: object = None, found: object = None) -> None:
        super().__init__(what)
        self._facts = (what, path, offset, expected, found)

    def as_format_error(self) -> FormatError:
        what, path, offset, expected, found = self._facts
        return FormatError(what, path=path, offset_bytes=offset, expected=expected, found=found)


def _check(file: StoredFile, chunks: ChunkTable) -> None:
    """Raise unless all chunks lie in the file, and their sizes can be added up."""
    offset, stored, decoded = chunks.offset, chunks.stored_bytes, chunks.decoded_bytes
    outside = (offset < 0) | (stored < 0) | (offset > file.size) | (stored > file.size - np.clip(offset, 0, file.size))
    wrong = outside | (decoded < 0) | (decoded > 2**62 // max(1, len(decoded)))
    if wrong.any():
        at = int(np.argmax(wrong))
        found = f"chunk {at} of {stored[at]} bytes at byte {offset[at]}, {decoded[at]} decoded"
        what, expected = "a compressed chunk reaches outside the file", f"chunks inside {file.size} bytes"
        if not outside[at]:
            what, expected = "a compressed chunk declares an impossible size", "a sound size"
        kind = TruncatedError if outside[at] else FormatError
        raise kind(what, path=file.name, offset_bytes=max(0, int(offset[at])), expected=expected, found=found)
