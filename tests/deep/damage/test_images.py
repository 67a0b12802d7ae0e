"""Damaged images: decoders without Pillow accept no image that Pillow refuses, and give the same pixels."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataformats.codecs.image_decoders import jpeg, png
from dataformats.codecs.images import JPG, PNG, Jpg, Png
from dataformats.kernels import unfilters_pngs
from tests.campaign import SEED, share

N = share(1500)  # damaged files of each kind


def photo(height: int, width: int, mode: str) -> Image.Image:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    channels = [128 + 100 * np.sin(x / (7 + c) + y / 5) + rng.normal(0, 9, y.shape) for c in range(4)]
    return Image.fromarray(np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8), "RGBA").convert(mode)


def damaged(blob: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with some flipped, dropped, repeated or cut off; often in the header."""
    found = bytearray(blob)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(found) if rng.random() < 0.6 else min(700, len(found))))
        kind = rng.integers(0, 6)
        if kind <= 1:
            found[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            found[at] = int(rng.choice([0, 0xD8, 0xD9, 0xDA, 0xC0, 0xC2, 0xFF]))
        elif kind == 3:
            del found[at : at + int(rng.integers(1, 30))]
        elif kind == 4:
            found[at:at] = found[at : at + int(rng.integers(1, 30))]
        else:
            found = found[: max(at, 20)] + blob[-2:]  # truncated, with the end marker
    return bytes(found)


def outcome(decode: Any) -> Any:
    try:
        return decode()
    except Exception as error:
        return type(error)


def check(codec: Jpg | Png, blob: bytes) -> bool:
    """Compare with Pillow; return True if the image was decoded without it."""
    opened = outcome(lambda: codec.opened(blob))
    expected = outcome(lambda: codec._by_pillow(blob))
    if isinstance(opened, type):  # limits, chunks and markers are checked before any decoder sees them
        return False
    found = outcome(lambda: codec.decode(blob))
    assert isinstance(found, type) == isinstance(expected, type), (found, expected)
    if isinstance(found, type):
        assert found is expected
        return False
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)
    return opened.shape is not None


@pytest.mark.skipif(not jpeg.is_available(), reason="simplejpeg is not installed")
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 2}, {"progressive": True}], ids=str)
def test_damaged_jpegs(mode: str, options: dict[str, Any]) -> None:
    stream = BytesIO()
    photo(67, 101, mode).save(stream, "JPEG", **options)
    rng = np.random.default_rng(SEED)
    assert check(JPG, stream.getvalue()) == (mode != "CMYK")
    n_fast = sum(check(JPG, damaged(stream.getvalue(), rng)) for _ in range(N))
    assert (n_fast > N // 20) == (mode != "CMYK")


@pytest.mark.skipif(not unfilters_pngs(), reason="needs compiled kernels")
@pytest.mark.parametrize("mode", ["RGB", "L", "LA", "RGBA"])
def test_damaged_pngs(mode: str) -> None:
    """Checksums are made anew: else nearly all damage would stop at them."""
    stream = BytesIO()
    photo(31, 40, mode).save(stream, "PNG")
    sound = stream.getvalue()
    rng = np.random.default_rng(SEED)
    assert check(PNG, sound)
    plain = png.plain_pixels(sound)
    assert plain is not None
    n_fast = 0
    for _ in range(N):
        n_fast += check(PNG, with_checksums(damaged(sound, rng)))
        n_fast += check(PNG, with_data(sound, damaged(plain[1], rng)))
        n_fast += check(PNG, with_data(sound, zlib.compress(damaged(zlib.decompress(plain[1]), rng))))
    assert n_fast > N // 20


def with_checksums(blob: bytes) -> bytes:
    """Return a damaged PNG with the checksums of its chunks corrected, as far as there are chunks."""
    found, at = bytearray(blob), len(png.START)
    while at + 12 <= len(found):
        end = at + 8 + int.from_bytes(found[at : at + 4], "big")
        if end + 4 > len(found):
            break
        found[end : end + 4] = zlib.crc32(found[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(found)


def with_data(blob: bytes, data: bytes) -> bytes:
    """Return a PNG with other compressed pixels."""
    at = blob.index(b"IDAT") - 4
    return with_checksums(blob[:at] + struct.pack(">I4s", len(data), b"IDAT") + data + bytes(4) + blob[-12:])
