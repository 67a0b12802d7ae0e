"""The hot loops, in C if compiled, else in Python and numpy, with the same results.

The environment variable `DATAFORMATS_KERNELS` chooses when this module is imported: `auto` (the default) takes C if it
is available, `native` requires it, `reference` takes Python. Functions here are thread-safe; the C kernels release the
GIL while they work on large buffers.
"""

from __future__ import annotations

from dataformats.kernels.batch import (
    MAX_FRAMING,
    SKIP_FILE,
    FrameCheck,
    Out,
    hold_blocks,
    hold_extents,
    hold_files,
    hold_index,
    hold_table,
    lay_out,
    look_up,
    read_laid,
    read_record,
    reads_batches,
    thread_pool_open,
)
from dataformats.kernels.best_fit import best_fit
from dataformats.kernels.checksums import crc32, crc32_extents, crc32c, crc32c_extents, mask, masked_crc32c
from dataformats.kernels.dispatch import describe, implementation
from dataformats.kernels.gather import bytes_list, gather, gather_from, join_bytes
from dataformats.kernels.images import bilinear, png_unfilter, resample, unfilters_pngs
from dataformats.kernels.json_fields import JsonKind, JsonValues, find_json_fields, read_json_integers, unescape_json
from dataformats.kernels.permutation import permute, permute_back
from dataformats.kernels.scan import (
    ENDS,
    FULL,
    UNSOUND,
    scan_lines,
    scan_ofrecord,
    scan_tfrecord,
    scan_tfrecord_header,
)

__all__ = [
    "ENDS",
    "FULL",
    "MAX_FRAMING",
    "SKIP_FILE",
    "UNSOUND",
    "FrameCheck",
    "JsonKind",
    "JsonValues",
    "Out",
    "best_fit",
    "bilinear",
    "bytes_list",
    "crc32",
    "crc32_extents",
    "crc32c",
    "crc32c_extents",
    "describe",
    "find_json_fields",
    "gather",
    "gather_from",
    "hold_blocks",
    "hold_extents",
    "hold_files",
    "hold_index",
    "hold_table",
    "implementation",
    "join_bytes",
    "lay_out",
    "look_up",
    "mask",
    "masked_crc32c",
    "permute",
    "permute_back",
    "png_unfilter",
    "read_json_integers",
    "read_laid",
    "read_record",
    "reads_batches",
    "resample",
    "scan_lines",
    "scan_ofrecord",
    "scan_tfrecord",
    "scan_tfrecord_header",
    "thread_pool_open",
    "unescape_json",
    "unfilters_pngs",
]
