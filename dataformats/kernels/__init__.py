"""The hot loops, in C where it was compiled, else in Python and numpy, with the same answers.

Which of the two runs is chosen when this module is imported, by the environment variable
`DATAFORMATS_KERNELS`: `auto` (the default) takes C if it is there, `native` insists on it, `reference` takes
Python. Functions here are thread-safe; the C ones let other threads run while they work on large buffers.
"""

from __future__ import annotations

from dataformats.kernels.batch import (
    LEFT,
    MAX_FRAMING,
    FrameCheck,
    Out,
    hold_extents,
    lay_out,
    read_laid,
    reads_batches,
    thread_pool_open,
)
from dataformats.kernels.checksums import crc32, crc32_extents, crc32c, crc32c_extents, mask, masked_crc32c
from dataformats.kernels.dispatch import describe, implementation
from dataformats.kernels.gather import gather
from dataformats.kernels.permutation import permute, permute_back
from dataformats.kernels.scan import ENDS, FULL, UNSOUND, scan_ofrecord, scan_tfrecord, scan_tfrecord_header

__all__ = [
    "ENDS",
    "FULL",
    "LEFT",
    "MAX_FRAMING",
    "UNSOUND",
    "FrameCheck",
    "Out",
    "crc32",
    "crc32_extents",
    "crc32c",
    "crc32c_extents",
    "describe",
    "gather",
    "hold_extents",
    "implementation",
    "lay_out",
    "mask",
    "masked_crc32c",
    "permute",
    "permute_back",
    "read_laid",
    "reads_batches",
    "scan_ofrecord",
    "scan_tfrecord",
    "scan_tfrecord_header",
    "thread_pool_open",
]
