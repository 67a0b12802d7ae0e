"""Images decoded without Pillow: the pixels are Pillow's, and so is every judgment of damage."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataformats.batch import Blobs, StackedList
from dataformats.codecs.example import EXAMPLE
from dataformats.codecs.image_decoders import jpeg, png
from dataformats.codecs.images import JPG, PNG, WEBP, Jpg, Png
from dataformats.kernels import unfilters_pngs
from dataformats.testing.loop_over import loop_over

needs_simplejpeg = pytest.mark.skipif(not jpeg.is_available(), reason="simplejpeg is not installed")


def photo(height: int, width: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """A smooth image with noise, so that every filter and every coefficient occurs."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    channels = [128 + 100 * np.sin(x / (7 + 3 * c) + y / (5 + c)) + rng.normal(0, 9, y.shape) for c in range(4)]
    pixels = np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels, "RGBA").convert(mode)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def opens_without_pillow(codec: Jpg | Png, blob: bytes) -> bool:
    return codec.opened(blob).shape is not None


SIZES = [(1, 1), (1, 9), (8, 8), (17, 3), (37, 61), (64, 64)]


@needs_simplejpeg
@loop_over("size", SIZES)
@loop_over("subsampling", [0, 1, 2])
@loop_over("options", [{}, {"progressive": True}, {"optimize": True, "quality": 97}, {"quality": 5}])
def test_jpegs_have_the_pixels_of_pillow(size: tuple[int, int], subsampling: int, options: Any) -> None:
    for mode in ("RGB", "L"):
        blob = saved(photo(*size, mode), "JPEG", subsampling=subsampling, **options)
        assert opens_without_pillow(JPG, blob)
        found = JPG.decode(blob)
        assert found.flags.writeable
        assert np.array_equal(found, np.asarray(Image.open(BytesIO(blob))))


@needs_simplejpeg
def test_golden_photos_have_the_pixels_of_pillow(golden_records: Callable[[str], list[bytes]]) -> None:
    blobs = [EXAMPLE.decode(record)["image"][0] for record in golden_records("real/photos.tfrecord")]
    for blob, found in zip(blobs, JPG.decode_batch(Blobs.join(blobs)), strict=True):
        assert np.array_equal(found, np.asarray(Image.open(BytesIO(blob)).convert("RGB")))


