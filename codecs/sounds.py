"""Sounds as WAV, FLAC, MP3 and Ogg files.

Decoded: float32 `(n, channels)`, where full scale is [-1, 1): exact for 8, 16 and 24 bits. The samples that an MP3 or
Ogg file names as its encoder's delay and padding are left out, as by other decoders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.codecs.media_files import STRICT, open_media
from dataformats.display.media import media_of
from dataformats.errors import SpecError
from dataformats.interfaces import SequenceCodec

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Audio"]

MAX_SAMPLES = 2**28
"""The default limit of decoded samples, over all channels: 1 GB."""

_READERS = {"WAV": "wav", "FLAC": "flac", "MP3": "mp3", "OGG": "ogg"}
_SCALES = {"u8": 2.0**7, "s16": 2.0**15, "s32": 2.0**31, "flt": 1.0, "dbl": 1.0}
_UNKNOWN_SIZES = (0, 2**32 - 1)  # a WAV that was written to a pipe
_MAX_CHANNELS = 64


class Audio(SequenceCodec):
    """Sounds; a format is recognized by its first bytes.

    Args:
        rate: Samples a second of all sounds; `None`: any rate, and arrays cannot be encoded.
        max_samples: The most samples that are decoded, over all channels.
    """

    name = "audio"
    costly = True

    def __init__(self, rate: int | None = None, max_samples: int = MAX_SAMPLES) -> None:
        self.rate = rate
        self.max_samples = max_samples

    def with_args(self, args: Sequence[str]) -> Audio:
        """Return the codec of sounds with one rate, as in `audio(16000)`."""
        if not args:
            return self
        fits = len(args) == 1 and args[0].isdecimal() and len(args[0]) <= 7
        if not fits or not 1 <= int(args[0]) <= 1_000_000:
            raise SpecError(f"audio takes samples a second, as audio(16000), found ({','.join(args)})")
        return Audio(int(args[0]), self.max_samples)

    def encode(self, value: Any) -> bytes:
        """Return a WAV of float32 or int16, (n,) or (n, channels); the bytes of a sound are returned unchanged."""
        if isinstance(value, bytes):
            _reader_of(value)
            return value
        samples = np.asarray(value)
        if samples.dtype not in (np.float32, np.int16):
            raise TypeError(f"expected an array of float32 or int16, found {samples.dtype}")
        samples = samples[:, None] if samples.ndim == 1 else samples
        if samples.ndim != 2 or not samples.size or samples.shape[1] > _MAX_CHANNELS or samples.nbytes >= 2**31:
            raise ValueError(f"expected shape (n, channels), at most {_MAX_CHANNELS} and 2 GB, found {samples.shape}")
        if self.rate is None:
            raise ValueError("expected a type with samples a second, as audio(16000), to encode an array")
        return _wav(samples, self.rate)

    def decode(self, blob: bytes) -> NDArray[np.float32]:
        """Return float32 (n, channels).

        Raises:
            MissingExtraError: PyAV is not installed.
        """
        return self._joined(blob, 0, None)

    def decode_part(self, blob: bytes, part: range) -> NDArray[np.float32]:
        """Return the samples of `part` that the sound has: float32 (m, channels).

        WAV and FLAC are decoded from there. Other formats are decoded from the start of the file, because their samples
        depend on all before.
        """
        first, end = (min(part), max(part) + 1) if part else (0, 0)
        samples = self._joined(blob, first, end)
        if part.step == 1:
            return samples
        chosen = np.array(part, np.int64) - first
        return samples[chosen[chosen < len(samples)]]

    def _joined(self, blob: bytes, first: int, end: int | None) -> NDArray[np.float32]:
        """Return the samples in `[first, end)`; to the end of the file if `end` is `None`."""
        parts: list[NDArray[np.float32]] = []
        n_values = stop = 0
        for at, samples in self._frames(blob, first):
            shape = samples.shape[1:]
            if parts and shape != parts[0].shape[1:]:
                raise ValueError(f"expected {parts[0].shape[1]} channels, found {shape[0]}")
            part = samples[max(0, first - at) : None if end is None else max(0, end - at)]
            n_values += part.size
            if n_values > self.max_samples:
                raise ValueError(f"expected at most {self.max_samples} samples over all channels, found more")
            if len(part) or not parts:
                parts.append(part)
            stop = at + len(samples)
            if end is not None and stop >= end:
                break
        else:
            _check_end(blob, stop)
        return np.concatenate(parts)

    def _frames(self, blob: bytes, first: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield runs of samples, each with the number of its first; they begin before `first`, or with it."""
        with self._opened(blob) as (file, track):
            skips = first > 0 and _has_places(track)
            at: int | None = None if skips else 0
            if skips and track.codec_context.name != "flac":  # whose search fails without a table of places
                file.seek(first, stream=track)
            for packet in file.demux(track):
                if skips and packet.pts is not None and packet.pts + (packet.duration or 0) <= first:
                    continue
                for frame in packet.decode():
                    at = frame.pts if at is None else at
                    if at is None or (skips and at > first):
                        break  # not where it should be
                    skips = False
                    if frame.sample_rate != track.rate or frame.is_corrupt:
                        raise ValueError(f"sample {at} is {'damaged' if frame.is_corrupt else 'of another rate'}")
                    yield at, _as_floats(frame)
                    at += frame.samples
            if not skips:
                return
        yield from self._frames(blob, 0)

    @contextmanager
    def _opened(self, blob: bytes) -> Iterator[tuple[Any, Any]]:
        with open_media(blob, _reader_of(blob), self.name) as file:
            if not file.streams.audio:
                raise ValueError("the file has no sound")
            track = file.streams.audio[0]
            if self.rate is not None and track.rate != self.rate:
                raise ValueError(f"expected {self.rate} samples a second, found {track.rate}")
            track.codec_context.options = STRICT
            track.codec_context.thread_count = 1
            yield file, track


