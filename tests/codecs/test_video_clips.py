"""Clips of videos: ranges of frames in a mask, and `RandomClip`. The oracle is the whole video, decoded."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import Loader
from dataformats.batch import Blobs
from dataformats.codecs.video_packets import DoubtError, VideoPackets
from dataformats.codecs.videos import MP4, Video, video_of
from dataformats.codecs.webm_packets import webm_tracks
from dataformats.columns.field_decoder import decode_part
from dataformats.errors import CodecError, SpecError
from dataformats.testing.loop_over import loop_over
from dataformats.videos import RandomClip
from tests.codecs.encoded_videos import (
    QUICK,
    encoded,
    encoded_sound,
    remuxed,
    with_box,
    with_colors,
    without_first_frames,
)

N = 20
PARTS = [range(1), range(N), range(7, 12), range(19, 20), range(2, 19, 5), range(17, 3, -2), range(0), range(5, 5)]

av = pytest.importorskip("av", reason="needs the extra 'video'")


@pytest.fixture(scope="module")
def blob() -> bytes:
    return encoded(av, "h264 with B frames")


@pytest.fixture(scope="module")
def whole(blob: bytes) -> np.ndarray:
    return MP4.decode(blob)


def one_pass_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to decode a whole video."""

    def refused(*_: Any) -> Any:
        raise AssertionError("the whole video is decoded")

    monkeypatch.setattr(Video, "_all", refused)


def check_parts(blob: bytes, whole: np.ndarray, parts: list[range] = PARTS) -> None:
    codec = video_of(blob)
    for part in parts:
        found = codec.decode_part(blob, part)
        assert np.array_equal(found, whole[np.array(part, np.int64)]), part
        assert found.dtype == np.uint8
    for number in range(len(whole)):
        assert np.array_equal(codec.decode_part(blob, range(number, number + 1))[0], whole[number]), number


# ---- frames


