"""Videos and sounds of every kind, encoded by PyAV for the tests of clips."""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from io import BytesIO
from typing import Any

import numpy as np

H264 = {"codec": "libx264", "preset": "ultrafast"}
VP8 = {"codec": "libvpx", "deadline": "realtime", "cpu-used": "8", "lag-in-frames": "8", "auto-alt-ref": "1"}
VP9 = {"codec": "libvpx-vp9", "deadline": "realtime", "cpu-used": "8"}
AV1 = {"codec": "libsvtav1", "preset": "12"}
HEVC = {"codec": "libx265", "preset": "ultrafast"}

# Name: container, encoder and its options. Those that start many threads are slow.
QUICK: dict[str, tuple[str, dict[str, str]]] = {
    "h264": ("mp4", H264),
    "h264 with B frames": ("mp4", {**H264, "g": "8", "bf": "3", "b_strategy": "0"}),
    "h264 of open groups": ("mp4", {**H264, "g": "8", "bf": "3", "b_strategy": "0", "x264-params": "open-gop=1"}),
    "h264 refreshed in strips": ("matroska", {**H264, "g": "8", "x264-params": "intra-refresh=1"}),
    "h264 interlaced": ("mp4", {**H264, "g": "8", "flags": "+ildct+ilme"}),
    "h264 of varied rate": ("mp4", {**H264, "g": "8", "bf": "2", "b_strategy": "0", "varied": "yes"}),
    "h264 in Matroska": ("matroska", {**H264, "g": "8", "bf": "2", "b_strategy": "0", "varied": "yes"}),
    "mpeg4": ("mp4", {"codec": "mpeg4", "g": "6", "bf": "2", "b": "4000000"}),
    "vp8": ("webm", {**VP8, "g": "8"}),
    "vp9": ("webm", {**VP9, "g": "8"}),
    "vp9 in MP4": ("mp4", {**VP9, "g": "8"}),
}
SLOW: dict[str, tuple[str, dict[str, str]]] = {
    "vp9 with hidden frames": (
        "webm",
        {"codec": "libvpx-vp9", "cpu-used": "8", "lag-in-frames": "12", "auto-alt-ref": "1"},
    ),
    "av1": ("mp4", {**AV1, "g": "8"}),
    "av1 in WebM": ("webm", {**AV1, "g": "8"}),
    "hevc": ("mp4", {**HEVC, "x265-params": "keyint=8:bframes=3:log-level=none"}),
    "hevc of open groups": ("mp4", {**HEVC, "x265-params": "keyint=8:bframes=3:open-gop=1:log-level=none"}),
}


@contextmanager
def same_priority() -> Iterator[None]:
    """Restore the scheduling policy of this thread.

    SVT-AV1 sets SCHED_FIFO for the thread of a root user that encodes. Child processes inherit it: one that is busy
    would leave 5 % of a processor to all others.
    """
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


@same_priority()
def encoded(av: Any, kind: str, n: int = 20, height: int = 64, width: int = 96, seed: int = 0) -> bytes:
    """Return a video of `n` frames, which all differ."""
    container, options = {**QUICK, **SLOW}[kind]
    options = dict(options)
    codec, varied = options.pop("codec"), options.pop("varied", "")
    durations = random.Random(seed).choices([20, 33, 40, 200], k=n)
    times = list(itertools.accumulate(durations)) if varied else [20 * number for number in range(n)]
    noise = np.random.default_rng(seed).integers(0, 60, (2 * height, 2 * width, 3))
    stream = BytesIO()
    with av.open(stream, "w", format=container) as out:
        track = out.add_stream(codec, rate=30, options=options)
        track.height, track.width, track.pix_fmt = height, width, "yuv420p"
        track.codec_context.thread_count = 1
        track.codec_context.time_base = Fraction(1, 600)
        for number, time in enumerate(times):
            moved = noise[number % height :, 3 * number % width :][:height, :width]
            frame = av.VideoFrame.from_ndarray((moved + 9 * (number % 20)).astype(np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 600)
            out.mux(track.encode(frame))
        out.mux(track.encode(None))
    return stream.getvalue()


def remuxed(av: Any, container: str, *blobs: bytes, **options: str) -> bytes:
    """Return a file with the first track of each file, and the same packets."""
    stream = BytesIO()
    with ExitStack() as opened:
        files = [opened.enter_context(av.open(BytesIO(blob))) for blob in blobs]
        out = opened.enter_context(av.open(stream, "w", format=container, options=options))
        tracks = [out.add_stream_from_template(file.streams[0], opaque=True) for file in files]
        packets = [
            (float(packet.dts * packet.time_base), number, packet)
            for number, file in enumerate(files)
            for packet in file.demux(file.streams[0])
            if packet.dts is not None
        ]
        for _, number, packet in sorted(packets, key=lambda one: one[:2]):
            packet.stream = tracks[number]
            out.mux(packet)
    return stream.getvalue()


def with_colors(blob: bytes) -> bytes:
    """Return an MP4 whose container says that its colors are of BT.709, in the place of the box of its bit rate."""
    at = blob.index(b"btrt")
    return blob[:at] + b"colrnclx" + struct.pack(">HHHBx", 1, 1, 1, 0x80) + blob[at + 16 :]


def with_box(blob: bytes, name: bytes, other: bytes) -> bytes:
    """Return an MP4 with another name for a box, such as `free` for one to leave out."""
    at = blob.index(name, blob.index(b"moov"))
    return blob[:at] + other + blob[at + 4 :]


def without_first_frames(blob: bytes, ticks: int, seconds: float | None = None) -> bytes:
    """Return an MP4 whose edit list begins later, in units of the track's time, and perhaps lasts some seconds.

    Of the box: version and flags, the count of entries, and for each the duration, the time of the begin and the speed.
    """
    at = blob.index(b"elst") + 12
    duration, begin = struct.unpack_from(">Ii", blob, at)
    if seconds is not None:
        duration = round(seconds * struct.unpack_from(">I", blob, blob.index(b"mvhd") + 16)[0])
    return blob[:at] + struct.pack(">Ii", duration, begin + ticks) + blob[at + 8 :]


def encoded_sound(av: Any, container: str, codec: str, n: int = 20_000, rate: int = 16_000) -> bytes:
    """Return two channels of tones and noise."""
    time = np.arange(n) / rate
    tones = np.stack([0.4 * np.sin(2765 * time), 0.3 * np.sin((1885 + 300 * time) * time)])
    samples = (tones + np.random.default_rng(0).normal(0, 0.02, tones.shape)).astype(np.float32)
    stream = BytesIO()
    with av.open(stream, "w", format=container) as out:
        track = out.add_stream(codec, rate=rate, layout="stereo")
        resampler = av.AudioResampler(format=track.codec_context.format, layout="stereo", rate=rate)
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts = rate, 0
        for part in resampler.resample(frame):
            out.mux(track.encode(part))
        out.mux(track.encode(None))
    return stream.getvalue()
