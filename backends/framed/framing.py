"""What a frame is: the one thing in which the formats of this room differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import Check

__all__ = ["LENGTH_BYTES", "MAX_LENGTH", "Framing", "Octets", "Positions", "length_problems", "too_long", "words"]

LENGTH_BYTES = 8
MAX_LENGTH = 2**62  # no file is longer, and positions behind such a record still fit int64

Octets = NDArray[np.uint8]
Positions = NDArray[np.int64]


class Framing(ABC):
    """The frames of a format: a header that begins with the length of the data (8 bytes), the data, a footer.

    Pure and thread-safe; all integers are little-endian.

    Attributes:
        name: The format, which is also the kind of its indexes.
        title: What messages call it: `"a TFRecord"`.
        head: Bytes of the header.
        tail: Bytes of the footer: 4, a checksum of the data, or 0.
        min_length: The fewest bytes of data that may be written.
        findable: Headers can be found from any place of a file, because they hold a checksum.
    """

    name: str
    title: str
    head: int
    tail: int
    min_length: int = 0
    findable: bool = False

    @property
    def extra(self) -> int:
        """Bytes of a frame that are no data."""
        return self.head + self.tail

    @abstractmethod
    def frames(self, blobs: Sequence[bytes]) -> bytes:
        """Return the frames of these records, back to back."""

    @abstractmethod
    def walk(self, window: Octets, at: int, lengths: Positions, footers: NDArray[np.uint32]) -> tuple[int, int, int]:
        """Walk from header to header through a window: `dataformats.kernels.scan_tfrecord`, or its like.

        Without footers in the format, `footers` is left alone.
        """

    def find(self, window: Octets, most: int) -> int:
        """Return where in a window something stands that could be a header, or -1.

        Only headers with a checksum of their own can be found. Whether it is one, the frames before it tell.

        Args:
            window: A part of the file.
            most: The longest data that there can be.
        """
        return -1

    @abstractmethod
    def unsound(self, octets: Octets, starts: Positions) -> NDArray[np.bool_]:
        """Return bool[n]: which headers cannot be right, by themselves. Lengths past `MAX_LENGTH` never are."""

    @abstractmethod
    def header_problem(self, header: bytes, offset: int, path: str) -> FormatError:
        """Return the error of a header that is not sound, or has a length past `MAX_LENGTH`.

        Args:
            header: Its bytes.
            offset: Where in the file it stands.
            path: The file.
        """

    @abstractmethod
    def data_problems(self, blobs: Blobs, offsets: Positions) -> dict[int, FormatError]:
        """Return the records whose data are not what their frame says, position to error.

        Args:
            blobs: The data; header and footer of each stand around it in the buffer.
            offsets: int64[n], where in the file each frame begins.
        """

    @abstractmethod
    def check(self, verify_checksums: bool) -> Check:
        """Return what verifies frames that were read through an index; False compares the lengths alone."""


def words(octets: Octets, places: Positions, dtype: str) -> NDArray[Any]:
    """Return the integers at any places of a buffer, `(n,)` of `dtype`."""
    width = np.arange(np.dtype(dtype).itemsize)
    found: NDArray[Any] = octets[places[:, np.newaxis] + width].view(dtype).reshape(len(places))
    return found


def length_problems(found: NDArray[Any], expected: Positions, offsets: Positions) -> dict[int, FormatError]:
    """Return the frames whose length is not the one in the index, position to error.

    Args:
        found: uint64[n], or int64[n]: the lengths in the file.
        expected: int64[n], the lengths in the index.
        offsets: int64[n], where in the file each frame begins.
    """
    return {
        at: FormatError(
            "the length of a record is not the one in the index",
            offset_bytes=int(offsets[at]),
            expected=int(expected[at]),
            found=int(found[at]),
            remedy="If the file was changed in place, delete its index and open it again",
        )
        for at in np.flatnonzero(found != expected.astype(found.dtype)).tolist()
    }


def too_long(length: int, offset: int, path: str) -> TruncatedError:
    """Return the error of a length past `MAX_LENGTH`."""
    return TruncatedError(
        "a record is longer than any file",
        path=path,
        offset_bytes=offset,
        expected=f"a length up to {MAX_LENGTH}",
        found=length,
    )
