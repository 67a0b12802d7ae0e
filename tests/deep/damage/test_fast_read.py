"""The fast path detects every flipped bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataformats.batch.value_slices import ValueSlice
from dataformats.kernels import FrameCheck, reads_batches
from tests.campaign import chosen
from tests.storage.native.test_fast_read import FRAMES, WAYS, framed, gathered, noise, written

pytestmark = pytest.mark.skipif(not reads_batches(), reason="without compiled kernels there is only the reference path")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("check", FRAMES)
@pytest.mark.parametrize("window", [None, ValueSlice(10, 4000), ValueSlice(-9000, 3000)])
def test_every_flip_is_seen(window: ValueSlice | None, check: FrameCheck, way: str, tmp_path: Path) -> None:
    """Any byte of the frames of records both short and long, one after the other."""
    blobs = [b"", b"x", noise(100), noise(20_000), noise(3)]
    content, request = framed(check, blobs)
    files = written(tmp_path, [content], way)
    assert gathered(files, request, window=window) == [blobs]
    unseen = (
        set()
        if check is not FrameCheck.LENGTH
        else set(range(len(content))) - {at for row in request.offset.tolist() for at in range(row - 8, row)}
    )
    places = [*range(150), *range(150, len(content) - 40, 1777), *range(len(content) - 40, len(content))]
    for at in chosen(places):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        flipped = written(tmp_path, [bytes(damaged)], way)
        assert (gathered(flipped, request, window=window) is None) == (at not in unseen), at
