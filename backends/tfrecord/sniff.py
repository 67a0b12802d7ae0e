"""Recognizes a TFRecord by the checksum of its first length, decompressed if necessary."""

from __future__ import annotations

from dataformats.backends.tfrecord.compression import PREFIX_BYTES, compression_of, decompress_start
from dataformats.backends.tfrecord.layout import FOOTER_BYTES, FRAMING_BYTES, HEADER, header_is_sound, lacks_checksums
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import masked_crc32c, scan_tfrecord_header

_MAX_PROBED = 2**20
_WINDOW_BYTES = 2**16
_HEAD_BYTES = 2 * HEADER.size  # a damaged header may end within these


def sniff_frames(file: StoredFile, *, has_name: bool) -> SniffResult:
    """Recognize a non-empty file by its first bytes.

    Args:
        file: The file.
        has_name: True if its name is one of a TFRecord.
    """
    head = file.pread(0, PREFIX_BYTES)
    compression = compression_of(head)
    if compression == "none":
        return _sniff_frame(file, head)
    inflated = decompress_start(head, compression)
    if inflated.is_tfrecord and (inflated.head or has_name):
        return SniffResult("yes")
    why = f"{compression} compressed, and the data inside do not begin with a length and its checksum"
    # The content of a file that is cut inside the first header says nothing, but its name may.
    is_cut = not inflated.complete and len(inflated.head) < HEADER.size
    return SniffResult("damaged" if has_name and is_cut else "no", why)


def _sniff_frame(file: StoredFile, head: bytes) -> SniffResult:
    if len(head) < HEADER.size:
        return _sniff_short(head)
    length, stored = HEADER.unpack_from(head)
    if header_is_sound(head):
        if length + FRAMING_BYTES <= file.size:
            return SniffResult("yes")
        return SniffResult("damaged", f"its first record has {length} bytes, the file {file.size}")
    if reason := _evidence(file, length, stored):
        return SniffResult("damaged", f"the checksum of the first length is wrong, but {reason}")
    return SniffResult("no", "bytes 8 to 11 are not the checksum of a length in bytes 0 to 7")


def _evidence(file: StoredFile, length: int, stored: int) -> str:
    """Return the evidence for a TFRecord whose first length contradicts its checksum, or `""`.

    A length that fits the file is no evidence: OFRecords begin with a length, too.
    """
    octets = length.to_bytes(8, "little")
    if (masked_crc32c(octets) ^ stored).bit_count() == 1:
        return "only by one bit"
    if any(masked_crc32c((length ^ 1 << bit).to_bytes(8, "little")) == stored for bit in range(64)):
        return "fits the length with one bit flipped"
    if _has_footer(file):
        return "the checksum of the data is right"
    end = length + FRAMING_BYTES
    if end > file.size:
        return ""
    if lacks_checksums(file):
        return "all of them are 0"
    if header_is_sound(file.pread(end, HEADER.size)):
        return "a sound header follows the record"
    data = file.pread(HEADER.size, length + 4) if length <= _MAX_PROBED else b""
    if length and data and masked_crc32c(data[:-4]) == int.from_bytes(data[-4:], "little"):
        return "the checksum of the data is right"
    return ""


def _has_footer(file: StoredFile) -> bool:
    """True if the checksum of the first record's data is right, wherever the damaged header ends.

    It lies before the next sound header, or at the end of a small file.
    """
    window = file.pread(0, _WINDOW_BYTES)
    found = scan_tfrecord_header(window, 1, file.size)
    end = found if found > 0 else len(window)
    if (end == len(window) < file.size) or end < FOOTER_BYTES:
        return False
    stored = int.from_bytes(window[end - FOOTER_BYTES : end], "little")
    data = memoryview(window)[: end - FOOTER_BYTES]
    return any(masked_crc32c(data[start:]) == stored for start in range(min(len(data), _HEAD_BYTES)))


def _sniff_short(head: bytes) -> SniffResult:
    """Recognize a file that ends inside its first header, after the 8 bytes of a length or fewer."""
    known = head[8:]
    if len(head) >= 8:
        expected = masked_crc32c(head[:8]).to_bytes(4, "little")
        plausible = known == expected[: len(known)] and not any(head[5:8])
    else:
        plausible = len(head) > 4 and any(head) and not any(head[4:])
    if plausible:
        return SniffResult("damaged", f"its {len(head)} bytes may be the beginning of a record")
    return SniffResult("no", f"its {len(head)} bytes are not the beginning of a record")
