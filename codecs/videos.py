"""Videos as MP4 and WebM files.

Decoded: uint8 `(n, height, width, 3)`, the frames of the first video stream in display order. Sound, frame times and
the rotation that phones write are ignored.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.codecs.media_files import STRICT, open_media, pyav
from dataformats.codecs.mp4_packets import mp4_boxes, mp4_tracks
from dataformats.codecs.video_packets import DoubtError, Tracks, VideoPackets
from dataformats.codecs.webm_packets import element_size, webm_tracks
from dataformats.errors import SpecError
from dataformats.interfaces import Codec, SequenceCodec

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Container", "Video"]

FPS = Fraction(20)
"""Frames a second unless a type says otherwise: Granular's default."""

MAX_PIXELS = 2**29
"""The default limit of decoded pixels, over all frames: 1.6 GB."""

MAX_FRAME_PIXELS = 2**25
"""The limit of pixels in one frame: 8K video has fewer."""

MAX_FRAMES = 2**20
"""The limit of decoded frames."""

_MAX_WORK = 8  # times `max_pixels`: the most pixels that are decoded for frames of a clip, with those that they need

_RATE = re.compile(r"\d{1,6}(\.\d{1,6}|/\d{1,6})?")
_EBML, _SEGMENT = bytes.fromhex("1a45dfa3"), bytes.fromhex("18538067")  # RFC 8794, RFC 9559

_WRITING = {"fflags": "+bitexact"}  # omits WebM's random identifier
# FFmpeg counts padding as pixels. This limit catches sizes that change midway; allowed sizes are checked here.
_DECODING = {"max_pixels": str(4 * MAX_FRAME_PIXELS), **STRICT}


@dataclass(frozen=True, slots=True)
class Container:
    """One video file format.

    Attributes:
        name: FFmpeg's name for writing it.
        reader: FFmpeg's name for reading it.
        encoder: The encoder of the pictures.
        check: Raises `ValueError` if bytes are not such a file, or are truncated.
        tracks: Finds the packets of a file, or raises an error.
    """

    name: str
    reader: str
    encoder: str
    check: Callable[[bytes], None]
    tracks: Callable[[bytes], Tracks]


