"""Blobs: the stored bytes of several values in one buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.kernels import bytes_list, gather, join_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True, eq=False)  # not frozen: construction would take three times as long, several times a batch
class Blobs:
    """The stored bytes of several values, anywhere in one buffer.

    Attributes:
        buffer: uint8[size]; not written to any more.
        starts: int64[n], where each blob begins in `buffer`.
        lengths: int64[n], bytes of each blob.
        offsets: int64[n+1], where the blobs begin and end, if they lie back to back in a buffer that no other object
            uses, so that a decoder may keep it; otherwise `None`.
    """

    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None

    @classmethod
    def join(cls, blobs: Sequence[bytes]) -> Blobs:
        """Return these bytes, copied into one buffer."""
        return cls.back_to_back(*join_bytes(blobs))

    @classmethod
    def back_to_back(cls, values: NDArray[Any], lengths: NDArray[np.int64]) -> Blobs:
        """Return the blobs that an array in C order consists of, in place; no other object may change it."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(values.reshape(-1).view(np.uint8), offsets[:-1], lengths, offsets)

    @classmethod
    def of(cls, blob: bytearray) -> Blobs:
        """Return one blob, in place; no other object may use it."""
        offsets = np.array([0, len(blob)], np.int64)
        return cls(np.frombuffer(blob, np.uint8), offsets[:1], offsets[1:], offsets)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        return bytes(self.view(row))

    def __iter__(self) -> Iterator[bytes]:
        return iter(bytes_list(self.buffer, self.starts, self.lengths))

    def view(self, row: int) -> memoryview:
        """Return the bytes of one blob without a copy."""
        start = int(self.starts[row])
        return self.buffer.data[start : start + int(self.lengths[row])]

    def take(self, rows: NDArray[np.int64] | slice) -> Blobs:
        """Return the blobs in these rows, in this order; nothing is copied."""
        return Blobs(self.buffer, self.starts[rows], self.lengths[rows])

    def contiguous(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the blobs back to back, writable: values uint8[sum] and offsets int64[n+1]."""
        if self.offsets is not None:
            return self.buffer, self.offsets
        return gather(self.buffer, self.starts, self.lengths)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """Return uint8[n, width], a copy; every blob must be `width` bytes long."""
        values, _ = self.contiguous()
        return values.reshape(len(self), width)

    def packed(self, width: int) -> NDArray[np.uint8] | None:
        """Return the blobs back to back, uint8[n * width], writable; `None` unless each has `width` bytes."""
        lengths = self.lengths
        # Most batches have few blobs: comparing lengths as bytes takes a third of the time of comparing arrays.
        if len(lengths) and (lengths.item(0) != width or lengths.tobytes() != lengths[:1].tobytes() * len(lengths)):
            return None
        return self.contiguous()[0]
