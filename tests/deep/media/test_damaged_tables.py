"""Damage tables of videos: a clip by them equals the whole video, or the clip by the packets that FFmpeg reads."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest

from dataformats.codecs.video_packets import DoubtError
from dataformats.codecs.videos import Video, video_of
from tests.codecs.encoded_videos import QUICK, SLOW, encoded

N, TRIALS = 24, 300

av = pytest.importorskip("av", reason="needs the extra 'video'")


def in_doubt(_: bytes) -> NoReturn:
    raise DoubtError


def table_places(blob: bytes) -> list[int]:
    """Return the places of the header's bytes, and of those at the start of each block and cluster."""
    if blob[4:8] == b"ftyp":
        return list(range(blob.index(b"moov"), len(blob)))
    starts = [at for at in range(len(blob) - 16) if blob[at] in b"\xa0\xa3" or blob[at : at + 2] == b"\x1f\x43"]
    return [*range(500), *(at + n for at in starts for n in range(9))]


def frames(decode: Any, *arguments: Any) -> Any:
    try:
        return decode(*arguments)
    except (ValueError, av.FFmpegError):
        return None


@pytest.mark.parametrize("kind", [*QUICK, *SLOW])
def test_damaged_tables(kind: str) -> None:
    blob = encoded(av, kind, N)
    codec = video_of(blob)
    by_ffmpeg = Video(replace(codec.container, tracks=in_doubt))
    places, rng = table_places(blob), random.Random(0)
    n_found = 0
    for _ in range(TRIALS):
        damaged = bytearray(blob)
        for at in rng.choices(places, k=rng.choice((1, 1, 2))):
            damaged[at] = rng.choice((damaged[at] ^ 1 << rng.randrange(8), 0, 127, 128, 255, (damaged[at] + 1) % 256))
        first = rng.randrange(20)
        part = range(first, min(N, first + rng.randrange(1, 8)))
        found, whole = frames(codec.decode_part, bytes(damaged), part), frames(codec.decode, bytes(damaged))
        if found is None or whole is None:
            continue
        n_found += 1
        expected = whole[np.array(part)] if part[-1] < len(whole) else whole[:0]
        if not np.array_equal(found, expected):
            assert np.array_equal(found, frames(by_ffmpeg.decode_part, bytes(damaged), part))
    assert n_found > TRIALS / 4
