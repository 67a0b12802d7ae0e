"""Media in values: recognition of bytes, and thumbnails."""

from __future__ import annotations

import random
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataformats.display.media import as_image, image_facts, media_of, media_within, thumbnail
from dataformats.display.value_text import as_text
from dataformats.testing.loop_over import loop_over

REST = bytes(60)
STARTS = {
    b"\xff\xd8\xff\xe0" + REST: ("JPEG", "image/jpeg"),
    b"\x89PNG\r\n\x1a\n" + REST: ("PNG", "image/png"),
    b"RIFF\0\0\0\0WEBPVP8 " + REST: ("WebP", "image/webp"),
    b"GIF87a" + REST: ("GIF", "image/gif"),
    b"BM" + bytes(12) + b"\x28\0\0\0" + REST: ("BMP", "image/bmp"),
    b"II*\0\x08\0\0\0" + REST: ("TIFF", "image/tiff"),
    b"MM\0*\0\0\0\x08" + REST: ("TIFF", "image/tiff"),
    b"\0\0\0\x20ftypisom" + REST: ("MP4", "video/mp4"),
    b"\0\0\0\x20ftypM4A " + REST: ("M4A", "audio/mp4"),
    b"\x1a\x45\xdf\xa3" + REST: ("WebM", "video/webm"),
    b"RIFF\0\0\0\0WAVEfmt " + REST: ("WAV", "audio/wav"),
    b"fLaC\0\0\0\x22" + REST: ("FLAC", "audio/flac"),
    b"OggS\0\2" + REST: ("OGG", "audio/ogg"),
    b"ID3\4\0\0\0\0\1\1" + REST: ("MP3", "audio/mpeg"),
    (b"\xff\xfb\x90\x64" + bytes(413)) * 2: ("MP3", "audio/mpeg"),  # 128 kbit/s at 44.1 kHz: 417 bytes a frame
    (b"\xff\xfb\x92\x64" + bytes(414)) * 2: ("MP3", "audio/mpeg"),  # padded
    (b"\xff\xf3\x80\x64" + bytes(204)) * 2: ("MP3", "audio/mpeg"),  # MPEG 2, 64 kbit/s at 22.05 kHz: 208
}


