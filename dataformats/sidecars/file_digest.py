"""Digests of files: checksums of a few blocks, which tell another file from the same one with damage."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32

_N_BLOCKS = 8
_EQUAL_SHARE = 0.75
_BLOCK_BYTES = 1024
_BLOCK_DIGITS = 8
_READ_BYTES = 2**20
_PADDED_BYTES = 64 * 2**10  # formats that write in blocks fill each up to a multiple of this, or of a part of it
_ZEROS = f"{crc32(bytes(_BLOCK_BYTES)):08x}"


def file_digest(file: StoredFile, size: int | None = None) -> str:
    """Return the CRC-32 of up to eight blocks of 1 KB as hexadecimal digits, eight for each block.

    The blocks are spread evenly: the first begins at byte 0, the last ends at the end. They cover a file of at most
    8 KB. If one of them has nothing but zeros, as in a padded file, further places are read, and other blocks with data
    stand for those without: their CRC-32 is of their offset, too. A local file stays open: `open` reads it next.

    Args:
        file: The file.
        size: The number of its first bytes that the digest covers; `None` covers all.
    """
    size = file.size if size is None else size
    n_blocks = min(_N_BLOCKS, -(-size // _BLOCK_BYTES))
    last = max(0, size - _BLOCK_BYTES)
    offsets = [last * n // max(1, n_blocks - 1) for n in range(n_blocks)]
    blocks = file.pread_many([(offset, min(size, _BLOCK_BYTES)) for offset in offsets])
    found = [(offset, f"{crc32(block):08x}") for offset, block in zip(offsets, blocks, strict=True)]
    empty = [offset for offset, digits in found if digits == _ZEROS]
    if empty and n_blocks == _N_BLOCKS:
        found = _with_data(file, last, found, empty)
    return "".join([digits for _, digits in found])


def _with_data(
    file: StoredFile, last: int, full_blocks: list[tuple[int, str]], empty: Sequence[int]
) -> list[tuple[int, str]]:
    """Return eight blocks, as few empty ones as possible among them.

    They are searched at places whose distances double: from both ends of the file, and from the multiple of 64 KB
    before each empty block.

    Args:
        file: The file.
        last: Where the last block begins.
        full_blocks: The blocks that were read.
        empty: Where the empty ones begin.
    """
    steps = [0, *(_BLOCK_BYTES << n for n in range(max(1, last // _BLOCK_BYTES).bit_length()))]
    near = [step for step in steps if step < _PADDED_BYTES]
    places = {*steps, *(last - step for step in steps)}
    places |= {offset // _PADDED_BYTES * _PADDED_BYTES + step for offset in empty for step in near}
    more = sorted(place for place in places if 0 <= place <= last and place not in dict(full_blocks))
    blocks = file.pread_many([(place, _BLOCK_BYTES) for place in more])
    data = [
        (place, f"{crc32(block, place & 0xFFFFFFFF):08x}")
        for place, block in zip(more, blocks, strict=True)
        if any(block)
    ]
    kept = [one for one in full_blocks if one[1] != _ZEROS]
    n_missing = _N_BLOCKS - len(kept)
    chosen = [data[len(data) * n // n_missing] for n in range(n_missing)] if len(data) > n_missing else data
    zeros = [(offset, _ZEROS) for offset in empty[: n_missing - len(chosen)]]
    return sorted([*kept, *chosen, *zeros])


def file_checksum(file: StoredFile, size: int | None = None) -> str:
    """Return the CRC-32 of all bytes of a file, or of its first ones, as eight hexadecimal digits."""
    value = 0
    for piece in _pieces(file, size):
        value = crc32(piece, value)
    return f"{value:08x}"


def checksum_of(file: StoredFile, algorithm: str, size: int | None = None) -> str | None:
    """Return a checksum of all bytes of a file, or of its first ones, as hexadecimal digits.

    Args:
        file: The file.
        algorithm: `"crc32"`, or a name of `hashlib`; the result is `None` for others.
        size: The number of bytes; `None` for all.
    """
    if algorithm == "crc32":
        return file_checksum(file, size)
    if algorithm not in hashlib.algorithms_available:
        return None
    state = hashlib.new(algorithm, usedforsecurity=False)
    if not state.digest_size:
        return None  # the caller chooses its length
    for piece in _pieces(file, size):
        state.update(piece)
    return state.hexdigest()


def _pieces(file: StoredFile, size: int | None) -> Iterator[memoryview]:
    block, at = memoryview(bytearray(_READ_BYTES)), 0
    stop = file.size if size is None else min(size, file.size)
    while at < stop and (n := file.read_into(at, block[: stop - at])):
        yield block[:n]
        at += n


def is_same_file(then: str, now: str) -> bool:
    """Return True if two digests are of the same file, although it may be damaged since.

    At least six of eight blocks with data are equal: damage is seldom in more, and another file may have equal tables
    of offsets. Blocks of zeros do not count, because all padded files have them. Fewer blocks cover the file, and all
    must be equal.
    """
    if then == now or len(then) != len(now) or len(now) < _N_BLOCKS * _BLOCK_DIGITS:
        return then == now
    one, other = _data_blocks(then), _data_blocks(now)
    return (one & other).total() >= _EQUAL_SHARE * max(one.total(), other.total(), 1)


def _data_blocks(digest: str) -> Counter[str]:
    """Return the blocks of a digest that are not empty, and how often each is there."""
    blocks = [digest[at : at + _BLOCK_DIGITS] for at in range(0, len(digest), _BLOCK_DIGITS)]
    return Counter(block for block in blocks if block != _ZEROS)
