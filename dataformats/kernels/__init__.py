"""The hot loops, in C if compiled, else in Python and numpy, with the same results.

The environment variable `DATAFORMATS_KERNELS` chooses when this module is imported: `auto` (the default) takes C if it
is available, `native` requires it, `reference` takes Python. Functions here are thread-safe; the C kernels release the
GIL while they work on large buffers.
"""

from __future__ import annotations

from dataformats.kernels.batch import MAX_FRAMING as MAX_FRAMING
from dataformats.kernels.batch import SKIP_FILE as SKIP_FILE
from dataformats.kernels.batch import FrameCheck
from dataformats.kernels.batch import Out as Out
from dataformats.kernels.batch import hold_blocks as hold_blocks
from dataformats.kernels.batch import hold_extents as hold_extents
from dataformats.kernels.batch import hold_files as hold_files
from dataformats.kernels.batch import hold_index as hold_index
from dataformats.kernels.batch import hold_table as hold_table
from dataformats.kernels.batch import lay_out as lay_out
from dataformats.kernels.batch import look_up as look_up
from dataformats.kernels.batch import read_laid as read_laid
from dataformats.kernels.batch import read_record as read_record
from dataformats.kernels.batch import reads_batches as reads_batches
from dataformats.kernels.batch import thread_pool_open as thread_pool_open
from dataformats.kernels.best_fit import best_fit as best_fit
from dataformats.kernels.checksums import crc32 as crc32
from dataformats.kernels.checksums import crc32_extents as crc32_extents
from dataformats.kernels.checksums import crc32_items as crc32_items
from dataformats.kernels.checksums import crc32c
from dataformats.kernels.checksums import crc32c_extents as crc32c_extents
from dataformats.kernels.checksums import crc32c_items as crc32c_items
from dataformats.kernels.checksums import masked_crc32c as masked_crc32c
from dataformats.kernels.dispatch import describe, implementation
from dataformats.kernels.gather import bytes_list as bytes_list
from dataformats.kernels.gather import gather as gather
from dataformats.kernels.gather import gather_from as gather_from
from dataformats.kernels.gather import join_bytes as join_bytes
from dataformats.kernels.gather import join_frames as join_frames
from dataformats.kernels.images import bilinear as bilinear
from dataformats.kernels.images import png_unfilter as png_unfilter
from dataformats.kernels.images import resample as resample
from dataformats.kernels.images import unfilters_pngs as unfilters_pngs
from dataformats.kernels.json_fields import JsonKind as JsonKind
from dataformats.kernels.json_fields import JsonValues as JsonValues
from dataformats.kernels.json_fields import find_json_fields as find_json_fields
from dataformats.kernels.json_fields import read_json_integers as read_json_integers
from dataformats.kernels.json_fields import unescape_json as unescape_json
from dataformats.kernels.permutation import permute, permute_back
from dataformats.kernels.reference.checksums import mask as mask
from dataformats.kernels.reference.scan import CLOSED as CLOSED
from dataformats.kernels.reference.scan import ENDS as ENDS
from dataformats.kernels.reference.scan import FULL as FULL
from dataformats.kernels.reference.scan import UNSOUND as UNSOUND
from dataformats.kernels.scan import scan_json as scan_json
from dataformats.kernels.scan import scan_lines as scan_lines
from dataformats.kernels.scan import scan_ofrecord as scan_ofrecord
from dataformats.kernels.scan import scan_tfrecord as scan_tfrecord
from dataformats.kernels.scan import scan_tfrecord_header as scan_tfrecord_header

__all__ = ["FrameCheck", "crc32c", "describe", "implementation", "permute", "permute_back"]
