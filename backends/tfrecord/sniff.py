"""What a file's first bytes say: how it is compressed, and whether TFRecords are in it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

from dataformats.backends.tfrecord.layout import FRAMING_BYTES, HEADER, header_is_sound
from dataformats.errors import FormatError
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import masked_crc32c
from dataformats.storage.gzip_file import DecompressedFile

__all__ = ["Compression", "chosen_compression", "decompressed", "judge"]

Compression = Literal["auto", "gzip", "zlib", "none"]
_GZIP = b"\x1f\x8b\x08"  # RFC 1952: magic, and the one method there is
_WBITS = {"gzip": 31, "zlib": 15}
_PREFIX = 16 * 1024  # a gzip header may hold a file name and a comment
_MAX_PROBED = 2**20


def chosen_compression(option: object) -> Compression:
    """Return the compression that an option names: as here, or as TensorFlow spells it.

    Raises:
        ValueError: It names none.
    """
    name = "none" if option is None or option == "" else str(option).lower()
    if name not in ("auto", "gzip", "zlib", "none"):
        raise ValueError(f"compression must be 'auto', 'gzip', 'zlib' or 'none', found {option!r}")
    return name  # type: ignore[return-value]  # checked in the line above


def decompressed(file: StoredFile, compression: Compression) -> StoredFile:
    """Return the decompressed file: itself where it is not compressed, or empty.

    Raises:
        FormatError: It is not compressed as `compression` says.
    """
    if file.size == 0:
        return file
    head = file.pread(0, HEADER.size)
    if header_is_sound(head) and compression in ("auto", "none"):
        return file  # as nearly every file is: of ten thousand no more is read than this
    head = file.pread(0, _PREFIX)
    found = _compression(head)
    if compression == "auto":
        compression = found
    elif compression == "none" and found != "none":
        raise _misnamed(file, "no TFRecord, or a compressed one", "a record's length and its checksum", head)
    elif compression == "gzip" and not head.startswith(_GZIP[: len(head)]):
        raise _misnamed(file, "no GZIP file", _GZIP.hex(" "), head)
    elif compression == "zlib" and not _is_zlib_header(head):
        raise _misnamed(file, "no ZLIB file", "a ZLIB header, 78 01 to 78 da", head)
    return file if compression == "none" else DecompressedFile(file, compression)


def judge(file: StoredFile, claimed: bool) -> SniffResult:
    """Judge a non-empty file by its beginning.

    Args:
        file: The file.
        claimed: Its name says that it is a TFRecord.
    """
    head = file.pread(0, _PREFIX)
    compression = _compression(head)
    if compression == "none":
        return _judge_frame(file, head)
    inflated = _inflate(head, compression)
    if header_is_sound(inflated.head) or (inflated.complete and not inflated.head):
        return SniffResult("yes")
    what = f"{compression} compressed, and what is inside does not begin with a length and its checksum"
    # What is inside a file that is cut before the first header nobody can know: its name may.
    return SniffResult("damaged" if claimed and not inflated.complete and len(inflated.head) < 12 else "no", what)


@dataclass(frozen=True, slots=True)
class _Beginning:
    head: bytes
    complete: bool  # the compressed data end there


def _compression(head: bytes) -> Literal["gzip", "zlib", "none"]:
    # A plain file whose first record has 0x088b1f bytes begins like a GZIP file.
    if header_is_sound(head):
        return "none"
    if head[: len(_GZIP)] == _GZIP:
        return "gzip"
    if _is_zlib_header(head):
        inflated = _inflate(head, "zlib")
        if header_is_sound(inflated.head) or (inflated.complete and not inflated.head):
            return "zlib"
    return "none"


def _is_zlib_header(head: bytes) -> bool:
    """Return True for the two bytes of RFC 1950, or the first of them: deflate, and no dictionary."""
    method = head[0]
    if method & 0x0F != 8 or method >> 4 > 7:
        return False
    return len(head) == 1 or ((method << 8 | head[1]) % 31 == 0 and not head[1] & 0x20)


def _inflate(data: bytes, compression: str) -> _Beginning:
    state = zlib.decompressobj(_WBITS[compression])
    try:
        out = state.decompress(data, HEADER.size)
    except zlib.error:
        return _Beginning(b"", False)
    return _Beginning(out, state.eof)


def _misnamed(file: StoredFile, what: str, expected: str, head: bytes) -> FormatError:
    return FormatError(
        what,
        path=file.name,
        offset_bytes=0,
        expected=expected,
        found=head[: HEADER.size].hex(" "),
        remedy="Leave out compression=, or pass compression='auto'",
    )


def _judge_frame(file: StoredFile, head: bytes) -> SniffResult:
    if len(head) < HEADER.size:
        return _judge_short(head)
    length, stored = HEADER.unpack_from(head)
    if header_is_sound(head):
        if length + FRAMING_BYTES <= file.size:
            return SniffResult("yes")
        return SniffResult("damaged", f"its first record has {length} bytes, the file {file.size}")
    if reason := _evidence(file, length, stored):
        return SniffResult("damaged", f"the checksum of the first length fails, but {reason}")
    return SniffResult("no", "the first 8 bytes as a length do not fit the checksum behind them")


def _evidence(file: StoredFile, length: int, stored: int) -> str:
    """Return what says that a file is a TFRecord though its first length does not fit its checksum.

    That the length alone fits the file says nothing: OFRecords begin with a length, too.
    """
    octets = length.to_bytes(8, "little")
    if (masked_crc32c(octets) ^ stored).bit_count() == 1:
        return "by one bit"
    if any(masked_crc32c((length ^ 1 << bit).to_bytes(8, "little")) == stored for bit in range(64)):
        return "fits the length with one bit flipped"
    end = length + FRAMING_BYTES
    if end > file.size:
        return ""
    if header_is_sound(file.pread(end, HEADER.size)):
        return "a sound header follows the record"
    data = file.pread(HEADER.size, length + 4) if length <= _MAX_PROBED else b""
    if length and data and masked_crc32c(data[:-4]) == int.from_bytes(data[-4:], "little"):
        return "the data fit theirs"
    return ""


def _judge_short(head: bytes) -> SniffResult:
    """Judge a file that ends before the first checksum does: the 8 bytes of a length, or fewer."""
    known = head[8:]
    if len(head) >= 8:
        expected = masked_crc32c(head[:8]).to_bytes(4, "little")
        plausible = known == expected[: len(known)] and not any(head[5:8])
    else:
        plausible = len(head) > 4 and any(head) and not any(head[4:])
    if plausible:
        return SniffResult("damaged", f"its {len(head)} bytes may be the beginning of a record")
    return SniffResult("no", f"its {len(head)} bytes are not the beginning of a record")
