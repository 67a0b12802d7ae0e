"""`dataformats_compat.granular`: blobs, orders and positions, which other files and resumed runs depend on."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from dataformats.errors import SpecError
from dataformats.loaders.prefetcher import FixedTask
from dataformats_compat import granular
from dataformats_compat.granular import formats, sources
from dataformats_compat.granular.loader import SharedArray, _Rows

TEN = [{"n": n} for n in range(10)]


def drawn(source: Any, steps: int = 10) -> list[int]:
    return [source(step)["n"] for step in range(steps)]


# ---- orders, as the original gives them


def test_orders() -> None:
    assert drawn(sources.Epochs(TEN)) == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]
    assert drawn(sources.Epochs(TEN, seed=7)) == drawn(sources.Epochs(TEN))
    assert drawn(sources.Epochs(TEN, length=3, shuffle=False), 4) == [0, 1, 2, 0]
    assert sorted(sources.Epochs(TEN)(step)["n"] for step in range(30, 40)) == list(range(10))
    assert drawn(sources.Sample(TEN, seed=1), 8) == [4, 5, 6, 4, 6, 8, 7, 7]
    assert drawn(sources.Truncate(TEN, 3), 5) == [0, 1, 2, 0, 1]
    assert drawn(sources.Truncate(TEN, 30, length=2), 3) == [0, 1, 0]
    assert drawn(sources.Interleave([TEN, TEN[5:]]), 6) == [0, 5, 1, 6, 2, 7]
    constant = [lambda step, choice=choice: {"n": choice} for choice in range(2)]
    assert drawn(sources.Mix(constant, [1, 3])) == [1, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    assert sources.Mix([lambda step: step, lambda step: step], [1, 1])(123) == 123


def test_transforms_get_their_seed() -> None:
    source = sources.Transform(TEN, lambda point, seed: (point["n"], seed), seed=5)
    assert source(3) == (3, [5, 3])


def test_wrong_sources() -> None:
    with pytest.raises(TypeError, match="found int"):
        sources.convert(5)
    with pytest.raises(AssertionError, match="at least one record"):
        sources.Epochs([])
    for weights in ([1], [0, 0], [1, -1]):
        with pytest.raises(AssertionError, match="a weight >= 0 for each of 2 sources"):
            sources.Mix([TEN, TEN], weights)


def test_an_epoch_resumes_after_pickling() -> None:
    source = sources.Epochs(TEN)
    drawn(source, 13)
    assert pickle.loads(pickle.dumps(source))(13) == source(13)


# ---- blobs


@pytest.mark.parametrize(
    ("value", "blob"),
    [(0, "00"), (127, "7f"), (256, "0001"), (128, "8000"), (-1, "ff"), (2**63, "000000000000008000"), (32767, "ff7f")],
)
def test_integers_have_as_few_bytes_as_fit(value: int, blob: str) -> None:
    assert granular.encoders["int"](value).hex() == blob
    assert granular.decoders["int"](bytes.fromhex(blob)) == value


def test_integers_of_a_size() -> None:
    assert granular.encoders["i64"](-2) == b"\xfe" + 7 * b"\xff"
    assert granular.decoders["u64"](granular.encoders["u64"](2**64 - 1)) == 2**64 - 1
    assert formats.encode_int(300, signed=False, endian="big") == b"\1\x2c"
    with pytest.raises(OverflowError):
        formats.encode_int(300, size=1)
    for wrong in (bytes(7), bytes(9)):
        with pytest.raises(AssertionError, match="expected 8 bytes"):
            granular.decoders["i64"](wrong)
    with pytest.raises(AssertionError, match="at most 16 bytes"):
        granular.decoders["int"](bytes(17))


def test_arrays_and_trees() -> None:
    array = np.arange(6, dtype="<i2").reshape(2, 3)
    assert granular.encoders["array"](array) == b"\x93\xa3<i2\x92\2\3\xc4\x0c" + array.tobytes()
    found = granular.decoders["array"](granular.encoders["array"](array.T))
    assert (found.tolist(), found.flags.writeable) == (array.T.tolist(), False)
    tree = granular.decoders["tree"](granular.encoders["tree"]({"a": (1, array[:, ::2], "x"), "b": [None, 2.5]}))
    np.testing.assert_equal(tree, {"a": [1, array[:, ::2], "x"], "b": [None, 2.5]})
    with pytest.raises(TypeError, match="found set"):
        granular.encoders["tree"]({"a": {1}})


def test_image_codecs_keep_pixels_shape_and_dtype() -> None:
    rgb = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    assert (granular.decoders["png"](granular.encoders["png"](rgb)) == rgb).all()
    assert granular.decoders["jpg"](granular.encoders["jpg"](rgb)).shape == (4, 4, 3)
    bits = rgb[..., 0] > 20
    assert granular.decoders["png"](granular.encoders["png"](bits)).dtype == bool


def test_functions_are_pickled() -> None:
    for functions in (granular.encoders, granular.decoders):
        assert list(functions) == [
            "bytes",
            "utf8",
            "msgpack",
            "int",
            "i64",
            "u64",
            "array",
            "tree",
            "jpg",
            "png",
            "mp4",
            "webm",
        ]
        assert pickle.loads(pickle.dumps(functions)).keys() == functions.keys()


# ---- the loader, without its processes


def test_positions() -> None:
    loader = granular.Loader(TEN, 3, prefetch=2, workers=4, shard_id=1, num_shards=2)
    assert loader.spec == {"n": (np.dtype(np.int64), ())}
    assert (loader.save(), loader.step) == ({"step": 0}, 0)
    loader.load({"step": 12})
    assert (loader.save(), loader.consumed, loader.step) == ({"step": 12}, 12, 12)
    with pytest.raises(AssertionError, match="call iter"):
        next(loader)
    loader.close()
    with pytest.raises(AssertionError, match="found 3, 32, 8, 2 and 2"):
        granular.Loader(TEN, 3, shard_id=2, num_shards=2)


def test_parts_of_a_batch_are_all_of_it() -> None:
    """With more workers than batches ahead, several workers build one batch."""
    points = [{"n": np.array(n, ">i2")} for n in range(10)]
    loader = granular.Loader(points, 3, prefetch=1, workers=2, shard_id=1, num_shards=2)
    found = next(iter(loader))["n"]
    assert (found.tolist(), found.dtype.str) == ([3, 4, 5], ">i2")
    assert loader.save() == {"step": 6}
    loader.close()


def test_rows_of_a_batch_have_one_type() -> None:
    points = [{"n": 1, "text": "ab"}, {"n": np.int8(2), "text": "c"}]
    wrong = [{"n": 1.5, "text": "a"}, {"n": 1, "text": "abc"}, {"n": [1], "text": "a"}]
    loader = granular.Loader([*points, *wrong, {"n": 1}], 2)
    build = _Rows(loader.source, loader.spec)
    batch = build(FixedTask(np.array([0, 1]), np.zeros(0, int)), lambda position: None).batch
    assert {name: array.tolist() for name, array in batch.items()} == {"n": [1, 2], "text": ["ab", "c"]}
    for step in range(2, 6):
        with pytest.raises(SpecError, match=f"step {step}"):
            build(FixedTask(np.array([step]), np.zeros(0, int)), lambda position: None)


def test_shared_arrays() -> None:
    array = SharedArray((2, 3), np.int32)
    pickle.loads(pickle.dumps(array)).array[1] = 5
    assert array.result().tolist() == [[0, 0, 0], [5, 5, 5]]
