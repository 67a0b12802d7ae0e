"""Sounds: the formats, ranges of samples, limits, damage. The oracle of a range is the whole sound, decoded."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.batch import Blobs
from dataformats.codecs.sounds import AUDIO, Audio
from dataformats.columns.field_decoder import decode_part
from dataformats.errors import CodecError, SpecError
from dataformats.testing.loop_over import loop_over
from tests.codecs.encoded_videos import encoded, encoded_sound

av = pytest.importorskip("av", reason="needs the extra 'video'")

# Format: container, encoder, samples a second, the largest error of a sample
KINDS = {
    "wav 8 bits": ("wav", "pcm_u8", 16_000, 2**-7),
    "wav 16 bits": ("wav", "pcm_s16le", 16_000, 2**-15),
    "wav 24 bits": ("wav", "pcm_s24le", 16_000, 2**-22),
    "wav of floats": ("wav", "pcm_f32le", 16_000, 0.0),
    "wav of differences": ("wav", "adpcm_ms", 16_000, 0.5),
    "flac": ("flac", "flac", 16_000, 2**-15),
    "mp3": ("mp3", "libmp3lame", 16_000, 0.2),
    "opus": ("ogg", "libopus", 48_000, 0.2),
}


def sound(kind: str, n: int = 20_000) -> bytes:
    container, codec, rate, _ = KINDS[kind]
    return encoded_sound(av, container, codec, n, rate)


@loop_over("kind", KINDS)
def test_sounds_come_back(kind: str) -> None:
    found = AUDIO.decode(sound(kind))
    expected = AUDIO.decode(encoded_sound(av, "wav", "pcm_f32le", rate=KINDS[kind][2]))
    assert found.dtype == np.float32
    assert found.shape == (20_000 if kind != "wav of differences" else len(found), 2)  # it pads its last block
    assert np.abs(found[:20_000] - expected).max() <= KINDS[kind][3]


@loop_over("kind", KINDS)
def test_ranges_equal_the_whole_sound(kind: str) -> None:
    blob = sound(kind)
    whole = AUDIO.decode(blob)
    rng = np.random.default_rng(0)
    parts = [range(0), range(len(whole)), range(1), range(len(whole) - 1, len(whole)), range(9000, 100, -700)]
    for first, n, step in rng.integers((0, 1, 1), (len(whole), 2000, 4), (30, 3)).tolist():
        parts.append(range(first, min(len(whole), first + n), step))
    for part in parts:
        found = AUDIO.decode_part(blob, part)
        assert np.array_equal(found, whole[np.array(part, np.int64)]), part
        assert found.shape == (len(part), 2)


def test_ranges_decode_little() -> None:
    for kind in ("wav 16 bits", "flac"):
        blob = sound(kind, 200_000)
        frames = list(AUDIO._frames(blob, 0))
        assert len(list(AUDIO._frames(blob, 190_000))) < len(frames) / 8


@loop_over("dtype", [np.float32, np.int16])
@loop_over("shape", [(100, 3), (100, 1), (100,)])
def test_arrays_come_back(dtype: Any, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(-(2**15), 2**15, shape).astype(np.int16)
    samples = values.astype(np.float32) / np.float32(2**15)
    codec = Audio(8000)
    blob = codec.encode(values if dtype == np.int16 else samples)
    assert np.array_equal(codec.decode(blob), samples.reshape(100, -1))
    assert codec.encode(blob) is blob
    with av.open(BytesIO(blob)) as file:
        assert file.streams.audio[0].rate == 8000
        assert file.streams.audio[0].codec_context.name == ("pcm_s16le" if dtype == np.int16 else "pcm_f32le")


@loop_over("format", ["tfrecord", "ffrecord", "granular", "parquet"])
def test_masks_take_samples(format: str, tmp_path: Path) -> None:
    spec = {"sound": "audio(16000)"}
    blobs = [sound("flac"), sound("wav 16 bits"), sound("mp3")]
    with dataformats.create(tmp_path / "a", format, spec=spec) as writer:
        writer.extend({"sound": blob} for blob in blobs)
    source = dataformats.open(tmp_path / "a", format=format, spec=spec)
    batch = source.read([2, 0, 1], {"sound": range(5000, 5100)})["sound"]
    for found, number in zip(batch, [2, 0, 1], strict=True):
        assert np.array_equal(found, AUDIO.decode(blobs[number])[5000:5100])
    assert np.array_equal(source[1, {"sound": range(7)}]["sound"], AUDIO.decode(blobs[1])[:7])
    with pytest.raises(IndexError, match="goes past the elements of record 0"):
        source[1, {"sound": range(19_000, 20_001)}]
    dataformats.convert(source, tmp_path / "b.ffr", "ffrecord")
    copied = dataformats.open(tmp_path / "b.ffr")
    assert str(copied.spec["sound"]) == "audio(16000)"
    assert copied.with_spec({"sound": "bytes"})[2]["sound"] == blobs[2]


def test_rates() -> None:
    blob = sound("flac")
    assert len(Audio(16_000).decode(blob)) == 20_000
    with pytest.raises(ValueError, match="expected 8000 samples a second, found 16000"):
        Audio(8000).decode(blob)
    with pytest.raises(ValueError, match=r"as audio\(16000\), to encode an array"):
        AUDIO.encode(np.zeros(5, np.float32))
    for args in (["0"], ["x"], ["16000", "2"], ["9999999"], ["1.5"]):
        with pytest.raises(SpecError, match="audio takes samples a second"):
            AUDIO.with_args(args)


def test_limits() -> None:
    blob = sound("flac")
    assert len(Audio(max_samples=200).decode_part(blob, range(10_000, 10_100))) == 100
    for part in (range(10_000, 10_101), range(0, 20_000, 19_999)):
        with pytest.raises(ValueError, match="at most 200 samples"):
            Audio(max_samples=200).decode_part(blob, part)


def test_videos_are_no_sounds() -> None:
    for blob in (encoded(av, "h264"), b"", b"RIFF", b"text that is long enough to be looked at"):
        with pytest.raises(ValueError, match="expected the bytes of a WAV, FLAC, MP3 or Ogg file"):
            AUDIO.decode(blob)


@loop_over("kind", KINDS)
def test_damaged_sounds_raise_or_decode(kind: str) -> None:
    blob = sound(kind, 5000)
    for at in [*range(0, 200, 3), *range(200, len(blob), len(blob) // 40)]:
        damaged = bytearray(blob)
        damaged[at] ^= 0x55
        for one in (bytes(damaged), blob[:at]):
            for part in (range(3000, 3010), range(3)):
                with suppress(CodecError, IndexError):
                    decode_part(AUDIO, Blobs.join([one]), None, part, "x")


@pytest.mark.parametrize("kind", ["wav 16 bits", "flac"])
def test_truncated_sounds_raise(kind: str) -> None:
    with pytest.raises(ValueError, match=r"truncated|Invalid data"):
        AUDIO.decode(sound(kind)[:-5000])
