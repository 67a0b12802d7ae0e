"""The kernels in plain Python and numpy: the specification of the C kernels, and the fallback without them."""

from dataformats.kernels.reference.best_fit import best_fit as best_fit
from dataformats.kernels.reference.checksums import crc32 as crc32
from dataformats.kernels.reference.checksums import crc32_extents as crc32_extents
from dataformats.kernels.reference.checksums import crc32_items as crc32_items
from dataformats.kernels.reference.checksums import crc32c as crc32c
from dataformats.kernels.reference.checksums import crc32c_extents as crc32c_extents
from dataformats.kernels.reference.checksums import crc32c_items as crc32c_items
from dataformats.kernels.reference.gather import bytes_list as bytes_list
from dataformats.kernels.reference.gather import gather as gather
from dataformats.kernels.reference.gather import join_frames as join_frames
from dataformats.kernels.reference.images import bilinear as bilinear
from dataformats.kernels.reference.images import png_unfilter as png_unfilter
from dataformats.kernels.reference.images import resample as resample
from dataformats.kernels.reference.permutation import permute as permute
from dataformats.kernels.reference.permutation import permute_back as permute_back
from dataformats.kernels.reference.scan import scan_json as scan_json
from dataformats.kernels.reference.scan import scan_lines as scan_lines
from dataformats.kernels.reference.scan import scan_ofrecord as scan_ofrecord
from dataformats.kernels.reference.scan import scan_tfrecord as scan_tfrecord
from dataformats.kernels.reference.scan import scan_tfrecord_header as scan_tfrecord_header
