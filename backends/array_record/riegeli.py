"""The chunks of a Riegeli file, found by their headers; and the chunks at the end of an ArrayRecord, built anew.

The layout is `doc/riegeli_records_file_format.md` of Riegeli, and `layout.proto` of array_record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from dataformats.backends.array_record.highway_hash import highway_hash
from dataformats.backends.array_record.library import BLOCK_BYTES, MAGIC
from dataformats.errors import ChecksumError, TruncatedError
from dataformats.interfaces import StoredFile
from dataformats.storage.header_reader import HeaderReader

_BLOCK_HEADER = Struct("<3Q")  # hash, distances to the begin and to the end of the chunk around it
_HEADER = Struct("<5Q")  # hash, bytes of data, hash of the data, records << 8 | kind, decoded bytes
_HASH_BYTES = 8
_USABLE = BLOCK_BYTES - _BLOCK_HEADER.size
_SIMPLE, _TRANSPOSED = b"rt"


class Chunk(NamedTuple):
    """A chunk: where it begins and ends, how many records it has, and their bytes."""

    begin: int
    stop: int
    n_records: int
    n_bytes: int
    has_records: bool


class ChunkScanner:
    """Finds chunks by their headers, which have hashes.

    Args:
        file: The file.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._headers = HeaderReader(file)

    def chunks(self, at: int) -> Iterator[Chunk]:
        """Yield the chunks from byte `at` on, of any kind.

        Raises:
            FormatError: The file cannot be read on.
        """
        while at < self._file.size:
            header = self._header(at)
            if len(header) < _HEADER.size:
                raise TruncatedError("the file ends in the header of a chunk", path=self._file.name, offset_bytes=at)
            stored, n_data, _, kind, n_bytes = _HEADER.unpack(header)
            if stored != highway_hash(header[_HASH_BYTES:]):
                what = "the header of a chunk"
                raise ChecksumError(what, path=self._file.name, offset_bytes=at, stored=stored)
            stop = _end_of_chunk(at, n_data, kind >> 8)
            if _end_of_bytes(at, _HEADER.size + n_data) > self._file.size:
                what, found = "a chunk reaches past the end of the file", f"{n_data} bytes"
                raise TruncatedError(what, path=self._file.name, offset_bytes=at, found=found)
            yield Chunk(at, stop, kind >> 8, n_bytes, kind & 0xFF in (_SIMPLE, _TRANSPOSED))
            at = stop

    def find(self, first: int) -> int | None:
        """Return the first place from `first` on where a chunk begins, by the header of the next sound block."""
        for block in range(-(-first // BLOCK_BYTES) * BLOCK_BYTES, self._file.size, BLOCK_BYTES):
            header = self._file.pread(block, _BLOCK_HEADER.size)
            if (
                len(header) == _BLOCK_HEADER.size
                and highway_hash(header[_HASH_BYTES:]).to_bytes(8, "little") == header[:8]
            ):
                before, behind = map(int, _BLOCK_HEADER.unpack(header)[1:])
                place = block - before if block - before >= first else block + behind
                if first <= place < self._file.size:
                    return place
        return None

    def _header(self, at: int) -> bytes:
        """Return the header of the chunk at byte `at`, without the header of a block inside of it."""
        found = self._headers.read(at, _HEADER.size + _BLOCK_HEADER.size)
        left = -at % BLOCK_BYTES
        return (found[:left] + found[left + _BLOCK_HEADER.size :])[: _HEADER.size]


def end_of_file(first: int, chunks: Sequence[Chunk]) -> bytes:
    """Return the footer and the postscript of a file with these chunks of records, to begin at `first`.

    Args:
        first: A multiple of 64 KiB.
        chunks: The chunks; all but the last one have as many records.
    """
    n_records = sum(chunk.n_records for chunk in chunks)
    metadata = b"\x08\x01\x10" + _varint(len(chunks)) + b"\x18" + _varint(n_records)
    entries = [
        b"\x08" + _varint(chunk.begin) + b"\x10" + _varint(chunk.n_bytes) + b"\x18" + _varint(chunk.n_records)
        for chunk in chunks
    ]
    footer = _chunk(first, [b"\x0a" + _varint(len(metadata)) + metadata, *entries])
    postscript = b"\x08" + _varint(first) + MAGIC
    footer += bytes(-len(footer) % BLOCK_BYTES)
    return footer + _chunk(first + len(footer), [postscript] * 3).ljust(BLOCK_BYTES, b"\0")


def chunks_of_footer(record: bytes) -> int | None:
    """Return the number of chunks in the first record of a footer; `None` for other records."""
    inner = record[2:] if record[1:2] < b"\x80" else record[3:]
    if record[:1] != b"\x0a" or inner[:3] != b"\x08\x01\x10":
        return None
    found = shift = 0
    for byte in inner[3:13]:
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return found
    return None


def _end_of_bytes(begin: int, size: int) -> int:
    """Return where `size` bytes of a chunk from `begin` on end, with the headers of blocks between them."""
    n_blocks = (size + (begin + _USABLE - 1) % BLOCK_BYTES) // _USABLE
    return begin + size + n_blocks * _BLOCK_HEADER.size


def _end_of_chunk(begin: int, n_data: int, n_records: int) -> int:
    least = begin + n_records
    left = BLOCK_BYTES - 1 - (least + BLOCK_BYTES - 1) % BLOCK_BYTES
    return max(_end_of_bytes(begin, _HEADER.size + n_data), least + max(0, left - (_USABLE - 1)))


def _chunk(begin: int, records: Sequence[bytes]) -> bytes:
    """Return an uncompressed chunk of records that begins with a block."""
    sizes, values = b"".join(_varint(len(record)) for record in records), b"".join(records)
    data = b"\0" + _varint(len(sizes)) + sizes + values
    header = _HEADER.pack(0, len(data), highway_hash(data), len(records) << 8 | _SIMPLE, len(values))[_HASH_BYTES:]
    content = memoryview(highway_hash(header).to_bytes(_HASH_BYTES, "little") + header + data)
    stop = _end_of_chunk(begin, len(data), len(records))
    parts = list[bytes | memoryview]()
    for at in range(0, max(len(content), 1), _USABLE):
        block = at // _USABLE * BLOCK_BYTES
        distances = _BLOCK_HEADER.pack(0, block, stop - begin - block)[_HASH_BYTES:]
        parts += [highway_hash(distances).to_bytes(_HASH_BYTES, "little"), distances, content[at : at + _USABLE]]
    return b"".join(parts).ljust(stop - begin, b"\0")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
