"""The kernels in plain Python and numpy: the specification of the C kernels, and the fallback without them."""

from typing import TYPE_CHECKING

from dataformats.kernels.reference.best_fit import best_fit
from dataformats.kernels.reference.checksums import crc32, crc32_extents, crc32c, crc32c_extents
from dataformats.kernels.reference.gather import bytes_list, gather, join_bytes
from dataformats.kernels.reference.images import bilinear, png_unfilter, resample
from dataformats.kernels.reference.permutation import permute, permute_back
from dataformats.kernels.reference.scan import scan_lines, scan_ofrecord, scan_tfrecord, scan_tfrecord_header

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike as BytesLike

__all__ = [
    "best_fit",
    "bilinear",
    "bytes_list",
    "crc32",
    "crc32_extents",
    "crc32c",
    "crc32c_extents",
    "gather",
    "join_bytes",
    "permute",
    "permute_back",
    "png_unfilter",
    "resample",
    "scan_lines",
    "scan_ofrecord",
    "scan_tfrecord",
    "scan_tfrecord_header",
]
