"""Digests of files: checksums of a few blocks, which tell another file from the same one with damage."""

from __future__ import annotations

from pathlib import Path

from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32

__all__ = ["file_checksum", "file_digest", "is_same_file"]

_N_BLOCKS = 8
_N_EQUAL = 6
_BLOCK_BYTES = 1024
_BLOCK_DIGITS = 8
_READ_BYTES = 2**20


def file_digest(file: StoredFile, size: int | None = None) -> str:
    """Return the CRC-32 of up to eight blocks of 1 KB as hexadecimal digits, eight for each block.

    The blocks are spread evenly: the first begins at byte 0, the last ends at the end. They cover a file of at most
    8 KB. A local file stays open: `open` reads it next.

    Args:
        file: The file.
        size: Its first bytes, of which the digest is; `None` is all of them.
    """
    size = file.size if size is None else size
    n_blocks = min(_N_BLOCKS, -(-size // _BLOCK_BYTES))
    last = max(0, size - _BLOCK_BYTES)
    length = min(size, _BLOCK_BYTES)
    blocks = file.pread_many([(last * n // max(1, n_blocks - 1), length) for n in range(n_blocks)])
    return "".join([f"{crc32(block):08x}" for block in blocks])


def file_checksum(path: Path) -> str:
    """Return the CRC-32 of all bytes of a local file as eight hexadecimal digits."""
    value, block = 0, memoryview(bytearray(_READ_BYTES))
    with path.open("rb", buffering=0) as file:
        while n := file.readinto(block):
            value = crc32(block[:n], value)
    return f"{value:08x}"


def is_same_file(then: str, now: str) -> bool:
    """Return True if two digests are of the same file, although it may be damaged since.

    Of eight blocks, at least six are equal: damage is seldom in more, and another file may have equal tables of
    offsets. Fewer blocks cover the file, and all must be equal.
    """
    if then == now or len(then) != len(now) or len(now) < _N_BLOCKS * _BLOCK_DIGITS:
        return then == now
    starts = range(0, len(now), _BLOCK_DIGITS)
    equal = sum(then[at : at + _BLOCK_DIGITS] == now[at : at + _BLOCK_DIGITS] for at in starts)
    return equal >= _N_EQUAL
