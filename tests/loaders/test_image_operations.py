"""Image operations in `Loader(decode=)` and `read(decode=)`: geometry, pixels, random numbers, damage, sources."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats import Loader, images
from dataformats.batch import StackedList
from dataformats.errors import CodecError, SpecError, UnknownNameError
from dataformats.images import CenterCrop, RandomResizedCrop, Resize
from dataformats.interfaces import FieldOperation
from dataformats.loaders.rng import Randomness
from dataformats.storage import threads
from dataformats.testing.loop_over import loop_over

N = 23
CROP = RandomResizedCrop(16, flip=0.5)
DECODE = {"image": CROP}


def photo(number: int, mode: str = "RGB") -> Image.Image:
    height, width = 40 + number % 5, 60 - number % 7
    y, x = np.mgrid[:height, :width]
    channels = [128 + 90 * np.sin((x + 9 * number) / (5 + c) + y / 7) for c in range(4)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8), "RGBA").convert(mode)


def saved(image: Image.Image, kind: str = "JPEG") -> bytes:
    stream = BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def write(path: Path, format: str = "tfrecord", kind: str = "jpg", n: int = N, **damaged: bytes) -> Path:
    encoded = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "bytes": "JPEG"}[kind]
    with dataformats.create(path, format, spec={"label": "int64", "image": kind}) as writer:
        for number in range(n):
            writer.append({"label": number, "image": damaged.get(f"at_{number}") or saved(photo(number), encoded)})
    return path


@pytest.fixture
def source(tmp_path: Path) -> dataformats.RecordSource:
    return dataformats.open(write(tmp_path / "a.tfrecord"))


def by_pillow(image: Image.Image, size: tuple[int, int], box: Any = None) -> np.ndarray:
    """Resample along the rows first: Pillow 13 may choose the other order, and round the pixels between differently."""
    left, top, right, bottom = box or (0, 0, *image.size)
    bilinear = Image.Resampling.BILINEAR
    narrow = image.resize((size[0], image.height), bilinear, (left, 0, right, image.height))
    return np.asarray(narrow.resize(size, bilinear, (0, top, size[0], bottom)))


def one(operation: Any, blob: bytes, seed: int = 0) -> np.ndarray:
    from dataformats.batch import Blobs

    column = operation.decode_batch(Blobs.join([blob]), lambda _: np.random.default_rng(seed))
    return np.asarray(column[0])


# ---- geometry and pixels


@loop_over(
    "height, width, size, expected",
    [(375, 500, 256, (256, 341)), (500, 375, 256, (341, 256)), (50, 50, 7, (7, 7)), (30, 40, (9, 8), (9, 8))],
)
def test_resizing_has_the_sizes_of_torchvision(height: int, width: int, size: Any, expected: tuple[int, int]) -> None:
    image = photo(0).resize((width, height))
    found = one(Resize(size), saved(image, "PNG"))
    assert found.shape == (*expected, 3)
    assert np.array_equal(found, by_pillow(image, (expected[1], expected[0])))


@loop_over("length, size, begin", [(40, 16, 12), (41, 16, 12), (43, 16, 14), (16, 16, 0)])
def test_center_crop_offsets_match_torchvision(length: int, size: int, begin: int) -> None:
    image = photo(0).resize((length, length))
    expected = np.asarray(image)[begin : begin + size, begin : begin + size]
    assert np.array_equal(one(CenterCrop(size), saved(image, "PNG")), expected)


@loop_over("resize", [None, 30, (21, 33)])
@loop_over("layout", ["channels_last", "channels_first"])
@loop_over("flip", [0.0, 1.0])
def test_center_crops_match_pillow(resize: Any, layout: Any, flip: float) -> None:
    image = photo(3)
    height, width = (
        (image.height, image.width)
        if resize is None
        else (30, int(30 * image.width / image.height))
        if isinstance(resize, int)
        else resize
    )
    whole = by_pillow(image, (width, height))
    expected = np.zeros((24, 50, 3), np.uint8)
    rows, columns = min(height, 24), min(width, 50)
    top, left = round((height - rows) / 2), round((width - columns) / 2)
    part = whole[top : top + rows, left : left + columns]
    above, beside = (24 - rows) // 2, (50 - columns) // 2
    expected[above : above + rows, beside : beside + columns] = part
    expected = expected[:, ::-1] if flip else expected
    found = one(CenterCrop((24, 50), resize=resize, flip=flip, layout=layout), saved(image, "PNG"))
    assert np.array_equal(found.transpose(1, 2, 0) if layout == "channels_first" else found, expected)


@loop_over("layout", ["channels_last", "channels_first"])
@loop_over("size", [(50, 60), (50, 20), (40, 70), (20, 70), (50, 70)])
def test_around_smaller_images_there_is_nothing(size: Any, layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "empty", lambda *shape: np.full(shape, 7, np.uint8))  # memory used before
    white = Image.new("RGB", (60, 40), "white")
    found = one(CenterCrop(size, layout=layout), saved(white, "PNG"))
    found = found.transpose(1, 2, 0) if layout == "channels_first" else found
    inside = np.zeros(size, bool)
    above, beside = max(0, size[0] - 40) // 2, max(0, size[1] - 60) // 2
    inside[above : above + 40, beside : beside + 60] = True
    assert found.shape == (*size, 3)
    assert np.array_equal(found, np.repeat(np.where(inside, 255, 0)[..., None], 3, 2))


def test_random_crops_have_the_distribution_of_torchvision() -> None:
    height, width, found = 375, 500, []
    operation = RandomResizedCrop(8)
    for seed in range(2000):
        draw = np.random.default_rng(seed).random
        left, top, right, bottom = operation.geometry(height, width, draw).box
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        found.append(((right - left) * (bottom - top) / (height * width), (right - left) / (bottom - top)))
    areas, ratios = np.array(found).T
    assert 0.075 < areas.min() < 0.1
    assert 0.9 < areas.max() <= 1
    assert 0.74 < ratios.min() < 0.76
    assert 1.31 < ratios.max() < 1.35
    assert abs(np.median(ratios) - 1) < 0.05  # uniform in the logarithm
    assert 0.40 < np.median(areas) < 0.54  # below 0.54, because some large ones do not fit and are tried again


def test_random_crops_are_frozen() -> None:
    """Others would change every training run, and a resumed one in its middle."""
    found = []
    for position in (0, 1, 5):
        draw = Randomness(7).of_operation(position).random
        found.append((RandomResizedCrop(224).geometry(375, 500, draw).box, draw() < 0.5))
    assert found == [((129, 46, 395, 326), True), ((165, 46, 329, 181), True), ((20, 4, 390, 311), False)]


def test_unfitting_random_crops_take_the_largest_center_part() -> None:
    def geometry(height: int, width: int) -> Any:
        return RandomResizedCrop(8, scale=(1, 1)).geometry(height, width, lambda: 0.5).box

    assert geometry(10, 100) == (43, 0, 56, 10)
    assert geometry(100, 10) == (0, 43, 10, 56)
    assert RandomResizedCrop(8, (1, 1), (1, 1)).geometry(64, 64, lambda: 0.0).box == (0, 0, 64, 64)


def test_random_crops_are_resampled_as_pillow_does() -> None:
    image = photo(5)
    for seed in range(20):
        box = CROP.geometry(image.height, image.width, (rng := np.random.default_rng(seed)).random).box
        expected = by_pillow(image, (16, 16), box)[:, :: -1 if rng.random() < 0.5 else 1]
        assert np.array_equal(one(CROP, saved(image, "PNG"), seed), expected)


def test_large_jpegs_are_decoded_at_a_scale() -> None:
    image = photo(0).resize((1000, 801), Image.Resampling.BICUBIC)
    blob = saved(image)
    for size in (100, 200, 300, 400, 500):
        whole = by_pillow(Image.open(BytesIO(blob)), (size, size)).astype(int)
        found = one(Resize((size, size)), blob).astype(int)
        assert np.abs(found - whole).mean() < 1.5
        scaled = Image.open(BytesIO(blob))
        divisor = next((d for d in (8, 4, 2) if d * size <= 801), 1)
        scaled.draft(None, (1000 // divisor, 801 // divisor))
        assert np.array_equal(found, by_pillow(scaled, (size, size), (0, 0, 1000 / divisor, 801 / divisor)))


@loop_over("mode", ["L", "LA", "RGBA", "P", "CMYK", "I;16"])
def test_every_image_becomes_rgb(mode: str) -> None:
    if mode == "I;16":
        gray = np.asarray(photo(0, "L")).astype(np.uint16)
        blob, expected = saved(Image.fromarray(gray * 256 + 7), "PNG"), np.repeat(gray[..., None], 3, 2)
    else:
        image = photo(0).quantize(50) if mode == "P" else photo(0, mode)
        blob = saved(image, "JPEG" if mode == "CMYK" else "PNG")
        expected = np.asarray(Image.open(BytesIO(blob)).convert("RGB"))
    size = expected.shape[0], expected.shape[1]
    assert np.array_equal(one(Resize(size), blob), expected)


@loop_over(
    "make",
    [
        lambda: Resize(0),
        lambda: CenterCrop((3, 4, 5)),  # type: ignore[arg-type]
        lambda: CenterCrop(10**6),
        lambda: Resize(8, flip=2),
        lambda: Resize(8, layout="chw"),  # type: ignore[arg-type]
        lambda: RandomResizedCrop(8, scale=(0, 1)),
        lambda: RandomResizedCrop(8, ratio=(2, 1)),
        lambda: RandomResizedCrop(8, scale=0.5),  # type: ignore[arg-type]
        lambda: RandomResizedCrop(8, seed=-1),
        lambda: RandomResizedCrop(8, seed=0.5),  # type: ignore[arg-type]
        lambda: RandomResizedCrop(8, max_pixels=0),
        lambda: RandomResizedCrop(8, scale=("a", "b")),  # type: ignore[arg-type]
        lambda: RandomResizedCrop(8, flip=None),  # type: ignore[arg-type]
        lambda: Resize(8, flip="yes"),  # type: ignore[arg-type]
        lambda: Resize(8, flip=float("nan")),
    ],
)
def test_arguments_out_of_range(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_an_error_names_the_argument() -> None:
    with pytest.raises(ValueError, match="resize: expected one whole number"):
        CenterCrop(8, resize="256")  # type: ignore[arg-type]
    assert Resize(8, flip=np.float64(0.5)).flip == 0.5


# ---- in a Loader


def epoch(loader: Loader) -> dict[int, Any]:
    return {int(p): image for batch in loader for p, image in zip(batch.positions, batch["image"], strict=True)}


def same(found: dict[int, Any], expected: dict[int, Any]) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[p], expected[p]) for p in expected)


def test_a_batch_is_one_array(source: Any) -> None:
    loader = Loader(source, 5, decode=DECODE)
    batches = list(loader)
    assert [batch["image"].shape for batch in batches] == [(5, 16, 16, 3)] * 4 + [(3, 16, 16, 3)]
    assert all(batch["image"].dtype == np.uint8 for batch in batches)
    assert sorted(label for batch in batches for label in batch["label"]) == list(range(N))
    assert not same(epoch(loader), epoch(Loader(source, 5, decode=DECODE)))  # another epoch has other crops


def test_crops_depend_on_seed_and_position_alone(source: Any) -> None:
    expected = epoch(Loader(source, 5, decode=DECODE))
    assert same(epoch(Loader(source, 7, workers=0, decode=DECODE)), expected)
    assert same(epoch(Loader(source, 3, workers=3, transform=lambda record: record, decode=DECODE)), expected)
    assert not same(epoch(Loader(source, 5, seed=1, decode=DECODE)), expected)
    ranks = [epoch(Loader(source, 4, rank=rank, world_size=3, decode=DECODE)) for rank in range(3)]
    assert same(ranks[0] | ranks[1] | ranks[2], expected)


@pytest.mark.parametrize("stop", range(5))
def test_resume_is_exact_on_other_ranks_and_workers(source: Any, stop: int) -> None:
    whole = epoch(Loader(source, 5, decode=DECODE))
    first = Loader(source, 5, decode=DECODE)
    iterator = iter(first)
    for _ in range(stop):
        next(iterator)
    state = first.state_dict()
    resumed = [Loader(source, 3, rank=rank, world_size=2, workers=rank, decode=DECODE) for rank in range(2)]
    for loader in resumed:
        loader.load_state_dict(state)
    found = epoch(resumed[0]) | epoch(resumed[1])
    assert same(found, {p: image for p, image in whole.items() if p >= state["position"]})


def test_worker_processes_give_the_same(source: Any) -> None:
    expected = epoch(Loader(source, 5, decode=DECODE))
    with Loader(source, 5, worker_type="process", workers=1, decode=DECODE) as loader:
        assert same(epoch(loader), expected)


def test_equal_operations_crop_two_fields_alike(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.ffr", "ffrecord", spec={"image": "png", "mask": "png"}) as writer:
        for number in range(6):
            writer.append({"image": saved(photo(number), "PNG"), "mask": saved(photo(number), "PNG")})
    source = dataformats.open(tmp_path / "a.ffr")
    batch = next(iter(Loader(source, 6, decode={"image": CROP, "mask": CROP})))
    assert np.array_equal(batch["image"], batch["mask"])
    read = source.read(range(6), decode={"image": CROP, "mask": CROP})
    assert np.array_equal(read["image"], read["mask"])


def test_tensors_and_channels_first(source: Any) -> None:
    torch = pytest.importorskip("torch")
    decode = {"image": RandomResizedCrop(16, layout="channels_first")}
    batch = next(iter(Loader(source, 5, decode=decode, to="torch")))
    assert batch["image"].shape == (5, 3, 16, 16)
    assert batch["image"].dtype == torch.uint8


def test_views_mixtures_and_other_sources(source: Any, tmp_path: Path) -> None:
    other = dataformats.open(write(tmp_path / "b.ffr", "ffrecord"))
    sources = {
        "select": source.select("image"),
        "take": source[3:9],
        "concat": dataformats.concat([source, other]),
        "map": source.with_spec(dataformats.Spec({"label": "int64", "image": "bytes"})).map(lambda record: record),
        "mixture": dataformats.mix({"a": source, "b": other}),
        "list": [{"image": saved(photo(number)), "label": number} for number in range(9)],
        "pickled": pickle.loads(pickle.dumps(source)),
    }
    for name, one_source in sources.items():
        batch = next(iter(Loader(one_source, 5, decode=DECODE)))
        assert batch["image"].shape == (5, 16, 16, 3), name


def test_a_mixture_of_images_of_different_sizes(source: Any) -> None:
    mixture = dataformats.mix({"a": source[:1], "b": source[1:2]}, until=2)  # one size each
    loader = Loader(mixture, 2, workers=0, decode={"image": Resize(20)}, collate=lambda records: records)
    sizes = {record["image"].shape for record in next(iter(loader))}
    assert sizes == {image.shape for image in source.read([0, 1], decode={"image": Resize(20)})["image"]}
    assert len(sizes) == 2


def test_a_field_without_one_value_of_bytes_is_refused(source: Any) -> None:
    with pytest.raises(UnknownNameError, match="imgae"):
        Loader(source, 5, decode={"imgae": CROP})
    with pytest.raises(SpecError, match="found the type int64"):
        Loader(source, 5, decode={"label": CROP})
    with pytest.raises(TypeError, match="expected an operation"):
        Loader(source, 5, decode={"image": lambda blob: blob})  # type: ignore[dict-item]
    for decode in ([("image", CROP)], CROP):
        with pytest.raises(TypeError, match="decode: expected a dict of field to operation, found"):
            Loader(source, 1, decode=decode)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="decode: expected a dict of field to operation, found"):
            source.read([0], decode=decode)
    for value, found in ((3, "a int"), (np.zeros((4, 4, 3)), "a ndarray"), (None, "a record without it")):
        with pytest.raises(SpecError, match=f"decodes bytes, one value for each record; found {found}"):
            next(iter(Loader([{"image": value}], 1, workers=0, decode=DECODE)))


# ---- in read


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "granular"])
@loop_over("kind", ["jpg", "png", "webp", "bytes"])
def test_formats_and_types(format: str, kind: str, tmp_path: Path) -> None:
    source = dataformats.open(write(tmp_path / "x", format, kind, n=4))
    batch = source.read([2, 0, 2], decode={"image": CenterCrop(24, resize=32)})
    assert batch["image"].shape == (3, 24, 24, 3)
    assert batch["label"].tolist() == [2, 0, 2]
    assert np.array_equal(batch["image"][0], batch["image"][2])
    expected = source.with_spec(source.spec).read([2])["image"][0]
    if kind != "bytes":
        assert source.read([2])["image"][0].shape == expected.shape  # other reads decode as before


def test_single_values(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.ffr", "ffrecord", payload="jpg") as writer:
        writer.extend(saved(photo(number)) for number in range(5))
    source = dataformats.open(tmp_path / "a.ffr")
    assert source.read([1, 4], decode={"value": CROP})["value"].shape == (2, 16, 16, 3)
    assert next(iter(Loader(source, 5, decode={"value": CROP})))["value"].shape == (5, 16, 16, 3)


def test_random_numbers_of_read_depend_on_seed_and_index(source: Any) -> None:
    first = source.read([4, 9], decode=DECODE)["image"]
    assert np.array_equal(source.read([9, 4], decode=DECODE)["image"], first[::-1])
    assert np.array_equal(source.read([4, 9], ["image"], decode=DECODE)["image"], first)
    assert not np.array_equal(source.read([4, 9], decode={"image": RandomResizedCrop(16, flip=0.5, seed=1)}), first)


def test_results_of_different_sizes_are_a_list(source: Any) -> None:
    column = source.read([0, 1, 2], decode={"image": Resize(20)})["image"]
    assert [image.shape[0] for image in column] == [20] * 3
    assert isinstance(column, list)
    assert isinstance(source.read([0, 0], decode={"image": Resize(20)})["image"], StackedList)  # equal sizes, too
    assert source.read([], decode=DECODE)["image"].shape == (0, 16, 16, 3)


# ---- damage


TRUNCATED = saved(photo(7))[:-300]


@pytest.fixture
def damaged(tmp_path: Path) -> dataformats.RecordSource:
    return dataformats.open(write(tmp_path / "d.tfrecord", at_7=TRUNCATED, at_11=b"\xff\xd8\xffno image"))


def test_damaged_images_raise_with_file_and_record(damaged: Any) -> None:
    with pytest.raises(CodecError, match=r"RandomResizedCrop.*truncated") as caught:
        damaged.read([3, 7, 11], decode=DECODE)
    assert (caught.value.index, caught.value.field) == (7, "image")
    assert str(caught.value.path).endswith("d.tfrecord")
    with pytest.raises(CodecError, match=r"d\.tfrecord"):
        list(Loader(damaged, 5, decode=DECODE))


def test_damaged_images_are_omitted(damaged: Any) -> None:
    batch = damaged.read([3, 7, 11, 5], on_corrupt="omit", decode=DECODE)
    assert batch.indices.tolist() == [3, 5]
    assert batch["label"].tolist() == [3, 5]
    assert list(batch.failed) == [7, 11]
    sound = damaged.read([3, 5], decode=DECODE)["image"]
    assert np.array_equal(batch["image"], sound)


class Unlucky(FieldOperation):
    """Fails by chance, and returns the number of bytes else."""

    name = "Unlucky"

    def decode_batch(self, blobs: Any, generator: Any) -> np.ndarray:
        if any(generator(row).random() < 0.3 for row in range(len(blobs))):
            raise ValueError("bad luck")
        return blobs.lengths.copy()  # type: ignore[no-any-return]


def test_failing_record_is_omitted_at_any_place_in_a_batch(source: Any) -> None:
    mixture = dataformats.mix({"few": source[:4], "many": source[4:]}, weights={"few": 3, "many": 1}, until=16)
    loader = Loader(mixture, 16, workers=0, decode={"image": Unlucky()}, on_corrupt="omit")
    (batch,) = loader
    place = loader.locate(batch.positions)
    assert 0 < len(batch.positions) < 16
    assert batch["label"].tolist() == (place.record + 4 * place.component).tolist()


def test_damaged_images_are_searched_on_all_processors(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "N_THREADS", 2)
    monkeypatch.setattr(threads, "_POOL", threads.ThreadPool(2, "test"))
    together = threading.Barrier(2, timeout=240)  # breaks unless two rows are decoded at once

    class Alone(FieldOperation):
        name = "Alone"

        def decode_batch(self, blobs: Any, generator: Any) -> np.ndarray:
            if len(blobs) > 1:
                raise ValueError("only one at a time")
            together.wait()
            return np.zeros(1)

    with pytest.raises(ValueError, match="only one"):
        source.read([0, 1], decode={"image": Alone()})


def test_damaged_images_are_skipped_and_others_keep_their_crops(damaged: Any, source: Any) -> None:
    expected = epoch(Loader(source, 5, decode=DECODE))
    loader = Loader(damaged, 5, on_corrupt="quarantine", decode=DECODE)
    found = epoch(loader)
    assert sorted(entry.index for entry in loader.quarantined) == [7, 11]
    assert len(found) == N - 2
    assert same(found, {p: expected[p] for p in found})
    assert len(epoch(Loader(damaged, 5, skip=loader.quarantined, decode=DECODE))) == N - 2


def test_oversized_images_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    blob = bytearray(saved(photo(0)))
    at = blob.index(b"\xff\xc0")
    blob[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    source = dataformats.open(write(tmp_path / "o.tfrecord", n=2, at_1=bytes(blob)))
    with pytest.raises(CodecError, match="pixels, found 65535 x 65535"):
        source.read([1], decode=DECODE)


def test_thin_images_are_not_resized_to_huge_ones() -> None:
    blob = saved(Image.new("RGB", (30_000, 1)), "PNG")
    with pytest.raises(ValueError, match="would be resized"):
        one(Resize(256), blob)


def test_tall_images_are_not_resampled() -> None:
    with pytest.raises(ValueError, match="the image of 1 x 70000 would be resized to 8 x 8: expected at most 65536 "):
        one(Resize((8, 8)), saved(Image.new("RGB", (1, 70_000)), "PNG"))


@loop_over("kind", ["JPEG", "PNG", "WEBP"])
def test_another_limit_of_pixels(kind: str) -> None:
    blob, n_pixels = saved(photo(0), kind), photo(0).width * photo(0).height
    assert one(CenterCrop(8, max_pixels=n_pixels), blob).shape == (8, 8, 3)
    assert one(Resize((90, 90), max_pixels=n_pixels), blob).shape == (90, 90, 3)  # the result may be larger
    with pytest.raises(ValueError, match=r"at most 2399 pixels, found 60 x 40\. .* max_pixels= to an operation"):
        one(RandomResizedCrop(8, max_pixels=n_pixels - 1), blob)


def test_other_bytes_than_images() -> None:
    with pytest.raises(ValueError, match="expected the bytes of a JPEG, PNG or WebP, found b'GIF89a'"):
        one(Resize(8), b"GIF89a")
