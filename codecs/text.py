"""Bytes, unchanged, and text as UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.batch import Blobs, Column, Ragged
from dataformats.interfaces import Codec


class _Bytes(Codec):
    name = "bytes"
    decodes_alike = True

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a bytes, bytearray or memoryview."""
        if type(value) is bytes:
            return value
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"expected bytes, found {type(value).__name__}")
        return bytes(value)

    def decode(self, blob: bytes) -> bytes:
        """Return the bytes unchanged."""
        return bytes(blob)

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return a `Ragged` over uint8 whose items are `bytes`."""
        return Ragged(*blobs.contiguous(), "bytes")

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the blobs of a `Ragged`, in place, or of a list of bytes."""
        if isinstance(values, list) and set(map(type, values)) == {bytes}:
            return Blobs.join(values)
        return _items_of(values, "bytes")


class _Utf8(Codec):
    name = "utf8"
    decodes_alike = True

    def encode(self, value: Any) -> bytes:
        """Return the text as UTF-8. Lone surrogates raise."""
        if not isinstance(value, str):
            raise TypeError(f"expected str, found {type(value).__name__}")
        return value.encode()

    def decode(self, blob: bytes) -> str:
        """Return the text."""
        return bytes(blob).decode()

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return a `Ragged` over uint8 whose items are `str`.

        Raises:
            UnicodeDecodeError: A blob is not UTF-8.
        """
        values, offsets = blobs.contiguous()
        if len(str(values.data, "utf-8")) == len(values):  # only ASCII
            return Ragged(values, offsets, "utf8")
        # If the whole is valid, so is each part, unless one begins in the middle of a character.
        starts = offsets[:-1][blobs.lengths > 0]
        inside = (values[starts] & 0xC0) == 0x80
        if inside.any():
            at = int(starts[inside.argmax()])
            raise UnicodeDecodeError("utf-8", values.tobytes(), at, at + 1, "invalid start byte")
        return Ragged(values, offsets, "utf8")

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the blobs of a `Ragged`, in place, or of a list of `str`."""
        if isinstance(values, list) and set(map(type, values)) == {str}:
            return Blobs.join(list(map(str.encode, values)))
        return _items_of(values, "utf8")


def _items_of(column: Column, item: str) -> Blobs | None:
    """Return the items of a `Ragged` of this kind; `None` for any other column."""
    if not isinstance(column, Ragged) or column.item_kind != item or column.present is not None:
        return None
    values = column.values[column.offsets[0] : column.offsets[-1]]
    return Blobs.back_to_back(values, column.lengths) if isinstance(values, np.ndarray) else None


BYTES = _Bytes()
"""Bytes, unchanged."""

UTF8 = _Utf8()
"""Text, validated when it is decoded."""
