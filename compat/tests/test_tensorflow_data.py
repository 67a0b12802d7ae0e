"""`dataformats_compat.tensorflow.data`: elements, batches and orders match TensorFlow."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
import dataformats_compat.tensorflow as tf
from dataformats_compat.tensorflow.data import AUTOTUNE, Dataset


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
        (up_to(4).window(3, 1, drop_remainder=True).flat_map(lambda window: window.batch(3)), [[0, 1, 2], [1, 2, 3]]),
        (up_to(7).window(2, 5, 3).flat_map(lambda window: window.batch(2)), [[0, 3], [5]]),
        (
            Dataset.zip({"a": up_to(3)}).window(2).flat_map(lambda window: window["a"].enumerate()),
            [(0, 0), (1, 1), (0, 2)],
        ),
        (
            up_to(6).group_by_window(lambda x: -(x % 3), lambda key, group: group.batch(2).map(lambda b: (key, b)), 2),
            [(0, [0, 3]), (-1, [1, 4]), (-2, [2, 5])],
        ),
        (up_to(5).group_by_window(lambda x: x % 2, lambda _, group: group, None, lambda key: key + 2), [0, 2, 4, 1, 3]),
        (
            up_to(4).map(tf.range).bucket_by_sequence_length(len, [2], [2, 3]),
            [[[0], [0]], [[0, 1, 0], [0, 1, 2]]],
        ),
        (
            up_to(4)
            .map(lambda x: (tf.range(x), x))
            .bucket_by_sequence_length(
                lambda _, n: n, [1, 4], [1, 2, 1], ([None], []), (-1, 0), pad_to_bucket_boundary=True
            ),
            [([[]], [0]), ([[0, -1, -1], [0, 1, -1]], [1, 2]), ([[0, 1, 2]], [3])],
        ),
        *(
            (
                up_to(5).bucket_by_sequence_length(
                    lambda n: n, [2], [2, 2], no_padding=no_padding, drop_remainder=True
                ),
                [[0, 1], [2, 3]],
            )
            for no_padding in (False, True)
        ),
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
    assert all(number < place + 10 for place, number in enumerate(first))  # no number is drawn before it was read
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
    together = threading.Barrier(2, timeout=240)

    def slow(x: Any) -> Any:
        threads.add(threading.get_ident())
        time.sleep(0.001 * float(1 + x % 3))
        if x in (20, 21):
            together.wait()
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


def test_windows_and_groups_are_validated() -> None:
    for size, shift, stride in ((0, 1, 1), (1, 0, 1), (1, 1, -1)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected a positive number"):
            up_to(3).window(size, shift, stride)
    with pytest.raises(ValueError, match="either window_size or window_size_func"):
        up_to(3).group_by_window(int, lambda _, group: group)
    with pytest.raises(tf.errors.InvalidArgumentError, match="window_size: expected a positive number, found 0"):
        listed(up_to(3).group_by_window(int, lambda _, group: group, 0))
    with pytest.raises(TypeError, match="expected a function that returns a Dataset, found int"):
        listed(up_to(3).group_by_window(int, lambda *_: 1, 1))  # type: ignore[arg-type]  # as a caller may


@pytest.mark.parametrize(
    ("bounds", "sizes", "pad", "shapes", "message"),
    [
        ([2], [1], False, None, "expected 2 bucket_batch_sizes"),
        ([3, 2], [1, 1, 1], False, None, "in ascending order"),
        ([2], [1, 1], True, None, "Pass shapes that have None"),
        ([2], [1, 1], True, [None], r"expected lengths below \[2\]"),
    ],
)
def test_buckets_are_validated(bounds: Any, sizes: Any, pad: bool, shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        listed(up_to(3).map(tf.range).bucket_by_sequence_length(len, bounds, sizes, shapes, None, pad))


def test_cache_calls_once() -> None:
    calls: list[int] = []
    cached = up_to(3).map(lambda x: calls.__iadd__([x])[-1]).cache()
    next(cached.as_numpy_iterator())
    assert listed(cached) == listed(cached) == [0, 1, 2]
    assert len(calls) == 4


def test_a_cache_in_a_file_is_read_in_later_runs(tmp_path: Path) -> None:
    element = {
        "a": (np.float16(1.5), b"x", np.array([[b"y", b""]], object)),
        "b": tf.SparseTensor([[1]], [b"z"], [3]),
        "c": tf.RaggedTensor.from_row_lengths(tf.RaggedTensor.from_row_lengths([1, 2], [2, 0]), [1, 1]),
        "d": np.zeros((0, 2), np.bool_),
        "e": None,
    }

    def fails() -> Any:
        raise AssertionError("the file was not read")

    path = str(tmp_path / "new" / "elements")
    calls: list[int] = []
    written = up_to(3).map(lambda x: (calls.__iadd__([int(x)]), element)[1]).cache(path)
    assert len(listed(written.take(2))) == 2  # incomplete: nothing is kept
    first = list(written)
    assert calls == [0, 1, 0, 1, 2]
    later = list(Dataset.from_generator(fails, output_types=tf.int64).cache(path.encode()))
    assert [repr(one) for one in later] == [repr(one) for one in first]
    assert [type(part) for part in later[0]["a"]] == [type(part) for part in first[0]["a"]]


def test_a_cache_has_one_writer_and_no_other_types(tmp_path: Path) -> None:
    cached = up_to(2).cache(tmp_path / "a")
    first = cached.as_numpy_iterator()
    next(first)
    with pytest.raises(dataformats.TargetInUseError):
        next(cached.as_numpy_iterator())
    Pair = collections.namedtuple("Pair", "a b")  # programs often write it this way
    with pytest.raises(TypeError, match="expected tuples and dicts, found Pair"):
        listed(up_to(1).map(lambda x: Pair(x, x)).cache(tmp_path / "b"))


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
        (lambda files: tf.data.TFRecordDataset(files).cache(files[0] + "c"), ONE_BY_ONE),
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


def test_iterators_of_version_1(files: list[str]) -> None:
    iterator = tf.compat.v1.data.make_one_shot_iterator(up_to(2))
    assert [iterator.get_next().numpy(), up_to(2).make_one_shot_iterator().get_next().numpy()] == [0, 0]
    assert list(tf.compat.v1.io.tf_record_iterator(files[0])) == ONE_BY_ONE[:2]


@pytest.mark.parametrize(
    ("owner", "name", "remedy"),
    [
        (up_to(1), "rebatch", r"tf\.data\.Dataset\.rebatch is not in .* Use unbatch\(\)\.batch\(n\)"),
        (up_to(1), "element_spec", "Look at an element"),
        (tf.data, "TextLineDataset", "from_generator"),
        (tf.data.experimental, "get_single_element", "Use dataset.get_single_element"),
        (tf, "uniqe", r"The nearest name is tf\.unique\."),
        (tf.math, "lgamma", "Values are numpy"),
        (tf, "keras", "use numpy, or import tensorflow beside it"),
    ],
)
def test_missing_names_state_their_replacement(owner: Any, name: str, remedy: str) -> None:
    with pytest.raises(AttributeError, match=remedy):
        getattr(owner, name)


def test_input_context_divides_a_batch() -> None:
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    assert (context.num_input_pipelines, context.input_pipeline_id, context.get_per_replica_batch_size(8)) == (2, 1, 2)
    with pytest.raises(ValueError, match="multiple of 4, found 7"):
        context.get_per_replica_batch_size(7)
