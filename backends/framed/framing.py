"""How the framed formats differ: where the length and the checksums of a frame stand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import Check, OutdatedIndexError
from dataformats.kernels import join_frames

_LONG_BYTES = 2048  # copying longer records takes longer than more parts of the system call
MAX_LENGTH = 2**62  # no file is longer, and offsets behind such a record still fit int64
NEXT_IS_LOST = "The next record cannot be found: run dataformats repair to save the others"

Octets = NDArray[np.uint8]
Positions = NDArray[np.int64]


class FramedBlobs(NamedTuple):
    """Frames to be written, and the rows of their index.

    Attributes:
        parts: Their bytes, in order.
        lengths: int64[n], bytes of data of each.
        checksums: uint32[n], the checksum of the data in each footer; `None` if the format has no footers.
    """

    parts: Sequence[bytes | memoryview]
    lengths: Positions
    checksums: NDArray[np.uint32] | None


class Framing(ABC):
    """The frames of a format: a header that begins with the length of the data (8 bytes), the data, a footer.

    Pure and thread-safe; all integers are little-endian.

    Attributes:
        name: The format, and the kind of its indexes.
        head: Bytes of the header.
        tail: Bytes of the footer: 4, a checksum of the data, or 0.
        min_length: The fewest bytes of data that may be written.
        findable: True if headers can be found from any place of a file, because they hold a checksum.
        index_metadata: What the index of a new file has besides its size and compression.
    """

    name: str
    head: int
    tail: int
    min_length: int = 0
    findable: bool = False
    index_metadata: Mapping[str, int] = MappingProxyType({})

    @property
    def extra(self) -> int:
        """Bytes of header and footer together."""
        return self.head + self.tail

    def frames(self, blobs: Sequence[bytes]) -> bytes:
        """Return the frames of these records, back to back."""
        return b"".join(self.framed(blobs).parts)

    def framed(self, blobs: Sequence[bytes]) -> FramedBlobs:
        """Return the parts of `frames`: one if the records are short, else their data are not copied."""
        lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
        heads, checksums = self.heads(lengths), self.checksums(blobs)
        if (n_bytes := int(lengths.sum())) < _LONG_BYTES * len(blobs):
            feet = b"" if checksums is None else checksums
            frames = join_frames(heads, blobs, feet, n_bytes + self.extra * len(blobs))
            return FramedBlobs([frames.data], lengths, checksums)
        columns = [heads.view(f"V{self.head}").tolist(), blobs]
        if checksums is not None:
            columns.append(checksums.view(f"V{self.tail}").tolist())
        return FramedBlobs([part for frame in zip(*columns, strict=True) for part in frame], lengths, checksums)

    @abstractmethod
    def heads(self, lengths: Positions) -> Octets:
        """Return uint8[n * head], the headers of records of these lengths."""

    def checksums(self, blobs: Sequence[bytes]) -> NDArray[np.uint32] | None:
        """Return `<u4[n]`, the footers of these records; `None` if frames have none."""
        return None

    @abstractmethod
    def scan_window(
        self, window: Octets, offset: int, lengths: Positions, footers: NDArray[np.uint32]
    ) -> tuple[int, int, int]:
        """Go from header to header through a window: see `dataformats.kernels.scan_tfrecord`.

        `footers` is left unchanged if the format has none.
        """

    def find_header(self, window: Octets, max_bytes: int) -> int:
        """Return where in a window bytes look like a header, or -1.

        Only headers with a checksum can be found. Data may look like a header, too: the caller has to arrive there
        from the frame before.

        Args:
            window: A part of the file.
            max_bytes: The greatest possible length of the data.
        """
        return -1

    @abstractmethod
    def unsound_headers(self, octets: Octets, starts: Positions) -> NDArray[np.bool_]:
        """Return bool[n]: headers that are wrong by themselves. The caller checks lengths past `MAX_LENGTH`."""

    @abstractmethod
    def header_problem(self, header: bytes, offset: int, path: str) -> FormatError:
        """Return the error of a header that is not sound, or has a length past `MAX_LENGTH`.

        Args:
            header: Its bytes.
            offset: Its place in the file.
            path: The file.
        """

    @abstractmethod
    def data_problems(self, blobs: Blobs, offsets: Positions) -> dict[int, FormatError]:
        """Return the records whose data contradict their frame, row to error.

        Args:
            blobs: The data; the buffer holds header and footer around each.
            offsets: int64[n], where in the file each frame begins.
        """

    @abstractmethod
    def check(self, verify_checksums: bool) -> Check:
        """Return the check of frames that an index located; with False it compares only the lengths."""


def gather_integers(octets: Octets, places: Positions, dtype: str) -> NDArray[Any]:
    """Return the integers at any places of a buffer, `(n,)` of `dtype`."""
    width = np.arange(np.dtype(dtype).itemsize)
    found: NDArray[Any] = octets[places[:, np.newaxis] + width].view(dtype).reshape(len(places))
    return found


def length_problems(lengths: NDArray[Any], expected: Positions, offsets: Positions) -> dict[int, FormatError]:
    """Return the frames whose length differs from the index, row to error.

    Args:
        lengths: uint64[n] or int64[n], the lengths in the file.
        expected: int64[n], the lengths in the index.
        offsets: int64[n], where in the file each frame begins.
    """
    return {
        at: OutdatedIndexError(
            "the length of a record differs from the index",
            offset_bytes=int(offsets[at]),
            expected=int(expected[at]),
            found=int(lengths[at]),
        )
        for at in np.flatnonzero(lengths != expected.astype(lengths.dtype)).tolist()
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
