"""Number the frames of a video by its packets, and decode some frames with no more packets than these need.

A packet is one frame, at the time that its container gives: the number of a frame is the rank of its time. Nothing is
decoded to know it. Packets that an edit list cuts off, and hidden frames of VP8 and VP9, are not counted. A file whose
packets do not have these properties is in doubt, and is decoded from its start.

The tables of most files say where their packets lie. FFmpeg reads the packets of the others, which takes longer.

A run of packets begins at a keyframe. If a frame is missing, or the decoder refuses to begin there, as at an open group
of pictures of H.264, decoding begins at an earlier keyframe.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.codecs.media_files import pyav

_IN_ORDER = ("vp8", "vp9", "av1")  # frames are shown in the order of their packets
_KNOWN = (*_IN_ORDER, "h264", "hevc", "mpeg4")
_SKIPPING = ("h264", "hevc", "mpeg4")  # the decoders that can be asked at each packet to leave out a frame
_EMPTY_VOP = 12  # bytes: a shorter packet of MPEG-4 may be a frame that is not coded, and not shown
_MAX_TRIES = 16


class DoubtError(Exception):
    """The packets of a video may not number its frames, or not those that a run gives.

    Args:
        packet: The first packet of the run.
    """

    def __init__(self, packet: int = 0) -> None:
        super().__init__("the packets of the video do not number its frames")
        self.packet = packet


class StoredPackets(NamedTuple):
    """Where the packets of a track lie in a file, in the order in which they are decoded.

    Attributes:
        times: int64[n], when their frames are shown, plus a constant.
        offsets: int64[n], their first bytes.
        sizes: int64[n], in bytes.
        is_key: bool[n], True if decoding can begin there. Not each such packet needs it.
    """

    times: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_key: NDArray[np.bool_]


Tracks = tuple[bytes, list[Callable[[int], StoredPackets]]]
"""A file without its packets, and for each track a function that finds them; its argument is the most packets."""


def listed(items: Iterable[Any], most: int) -> list[Any]:
    """Return the items, which take more memory than their bytes in a file.

    Raises:
        DoubtError: There are more than `most`.
    """
    found = list(islice(items, most + 1))
    if len(found) > most:
        raise DoubtError
    return found


@dataclass(slots=True)
class VideoPackets:
    """The packets of a video.

    Attributes:
        packet: Returns a packet by its number: 0 is the first one that is decoded.
        every: The times of all packets.
        keys: int64[k], the numbers of packets from which decoding can begin, ascending.
        times: int64[n], the times of the frames, ascending: a frame's number is its place here.
        places: int64[n], the number of each frame's packet.
        may_skip: True if the decoder can leave out a frame to which no others refer.
        most_pixels: The most pixels that are still decoded, over all frames and tries.
    """

    packet: Callable[[int], Any]
    every: list[int]
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
        packets: list[Any] = []
        for packet in file.demux(track):
            most_bytes -= packet.size
            if most_bytes < 0 or len(packets) > most:
                raise DoubtError
            packets.append(packet)
        packets.pop()  # asks the decoder for its last frames
        if any(packet.pts is None or packet.is_corrupt or not packet.size for packet in packets):
            raise DoubtError
        rows = [
            (one.pts, not one.is_discard, one.is_keyframe, one.size, memoryview(one)[0], memoryview(one)[-1])
            for one in packets
        ]
        return cls._numbered(track, packets.__getitem__, np.array(rows, np.int64).reshape(-1, 6), most_pixels)

    @classmethod
    def stored(cls, blob: bytes, track: Any, stored: StoredPackets, most_pixels: int) -> VideoPackets:
        """Return packets of a file.

        Args:
            blob: The file.
            track: PyAV's stream.
            stored: Where they lie.
            most_pixels: The most pixels that are decoded, over all frames.

        Raises:
            DoubtError: They do not number the frames.
        """
        times, offsets, sizes, is_key = stored
        ends = offsets + sizes
        if sizes.sum() > len(blob) or not ((sizes > 0) & (offsets >= 0) & (ends <= len(blob))).all():
            raise DoubtError
        packet_type, data = pyav("").Packet, memoryview(blob)
        begins, stops, every = offsets.tolist(), ends.tolist(), times.tolist()

        def packet(number: int) -> Any:
            found = packet_type(stops[number] - begins[number])  # it has the padding that decoders need
            found.update(data[begins[number] : stops[number]])
            found.pts = every[number]
            return found

        content = np.frombuffer(blob, np.uint8)
        columns = [times, np.ones_like(times), is_key, sizes, content[offsets], content[ends - 1]]
        rows = np.stack(columns, 1, dtype=np.int64)
        return cls._numbered(track, packet, rows, most_pixels)

    @classmethod
    def _numbered(
        cls, track: Any, packet: Callable[[int], Any], rows: NDArray[np.int64], most_pixels: int
    ) -> VideoPackets:
        kind = track.codec_context.codec.canonical_name
        every, is_shown, is_key, sizes, *ends = rows.T
        if kind not in _KNOWN or not len(every) or not is_key[0] or every.min() < every[0]:
            raise DoubtError
        shown = np.flatnonzero((is_shown > 0) & ~_is_hidden(kind, sizes, *ends))
        order = np.argsort(every[shown], kind="stable")
        times = every[shown][order]
        if not len(shown) or (np.diff(times) <= 0).any() or (kind in _IN_ORDER and (np.diff(order) < 0).any()):
            raise DoubtError
        keys = np.flatnonzero(is_key & (is_shown | (np.arange(len(every)) == 0))).tolist()
        return cls(packet, every.tolist(), keys, times, shown[order], kind in _SKIPPING, most_pixels)

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
        if not doubt.packet or self._n_tries > _MAX_TRIES:
            raise doubt
        at = self.keys.index(doubt.packet)
        del self.keys[max(1, at + 2 - 2**self._n_tries) : at + 1]

    def _runs(self, wanted: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the first and the last packet of each run."""
        runs: list[tuple[int, int]] = []
        for time, place in zip(self.times[wanted].tolist(), self.places[wanted].tolist(), strict=True):
            at = bisect_right(self.keys, place) - 1
            while self.every[self.keys[at]] > time:  # shown before the keyframe, it may need the frames before
                at -= 1
            if runs and self.keys[at] < runs[-1][0]:  # frames are not shown in the order of their keyframes
                raise DoubtError
            if runs and self.keys[at] <= runs[-1][1]:
                runs[-1] = runs[-1][0], max(runs[-1][1], place)
            else:
                runs.append((self.keys[at], place))
        return runs

    def _decoded(self, context: Any, first: int, last: int, wanted: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
        begin = self.every[first]
        times, places = self.times[wanted], self.places[wanted]
        here = (places >= first) & (places <= last)
        missing = dict(zip(times[here].tolist(), wanted[here].tolist(), strict=True))
        before = None
        for number in range(first, last + 2):
            packet = self.packet(number) if number <= last else None
            if self.may_skip:
                context.skip_frame = "DEFAULT" if packet is None or packet.pts in missing else "NONREF"
            for picture in context.decode(packet):
                self.most_pixels -= picture.height * picture.width
                if before is None and first and not (picture.key_frame and picture.pts == begin):
                    raise DoubtError
                if self.most_pixels < 0 or picture.interlaced_frame or (before is not None and picture.pts <= before):
                    raise DoubtError
                before = picture.pts
                if picture.pts in missing:
                    yield missing.pop(picture.pts), picture
        if missing:
            raise DoubtError


def _is_hidden(
    kind: str, sizes: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return True for packets of VP8 or VP9 that only change the frames to which later ones refer.

    RFC 6386, 9.1, and the VP9 bitstream specification, 6.2 and annex B. A packet of AV1 shows one.
    """
    if kind == "mpeg4" and (sizes < _EMPTY_VOP).any():
        raise DoubtError
    hides: NDArray[np.bool_] = np.zeros(len(sizes), np.bool_)
    if kind == "vp8":
        hides = first & 0x10 == 0
    elif kind == "vp9":
        bits = np.where(first & 0x30 == 0x30, first << 1, first)  # profile 3 has a bit more
        hides = (bits & 0x0A == 0) & (last & 0xE0 != 0xC0)  # a packet of several frames shows one
    return hides
