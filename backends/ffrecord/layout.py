"""The bytes of an FFRecord file, without I/O: FORMATS, FFRecord.

A header (a prefix, then a table of N CRCs and N offsets), then the records back to back. Record i ends where
record i + 1 begins, the last one at the end of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.interfaces import Extents, KernelCheck
from dataformats.kernels import FrameCheck, crc32, crc32_extents

PREFIX = Struct("<Iq")  # CRC-32 of all that follows in the header, number of records N
ENTRY_BYTES = 12  # header bytes for each record: uint32 CRC-32, int64 offset


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first bytes of a file.

    Attributes:
        checksum: CRC-32 of the header behind it, as stored; 0 marks a file of an old version.
        n_records: The number of records, known to fit into the file.
    """

    checksum: int
    n_records: int


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Consecutive entries of the table of a file, as stored: offsets may be wrong.

    Attributes:
        checksums: uint32[n], the CRC-32 of each record.
        offsets: int64[n], the first byte of each.
        stop: Where the last of them ends: the next offset, or the end of the file.
        size: Bytes of the file.
        n_records: Entries of the whole table.
        at: The number of the first of these records.
    """

    checksums: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    stop: int
    size: int
    n_records: int
    at: int = 0

    @property
    def first(self) -> int:
        """The byte at which the first record of the file must begin."""
        return header_bytes(self.n_records)

    def bounds(self) -> NDArray[np.int64]:
        """Return int64[n + 1]: the offsets, and the end of the last record."""
        return np.append(self.offsets, np.int64(self.stop))

    def impossible(self) -> NDArray[np.bool_]:
        """Return bool[n]: records that begin or end outside the data, or end before they begin."""
        bounds = self.bounds()
        inside = self._inside(bounds)
        wrong: NDArray[np.bool_] = ~inside[:-1] | ~inside[1:] | (bounds[1:] < bounds[:-1])
        if self.at == 0:
            wrong[:1] |= self.offsets[:1] != self.first
        return wrong

    def doubtful(self) -> NDArray[np.bool_]:
        """Return bool[n]: records with a bound out of order with the next or the last one.

        Either of the two bounds may be the wrong one. The first and the last record of a part are checked without
        their neighbors.
        """
        bounds = self.bounds()
        inside = self._inside(bounds)
        drops = inside[:-1] & inside[1:] & (bounds[1:] < bounds[:-1])
        doubted = np.append(drops, False) | np.append(False, drops)
        touched: NDArray[np.bool_] = doubted[:-1] | doubted[1:]
        return touched

    def lengths(self) -> NDArray[np.int64]:
        """Return int64[n], the bytes of each record; 0 for the impossible ones."""
        lengths = np.diff(self.bounds())
        lengths[self.impossible()] = 0
        return lengths

    def problem(self, row: int, path: str) -> FormatError:
        """Return the error of a record that `impossible` or `doubtful` marks."""
        start = int(self.offsets[row])
        stop = int(self.offsets[row + 1]) if row + 1 < len(self.offsets) else self.stop
        error = _wrong_start(self.at + row, start, self) or _wrong_stop(start, stop, self) or _in_doubt(start, stop)
        error.path = path
        error.offset_bytes = PREFIX.size + 4 * self.n_records + 8 * (self.at + row)
        return error

    def _inside(self, bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (bounds >= self.first) & (bounds <= self.size)


def header_bytes(n_records: int) -> int:
    """Return the size of the header of a file with `n_records` records."""
    return PREFIX.size + ENTRY_BYTES * n_records


def parse_prefix(data: bytes, size: int, path: str) -> Prefix:
    """Return the prefix of a file of `size` bytes, the number of records checked against it.

    Args:
        data: The file's first `PREFIX.size` bytes, or all bytes of a shorter file.
        size: The file's bytes.
        path: The path in messages.

    Raises:
        TruncatedError: The file is too short for its header.
        FormatError: The number of records is negative, or 0 before data.
    """
    if len(data) < PREFIX.size:
        expected, found = f"at least {PREFIX.size} bytes", f"{len(data)} bytes"
        raise TruncatedError("the file is too short for a header", path=path, expected=expected, found=found)
    checksum, n = PREFIX.unpack_from(data)
    if n < 0:
        raise FormatError("the number of records is negative", path=path, offset_bytes=4, expected=">= 0", found=n)
    if header_bytes(n) > size:
        room = (size - PREFIX.size) // ENTRY_BYTES
        expected = f"at most {room} records, whose header fits into {size} bytes"
        raise TruncatedError(
            "the file is too short for the number of records", path=path, offset_bytes=4, expected=expected, found=n
        )
    if n == 0 and size > PREFIX.size:
        raise _data_without_records(checksum, size, path)
    return Prefix(checksum, n)


def parse_entries(
    checksums: bytes | memoryview, offsets: bytes | memoryview, *, size: int, n_records: int, first_record: int = 0
) -> RecordTable:
    """Return consecutive entries of the table, as new arrays.

    Args:
        checksums: 4 bytes a record.
        offsets: 8 bytes a record, and 8 of the next record, if there is one.
        size: Bytes of the file.
        n_records: Entries of the whole table.
        first_record: The number of the first of these records.
    """
    crcs, starts = np.frombuffer(checksums, "<u4"), np.frombuffer(offsets, "<i8").astype(np.int64)
    stop = int(starts[len(crcs)]) if len(starts) > len(crcs) else size
    return RecordTable(crcs.astype(np.uint32), starts[: len(crcs)], stop, size, n_records, first_record)


def build_header(lengths: ArrayLike, checksums: ArrayLike) -> bytes:
    """Return the header of a file.

    Args:
        lengths: int64[n], bytes of each record.
        checksums: uint32[n], its CRC-32.
    """
    sizes, crcs = np.asarray(lengths, np.int64), np.asarray(checksums, np.uint32)
    counted = b"".join(header_pieces(len(sizes), lambda: [(sizes, crcs)]))
    return crc32(counted).to_bytes(4, "little") + counted


def header_pieces(
    n_records: int, blocks: Callable[[], Iterable[tuple[NDArray[np.int64], NDArray[np.uint32]]]]
) -> Iterator[bytes]:
    """Yield the header of a file behind its own checksum, in pieces.

    Args:
        n_records: The number of records.
        blocks: Returns lengths and checksums of all records, in blocks; called twice.
    """
    yield PREFIX.pack(0, n_records)[4:]
    for _, checksums in blocks():
        yield checksums.astype("<u4").tobytes()
    end = header_bytes(n_records)
    for lengths, _ in blocks():
        ends = end + np.cumsum(lengths)
        yield (ends - lengths).astype("<i8").tobytes()
        end = int(ends[-1]) if len(ends) else end


class RecordCheck(KernelCheck):
    """The check of the format: compares the CRC-32 of each record, including empty ones, with the stored one."""

    kernel = FrameCheck.CRC32

    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return the records whose checksum is wrong, row to error."""
        if extents.stored is None:
            return {}
        computed = crc32_extents(frames.buffer, frames.starts, frames.lengths)
        return {
            row: ChecksumError(
                "the checksum of a record is wrong",
                stored=int(extents.stored[row]),
                computed=int(computed[row]),
                offset_bytes=int(extents.offset[row]),
            )
            for row in np.flatnonzero(computed != extents.stored).tolist()
        }