def _reader_of(blob: bytes) -> str:
    media = media_of(blob)
    if media is None or media.name not in _READERS:
        raise ValueError(f"expected the bytes of a WAV, FLAC, MP3 or Ogg file, found {blob[:12]!r}")
    if media.name == "WAV":
        size = int.from_bytes(blob[4:8], "little")
        if size not in _UNKNOWN_SIZES and size + 8 > len(blob):
            raise ValueError(f"the WAV is truncated: expected {size + 8} bytes, found {len(blob)}")
    return _READERS[media.name]


def _has_places(track: Any) -> bool:
    """Return True if times are numbers of samples, and samples decode without those before."""
    name = track.codec_context.name
    return (name == "flac" or name.startswith("pcm_")) and track.time_base * track.rate == 1 and not track.start_time


def _check_end(blob: bytes, n_samples: int) -> None:
    """Raise if a FLAC has fewer samples than its header says: RFC 9639, 8.2; 0 is unknown."""
    stated = int.from_bytes(blob[21:26], "big") & 2**36 - 1
    if blob.startswith(b"fLaC") and n_samples < stated:
        raise ValueError(f"the FLAC is truncated: expected {stated} samples, found {n_samples}")


def _as_floats(frame: Any) -> NDArray[np.float32]:
    """Return float32 (n, channels) of a frame."""
    name = frame.format.name
    scale = _SCALES.get(name.removesuffix("p"))
    if scale is None:
        raise ValueError(f"expected samples of {', '.join(_SCALES)}, found {name}")
    found = frame.to_ndarray()
    found = found.T if frame.format.is_planar else found.reshape(frame.samples, -1)
    floats: NDArray[np.float32] = found.astype(np.float32)
    if name.startswith("u8"):
        floats -= 128
    floats /= np.float32(scale)
    return floats


def _wav(samples: NDArray[Any], rate: int) -> bytes:
    """Return a WAV: "Multimedia Programming Interface and Data Specifications 1.0", with the `fact` of revision 3."""
    n, channels = samples.shape
    width = samples.itemsize
    tag = 3 if samples.dtype == np.float32 else 1
    frame = channels * width
    head = struct.pack("<4sIHHIIHHH", b"fmt ", 18, tag, channels, rate, rate * frame, frame, 8 * width, 0)
    data = np.ascontiguousarray(samples, samples.dtype.newbyteorder("<")).tobytes()
    body = b"WAVE" + head + struct.pack("<4sII4sI", b"fact", 4, n, b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


AUDIO = Audio()
"""Sounds of any rate."""