@loop_over("kind", QUICK)
def test_parts_equal_the_whole_video(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = encoded(av, kind)
    whole = video_of(blob).decode(blob)
    assert len(whole) == N
    assert len(np.unique(whole.reshape(N, -1), axis=0)) == N
    if kind != "h264 interlaced":  # a packet may be a field there
        one_pass_alone(monkeypatch)
    check_parts(blob, whole)


@loop_over("kind", ["h264", "h264 with B frames", "mpeg4"])
@loop_over("seconds", [None, 0.3])
def test_edit_lists_drop_frames(kind: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = encoded(av, kind)
    with av.open(BytesIO(blob), format="mp4") as file:
        ticks = int(0.2 / file.streams.video[0].time_base)
    cut = without_first_frames(blob, ticks, seconds)
    whole = MP4.decode(cut)
    assert len(whole) == N - 6 if seconds is None else 8 <= len(whole) <= 10
    if kind != "mpeg4":  # its decoder drops the frames of other packets
        one_pass_alone(monkeypatch)
    check_parts(cut, whole, [range(len(whole)), range(2, 7), range(6, 0, -3)])


@pytest.mark.parametrize("hides", ["in another box", "count 0"])
def test_hidden_edit_lists_drop_frames(hides: str, blob: bytes) -> None:
    """FFmpeg reads tables in many boxes, and counts edits by the size of their box."""
    cut = without_first_frames(blob, 3072)
    at = cut.index(b"elst") + 8
    cut = with_box(cut, b"edts", b"udta") if hides == "in another box" else cut[:at] + bytes(4) + cut[at + 4 :]
    whole = MP4.decode(cut)
    assert len(whole) < N
    check_parts(cut, whole, [range(2, 7)])


@loop_over("kind", ["h264", "h264 with B frames", "mpeg4", "vp9 in MP4"])
def test_false_keyframes_change_nothing(kind: str) -> None:
    """A file without its list of keyframes says that all frames are some."""
    blob = with_box(encoded(av, kind), b"stss", b"free")
    check_parts(blob, MP4.decode(blob))


@loop_over("kind", QUICK)
def test_tables_have_the_packets_of_ffmpeg(kind: str) -> None:
    blob = encoded(av, kind)
    container = video_of(blob).container
    with av.open(BytesIO(blob), format=container.reader) as file:
        packets = [packet for packet in file.demux(video=0) if packet.size]
    _, (find,) = container.tracks(blob)
    times, offsets, sizes, is_key = find(N)
    assert [blob[at : at + n] for at, n in zip(offsets, sizes, strict=True)] == [bytes(packet) for packet in packets]
    assert (times - times[0]).tolist() == [packet.pts - packets[0].pts for packet in packets]
    assert is_key[0]
    assert all(packets[at].is_keyframe for at in np.flatnonzero(is_key))


def test_blocks_before_the_time_of_their_cluster() -> None:
    blob = bytearray(encoded(av, "vp9"))
    times, offsets, _, _ = webm_tracks(bytes(blob))[1][0](N)
    at = blob.index(b"\xe7\x81\0")
    blob[at + 2] = 100
    end = blob.index(b"\x1f\x43\xb6\x75", at)  # the next cluster
    for offset in offsets[offsets < end].tolist():
        (time,) = struct.unpack_from(">h", blob, offset - 3)
        struct.pack_into(">h", blob, offset - 3, time - 100)
    assert webm_tracks(bytes(blob))[1][0](N)[0].tolist() == times.tolist()


def by_tables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to let FFmpeg read the packets."""

    def refused(*_: Any) -> Any:
        raise AssertionError("FFmpeg reads the packets")

    monkeypatch.setattr(VideoPackets, "read", refused)


@loop_over(
    "container, options",
    [("mp4", {}), ("mp4", {"moov_size": "20000"}), ("mp4", {"use_editlist": "0"}), ("matroska", {}), ("webm", {})],
)
@loop_over("has_sound", [False, True])
def test_tables_of_other_containers(
    container: str, options: dict[str, str], has_sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    webm = container == "webm"
    blobs = [encoded(av, "vp9" if webm else "h264 with B frames")]
    if has_sound:
        blobs.insert(0, encoded_sound(av, "webm" if webm else "mp4", "libopus" if webm else "aac", rate=48_000))
    blob = remuxed(av, container, *blobs, **options)
    whole = video_of(blob).decode(blob)
    assert len(whole) == N
    by_tables_alone(monkeypatch)
    check_parts(blob, whole)


@pytest.mark.parametrize("options", [{"movflags": "frag_keyframe+empty_moov"}, {"frag_duration": "200000"}])
def test_fragments(options: dict[str, str], blob: bytes, whole: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = remuxed(av, "mp4", blob, **options)
    assert b"moof" in cut
    one_pass_alone(monkeypatch)
    check_parts(cut, whole)


def test_colors_of_the_container_hold(blob: bytes, whole: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    colored = with_colors(blob)
    expected = MP4.decode(colored)
    assert not np.array_equal(expected, whole)
    by_tables_alone(monkeypatch)
    check_parts(colored, expected)


@pytest.mark.parametrize(("place", "value"), [(12, 1), (34, 4), (42, 4), (75, 4)])
def test_wrong_times_show_in_the_order_of_frames(place: int, value: int, blob: bytes, whole: np.ndarray) -> None:
    """The decoder returns frames in another order, or these need later keyframes than those after them."""
    damaged = bytearray(blob)
    damaged[blob.index(b"ctts") + place] ^= value
    assert np.array_equal(MP4.decode(bytes(damaged)), whole)
    for first in range(N - 3):
        assert np.array_equal(MP4.decode_part(bytes(damaged), range(first, first + 3)), whole[first : first + 3]), first


def test_codecs_of_avi_in_matroska_are_in_doubt() -> None:
    """Their blocks have the times of decoding."""
    blob = encoded(av, "h264 in Matroska")
    with pytest.raises(DoubtError):
        video_of(blob).container.tracks(blob.replace(b"V_MPEG4/ISO/AVC", b"V_MS/VFW/FOURCC", 1))


def test_attachments_are_in_doubt() -> None:
    """FFmpeg counts them as streams, but not each track."""
    blob = encoded(av, "vp9").replace(bytes.fromhex("1254c367"), bytes.fromhex("1941a469"))
    with pytest.raises(DoubtError):
        video_of(blob).container.tracks(blob)


def test_damaged_groups_of_blocks_are_in_doubt() -> None:
    """FFmpeg leaves out a block if a number of its group has 9 bytes."""

    def element(name: str, content: bytes) -> bytes:
        return bytes.fromhex(name) + bytes([0x80 + len(content)]) + content

    for n_bytes in (8, 9):
        group = element("a1", b"\x81\0\0\0frame") + element("9b", bytes(n_bytes))
        cluster = element("1f43b675", element("e7", b"\0") + element("a0", group))
        tracks = element("1654ae6b", element("ae", element("d7", b"\1")))
        _, (find,) = webm_tracks(element("1a45dfa3", b"") + element("18538067", tracks + cluster))
        if n_bytes == 8:
            assert find(N).sizes.tolist() == [5]
        else:
            with pytest.raises(DoubtError):
                find(N)


def test_other_boxes_of_tables_are_in_doubt(blob: bytes) -> None:
    """FFmpeg takes the last of two tables, also one in a sample description."""
    for name in (b"stz2", b"co64", b"mvex"):
        with pytest.raises(DoubtError):
            MP4.container.tracks(blob.replace(b"btrt", name))


def test_frames_in_front_are_skipped(blob: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    frames = VideoPackets._decoded

    def counted(packets: Any, context: Any, first: int, last: int, wanted: Any) -> Any:
        decoded.append((first, last))
        return frames(packets, context, first, last, wanted)

    monkeypatch.setattr(VideoPackets, "_decoded", counted)
    MP4.decode_part(blob, range(17, 19))
    ((first, last),) = decoded
    assert 8 <= first < last < N
    decoded.clear()
    MP4.decode_part(blob, range(1, 20, 17))
    assert len(decoded) == 2


def test_limits(blob: bytes) -> None:
    small = Video(MP4.container, max_pixels=2 * 64 * 96)
    assert len(small.decode_part(blob, range(18, 20))) == 2
    with pytest.raises(ValueError, match="at most 12288 pixels"):
        small.decode_part(blob, range(17, 20))
    with pytest.raises(ValueError, match="expected at most"):  # frames in front of the wanted ones
        Video(MP4.container, max_pixels=64 * 96).decode_part(encoded(av, "h264"), range(19, 20))


def test_damaged_videos_raise_or_decode(blob: bytes) -> None:
    for at in range(0, len(blob), 211):
        damaged = bytearray(blob)
        damaged[at] ^= 0x55
        for cut in (bytes(damaged), blob[:at]):
            with suppress(CodecError, IndexError):
                found: Any = decode_part(MP4, Blobs.join([cut]), None, range(9, 11), "x")
                assert found[0].shape == (2, 64, 96, 3)


def test_packets_of_shared_bytes_raise(blob: bytes, whole: np.ndarray) -> None:
    with av.open(BytesIO(blob), format="mp4") as file, pytest.raises(DoubtError):
        VideoPackets.read(file, file.streams.video[0], len(blob) // 2, N, 2**30)


# ---- masks


SOURCES = ["tfrecord", "ffrecord", "granular", "parquet"]


def written(path: Path, format: str, blobs: list[bytes], kind: str = "mp4") -> Path:
    with dataformats.create(path, format, spec={"video": kind, "label": "int64"}) as writer:
        for number, one in enumerate(blobs):
            writer.append({"video": one, "label": number})
    return path


@pytest.mark.parametrize("format", SOURCES)
def test_masks_take_frames(format: str, tmp_path: Path, blob: bytes, whole: np.ndarray) -> None:
    path = written(tmp_path / f"a.{format}", format, [blob, blob, blob])
    source = dataformats.open(path, spec={"video": "mp4", "label": "int64"})
    found = source[1, {"video": range(7, 12), "label": True}]
    assert np.array_equal(found["video"], whole[7:12])
    assert found["label"] == 1
    batch = source.read([2, 0], {"video": range(18, 2, -3)})
    assert [np.array_equal(one, whole[18:2:-3]) for one in batch["video"]] == [True, True]
    view = dataformats.concat([source.select("video"), source.take([1]).select("video")])
    assert np.array_equal(view[3, {"video": range(3)}]["video"], whole[:3])
    for part in (range(18, 21), range(-1, 2)):
        for read in (lambda part=part: source[0, {"video": part}], lambda part=part: source.read([0], {"video": part})):
            with pytest.raises(IndexError, match=r"goes past the .*elements of record 0"):
                read()


@pytest.mark.parametrize("format", ["tfrecord", "parquet"])
def test_masks_of_missing_videos(format: str, tmp_path: Path, blob: bytes, whole: np.ndarray) -> None:
    with dataformats.create(tmp_path / "a", format, spec={"video": "mp4?", "label": "int64"}) as writer:
        writer.append({"video": blob, "label": 0})
        writer.append({"video": None, "label": 1})
    source = dataformats.open(tmp_path / "a", format=format, spec={"video": "mp4?", "label": "int64"})
    assert np.array_equal(source[0, {"video": range(3, 5)}]["video"], whole[3:5])
    with pytest.raises(IndexError):
        source.read([0, 1], {"video": range(3, 5)})


def test_ranges_of_other_types_raise(tmp_path: Path, blob: bytes) -> None:
    path = written(tmp_path / "a.tfrecord", "tfrecord", [blob])
    for spec in ({"video": "bytes", "label": "int64"}, {"video": "jpg", "label": "int64"}):
        with pytest.raises(SpecError, match="a range needs a sequence"):
            dataformats.open(path, spec=spec)[0, {"video": range(1)}]


def test_codecs_of_the_call_decode_ranges(tmp_path: Path, blob: bytes, whole: np.ndarray) -> None:
    path = written(tmp_path / "a.tfrecord", "tfrecord", [blob])
    small = Video(MP4.container, max_pixels=2 * 64 * 96)
    source = dataformats.open(path, spec={"video": "mp4"}, codecs={"mp4": small})
    assert np.array_equal(source[0, {"video": range(2, 4)}]["video"], whole[2:4])
    with pytest.raises(CodecError, match=r"expected at most 12288 pixels"):
        source[0, {"video": range(3)}]
    whole_first = dataformats.open(path, spec={"video": "mp4"}, codecs={"mp4": (MP4.encode, MP4.decode)})
    assert np.array_equal(whole_first[0, {"video": range(2, 4)}]["video"], whole[2:4])


def test_damaged_records_are_named(tmp_path: Path, blob: bytes) -> None:
    path = written(tmp_path / "a.tfrecord", "tfrecord", [blob, blob[:-100], blob], kind="bytes")
    source = dataformats.open(path, spec={"video": "mp4"})
    with pytest.raises(CodecError, match=r"record 1 .*a\.tfrecord"):
        source.read([0, 1, 2], {"video": range(3)})
    batch = source.read([0, 1, 2], {"video": range(3)}, on_corrupt="omit")
    assert list(batch.indices) == [0, 2]
    assert list(batch.failed) == [1]


# ---- random clips


def clip(operation: RandomClip, blob: bytes, seed: int = 0) -> Any:
    return operation.decode_batch(Blobs.join([blob]), lambda _: np.random.default_rng(seed))[0]


@loop_over("kind", ["h264 with B frames", "h264 interlaced", "vp9"])
def test_random_clips_are_parts(kind: str) -> None:
    blob = encoded(av, kind)
    whole = video_of(blob).decode(blob)
    operation = RandomClip(4, stride=3)
    starts = set()
    for seed in range(20):
        numbers = operation.numbers(N, np.random.default_rng(seed))
        assert np.array_equal(clip(operation, blob, seed), whole[numbers])
        assert (np.diff(numbers) == 3).all()
        starts.add(int(numbers[0]))
    assert len(starts) > 5
    assert {0, 10} >= {min(starts), max(starts)} or max(starts) <= 10


def test_random_numbers_are_frozen() -> None:
    """Others would change every training run, and a resumed one in its middle."""
    found = [int(RandomClip(16, 2).numbers(600, np.random.default_rng(seed))[0]) for seed in range(6)]
    assert found == [int(np.random.default_rng(seed).integers(570)) for seed in range(6)]
    starts = {int(RandomClip(2).numbers(5, np.random.default_rng(seed))[0]) for seed in range(100)}
    assert starts == {0, 1, 2, 3}


def test_short_videos_repeat_their_last_frame(blob: bytes, whole: np.ndarray) -> None:
    found = clip(RandomClip(30), blob)
    assert np.array_equal(found[:N], whole)
    assert np.array_equal(found[N:], np.repeat(whole[-1:], 10, 0))


@loop_over("arguments", [{"frames": 0}, {"frames": 2, "stride": 0}, {"frames": 2.5}, {"frames": 2, "seed": -1}])
def test_wrong_arguments_raise(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        RandomClip(**arguments)


def test_other_bytes_raise() -> None:
    with pytest.raises(ValueError, match="expected the bytes of an MP4, WebM or Matroska video"):
        clip(RandomClip(2), b"\xff\xd8\xff" + bytes(20))


@pytest.fixture
def source(tmp_path: Path, blob: bytes) -> Any:
    return dataformats.open(written(tmp_path / "a.tfrecord", "tfrecord", [blob] * 10, kind="bytes"))


def batches(loader: Loader, n: int) -> list[np.ndarray]:
    steps = iter(loader)
    return [np.asarray(next(steps)["video"]) for _ in range(n)]


def test_loaders_resume_with_the_same_clips(source: dataformats.RecordSource) -> None:
    def loader(seed: int = 0, **options: Any) -> Loader:
        return Loader(source, 4, seed=seed, decode={"video": pickle.loads(pickle.dumps(RandomClip(3, 2)))}, **options)

    with loader() as undisturbed, loader(workers=0) as stopped, loader(seed=1) as other:
        expected = batches(undisturbed, 3)
        assert [one.shape for one in expected] == [(4, 3, 64, 96, 3), (4, 3, 64, 96, 3), (2, 3, 64, 96, 3)]
        assert np.array_equal(batches(stopped, 1)[0], expected[0])
        state = stopped.state_dict()
        assert not np.array_equal(batches(other, 1)[0], expected[0])
    with loader(workers=3) as resumed:
        resumed.load_state_dict(state)
        assert all(map(np.array_equal, batches(resumed, 2), expected[1:]))


def test_reads_draw_by_seed_and_index(source: Any) -> None:
    def read(indices: list[int], seed: int = 0) -> Any:
        return source.read(indices, ["video"], decode={"video": RandomClip(2, seed=seed)})["video"]

    found = read([0, 1, 2, 3, 4, 5])
    assert np.array_equal(read([5])[0], found[5])
    assert not all(np.array_equal(one, found[0]) for one in found)
    assert not all(map(np.array_equal, read([0, 1, 2, 3, 4, 5], seed=1), found))


def test_clips_of_unequal_sizes_are_a_list(tmp_path: Path, blob: bytes) -> None:
    path = written(tmp_path / "a.tfrecord", "tfrecord", [blob, encoded(av, "vp9", height=32, width=32)], kind="bytes")
    decode = {"video": RandomClip(2)}
    found = dataformats.open(path).read([0, 1], decode=decode)["video"]
    assert [one.shape for one in found] == [(2, 64, 96, 3), (2, 32, 32, 3)]
