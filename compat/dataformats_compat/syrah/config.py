"""The sizes of the parts of a file's header, in bytes."""

from __future__ import annotations

__all__ = [
    "MAGIC_BYTES",
    "NUM_BYTES_MAGIC_BYTES",
    "NUM_BYTES_METADATA_LENGTH",
    "NUM_BYTES_METADATA_OFFSET",
    "NUM_BYTES_VERSION",
]

MAGIC_BYTES = b"GS"
NUM_BYTES_MAGIC_BYTES = len(MAGIC_BYTES)
NUM_BYTES_VERSION = 4
NUM_BYTES_METADATA_OFFSET = 8
NUM_BYTES_METADATA_LENGTH = 8
