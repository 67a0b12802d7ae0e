"""The header of a WebP."""

from __future__ import annotations

import struct

_RIFF = struct.Struct("<4sI4s")  # "RIFF", bytes from here on less 8, "WEBP": RFC 9649, 2.4
_CHUNK = struct.Struct("<4sI")  # type, length; 2.3
_ANIMATED = 0x02


def size_of(blob: bytes) -> tuple[int, int]:
    """Return the width and height in a WebP's header.

    Raises:
        ValueError: The bytes are not a WebP, are truncated, or are an animation.
    """
    if blob[:4] != b"RIFF" or blob[8:12] != b"WEBP":
        raise ValueError(f"expected the bytes of a WebP, found {bytes(blob[:12])!r}")
    start = _RIFF.size + _CHUNK.size
    if len(blob) < max(start + 10, _RIFF.unpack_from(blob)[1] + 8):
        raise ValueError("the WebP is truncated")
    name, data = _CHUNK.unpack_from(blob, _RIFF.size)[0], blob[start : start + 10]
    if name == b"VP8 ":  # RFC 6386, 9.1
        return (int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF)
    if name == b"VP8L":  # RFC 9649, 3.4
        sizes = int.from_bytes(data[1:5], "little")
        return ((sizes & 0x3FFF) + 1, (sizes >> 14 & 0x3FFF) + 1)
    if name != b"VP8X":  # RFC 9649, 2.7
        raise ValueError(f"expected an image in the WebP, found chunk {name!r}")
    if data[0] & _ANIMATED:
        raise ValueError("expected a still image, found an animation")
    return (int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1)