class Video(SequenceCodec):
    """Videos of one file format.

    Args:
        container: The format.
        fps: Frames a second, for encoding.
        max_pixels: The most pixels that are decoded, over all frames.
    """

    costly = True

    def __init__(self, container: Container, fps: Fraction = FPS, max_pixels: int = MAX_PIXELS) -> None:
        self.name: str = container.name
        self.container = container
        self.fps = fps
        self.max_pixels = max_pixels

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec with another rate, as in `mp4(30)` or `mp4(30000/1001)`."""
        if not args:
            return self
        return Video(self.container, _rate(self.name, args), self.max_pixels)

    def encode(self, value: Any) -> bytes:
        """Return a video of uint8 (n, h, w, 3), lossy; the bytes of a video are returned unchanged.

        Raises:
            MissingExtraError: PyAV is not installed.
        """
        if isinstance(value, bytes):
            self.container.check(value)
            return value
        frames = _checked(value)
        av = pyav(self.name)
        stream = BytesIO()
        with av.open(stream, "w", format=self.container.name, options=_WRITING) as out:
            track = out.add_stream(self.container.encoder, rate=self.fps)
            track.height, track.width = frames.shape[1:3]
            # Color at half the resolution, which every player supports, needs even sizes.
            track.pix_fmt = "yuv444p" if track.height % 2 or track.width % 2 else "yuv420p"
            track.codec_context.thread_count = 1  # the bytes may depend on the number of threads
            for position, frame in enumerate(frames):
                picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
                picture.pts = position
                out.mux(track.encode(picture))
            out.mux(track.encode(None))
        return stream.getvalue()

    def decode(self, blob: bytes) -> NDArray[np.uint8]:
        """Return uint8 (n, h, w, 3).

        Raises:
            MissingExtraError: PyAV is not installed.
        """
        self.container.check(blob)
        with self._opened(blob) as (file, track):
            converter, buffer = _FrameConverter(self.max_pixels), bytearray()
            for picture in self._all(file, track, self.max_pixels):
                buffer += converter.rgb(picture).reshape(-1).data
        if not buffer:
            raise ValueError("the video has no frames")
        return np.frombuffer(buffer, np.uint8).reshape(-1, *converter.size, 3)

    def decode_part(self, blob: bytes, part: range) -> NDArray[np.uint8]:
        """Return the frames of `part`: uint8 (m, h, w, 3)."""
        return self.decode_chosen(blob, lambda n: np.array(part if max(part, default=0) < n else [], np.int64))

    def decode_chosen(self, blob: bytes, choose: Callable[[int], NDArray[np.int64]]) -> NDArray[np.uint8]:
        """Return some frames, decoded with no more others than they need.

        Damage elsewhere in the video is not noticed.

        Args:
            blob: The video.
            choose: Returns int64[m], numbers in `[0, n)`, for a video of `n` frames; repeats are allowed. It may be
                called again, and then returns the same ones.

        Returns:
            uint8 (m, h, w, 3).

        Raises:
            MissingExtraError: PyAV is not installed.
        """
        most = _MAX_WORK * self.max_pixels
        self.container.check(blob)
        try:
            with ExitStack() as opened:
                packets, context = self._packets(blob, most, opened)
                numbers = choose(len(packets.times))
                while True:
                    try:
                        return self._picked(numbers, partial(packets.frames, context))
                    except DoubtError as doubt:
                        packets.begin_earlier(doubt)
        except (DoubtError, pyav(self.name).FFmpegError):
            pass
        with self._opened(blob) as (file, track):
            numbers = choose(sum(1 for _ in self._all(file, track, most)))
        with self._opened(blob) as (file, track):
            return self._picked(numbers, lambda _: enumerate(self._all(file, track, most)))

    def _packets(self, blob: bytes, most_pixels: int, opened: ExitStack) -> tuple[VideoPackets, Any]:
        """Return the packets of a video and its decoder.

        FFmpeg opens the file without its packets: it would read all of them, and decode some.
        """
        with suppress(DoubtError, pyav(self.name).FFmpegError, ValueError, LookupError, ArithmeticError, struct.error):
            header, tracks = self.container.tracks(blob)
            file, track = opened.enter_context(self._opened(header))
            if len(file.streams) == len(tracks):
                stored, context = tracks[track.index](MAX_FRAMES), track.codec_context
                if context.codec.canonical_name == "h264":  # it may not say how many frames are reordered
                    context.options = {**_DECODING, "strict": "strict"}
                return VideoPackets.stored(blob, track, stored, most_pixels), context
        file, track = opened.enter_context(self._opened(blob))
        return VideoPackets.read(file, track, len(blob), MAX_FRAMES, most_pixels), track.codec_context

    def _picked(
        self, numbers: NDArray[np.int64], decode: Callable[[NDArray[np.int64]], Iterable[tuple[int, Any]]]
    ) -> NDArray[np.uint8]:
        """Return these frames, out of those that `decode` yields for the wanted numbers, with their numbers."""
        wanted, rows = np.unique(numbers if len(numbers) else np.zeros(1, np.int64), return_inverse=True)
        missing = {number: row for row, number in enumerate(wanted.tolist())}
        converter = _FrameConverter(self.max_pixels)
        found: NDArray[np.uint8] | None = None
        for number, picture in decode(wanted):
            if number in missing:
                one = converter.rgb(picture, len(wanted))
                found = np.empty((len(wanted), *one.shape), np.uint8) if found is None else found
                found[missing.pop(number)] = one
        if found is None or missing:
            raise ValueError("the video has no frames" if found is None else f"frames {list(missing)[:9]} are missing")
        return found if np.array_equal(rows, np.arange(len(numbers))) else found[rows[: len(numbers)]]

    @contextmanager
    def _opened(self, blob: bytes) -> Iterator[tuple[Any, Any]]:
        """Open a video: its file and its first stream of pictures."""
        with open_media(blob, self.container.reader, self.name) as file:
            if not file.streams.video:
                raise ValueError("the file has no video stream")
            track = file.streams.video[0]
            if track.codec_context is None:
                raise ValueError("FFmpeg has no decoder for the video stream")
            _check_size(track.codec_context.height, track.codec_context.width)
            track.codec_context.options = _DECODING
            track.codec_context.thread_count = 1
            yield file, track

    def _all(self, file: Any, track: Any, most_pixels: int) -> Iterator[Any]:
        """Yield all frames; the number of them in the file's header is not trusted."""
        n_pixels = 0
        for n_frames, picture in enumerate(file.decode(track), 1):
            n_pixels += picture.height * picture.width
            if n_frames > MAX_FRAMES or n_pixels > most_pixels:
                raise ValueError(f"expected at most {most_pixels} pixels in at most {MAX_FRAMES} frames, found more")
            yield picture


