"""The header of a Syrah file, without I/O: FORMATS, Syrah.

22 bytes that the writer fills in at close, then the arrays back to back, then the metadata up to the end of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from dataformats.errors import FormatError, TruncatedError

HEADER = Struct("<2s4Bqq")  # magic, a zero and x, y, z of the version, offset and length of the metadata
MAGIC = b"GS"
MAX_METADATA_BYTES = 2**31 - 1  # a BSON document begins with its length, an int32
_VERSION = (0, 0, 2, 0)
_EMPTY_DOCUMENT_BYTES = 5


@dataclass(frozen=True, slots=True)
class Header:
    """The first bytes of a file.

    Attributes:
        version: The writer's version, such as `"0.2.0"`; the layout is the same from 0.1.3 on, and no reader depends on
            it.
        offset: First byte of the metadata, which is where the data end.
        length: Bytes of the metadata, known to reach exactly to the end of the file.
    """

    version: str
    offset: int
    length: int


def parse_header(data: bytes, size: int, path: str) -> Header:
    """Return the header of a file.

    Args:
        data: The first 22 bytes, or all bytes of a shorter file.
        size: Bytes of the file.
        path: Its name, for errors.

    Raises:
        FormatError: It is not a header, or does not fit the file.
    """
    if len(data) < HEADER.size:
        raise TruncatedError(
            "the file is too short for a header",
            path=path,
            offset_bytes=0,
            expected=f"{HEADER.size} bytes",
            found=f"{len(data)} bytes",
            remedy="The original's writer leaves an empty file if it gets no items" if size == 0 else None,
        )
    magic, _, *version, offset, length = HEADER.unpack(data[: HEADER.size])
    if not any(data[: HEADER.size]):
        raise FormatError(
            "unfinished: the header is all zeros, so the arrays cannot be located",
            path=path,
            offset_bytes=0,
            expected=MAGIC,
            found=magic,
            remedy="The writer was killed before close; write the file again",
        )
    if magic != MAGIC:
        raise FormatError("not a Syrah file", path=path, offset_bytes=0, expected=MAGIC, found=magic)
    _check_fit(offset, length, size, path)
    return Header(".".join(map(str, version)), offset, length)


def build_header(offset: int, length: int) -> bytes:
    """Return the header of version 0.2.0 for metadata of `length` bytes at byte `offset`."""
    return HEADER.pack(MAGIC, *_VERSION, offset, length)


def _check_fit(offset: int, length: int, size: int, path: str) -> None:
    if offset < HEADER.size:
        raise FormatError(
            "the metadata begin inside the header",
            path=path,
            offset_bytes=6,
            expected=f"an offset >= {HEADER.size}",
            found=offset,
        )
    if not _EMPTY_DOCUMENT_BYTES <= length <= MAX_METADATA_BYTES:
        raise FormatError(
            "the length of the metadata is impossible",
            path=path,
            offset_bytes=14,
            expected=f"{_EMPTY_DOCUMENT_BYTES} to {MAX_METADATA_BYTES} bytes of metadata",
            found=length,
        )
    if offset + length > size:
        raise TruncatedError(
            "the file ends inside its metadata",
            path=path,
            offset_bytes=size,
            expected=f"{offset + length} bytes",
            found=f"{size} bytes",
        )
    if offset + length < size:
        raise FormatError(
            "bytes follow the metadata, which must end the file",
            path=path,
            offset_bytes=offset + length,
            expected=f"{offset + length} bytes",
            found=f"{size} bytes",
        )
