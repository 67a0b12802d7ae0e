"""`compat.tensorflow.data`: elements, batches and orders are those of TensorFlow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats.compat.tensorflow as tf
from dataformats.compat.tensorflow.data import AUTOTUNE, Dataset


def listed(dataset: Any) -> list[Any]:
    return [as_list(element) for element in dataset.as_numpy_iterator()]


def as_list(element: Any) -> Any:
    if isinstance(element, tuple):
        return tuple(map(as_list, element))
    if isinstance(element, dict):
        return {name: as_list(value) for name, value in element.items()}
    return element.tolist() if isinstance(element, np.ndarray | np.generic) else element


def up_to(n: int) -> Dataset:
    return Dataset.range(n)


@pytest.mark.parametrize(
    ("dataset", "elements"),
    [
        (Dataset.range(5, 1, -2), [5, 3]),
        (Dataset.from_tensors((1, [2.5], "s")), [(1, [2.5], b"s")]),
        (
            Dataset.from_tensor_slices({"a": [1, 2], "b": (["x", "y"],)}),
            [{"a": 1, "b": (b"x",)}, {"a": 2, "b": (b"y",)}],
        ),
        (up_to(3).map(lambda x: (x, [x, 1])), [(0, [0, 1]), (1, [1, 1]), (2, [2, 1])]),
        (up_to(2).map(lambda x: [x, x]), [(0, 0), (1, 1)]),
        (up_to(3).map(lambda x: (x, x)).map(lambda a, b: {"sum": a + b}), [{"sum": 0}, {"sum": 2}, {"sum": 4}]),
        (up_to(7).filter(lambda x: x % 3 == 0), [0, 3, 6]),
        (up_to(2).repeat(2), [0, 1, 0, 1]),
        (up_to(2).repeat().take(3), [0, 1, 0]),
        (up_to(0).repeat(), []),
        (up_to(5).batch(2), [[0, 1], [2, 3], [4]]),
        (up_to(5).batch(2, drop_remainder=True).batch(2), [[[0, 1], [2, 3]]]),
        (up_to(5).batch(2).unbatch(), [0, 1, 2, 3, 4]),
        (up_to(3).map(tf.range).padded_batch(2), [[[0], [0]], [[0, 1]]]),
        (up_to(3).map(tf.range).padded_batch(3, [3], -1), [[[-1, -1, -1], [0, -1, -1], [0, 1, -1]]]),
        (up_to(9).skip(2).take(5).shard(2, 1), [3, 5]),
        (up_to(2).concatenate(up_to(1)).enumerate(5), [(5, 0), (6, 1), (7, 0)]),
        (Dataset.zip((up_to(2), {"b": up_to(9)})), [(0, {"b": 0}), (1, {"b": 1})]),
        (up_to(4).take_while(lambda x: x < 2).prefetch(AUTOTUNE), [0, 1]),
        (up_to(3).flat_map(lambda x: Dataset.from_tensors(x).repeat(int(x))), [1, 2, 2]),
        (up_to(3).apply(lambda dataset: dataset.batch(3)).with_options(tf.data.Options()), [[0, 1, 2]]),
        (
            Dataset.from_generator(lambda: iter([[1], [2, 3]]), output_types=tf.float32, output_shapes=[None]),
            [[1], [2, 3]],
        ),
        (Dataset.from_generator(range, output_signature=tf.TensorSpec([], tf.int32), args=[2]), [0, 1]),
    ],
)
def test_elements(dataset: Dataset, elements: list[Any]) -> None:
    assert listed(dataset) == elements == listed(dataset)
    if dataset.cardinality() >= 0:
        assert len(dataset) == len(elements)


def test_interleaved_blocks_take_turns() -> None:
    def counted(x: Any) -> Dataset:
        return Dataset.range(10 * x, 10 * x + x)

    # A dataset that ends leaves its place to the next one, in its turn.
    assert listed(up_to(5).interleave(counted, cycle_length=2, block_length=2)) == [
        10,
        20,
        21,
        30,
        31,
        32,
        40,
        41,
        42,
        43,
    ]
    assert listed(up_to(4).interleave(counted, cycle_length=3)) == [10, 20, 30, 21, 31, 32]


def test_dtypes_are_tensorflows() -> None:
    dataset = up_to(1).map(lambda x: (x, 1, 2.5, True, "s", 2**40, np.float64(1)))
    assert [getattr(value, "dtype", bytes) for value in next(dataset.as_numpy_iterator())] == [
        np.int64, np.int32, np.float32, np.bool_, bytes, np.int64, np.float64
    ]  # fmt: skip
    assert next(dataset.batch(1).as_numpy_iterator())[4].dtype == object


def test_iteration_gives_arrays_with_the_methods_of_tensors() -> None:
    number, text = next(iter(up_to(1).map(lambda x: (x, "s"))))
    assert (number.numpy(), type(number.numpy()), text.numpy(), type(text.numpy())) == (0, np.int64, b"s", bytes)
    assert (number == 0, text == b"s", isinstance(number, np.ndarray), isinstance(text, bytes)) == (True,) * 4
    plain = next(up_to(1).map(lambda x: (x, tf.zeros([2]), "s")).batch(1).as_numpy_iterator())
    assert not any(isinstance(value, tf.Tensor) for value in plain)


def test_batches_of_different_shapes_are_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"element 1 is \(1,\)\. Use padded_batch"):
        listed(up_to(2).map(tf.range).batch(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="up to \\[1\\], found \\[2\\]"):
        listed(up_to(3).map(tf.range).padded_batch(3, [1]))


def test_sparse_and_ragged_batches() -> None:
    sparse = up_to(2).map(lambda x: tf.SparseTensor([[x]], [x + 1], [2])).batch(2)
    assert next(iter(sparse)).to_dense().tolist() == [[1, 0], [0, 2]] == listed(sparse)[0]
    ragged = up_to(3).map(lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x), [x])).batch(3)
    assert next(iter(ragged)).to_list() == [[[]], [[0]], [[0, 1]]]
    assert [row.to_dense().tolist() for row in sparse.unbatch()] == [[1, 0], [0, 2]]


# ---- shuffles


def test_shuffles() -> None:
    shuffled = up_to(100).shuffle(10, seed=3)
    first, second = listed(shuffled), listed(shuffled)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert all(number < place + 10 for place, number in enumerate(first))  # not drawn before it was read
    assert listed(up_to(100).shuffle(10, seed=3)) == first
    assert listed(up_to(100).shuffle(10, seed=4)) != first
    kept = up_to(20).shuffle(20, reshuffle_each_iteration=False)
    assert listed(kept) == listed(kept)
    halves = listed(up_to(50).shuffle(50, seed=1).repeat(2))
    assert halves[:50] != halves[50:]
    assert sorted(halves[:50]) == list(range(50))


def test_a_global_seed_repeats_a_program() -> None:
    def program() -> list[Any]:
        tf.random.set_seed(5)
        return [listed(up_to(20).shuffle(20)) for _ in range(2)] + [tf.random.uniform([2]).tolist()]

    first = program()
    assert program() == first
    assert first[0] != first[1]


def test_samples_from_several() -> None:
    mixed = Dataset.sample_from_datasets([up_to(50), up_to(3).repeat()], [0.5, 0.5], seed=1)
    found = listed(mixed.take(60))
    assert sum(number > 2 for number in found) > 5
    assert len(listed(Dataset.sample_from_datasets([up_to(5), up_to(5)]))) == 10


# ---- threads


def test_long_calls_are_made_in_threads_and_keep_their_order() -> None:
    threads: set[int] = set()

    def slow(x: Any) -> Any:
        threads.add(threading.get_ident())
        time.sleep(0.001 * (1 + x % 3))
        return x * 2

    dataset = up_to(40).map(slow, num_parallel_calls=4, deterministic=False)
    assert listed(dataset) == [2 * x for x in range(40)]
    assert len(threads) > 2


@pytest.mark.parametrize("parallel", [None, 3])
def test_an_error_comes_after_the_elements_before_it(parallel: int | None) -> None:
    def failing(x: Any) -> Any:
        time.sleep(0.0005 if parallel else 0)
        if x == 20:
            raise KeyError("x")
        return x

    iterator = up_to(30).map(failing, parallel).prefetch(5).as_numpy_iterator()
    assert [next(iterator) for _ in range(20)] == list(range(20))
    with pytest.raises(KeyError):
        next(iterator)


def test_prefetching_ends_with_the_iteration() -> None:
    before = threading.active_count()
    iterator = up_to(10**9).prefetch(2).as_numpy_iterator()
    assert next(iterator) == 0
    iterator.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() <= before


def test_cache_calls_once() -> None:
    calls: list[int] = []
    cached = up_to(3).map(lambda x: calls.__iadd__([x])[-1]).cache()
    next(cached.as_numpy_iterator())
    assert listed(cached) == listed(cached) == [0, 1, 2]
    assert len(calls) == 4
    with pytest.raises(NotImplementedError):
        up_to(1).cache("file")


# ---- files


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for number, count in enumerate((2, 0, 3)):
        with tf.io.TFRecordWriter(tmp_path / f"{number}.tfrecord") as writer:
            for place in range(count):
                writer.write(b"%d/%d" % (number, place))
    return sorted(map(str, tmp_path.iterdir()))


ONE_BY_ONE = [b"0/0", b"0/1", b"2/0", b"2/1", b"2/2"]
IN_TURN = [b"0/0", b"2/0", b"0/1", b"2/1", b"2/2"]


@pytest.mark.parametrize(
    ("open_", "records"),
    [
        (lambda files: tf.data.TFRecordDataset(files), ONE_BY_ONE),
        (lambda files: tf.data.TFRecordDataset(Dataset.from_tensor_slices(files)), ONE_BY_ONE),
        (lambda files: tf.data.TFRecordDataset(Path(files[0])), ONE_BY_ONE[:2]),
        (lambda files: tf.data.TFRecordDataset(files, num_parallel_reads=3), IN_TURN),
        (lambda files: Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, cycle_length=3), IN_TURN),
        (lambda files: tf.data.TFRecordDataset(tf.io.gfile.glob(files[0][:-10] + "*")), ONE_BY_ONE),
    ],
)
def test_records_of_files(files: list[str], open_: Callable[[Any], Dataset], records: list[bytes]) -> None:
    assert listed(open_(files)) == records


def test_listed_files(files: list[str]) -> None:
    pattern = str(Path(files[0]).parent / "*.tfrecord")
    assert listed(Dataset.list_files(pattern, shuffle=False)) == [name.encode() for name in files]
    assert sorted(listed(Dataset.list_files([pattern], seed=1))) == [name.encode() for name in files]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no file matches"):
        Dataset.list_files(pattern + ".gz")