def encoded(kind: str, size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> bytes:
    stream = BytesIO()
    Image.new(mode, size).save(stream, kind, **options)
    return stream.getvalue()


@loop_over("blob, expected", STARTS.items())
def test_recognized(blob: bytes, expected: tuple[str, str]) -> None:
    for same in (blob, memoryview(blob), bytearray(blob)):
        media = media_of(same)
        assert media is not None
        assert (media.name, media.mime) == expected


def test_not_recognized() -> None:
    heads = [head[:12] for head in STARTS]
    texts = [b"GIF89a is the name of a format", b"RIFF files are little-endian"]
    others = [b"\0\0\0\x20ftypheic" + REST, b"\xff\xfb\x90" + REST * 20, REST, b"\xff" * 4096]
    assert [blob for blob in [b"", *heads, *texts, *others] if media_of(blob)] == []


def test_media_are_found_inside_documents() -> None:
    jpeg, png = encoded("jpeg"), encoded("png")
    message = b"\x08\x07\x22" + _varint(len(jpeg) + 3) + b"\x12" + _varint(len(jpeg)) + jpeg  # field 4, in it field 2
    assert media_within(message) == media_within({"a": [message]}) == [jpeg]
    assert media_within([{"file": png}, {"file": jpeg, "pages": (png, 3)}]) == [png, jpeg, png]
    assert media_within(message[:-1]) == media_within(jpeg) == media_within("text") == media_within(None) == []
    deep: Any = png
    for _ in range(7):
        deep = [deep]
    assert (media_within(deep), media_within(deep[0])) == ([], [png])
    assert f"2: JPEG image, 40 x 30, RGB, {len(jpeg)} bytes" in as_text(message)


def _varint(n: int) -> bytes:
    return bytes([n & 127 | 128, n >> 7])


def test_random_bytes_are_no_media() -> None:
    rng = random.Random(5)
    assert not any(media_of(rng.randbytes(64)) for _ in range(10_000))
    assert not any(media_of(b"\xff\xfb" + rng.randbytes(2000)) for _ in range(300))  # the first bytes of an MP3


@loop_over("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_thumbnail(kind: str) -> None:
    facts = image_facts(thumbnail(encoded(kind, (400, 200)), 100))
    assert (facts.name, facts.width, facts.height) == ("JPEG", 100, 50)
    assert str(image_facts(thumbnail(encoded(kind), 100))).startswith("PNG image, 40 x 30")


def pixel(value: Any) -> Any:
    return Image.open(BytesIO(thumbnail(value, 32))).getpixel((5, 5))


def test_modes() -> None:
    assert pixel(encoded("PNG", mode="LA")) == (0, 0, 0, 0)
    assert pixel(encoded("JPEG", (999, 999), "CMYK")) == (255, 255, 255)
    assert pixel(encoded("PNG", mode="P", transparency=0)) == (0, 0, 0, 0)
    assert pixel(encoded("PNG", mode="1")) == 0
    stream = BytesIO()
    Image.fromarray(np.full((500, 500), 0x8112, np.uint16)).save(stream, "PNG")
    assert pixel(stream.getvalue()) == 0x81


@loop_over(
    "shape, expected",
    [
        ((8, 9), (8, 9)),
        ((8, 9, 1), (8, 9)),
        ((8, 9, 3), (8, 9, 3)),
        ((8, 9, 4), (8, 9, 4)),
        ((1, 8, 9), (8, 9)),
        ((3, 8, 9), (8, 9, 3)),
        ((3, 5, 3), (3, 5, 3)),
        ((2, 8, 9), None),
        ((1, 9), None),
        ((0, 9), None),
        ((9,), None),
        ((3, 4, 8, 9), None),
    ],
)
def test_arrays(shape: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    array = np.full(shape, 7, np.uint8)
    image = as_image(array)
    assert (None if image is None else image.shape) == expected
    assert as_image(array.astype(np.int8)) is None
    if image is None:
        with pytest.raises(ValueError, match="shaped like an image"):
            thumbnail(array)
    else:
        assert np.array_equal(np.asarray(Image.open(BytesIO(thumbnail(array)))), image * (255 // 7))  # brightened


def test_a_large_array_is_not_copied() -> None:
    large = np.broadcast_to(np.uint8(9), (100_000, 50_000, 3))  # 15 GB, if it were
    assert str(image_facts(thumbnail(large))) == "JPEG image, 64 x 128, RGB"


def test_thumbnail_refuses_oversized_images() -> None:
    bomb = bytearray(encoded("PNG"))
    bomb[16:24] = (30_000).to_bytes(4, "big") * 2
    with pytest.raises(ValueError, match="PNG image that cannot be"):
        thumbnail(bomb)
    huge = encoded("PNG", (6000, 6000), "1")
    assert (image_facts(huge).width, image_facts(huge).height) == (6000, 6000)
    with pytest.raises(ValueError, match="6000 x 6000 pixels take too much memory"):
        thumbnail(huge)
    scan = encoded("JPEG", progressive=True)
    first = scan.index(b"\xff\xda")
    with pytest.raises(ValueError, match="at most 32 scans"):
        thumbnail(scan[:first] + scan[first:-2] * 40 + scan[-2:])


@loop_over("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_damaged_images(kind: str) -> None:
    rng, whole = random.Random(6), encoded(kind, (64, 64))
    for _ in range(100):
        blob = bytearray(whole[: rng.randrange(16, len(whole) + 1)])
        blob[rng.randrange(12, len(blob))] ^= 1 << rng.randrange(8)
        for function in (thumbnail, image_facts):
            with suppress(ValueError):  # no other error
                function(blob)
