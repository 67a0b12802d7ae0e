from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataformats.batch import Blobs
from dataformats.codecs.image_decoders import pillow
from dataformats.codecs.images import JPEG, JPG, PNG, WEBP, Jpg, Png, Webp
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, SpecError
from dataformats.interfaces import Codec
from dataformats.spec import Type
from dataformats.testing.loop_over import loop_over

RNG = np.random.default_rng(0)
CODECS = CodecResolver(trusted=False)


def pixels(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    return RNG.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, depth: int, color: int, data: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@loop_over("array", [pixels(5, 7), pixels(5, 7, 2), pixels(5, 7, 3), pixels(1, 1, 4), pixels(4, 3, dtype=np.uint16)])
def test_png_is_lossless(array: np.ndarray) -> None:
    decoded = PNG.decode(PNG.encode(array))
    assert decoded.dtype == array.dtype
    assert np.array_equal(decoded, array)
    decoded[0] = 0  # the caller's own memory


def test_png_of_big_endian_and_strided_arrays() -> None:
    wide = pixels(4, 6, dtype=np.uint16)
    assert np.array_equal(PNG.decode(PNG.encode(wide.astype(">u2")[:, ::2])), wide[:, ::2])


@pytest.mark.parametrize("shape", [(16, 24), (16, 24, 3)])
def test_jpg_is_close(shape: tuple[int, ...]) -> None:
    array = np.broadcast_to(np.arange(24, dtype=np.uint8)[None, :] * 8, (16, 24))
    array = np.ascontiguousarray(array if len(shape) == 2 else array[..., None].repeat(3, 2))
    decoded = JPG.decode(JPG.encode(array))
    assert decoded.shape == shape
    assert np.abs(decoded.astype(int) - array).max() < 12


def test_jpg_quality() -> None:
    array = pixels(32, 32, 3)
    assert (
        JPG.encode(array) == saved(Image.fromarray(array), "JPEG") == saved(Image.fromarray(array), "JPEG", quality=75)
    )
    assert CODECS.encode(Type.parse("jpg(95)"), array) == [saved(Image.fromarray(array), "JPEG", quality=95)]
    for args in (["0"], ["101"], ["x"], ["1", "2"], ["9" * 5000]):
        with pytest.raises(SpecError, match="quality"):
            JPG.with_args(args)
    with pytest.raises(SpecError, match="no arguments"):
        PNG.with_args(["9"])


def test_golden_photos(golden_records: Callable[[str], list[bytes]]) -> None:
    from dataformats.codecs.example import EXAMPLE

    for blob in golden_records("real/photos.tfrecord"):
        record = EXAMPLE.decode(blob)
        array = JPG.decode(record["image"][0])
        assert array.shape[:2] == (record["height"][0], record["width"][0])


def test_modes() -> None:
    palette = Image.fromarray(pixels(4, 4) % 3, "L").convert("P")
    palette.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    assert PNG.decode(saved(palette, "PNG")).shape == (4, 4, 3)
    assert PNG.decode(saved(palette, "PNG", transparency=1)).shape == (4, 4, 4)
    assert PNG.decode(saved(Image.new("1", (4, 4), 1), "PNG")).tolist() == [[255] * 4] * 4
    assert PNG.decode(saved(Image.new("L", (2, 2), 7), "PNG", transparency=7)).tolist() == [[[7, 0]] * 2] * 2
    assert JPG.decode(saved(Image.new("CMYK", (4, 4)), "JPEG")).shape == (4, 4, 3)


@pytest.mark.parametrize(("codec", "other"), [(JPG, PNG), (PNG, JPG)], ids=["jpg", "png"])
def test_encoded_bytes_pass_unchanged(codec: Codec, other: Codec) -> None:
    blob = codec.encode(pixels(3, 3))
    assert codec.encode(blob) is blob
    for method in (other.encode, other.decode):
        with pytest.raises(ValueError, match=f"expected the bytes of a .*: its type is {codec.name}"):
            method(blob)


def test_16_bit_color_is_refused_on_both_sides() -> None:
    with pytest.raises(ValueError, match="8 bits"):
        PNG.encode(pixels(3, 3, 3, dtype=np.uint16))
    with pytest.raises(CodecError, match="found 16"):
        CODECS.decode(Type("png"), Blobs.join([png(1, 1, 16, 2, bytes(7))]))


def test_bombs_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(CodecError, match=r"at most 134217728 pixels, found 60000 x 60000\. .*images.Png\(max_pixels"):
        CODECS.decode(Type("png"), Blobs.join([png(60000, 60000, 8, 0)]))
    jpeg = bytearray(JPG.encode(pixels(8, 8)))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    with pytest.raises(CodecError, match="pixels"):
        CODECS.decode(Type("jpg"), Blobs.join([bytes(jpeg)]))
    for codec in (Jpg(max_pixels=8), Png(max_pixels=8)):
        with pytest.raises(ValueError, match="at most 8 pixels, found 3 x 3"):
            codec.decode(codec.encode(pixels(3, 3)))


def test_more_pixels_than_the_bytes_can_hold_are_refused() -> None:
    with pytest.raises(CodecError, match=r"truncated: expected at most .* found 10000 x 10000"):
        CODECS.decode(Type("png"), Blobs.join([png(10000, 10000, 8, 0)]))
    jpeg = bytearray(JPG.encode(pixels(8, 8)))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", 10000, 10000)
    with pytest.raises(CodecError, match=r"truncated: expected at most .* found 10000 x 10000"):
        CODECS.decode(Type("jpg"), Blobs.join([bytes(jpeg)]))
    black = np.zeros((2000, 2000), np.uint8)  # the fewest bytes for so many pixels
    assert not PNG.decode(saved(Image.fromarray(black), "PNG", compress_level=9)).any()
    assert not PNG.decode(saved(Image.fromarray(black).convert("1"), "PNG", compress_level=9)).any()
    for options in ({}, {"progressive": True}, {"optimize": True}):
        assert JPG.decode(saved(Image.fromarray(black), "JPEG", quality=1, **options)).shape == black.shape


@pytest.mark.parametrize("side", [8, 64])  # a small file, whose bytes are counted in another way, and a large one
def test_many_scans_are_refused(side: int) -> None:
    blob = saved(Image.fromarray(pixels(side, side, 3)), "JPEG", progressive=True)
    last, end = blob.rindex(b"\xff\xda"), blob.rindex(b"\xff\xd9")
    more = blob[:end] + blob[last:end] * 30 + blob[end:]
    with pytest.raises(CodecError, match=r"at most 32 scans, found 40\. .*images.Jpg\(max_scans"):
        CODECS.decode(Type("jpg"), Blobs.join([more]))
    assert Jpg(max_scans=40).with_args(["90"]).decode(more).shape == (side, side, 3)
    assert (len(more) < 2**12) == (side == 8)


LARGE = [
    ("1", {}),
    ("L", {}),
    ("L", {"transparency": 7}),
    ("LA", {}),
    ("P", {}),
    ("P", {"transparency": 1}),
    ("RGB", {}),
    ("RGB", {"transparency": (1, 2, 3)}),
    ("RGBA", {}),
    ("I;16", {}),
]


@loop_over("mode, options", LARGE)
def test_large_images_are_converted_in_parts(mode: str, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Image.fromarray(pixels(33, 10, 4), "RGBA")
    image = Image.fromarray(pixels(33, 10, dtype=np.uint16)) if mode == "I;16" else noise.convert(mode)
    blobs: list[tuple[Codec, bytes]] = [(PNG, saved(image, "PNG", **options))]
    if mode in ("L", "RGB"):
        blobs += [(JPG, saved(image, "JPEG")), (WEBP, saved(image, "WEBP"))]
        blobs += [(JPG, saved(image.convert("CMYK"), "JPEG"))] if mode == "RGB" else []
    for codec, blob in blobs:
        whole = codec.decode(blob)
        monkeypatch.setattr(pillow, "PART_PIXELS", 70)
        parts = codec.decode(blob)
        monkeypatch.undo()
        assert (parts.shape, parts.dtype, parts.flags.writeable) == (whole.shape, whole.dtype, True)
        assert np.array_equal(parts, whole)


# ---- golden images of Granular


@loop_over(
    "name, field, kind",
    [
        ("bags/basic", "photo", "jpeg"),
        ("bags/basic", "frames", "png"),
        *[(f"{generation}/basic", "photo", "jpg") for generation in ("v1", "v2", "v3")],
        *[(f"{generation}/basic", "sketch", "png") for generation in ("bags", "v1", "v2", "v3")],
    ],
)
def test_golden_images(
    granular_values: Callable[[str, str], list[tuple[bytes, Any]]], name: str, field: str, kind: str
) -> None:
    pairs = granular_values(name, field)
    column: Any = CODECS.decode(Type(kind), Blobs.join([blob for blob, _ in pairs]))
    for found, (blob, expected) in zip(column, pairs, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert np.abs(found.astype(int) - expected).max() <= (0 if kind == "png" else 2)
        assert CODECS.encode(Type(kind), blob) == [blob]


def test_jpeg_is_another_name_of_jpg() -> None:
    array = pixels(8, 8, 3)
    assert (JPEG.name, JPG.name) == ("jpeg", "jpg")
    assert JPEG.encode(array) == JPG.encode(array)
    assert CODECS.encode(Type.parse("jpeg(95)"), array) == CODECS.encode(Type.parse("jpg(95)"), array)
    assert JPEG.with_args(["95"]).name == "jpeg"
    with pytest.raises(SpecError, match="jpeg takes a quality"):
        JPEG.with_args(["0"])


# ---- WebP


@loop_over("array", [pixels(5, 7, 3), pixels(1, 1, 3), pixels(5, 7, 4)])
def test_lossless_webp(array: np.ndarray) -> None:
    if array.shape[2] == 4:
        array[0, 0] = [1, 2, 3, 0]  # the color of transparent pixels is kept too
    codec = WEBP.with_args(["lossless"])
    decoded = WEBP.decode(codec.encode(array))
    assert np.array_equal(decoded, array)
    decoded[0] = 0
    opaque = array[..., :3]
    assert np.array_equal(WEBP.decode(codec.encode(np.dstack([opaque, np.full(opaque.shape[:2], 255, "u1")]))), opaque)


def test_lossy_webp_is_close_and_has_a_quality() -> None:
    array = np.broadcast_to(np.arange(24, dtype=np.uint8)[None, :, None] * 8, (16, 24, 3))
    decoded = WEBP.decode(WEBP.encode(array))
    assert decoded.shape == array.shape
    assert np.abs(decoded.astype(int) - array).max() < 16
    assert WEBP.encode(array) == saved(Image.fromarray(np.ascontiguousarray(array)), "WEBP")
    best = saved(Image.fromarray(np.ascontiguousarray(array)), "WEBP", quality=95)
    assert CODECS.encode(Type.parse("webp(95)"), array) == [best]
    assert CODECS.encode(Type("webp"), best) == [best]
    for args in (["0"], ["x"], ["90", "lossless"]):
        with pytest.raises(SpecError, match="or 'lossless'"):
            WEBP.with_args(args)


def webp(chunk_name: bytes, data: bytes) -> bytes:
    body = b"WEBP" + chunk_name + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "blob",
    [
        webp(b"VP8X", bytes(4) + b"\xff\xff\xff\xff\xff\xff"),
        webp(b"VP8X", bytes(4) + b"\xff\x7f\0\xff\x7f\0"),
    ],
)
def test_large_webp_is_refused_before_anything_is_allocated(blob: bytes) -> None:
    with pytest.raises(CodecError, match=r"at most 67108864 pixels.*images.Webp\(max_pixels"):
        CODECS.decode(Type("webp"), Blobs.join([blob]))


def test_webp_of_few_pixels_and_animations() -> None:
    for options in ({"quality": 80}, {"lossless": True}):
        blob = saved(Image.fromarray(pixels(4, 4, 3)), "WEBP", **options)
        assert Webp(max_pixels=16).decode(blob).shape == (4, 4, 3)
        with pytest.raises(ValueError, match="at most 15 pixels, found 4 x 4"):
            Webp(max_pixels=15).decode(blob)
    frames = [Image.fromarray(pixels(4, 4, 3)) for _ in range(2)]
    moving = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    for method in (WEBP.encode, WEBP.decode):
        with pytest.raises(ValueError, match="animation"):
            method(moving)
