from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.batch import Blobs
from dataformats.codecs import videos
from dataformats.codecs.videos import MP4, WEBM, Video
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, MissingExtraError
from dataformats.spec import Type
from dataformats.testing.loop_over import loop_over

CODECS = CodecResolver(trusted=False)
BOTH = pytest.mark.parametrize("codec", [MP4, WEBM], ids=["mp4", "webm"])


@pytest.fixture(scope="module")
def av() -> Any:
    return pytest.importorskip("av", reason="needs the extra 'video'")


def ramp(n: int = 4, height: int = 16, width: int = 24) -> np.ndarray:
    """Smooth frames, which survive compression: brighter to the right and with time."""
    row = np.linspace(20, 160, width)[None, None, :, None] + 20.0 * np.arange(n)[:, None, None, None]
    return np.broadcast_to(row, (n, height, width, 3)).astype(np.uint8)


def decode(kind: str, blob: bytes) -> Any:
    return CODECS.decode(Type(kind), Blobs.join([blob]), field="x")


# ---- without PyAV


@BOTH
def test_without_the_extra(codec: Video, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dataformats\[video\]'"):
        codec.encode(ramp())
    tiny = {"mp4": struct.pack(">I4s", 8, b"ftyp"), "webm": b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x80"}[codec.name]
    assert codec.encode(tiny) is tiny
    for attempt in (lambda: decode(codec.name, tiny), lambda: CODECS.encode(Type(codec.name), ramp())):
        with pytest.raises(MissingExtraError, match=r"pip install 'dataformats\[video\]'"):
            attempt()


@BOTH
@loop_over(
    "value",
    [
        ramp().astype(np.float32),
        ramp()[0],
        ramp()[..., :1],
        ramp()[:0],
        np.zeros((2, 0, 4, 3), np.uint8),
        "text",
        None,
        b"",
        b"bytes of something else",
        b"#EXTM3U\nfile:///etc/hostname",
        b"ffconcat version 1.0\nfile /etc/hostname",
    ],
)
def test_video_encoder_refuses_other_values(codec: Video, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="expected"):
        codec.encode(value)


@loop_over(
    "blob",
    [
        b"",
        b"\0\0\0\x08ftyp" + b"\0\0\0",
        b"\0\0\0\x08ftyp" + b"\0\0\0\x07mdat",
        b"\0\0\0\x08ftyp" + b"\0\0\0\x09mdat",
        b"\0\0\0\x08ftyp" + b"\0\0\0\x01mdat" + b"\xff" * 8,
        b"\0\0\0\x08ftyp" + b"\0\0\0\x01mdat" + bytes(8),
        b"\0\0\0\x08ftyp" + b"\0\0\0\x01mdat",
    ],
)
def test_wrong_box_sizes_raise(blob: bytes) -> None:
    with pytest.raises(CodecError, match=r"expected|truncated"):
        decode("mp4", blob)


@loop_over(
    "blob",
    [
        b"\x1a\x45\xdf\xa3",
        b"\x1a\x45\xdf\xa3\x00",
        b"\x1a\x45\xdf\xa3\x80abcd",
        b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x85",
    ],
)
def test_wrong_segment_sizes_raise(blob: bytes) -> None:
    with pytest.raises(CodecError, match="expected"):
        decode("webm", blob)


# ---- there and back


@BOTH
@pytest.mark.parametrize("size", [(16, 24), (15, 17), (2, 2)])
@pytest.mark.usefixtures("av")
def test_frames_come_back_nearly(codec: Video, size: tuple[int, int]) -> None:
    frames = ramp(5, *size)
    blob = codec.encode(frames)
    assert codec.encode(frames) == blob
    decoded = codec.decode(blob)
    assert decoded.shape == frames.shape
    assert decoded.dtype == np.uint8
    assert np.abs(decoded.astype(int) - frames).mean() < 10
    decoded[0] = 0  # the caller's own memory


@BOTH
@pytest.mark.usefixtures("av")
def test_columns_are_lists_and_bytes_pass(codec: Video) -> None:
    blobs = [codec.encode(ramp(2)), codec.encode(ramp(3, 8, 8))]
    column: Any = codec.decode_batch(Blobs.join(blobs))
    assert [video.shape for video in column] == [(2, 16, 24, 3), (3, 8, 8, 3)]
    assert codec.encode(blobs[0]) is blobs[0]
    with pytest.raises(ValueError, match="expected the bytes of"):
        (WEBM if codec is MP4 else MP4).encode(blobs[0])


@loop_over("kind, rate", [("mp4", "20"), ("mp4(30)", "30"), ("webm(30000/1001)", "30000/1001")])
def test_frames_a_second(av: Any, kind: str, rate: str) -> None:
    (blob,) = CODECS.encode(Type.parse(kind), ramp())
    with av.open(BytesIO(blob)) as file:
        assert abs(float(file.streams.video[0].average_rate) - Fraction(rate)) < 0.05


def test_strided_frames(av: Any) -> None:
    frames = ramp(6, 32, 48)[::2, ::-1, ::2]
    assert MP4.encode(frames) == MP4.encode(frames.copy())


def test_the_codec_of_old_bags(av: Any) -> None:
    stream = BytesIO()
    with av.open(stream, "w", format="mp4") as out:
        track = out.add_stream("mpeg4", rate=15)
        track.height, track.width, track.pix_fmt = 16, 24, "yuv420p"
        for frame in ramp():
            out.mux(track.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        out.mux(track.encode(None))
    assert np.abs(MP4.decode(stream.getvalue()).astype(int) - ramp()).mean() < 10


def test_sound_alone_is_no_video(av: Any) -> None:
    stream = BytesIO()
    with av.open(stream, "w", format="mp4") as out:
        track = out.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        out.mux(track.encode(frame))
        out.mux(track.encode(None))
    with pytest.raises(CodecError, match="no video stream"):
        decode("mp4", stream.getvalue())


# ---- bounds


@BOTH
@pytest.mark.usefixtures("av")
def test_bounds(codec: Video, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = codec.encode(ramp(4, 16, 16))
    assert len(Video(codec.container, max_pixels=4 * 256).decode(blob)) == 4
    with pytest.raises(ValueError, match="at most 1023 pixels"):
        Video(codec.container, max_pixels=4 * 256 - 1).decode(blob)
    monkeypatch.setattr(videos, "MAX_FRAMES", 3)
    with pytest.raises(CodecError, match="3 frames, found more"):
        decode(codec.name, blob)
    monkeypatch.setattr(videos, "MAX_FRAME_PIXELS", 255)
    with pytest.raises(CodecError, match="at most 255 pixels a frame, found 16 x 16"):
        decode(codec.name, blob)


# ---- damage


# ---- files that name other files


@contextmanager
def opened_in(folder: Path) -> Iterator[list[str]]:
    """Give the names of files in a folder that the process opens, by the kernel's own account."""
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(os.O_NONBLOCK)
    assert watcher >= 0
    assert libc.inotify_add_watch(watcher, os.fsencode(folder), 0x20) >= 0  # IN_OPEN
    names: list[str] = []
    try:
        yield names
        with suppress(BlockingIOError):
            events, at = os.read(watcher, 65536), 0
            while at < len(events):
                (length,) = struct.unpack_from("I", events, at + 12)
                names.append(events[at + 16 : at + 16 + length].rstrip(b"\0").decode())
                at += 16 + length
    finally:
        os.close(watcher)


def with_external_track(blob: bytes, target: Path) -> bytes:
    """Return an MP4 whose track says that its data lie in another file, by a Macintosh alias as FFmpeg reads it."""
    path = os.fsencode(target)
    path += b"\0" * (len(path) % 2)
    alias = bytes(10) + bytes(28) + bytes(12) + bytes(64) + bytes(16) + struct.pack(">hh", 0, 0) + bytes(16)
    alias += struct.pack(">HH", 2, len(path)) + path + b"\xff\xff\0\0"
    entry = struct.pack(">I4sI", 12 + len(alias), b"alis", 0) + alias
    at = blob.index(b"\0\0\0\x0curl \0\0\0\x01")
    out = bytearray(blob[:at] + entry + blob[at + 12 :])
    for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        start = blob.index(name) - 4
        struct.pack_into(">I", out, start, struct.unpack_from(">I", out, start)[0] + len(entry) - 12)
    return bytes(out)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files were opened")
def test_an_external_track_is_not_opened(av: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.mp4").write_bytes(MP4.encode(ramp(3)))
    hostile = with_external_track(MP4.encode(ramp(2)), tmp_path / "secret.mp4")
    with opened_in(tmp_path) as found:
        options = {"enable_drefs": "1", "use_absolute_path": "1"}
        with suppress(av.FFmpegError), av.open(BytesIO(hostile), format="mp4", options=options) as file:
            list(file.decode(video=0))
    assert found == ["secret.mp4"]  # the file would be opened without the protection
    with opened_in(tmp_path) as found, suppress(CodecError):
        decode("mp4", hostile)
    assert found == []


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files were opened")
@loop_over("kind", ["mp4", "webm"])
@loop_over("disguise", [b"", b"\0\0\0\x08ftyp", b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\xff"])
@loop_over(
    "text",
    [
        "ffconcat version 1.0\nfile '{}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{}\n#EXT-X-ENDLIST\n",
        "v=0\nc=IN IP4 127.0.0.1\nm=video 5000 RTP/AVP 96\na=control:{}\n",
        "<MPD><BaseURL>file://{}</BaseURL></MPD>",
    ],
)
@pytest.mark.usefixtures("av")
def test_playlists_are_not_followed(tmp_path: Path, kind: str, disguise: bytes, text: str) -> None:
    (tmp_path / "secret.mp4").write_bytes(MP4.encode(ramp(3)))
    blob = disguise + text.format(tmp_path / "secret.mp4").encode()
    with opened_in(tmp_path) as found, pytest.raises(CodecError):
        decode(kind, blob)
    assert found == []