def _data_without_records(checksum: int, size: int, path: str) -> FormatError:
    if checksum == 0:
        return FormatError(
            "unfinished: the writer was killed before close, so the header is all zeros",
            path=path,
            offset_bytes=0,
            expected="a header",
            found=f"{PREFIX.size} zero bytes before {size - PREFIX.size} bytes of data",
            remedy="Write the file again; the records cannot be located",
        )
    expected, found = f"{PREFIX.size} bytes, because there are no records", f"{size} bytes"
    return FormatError("data behind a header of no records", path=path, expected=expected, found=found)


def _wrong_start(index: int, start: int, table: RecordTable) -> FormatError | None:
    within = f"an offset in [{table.first}, {table.size}]"
    if start > table.size:
        return TruncatedError("a record begins past the end of the file", expected=within, found=start)
    if start < table.first:
        return FormatError("a record begins inside the header", expected=within, found=start)
    if index == 0 and start != table.first:
        what = "the first record does not begin directly behind the header"
        return FormatError(what, expected=table.first, found=start)
    return None


def _wrong_stop(start: int, stop: int, table: RecordTable) -> FormatError | None:
    within = f"an end in [{start}, {table.size}]"
    if stop > table.size:
        return TruncatedError("a record ends past the end of the file", expected=within, found=stop)
    if stop < start:
        return FormatError("a record ends before it begins", expected=within, found=stop)
    return None


def _in_doubt(start: int, stop: int) -> FormatError:
    return FormatError(
        "an offset of a record is out of order with its neighbors",
        expected="increasing offsets",
        found=f"[{start}, {stop}) between others",
        remedy="Open with verify_checksums=True, which finds out if this record is sound",
    )
