"""How a TFRecord file is compressed as a whole, from its first bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dataformats.backends.tfrecord.layout import HEADER, header_is_sound
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.decompressor import decompressed_start
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.git_lfs import POINTER, is_pointer, pull_command

Compression = Literal["auto", "gzip", "zlib", "none"]
PREFIX_BYTES = 16 * 1024
"""Bytes that `compression_of` needs at most: a gzip header may hold a file name and a comment."""

_GZIP = b"\x1f\x8b\x08"  # RFC 1952: magic, and deflate, the only method


@dataclass(frozen=True, slots=True)
class Inflated:
    """The decompressed beginning of a file.

    Attributes:
        head: The first bytes, as many as a header has, or fewer.
        complete: True if the compressed data end there.
    """

    head: bytes
    complete: bool

    @property
    def is_tfrecord(self) -> bool:
        """True if a header begins it, or if it holds no record."""
        return header_is_sound(self.head) or (self.complete and not self.head)


def decompress_file(file: StoredFile, compression: Compression) -> StoredFile:
    """Return the decompressed file: itself if it is not compressed, or empty.

    Raises:
        FormatError: It is not compressed as `compression` says, or is a git-lfs pointer.
    """
    if file.size == 0:
        return file
    head = file.pread(0, HEADER.size)
    if header_is_sound(head) and compression in ("auto", "none"):
        return file  # the common case: of ten thousand files, only these 12 bytes are read
    head = file.pread(0, PREFIX_BYTES)
    if is_pointer(head):
        raise FormatError(f"not a TFRecord: it looks like {POINTER}", path=file.name, remedy=pull_command(file))
    found = compression_of(head)
    if compression == "auto":
        compression = found
    elif compression == "none" and found != "none":
        raise _mismatch(file, "not an uncompressed TFRecord", "a record's length and its checksum", head)
    elif compression == "gzip" and not head.startswith(_GZIP[: len(head)]):
        raise _mismatch(file, "not a GZIP file", _GZIP.hex(" "), head)
    elif compression == "zlib" and not _is_zlib_header(head):
        raise _mismatch(file, "not a ZLIB file", "a ZLIB header, 78 01 to 78 da", head)
    return file if compression == "none" else DecompressedFile(file, compression, records_have_checksums=True)


def compression_of(head: bytes) -> Literal["gzip", "zlib", "none"]:
    """Return how a file is compressed that begins with `head`, up to `PREFIX_BYTES` bytes."""
    # A plain file whose first record has 0x088b1f bytes begins like a GZIP file.
    if header_is_sound(head):
        return "none"
    if head[: len(_GZIP)] == _GZIP:
        return "gzip"
    if _is_zlib_header(head) and decompress_start(head, "zlib").is_tfrecord:
        return "zlib"
    return "none"


def decompress_start(data: bytes, compression: str) -> Inflated:
    """Return the decompressed beginning of compressed data; nothing for data that do not decompress."""
    return Inflated(*decompressed_start(data, compression, HEADER.size))


def _is_zlib_header(head: bytes) -> bool:
    """True for the two bytes of RFC 1950, or the first of them: deflate, and no dictionary."""
    method = head[0]
    if method & 0x0F != 8 or method >> 4 > 7:
        return False
    return len(head) == 1 or ((method << 8 | head[1]) % 31 == 0 and not head[1] & 0x20)


def _mismatch(file: StoredFile, message: str, expected: str, head: bytes) -> FormatError:
    return FormatError(
        message,
        path=file.name,
        offset_bytes=0,
        expected=expected,
        found=head[: HEADER.size].hex(" "),
        remedy="Leave out compression=, or pass compression='auto'",
    )
