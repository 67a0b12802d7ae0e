"""Zstandard: decode frames, and list the frames of a file without decoding them.

The frame format is RFC 8878. Python 3.14 has the library as `compression.zstd`; `backports.zstd` is the same one for
earlier versions. Unlike `zstandard`, it reports a frame that ends early in any call, and its wheel has 0.5 MB, not 5.6.
"""

from __future__ import annotations

import functools
import importlib
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from dataformats.errors import FormatError, MissingExtraError, TruncatedError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.chunked_file import ChunkTable
from dataformats.storage.header_reader import HeaderReader

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_MAX_HEADER = 18
_FRAME_BYTES = 2**20
_MAX_SKIPPED = 16  # frames in front of the first one: pzstd writes one
_SIZE_BYTES = (0, 2, 4, 8)  # the field with the decoded size, by the two highest bits of the descriptor
_ID_BYTES = (0, 1, 2, 4)
_RAW, _RLE, _RESERVED = 0, 1, 3  # types of blocks


@functools.cache
def zstd_library() -> Any:
    """Return `compression.zstd` or `backports.zstd`.

    Raises:
        MissingExtraError: Neither is installed.
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtraError("zstd", extra="zstd")


def decode_zstd(data: bytes, n_bytes: int) -> bytes:
    """Return the decoded bytes of frames, at most `n_bytes + 1` of them.

    Raises:
        Exception: They are damaged, or end early; or the checksum of a frame is wrong.
    """
    library = zstd_library()
    parts: list[bytes] = []
    left = n_bytes + 1
    while data and left:
        decompressor = library.ZstdDecompressor()
        parts.append(decompressor.decompress(data, left))
        left -= len(parts[-1])
        if left and not decompressor.eof:
            raise EOFError("the frame ends early")
        data = decompressor.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def encode_zstd(data: bytes, level: int = 3) -> bytes:
    """Return one frame, with its decoded size and a checksum."""
    library = zstd_library()
    parameter = library.CompressionParameter
    options = {parameter.compression_level: level, parameter.checksum_flag: 1}
    frame: bytes = library.compress(data, options=options)
    return frame


def decode_gzip(data: bytes, n_bytes: int) -> bytes:
    """Return the decompressed bytes of gzip members, at most `n_bytes + 1` of them.

    Raises:
        Exception: They are damaged, or end early; or the checksum of a member is wrong.
    """
    parts: list[bytes] = []
    left = n_bytes + 1
    while data and left:
        decompressor = zlib.decompressobj(31)
        parts.append(decompressor.decompress(data, left))
        left -= len(parts[-1])
        if left and not decompressor.eof:
            raise EOFError("the gzip data end early")
        data = decompressor.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


class ZstdCompressor:
    """Compresses bytes as `zlib.compressobj` does, in frames of 1 MiB with their sizes and checksums.

    A reader decodes one frame for a record. The same bytes give the same frames, however they are divided.
    """

    def __init__(self) -> None:
        zstd_library()  # raises if it is missing
        self._held = bytearray()

    def compress(self, data: bytes | memoryview) -> bytes:
        """Return the frames that are complete."""
        self._held += data
        end = len(self._held) // _FRAME_BYTES * _FRAME_BYTES
        frames = [encode_zstd(bytes(self._held[at : at + _FRAME_BYTES])) for at in range(0, end, _FRAME_BYTES)]
        del self._held[:end]
        return b"".join(frames)

    def flush(self, mode: int) -> bytes:
        """Return a frame of the rest, whatever the mode is."""
        rest, self._held = bytes(self._held), bytearray()
        return encode_zstd(rest) if rest else b""


def list_frames(file: StoredFile) -> tuple[ChunkTable, FormatError | None]:
    """Return the frames of a file, found by the headers of their blocks, and why they end early, if they do.

    Skippable frames are left out. A decoded size of -1 means that the frame does not declare it.
    """
    found: list[tuple[int, int, int]] = []
    damage: FormatError | None = None
    try:
        found.extend(_frames(file))
    except FormatError as error:
        damage = error
    columns = np.array(found, np.int64).reshape(-1, 3)
    return ChunkTable(*(np.ascontiguousarray(column) for column in columns.T)), damage


def _frames(file: StoredFile) -> Iterator[tuple[int, int, int]]:
    """Yield offset, stored and decoded bytes of each frame.

    Raises:
        FormatError: A header is damaged, or bytes follow the last frame.
        TruncatedError: The file ends in a frame.
    """
    headers, offset = HeaderReader(file), 0
    while offset < file.size:
        frame = None
        head = headers.read(offset, _MAX_HEADER)
        magic = int.from_bytes(head[:4], "little")
        if magic in _SKIPPABLE and len(head) >= 8:
            end = offset + 8 + int.from_bytes(head[4:8], "little")
        elif head[:4] == ZSTD_MAGIC:
            first, size, has_checksum = _frame_header(file, offset, head)
            end = _end_of_blocks(file, headers, first) + 4 * has_checksum
            frame = offset, end - offset, size
        else:
            what = "no frame of zstd begins here"
            raise FormatError(what, path=file.name, offset_bytes=offset, expected=ZSTD_MAGIC, found=head[:4])
        if end > file.size:
            raise _truncated(file, offset)
        if frame is not None:
            yield frame
        offset = end


def first_frame(file: StoredFile, head: bytes) -> int | None:
    """Return where the first frame of a file begins, behind skippable ones; `None` if it is no file of zstd.

    Args:
        file: The file; it is read only behind a skippable frame.
        head: Its first 8 bytes, or more.
    """
    offset = 0
    for _ in range(_MAX_SKIPPED):
        if head[:4] == ZSTD_MAGIC:
            return offset
        if len(head) < 8 or int.from_bytes(head[:4], "little") not in _SKIPPABLE:
            return None
        offset += 8 + int.from_bytes(head[4:8], "little")
        head = file.pread(offset, 8)
    return None


def _frame_header(file: StoredFile, offset: int, head: bytes) -> tuple[int, int, bool]:
    """Return where the blocks of a frame begin, its decoded size or -1, and whether it has a checksum."""
    if len(head) < 6:
        raise _truncated(file, offset)
    descriptor = head[4]
    is_single = bool(descriptor & 0x20)
    n_size = max(_SIZE_BYTES[descriptor >> 6], 1 if is_single else 0)
    at = 5 + (not is_single) + _ID_BYTES[descriptor & 3]
    if descriptor & 0x08:
        what = "a frame of zstd sets a reserved bit"
        raise FormatError(what, path=file.name, offset_bytes=offset + 4, found=f"{descriptor:#04x}")
    if len(head) < at + n_size:
        raise _truncated(file, offset)
    size = int.from_bytes(head[at : at + n_size], "little") + (256 if n_size == 2 else 0)
    if size >= 2**62:
        raise FormatError(
            "a frame of zstd declares an impossible size", path=file.name, offset_bytes=offset, found=size
        )
    return offset + at + n_size, size if n_size else -1, bool(descriptor & 0x04)


def _end_of_blocks(file: StoredFile, headers: HeaderReader, offset: int) -> int:
    """Return the byte behind the last block of a frame."""
    while True:
        head = headers.read(offset, 3)
        if len(head) < 3:
            raise _truncated(file, offset)
        header = int.from_bytes(head, "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED:
            raise FormatError("a block of zstd has a reserved type", path=file.name, offset_bytes=offset, found=head)
        offset += 3 + (1 if kind == _RLE else size)
        if header & 1:
            return offset


def _truncated(file: StoredFile, offset: int) -> TruncatedError:
    what, found = "the file ends in a frame of zstd", f"{file.size} bytes"
    return TruncatedError(what, path=file.name, offset_bytes=offset, found=found)
