"""Number the frames of a video by its packets, and decode some frames with no more packets than these need.

A packet is one frame, at the time that its container gives: the number of a frame is the rank of its time. Nothing is
decoded to know it. Packets that an edit list cuts off, and hidden frames of VP8 and VP9, are not counted. A file whose
packets do not have these properties is in doubt, and is decoded from its start.

A run of packets begins at a keyframe. If a frame is missing, or the decoder refuses to begin there, as at an open group
of pictures of H.264, decoding begins at an earlier keyframe.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DoubtError", "VideoPackets"]

_IN_ORDER = ("vp8", "vp9", "av1")  # frames are shown in the order of their packets
_KNOWN = (*_IN_ORDER, "h264", "hevc", "mpeg4")
_SKIPPING = ("h264", "hevc", "mpeg4")  # the decoders that can be asked at each packet to leave out a frame
_EMPTY_VOP = 12  # bytes: a shorter packet of MPEG-4 may be a frame that is not coded, and not shown
_MOST_TRIES = 16


class DoubtError(Exception):
    """The packets of a video may not number its frames, or not those that a run gives.

    Args:
        packet: The first packet of the run.
    """

    def __init__(self, packet: int = 0) -> None:
        super().__init__("the packets of the video do not number its frames")
        self.packet = packet


@dataclass(slots=True)
class VideoPackets:
    """The packets of a video.

    Attributes:
        packets: All packets, in the order in which they are decoded.
        keys: int64[k], the numbers of packets from which decoding can begin, ascending.
        times: int64[n], the times of the frames, ascending: a frame's number is its place here.
        places: int64[n], the number of each frame's packet.
        may_skip: True if the decoder can leave out a frame to which no others refer.
        most_pixels: The most pixels that are still decoded, over all frames and tries.
    """

    packets: list[Any]
    keys: list[int]
    times: NDArray[np.int64]
    places: NDArray[np.int64]
    may_skip: bool
    most_pixels: int
    _n_tries: int = 0

    @classmethod
    def read(cls, file: Any, track: Any, most_bytes: int, most: int, most_pixels: int) -> VideoPackets:
        """Return the packets of a stream.

        Args:
            file: PyAV's container, at its start.
            track: Its stream.
            most_bytes: Packets with more bytes share them: a small file could name more than memory holds.
            most: The most packets.
            most_pixels: The most pixels that are decoded, over all frames.

        Raises:
            DoubtError: They do not number the frames.
        """
        kind = track.codec_context.codec.canonical_name
        if kind not in _KNOWN:
            raise DoubtError
        packets: list[Any] = []
        for packet in file.demux(track):
            most_bytes -= packet.size
            if most_bytes < 0 or len(packets) > most:
                raise DoubtError
            packets.append(packet)
        packets.pop()  # asks the decoder for its last frames
        if any(packet.pts is None or packet.is_corrupt or not packet.size for packet in packets):
            raise DoubtError
        may_hide = kind in ("vp8", "vp9", "mpeg4")
        shown = [at for at, one in enumerate(packets) if not (one.is_discard or (may_hide and _is_hidden(kind, one)))]
        times, places = _ranked(packets, np.array(shown, np.int64), in_order=kind in _IN_ORDER)
        keys = [at for at, one in enumerate(packets) if one.is_keyframe and (not at or not one.is_discard)]
        return cls(packets, keys, times, places, kind in _SKIPPING, most_pixels)

    def frames(self, context: Any, wanted: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
        """Yield the wanted frames with their numbers.

        Args:
            context: PyAV's decoder.
            wanted: int64[m], ascending numbers in `[0, n)`.

        Raises:
            DoubtError: The frames are not as the packets say; those that were yielded may be wrong, too.
        """
        for first, last in self._runs(wanted):
            context.flush_buffers()
            try:
                yield from self._decoded(context, first, last, wanted)
            except Exception as error:
                raise DoubtError(first) from error

    def begin_earlier(self, doubt: DoubtError) -> None:
        """Remove the keyframe where a run began, and more of them before it with each call.

        Raises:
            DoubtError: It was the first packet, or there were many calls.
        """
        self._n_tries += 1
        if not doubt.packet or self._n_tries > _MOST_TRIES:
            raise doubt
        at = self.keys.index(doubt.packet)
        del self.keys[max(1, at + 2 - 2**self._n_tries) : at + 1]

    def _runs(self, wanted: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the first and the last packet of each run."""
        runs: list[tuple[int, int]] = []
        for time, place in zip(self.times[wanted].tolist(), self.places[wanted].tolist(), strict=True):
            at = bisect_right(self.keys, place) - 1
            while self.packets[self.keys[at]].pts > time:  # shown before the keyframe, it may need the frames before
                at -= 1
            if runs and self.keys[at] <= runs[-1][1]:
                runs[-1] = runs[-1][0], max(runs[-1][1], place)
            else:
                runs.append((self.keys[at], place))
        return runs

    def _decoded(self, context: Any, first: int, last: int, wanted: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
        begin = self.packets[first].pts
        times, places = self.times[wanted], self.places[wanted]
        here = (places >= first) & (places <= last)
        missing = dict(zip(times[here].tolist(), wanted[here].tolist(), strict=True))
        is_first = True
        for packet in [*self.packets[first : last + 1], None]:
            if self.may_skip:
                context.skip_frame = "DEFAULT" if packet is None or packet.pts in missing else "NONREF"
            for picture in context.decode(packet):
                self.most_pixels -= picture.height * picture.width
                if is_first and first and not (picture.key_frame and picture.pts == begin):
                    raise DoubtError
                is_first = False
                if self.most_pixels < 0 or picture.interlaced_frame:
                    raise DoubtError
                if picture.pts in missing:
                    yield missing.pop(picture.pts), picture
        if missing:
            raise DoubtError


def _ranked(
    packets: list[Any], shown: NDArray[np.int64], *, in_order: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the times of the frames, ascending, and the numbers of their packets."""
    every = np.array([packet.pts for packet in packets], np.int64)
    if not len(shown) or not packets[0].is_keyframe or every.min() < every[0]:
        raise DoubtError
    order = np.argsort(every[shown], kind="stable")
    times = every[shown][order]
    if (np.diff(times) <= 0).any() or (in_order and (np.diff(order) < 0).any()):
        raise DoubtError
    return times, shown[order]


def _is_hidden(kind: str, packet: Any) -> bool:
    """Return True for a packet of VP8 or VP9 that only changes the frames to which later ones refer.

    RFC 6386, 9.1, and the VP9 bitstream specification, 6.2 and annex B. A packet of AV1 shows one.
    """
    if kind == "mpeg4":
        if packet.size < _EMPTY_VOP:
            raise DoubtError
        return False
    data = memoryview(packet)
    if kind == "vp8":
        return not data[0] & 0x10
    if data[-1] & 0xE0 == 0xC0:  # several frames: one is shown
        return False
    bits = data[0] << 1 if data[0] & 0x30 == 0x30 else data[0]  # profile 3 has a bit more
    return not bits & 0x0A
