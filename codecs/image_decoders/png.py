"""The chunks of a PNG, and the pixels of plain ones: 8 bits a channel, no palette, not interlaced."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dataformats.kernels import crc32, png_unfilter, unfilters_pngs
from dataformats.storage.compressed.decompressor import fast_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

START = b"\x89PNG\r\n\x1a\n"
_CHUNK = struct.Struct(">I4s")  # length, type; then the data, and CRC-32 of type and data: PNG 3rd ed., 5.3
_HEADER = struct.Struct(">IIBBBBB")  # width, height, bit depth, color type, three methods: 11.2.1
_GRAY = 0
_CHANNELS: dict[int, tuple[int, ...]] = {
    _GRAY: (),
    2: (3,),
    4: (2,),
    6: (4,),
}  # channels by color type; no palettes
_LENGTHS = {b"IHDR": 13, b"sRGB": 1, b"gAMA": 4, b"pHYs": 9, b"cHRM": 32, b"IEND": 0}
"""Bytes of the chunks beside the pixels that change none. Pillow decodes images with others."""


def plain_pixels(blob: bytes) -> tuple[tuple[int, ...], bytes] | None:
    """Verify the chunks of a PNG: Pillow verifies only a few of the checksums.

    Returns:
        Shape, (h, w) or (h, w, 2 to 4), and compressed pixels of a plain image; `None` if Pillow must decode it.

    Raises:
        ValueError: It is truncated, the checksum of a chunk does not match, or it has 16 bits a color.
    """
    chunks = list(_chunks(blob))
    if chunks[0][0] != b"IHDR" or chunks[-1][0] != b"IEND":
        raise ValueError("the PNG is truncated: no IEND chunk")
    width, height, depth, color, *methods = _HEADER.unpack_from(blob, len(START) + _CHUNK.size)
    if depth == 16 and color != _GRAY:
        raise ValueError("expected 8 bits a channel, found 16: Pillow would drop the lower 8. Use codec array.")
    is_plain = depth == 8 and color in _CHANNELS and methods == [0, 0, 0] and width > 0 and height > 0
    data = _pixels(chunks) if is_plain and unfilters_pngs() else b""
    return ((height, width, *_CHANNELS[color]), data) if data else None


def _pixels(chunks: Sequence[tuple[bytes, memoryview]]) -> bytes:
    """Return the compressed pixels; no bytes if only Pillow knows what the other chunks mean."""
    names = [name for name, _ in chunks]
    n = names.count(b"IDAT")
    first = names.index(b"IDAT") if n else 0
    beside = [*chunks[:first], *chunks[first + n :]]
    if names.count(b"IHDR") != 1 or any(_LENGTHS.get(name) != len(part) for name, part in beside):
        return b""
    return b"".join([part for _, part in chunks[first : first + n]])


def fill(data: bytes, out: NDArray[Any]) -> bool:
    """Decode a plain image into `out`; return False, with anything in it, if Pillow must decode the image.

    Args:
        data: Its compressed pixels.
        out: uint8 (h, w) or (h, w, channels), contiguous.
    """
    row_bytes = out[0].size
    n_bytes = len(out) * (row_bytes + 1)
    library: Any = fast_library()
    inflate = library.decompressobj()
    try:
        rows = inflate.decompress(data, n_bytes + 1)
    except library.error:
        return False
    if len(rows) != n_bytes or not inflate.eof or inflate.unused_data:
        return False
    return png_unfilter(rows, row_bytes, row_bytes // out.shape[1], out.reshape(-1))


def _chunks(blob: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield name and data of each chunk to the last one, which is nameless if the PNG is truncated."""
    memory = memoryview(blob)
    at = len(START)
    while at + _CHUNK.size + 4 <= len(blob):
        length, name = _CHUNK.unpack_from(blob, at)
        end = at + _CHUNK.size + length
        if end + 4 > len(blob):
            break
        if crc32(memory[at + 4 : end]) != int.from_bytes(memory[end : end + 4], "big"):
            raise ValueError(f"the checksum of chunk {name!r} at byte {at} does not match")
        yield name, memory[at + _CHUNK.size : end]
        if name == b"IEND":
            return
        at = end + 4
    yield b"", memory[:0]
