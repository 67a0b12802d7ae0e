"""How a file of lines is compressed as a whole, by its first bytes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dataformats.errors import FormatError, MissingExtraError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.chunked_file import ChunkedFile, ChunkTable
from dataformats.storage.compressed.decompressor import decompressed_start
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.compressed.zstd_frames import decode_zstd, first_frame, list_frames, zstd_library

Compression = Literal["gzip", "zstd", "none"]
GZIP = b"\x1f\x8b\x08"  # RFC 1952
_HEAD = 2**16
_HEAD_OF_ZSTD = 2**18  # a block of 128 KB is decoded as a whole
_PIECE = 2**20


def compression_of_name(name: str) -> Compression:
    """Return the compression that the ending of a name means."""
    return "gzip" if name.endswith(".gz") else "zstd" if name.endswith(".zst") else "none"


def decompressed(file: StoredFile) -> StoredFile:
    """Return the decompressed file: itself if its first bytes are neither of gzip nor of zstd."""
    head = file.pread(0, 8) if file.size else b""
    if head.startswith(GZIP):
        return DecompressedFile(file, "gzip")
    return file if first_frame(file, head) is None else _zstd_file(file)


def head_of(file: StoredFile) -> tuple[bytes, bool]:
    """Return up to 64 KB of the beginning of a file, decompressed, and True if they are the whole file."""
    head = file.pread(0, _HEAD)
    if head.startswith(GZIP):
        out, is_whole = decompressed_start(head, "gzip", _HEAD)
        return out, is_whole and len(head) == file.size
    begin = first_frame(file, head)
    if begin is not None:
        return _zstd_head(file.pread(begin, _HEAD_OF_ZSTD)), False
    return head, len(head) == file.size


def _zstd_file(file: StoredFile) -> StoredFile:
    """Return the decoded bytes of a file of zstd frames; frames that do not declare their size are decoded for it.

    Those behind a damaged header, or behind one whose size is neither declared nor can be found, are lost.

    Raises:
        FormatError: The first frame is such a one.
    """
    chunks, damage = list_frames(file)
    offset, stored, sizes = chunks.offset, chunks.stored_bytes, chunks.decoded_bytes.copy()
    n = len(sizes)
    for at in np.flatnonzero(sizes < 0).tolist():
        try:
            sizes[at] = _decoded_size(file, int(offset[at]), int(stored[at]))
        except FormatError as error:
            n, damage = at, error
            break
    if damage is not None and not n:
        raise damage
    found = ChunkedFile(file, ChunkTable(offset[:n], stored[:n], sizes[:n]), decode_zstd, "zstd")
    found.damage = damage
    return found


def _decoded_size(file: StoredFile, offset: int, n_stored: int) -> int:
    """Return the decoded bytes of a frame; only a part of them is in memory."""
    decompressor, size, end = zstd_library().ZstdDecompressor(), 0, offset + n_stored
    try:
        for at in range(offset, end, _PIECE):
            data = file.pread(at, min(_PIECE, end - at))
            while True:
                size += len(decompressor.decompress(data, _PIECE))
                data = b""
                if decompressor.eof or decompressor.needs_input:
                    break
    except Exception as error:
        what = "a zstd frame that does not declare its size is damaged"
        raise FormatError(what, path=file.name, offset_bytes=offset, found=str(error)[:200]) from error
    return size


def _zstd_head(head: bytes) -> bytes:
    try:
        return bytes(zstd_library().ZstdDecompressor().decompress(head, _HEAD))
    except MissingExtraError:
        raise
    except Exception:  # the head is damaged
        return b""
