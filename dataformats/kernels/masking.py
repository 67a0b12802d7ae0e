"""The mask that TFRecord lays over a CRC-32C, so that the CRC of data that hold CRCs keeps its strength."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import NDArray

MASK_DELTA = 0xA282EAD8  # kMaskDelta of tensorflow/core/lib/hash/crc32c.h


@overload
def mask(crc: int) -> int: ...
@overload
def mask(crc: NDArray[np.uint32]) -> NDArray[np.uint32]: ...
def mask(crc: int | NDArray[np.uint32]) -> int | NDArray[np.uint32]:
    """Return `crc` turned right by 15 bits plus a constant, modulo 2**32.

    Takes one CRC, or a uint32 array of them.
    """
    if isinstance(crc, np.ndarray):
        right, left, delta = np.uint32(15), np.uint32(17), np.uint32(MASK_DELTA)
        return ((crc >> right) | (crc << left)) + delta
    crc = int(crc)
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF
