"""The kernels in plain Python and numpy: what the C ones must agree with, and what runs without them."""

from typing import TYPE_CHECKING

from dataformats.kernels.reference.batch import locate, places
from dataformats.kernels.reference.checksums import crc32, crc32_extents, crc32c, crc32c_extents

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike as BytesLike

__all__ = ["crc32", "crc32_extents", "crc32c", "crc32c_extents", "locate", "places"]
