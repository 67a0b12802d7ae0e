"""Random clips of every kind of video equal the frames of the whole video."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from dataformats.codecs.videos import Video, video_of
from tests.campaign import SEED, share
from tests.codecs.encoded_videos import QUICK, SLOW, encoded

N, CLIPS = 90, share(300)

av = pytest.importorskip("av", reason="needs the extra 'video'")


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="the system has no such policies")
def test_encoding_keeps_the_scheduling_policy() -> None:
    encoded(av, "av1", 2)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.parametrize("kind", [*QUICK, *SLOW])
def test_random_parts_equal_the_whole_video(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = encoded(av, kind, N)
    codec = video_of(blob)
    whole = codec.decode(blob)
    assert len(whole) == N
    wholes: list[Any] = []
    decode_all = Video._all

    def counted(*arguments: Any) -> Any:
        wholes.append(arguments)
        return decode_all(*arguments)

    monkeypatch.setattr(Video, "_all", counted)
    rng = np.random.default_rng(SEED)
    for _ in range(CLIPS):
        first, n, step = rng.integers((0, 1, 1), (N, 17, 5)).tolist()
        part = range(first, min(N, first + n * step), step)
        part = part if rng.random() < 0.8 else part[::-1]
        assert np.array_equal(codec.decode_part(blob, part), whole[np.array(part)]), part
    assert (not wholes) or kind == "h264 interlaced"
