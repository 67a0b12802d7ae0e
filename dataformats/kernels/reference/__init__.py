"""The kernels in plain Python and numpy: what the C ones must agree with, and what runs without them."""

from typing import TYPE_CHECKING

from dataformats.kernels.reference.checksums import crc32, crc32_extents, crc32c, crc32c_extents
from dataformats.kernels.reference.gather import gather
from dataformats.kernels.reference.permutation import permute, permute_back
from dataformats.kernels.reference.scan import scan_ofrecord, scan_tfrecord, scan_tfrecord_header
from dataformats.kernels.reference.wire import wire_find, wire_numbers, wire_places, wire_steps, wire_survey
from dataformats.kernels.reference.wire_columns import wire_columns, wire_columns_plan
from dataformats.kernels.reference.wire_write import wire_plan, wire_write

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike as BytesLike

__all__ = [
    "crc32",
    "crc32_extents",
    "crc32c",
    "crc32c_extents",
    "gather",
    "permute",
    "permute_back",
    "scan_ofrecord",
    "scan_tfrecord",
    "scan_tfrecord_header",
    "wire_columns",
    "wire_columns_plan",
    "wire_find",
    "wire_numbers",
    "wire_places",
    "wire_plan",
    "wire_steps",
    "wire_survey",
    "wire_write",
]