@needs_simplejpeg
@loop_over("divisor", jpeg.DIVISORS)
@loop_over("mode", ["RGB", "L", "CMYK"])
def test_scaled_jpegs_match_pillow(divisor: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for height, width in ((64, 64), (375, 500), (203, 71)):
        blob = saved(photo(height, width, mode), "JPEG")
        image, size, used = JPG.decode_scaled(blob, lambda *_: divisor)
        assert (size, used) == ((height, width), divisor)
        assert image.shape == (-(-height // divisor), -(-width // divisor), 3)
        with monkeypatch.context() as patch:
            patch.setattr(jpeg, "_turbo", None)
            by_pillow, size, used = JPG.decode_scaled(blob, lambda *_: divisor)
        assert (size, used) == ((height, width), divisor)
        assert np.array_equal(image, by_pillow)


def test_exif_orientation_is_not_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert JPG.decode(saved(photo(8, 24), "JPEG", exif=exif)).shape == (8, 24, 3)


def test_unusual_jpegs_are_decoded_by_pillow() -> None:
    cmyk = saved(photo(16, 24, "CMYK"), "JPEG")
    assert not opens_without_pillow(JPG, cmyk)
    assert np.array_equal(JPG.decode(cmyk), np.asarray(Image.open(BytesIO(cmyk)).convert("RGB")))
    extraneous = saved(photo(16, 24), "JPEG")[:-2] + b"??\xff\xd9"  # harmless, but libjpeg-turbo warns
    assert np.array_equal(JPG.decode(extraneous), np.asarray(Image.open(BytesIO(extraneous))))


def test_jpegs_of_any_subsampling_have_the_pixels_of_pillow() -> None:
    blob = bytearray(saved(photo(37, 61), "JPEG", subsampling=0))
    at = blob.index(b"\xff\xc0") + 11  # sampling factors of the first channel, across and down
    for factors in (0x11, 0x12, 0x14, 0x21, 0x22, 0x24, 0x41, 0x42):
        blob[at] = factors
        try:  # some have too little data
            expected = np.asarray(Image.open(BytesIO(blob)))
        except OSError:
            with pytest.raises(OSError, match="truncated"):
                JPG.decode(bytes(blob))
        else:
            assert np.array_equal(JPG.decode(bytes(blob)), expected)


def test_truncated_jpegs_are_refused_though_an_end_marker_is_left() -> None:
    blob = saved(photo(64, 64), "JPEG", comment=b"\xff\xd9")
    for stop in (len(blob) // 2, len(blob) - 20):
        with pytest.raises(OSError, match="truncated"):
            JPG.decode(blob[:stop])


PLAIN = ["L", "LA", "RGB", "RGBA"]


@loop_over("mode", [*PLAIN, "1", "P"])
@loop_over("size", SIZES)
def test_pngs_have_the_pixels_of_pillow(mode: str, size: tuple[int, int]) -> None:
    image = photo(*size).quantize(200) if mode == "P" else photo(*size, mode)
    for level in (0, 1, 9):
        blob = saved(image, "PNG", compress_level=level)
        assert opens_without_pillow(PNG, blob) == (mode in PLAIN and unfilters_pngs())
        assert np.array_equal(PNG.decode(blob), PNG._by_pillow(blob))


def test_pngs_with_transparency_are_decoded_by_pillow() -> None:
    for blob in (saved(photo(4, 4, "L"), "PNG", transparency=7), saved(photo(4, 4), "PNG", transparency=(1, 2, 3))):
        assert not opens_without_pillow(PNG, blob)
        assert PNG.decode(blob).shape[2] in (2, 4)
    assert opens_without_pillow(PNG, saved(photo(4, 4), "PNG", dpi=(72, 72))) == unfilters_pngs()


def test_a_batch_of_one_shape_is_one_array() -> None:
    images = [photo(16, 24, seed=seed) for seed in range(5)]
    for codec, kind in ((JPG, "JPEG"), (PNG, "PNG")):
        blobs = [saved(image, kind) for image in images]
        column = codec.decode_batch(Blobs.join(blobs))
        if codec.opened(blobs[0]).shape is not None:
            assert isinstance(column, StackedList)
            assert column.stacked.shape == (5, 16, 24, 3)
        for found, blob in zip(column, blobs, strict=True):
            assert np.array_equal(found, codec.decode(blob))
    assert JPG.decode_batch(Blobs.join([])) == []


def test_a_batch_of_several_shapes_or_decoders() -> None:
    kinds = [("RGB", (16, 24)), ("L", (16, 24)), ("RGB", (9, 9)), ("CMYK", (16, 24))]
    blobs = [saved(photo(*size, mode), "JPEG") for mode, size in kinds]
    found = JPG.decode_batch(Blobs.join(blobs))
    assert [image.shape for image in found] == [(16, 24, 3), (16, 24), (9, 9, 3), (16, 24, 3)]
    warned = saved(photo(16, 24), "JPEG")[:-2] + b"??\xff\xd9"
    column = JPG.decode_batch(Blobs.join([blobs[0], warned]))  # the second is put in its place by Pillow
    assert isinstance(column, StackedList) == jpeg.is_available()
    assert np.array_equal(column[1], np.asarray(Image.open(BytesIO(warned))))
    assert len(WEBP.decode_batch(Blobs.join([saved(photo(8, 8), "WEBP")] * 3))) == 3


def test_without_simplejpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg, "_turbo", None)
    blob = saved(photo(16, 24), "JPEG")
    assert np.array_equal(JPG.decode(blob), np.asarray(Image.open(BytesIO(blob))))


def test_png_data_of_another_length_are_left_to_pillow() -> None:
    assert png.fill(b"not zlib", np.zeros((2, 2, 3), np.uint8)) is False