class _FrameConverter:
    """Converts decoded frames to pixels; all frames have one size."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n_frames, self.size = 0, (0, 0)
        av = pyav("")
        self._converter = av.video.reformatter.VideoReformatter()  # one for all frames: it has tables
        # Since PyAV 17 it starts threads for each frame by default, which takes 8 times as long.
        self._options = {"threads": 1} if int(av.__version__.partition(".")[0]) >= 17 else {}

    def rgb(self, picture: Any, n_frames: int = 1) -> NDArray[np.uint8]:
        """Return uint8 (h, w, 3), out of at least `n_frames` frames.

        Raises:
            ValueError: The frame is damaged, of another size, or the frames are too many.
        """
        found = picture.height, picture.width
        self.size = self.size if self._n_frames else found
        if found != self.size or picture.is_corrupt:
            raise ValueError(f"frame {self._n_frames} is {'damaged' if found == self.size else 'of another size'}")
        _check_size(*found)
        self._n_frames += 1
        if max(n_frames, self._n_frames) * found[0] * found[1] > self._most:
            raise ValueError(f"expected at most {self._most} pixels in the frames, found more")
        rgb: NDArray[np.uint8] = self._converter.reformat(picture, format="rgb24", **self._options).to_ndarray()
        return rgb


def _rate(name: str, args: Sequence[str]) -> Fraction:
    fits = len(args) == 1 and _RATE.fullmatch(args[0]) and not args[0].endswith("/0")
    rate = Fraction(args[0]) if fits and args[0].strip("0./") else Fraction(0)
    if not 0 < rate <= 1000:
        raise SpecError(f"{name} takes frames a second, as {name}(30) or {name}(30000/1001), found ({','.join(args)})")
    return rate


def _checked(value: Any) -> NDArray[np.uint8]:
    frames = np.asarray(value)
    if frames.dtype != np.uint8:
        raise TypeError(f"expected an array of uint8, found {frames.dtype}")
    if frames.ndim != 4 or frames.shape[3] != 3 or 0 in frames.shape:
        raise ValueError(f"expected shape (n, h, w, 3) with at least one pixel, found {frames.shape}")
    return frames


def _check_size(height: int, width: int) -> None:
    if height * width > MAX_FRAME_PIXELS:
        raise ValueError(f"expected at most {MAX_FRAME_PIXELS} pixels a frame, found {width} x {height}")


def _check_mp4(blob: bytes) -> None:
    """Raise if the boxes do not add up to the file."""
    if blob[4:8] != b"ftyp":
        raise ValueError(f"expected the bytes of an MP4, found {bytes(blob[:8])!r}")
    for _ in mp4_boxes(blob, 0, len(blob)):
        pass


def _check_webm(blob: bytes) -> None:
    """Raise if the segment goes past the end. A segment of unknown size (a live stream) may end anywhere."""
    if not blob.startswith(_EBML):
        raise ValueError(f"expected the bytes of a WebM, found {bytes(blob[:4])!r}")
    header, at = element_size(blob, len(_EBML))
    at += header or 0
    if blob[at : at + len(_SEGMENT)] != _SEGMENT:
        raise ValueError(f"expected a segment at byte {at}, found {bytes(blob[at : at + 4])!r}")
    size, at = element_size(blob, at + len(_SEGMENT))
    if size is not None and size > len(blob) - at:
        raise ValueError(f"expected {size} bytes of the segment at byte {at}, found {len(blob) - at}")


MP4 = Video(Container("mp4", "mp4", "h264", _check_mp4, mp4_tracks))
"""MP4, H.264."""

WEBM = Video(Container("webm", "webm", "vp9", _check_webm, webm_tracks))
"""WebM, VP9."""


def video_of(blob: bytes, max_pixels: int | None = None) -> Video:
    """Return the codec of a video, by its first bytes.

    Args:
        blob: The bytes of the video.
        max_pixels: The most pixels that it decodes; `None`: 2^29.

    Raises:
        ValueError: The bytes are no such video.
    """
    for start, codec in ((blob[4:8] == b"ftyp", MP4), (blob.startswith(_EBML), WEBM)):
        if start:
            return Video(codec.container, max_pixels=max_pixels or codec.max_pixels)
    raise ValueError(f"expected the bytes of an MP4, WebM or Matroska video, found {blob[:12]!r}")
