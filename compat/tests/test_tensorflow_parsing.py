"""`dataformats_compat.tensorflow`: records are written and parsed as TensorFlow documents it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
import dataformats_compat.tensorflow as tf
from dataformats_compat.tensorflow.compat import v1


def feature(values: Any) -> Any:
    values = list(values)
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features: Any) -> bytes:
    message = tf.train.Example(
        features=tf.train.Features(feature={name: feature(values) for name, values in features.items()})
    )
    blob: bytes = message.SerializeToString()
    assert tf.train.Example.FromString(blob) == message
    return blob


def sequence(context: dict[str, Any], **lists: Any) -> bytes:
    steps = {name: tf.train.FeatureList(feature=map(feature, values)) for name, values in lists.items()}
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={name: feature(values) for name, values in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list=steps),
    )
    blob: bytes = message.SerializeToString()
    return blob


def plain(value: Any) -> Any:
    """Return values and their dtypes."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, tf.SparseTensor):
        return ("sparse", value.indices.tolist(), value.values.tolist(), value.dense_shape.tolist())
    if isinstance(value, tf.RaggedTensor):
        return ("ragged", value.to_list(), value.row_splits.dtype.name)
    if isinstance(value, bytes):
        return value
    return (np.asarray(value).dtype.name, value.shape, value.tolist())


FEATURES = {
    "one": tf.io.FixedLenFeature([], tf.int64),
    "grid": tf.io.FixedLenFeature([2, 2], tf.float32, default_value=[[0.0, 1.0], [2.0, 3.0]]),
    "name": tf.io.FixedLenFeature([], tf.string, "none"),
    "many": tf.io.VarLenFeature(tf.int64),
    "words": tf.io.VarLenFeature(tf.string),
    "pairs": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-1),
    "rows": tf.io.RaggedFeature(tf.float32),
}
RECORDS = [
    example(one=[7], grid=[1.0, 2.0, 3.0, 4.0], name=[b"cat"], many=[3, 4], words=[b"a", b""], pairs=[1, 2, 3, 4]),
    example(one=[8], rows=[0.5, 1.5], words=[b"b"]),
]


def test_a_batch() -> None:
    assert plain(tf.io.parse_example(RECORDS, FEATURES)) == {
        "many": ("sparse", [[0, 0], [0, 1]], [3, 4], [2, 2]),
        "words": ("sparse", [[0, 0], [0, 1], [1, 0]], [b"a", b"", b"b"], [2, 2]),
        "grid": ("float32", (2, 2, 2), [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [2.0, 3.0]]]),
        "name": ("object", (2,), [b"cat", b"none"]),
        "one": ("int64", (2,), [7, 8]),
        "pairs": ("int64", (2, 2, 2), [[[1, 2], [3, 4]], [[-1, -1], [-1, -1]]]),
        "rows": ("ragged", [[], [0.5, 1.5]], "int32"),
    }


@pytest.mark.parametrize("left_out", [(), ("words",)])  # one native call reads records without `words`
def test_one_record(left_out: tuple[str, ...]) -> None:
    features = {name: kind for name, kind in FEATURES.items() if name not in left_out}
    found = [plain(tf.io.parse_single_example(record, features)) for record in RECORDS]
    for name in left_out:
        found = [{name: ..., **record} for record in found]
    words = [("sparse", [[0], [1]], [b"a", b""], [2]), ("sparse", [[0]], [b"b"], [1])]
    assert found == [
        {
            "many": ("sparse", [[0], [1]], [3, 4], [2]),
            "words": ... if left_out else words[0],
            "grid": ("float32", (2, 2), [[1.0, 2.0], [3.0, 4.0]]),
            "name": b"cat",
            "one": ("int64", (), 7),
            "pairs": ("int64", (2, 2), [[1, 2], [3, 4]]),
            "rows": ("float32", (0,), []),
        },
        {
            "many": ("sparse", [], [], [0]),
            "words": ... if left_out else words[1],
            "grid": ("float32", (2, 2), [[0.0, 1.0], [2.0, 3.0]]),
            "name": b"none",
            "one": ("int64", (), 8),
            "pairs": ("int64", (0, 2), []),
            "rows": ("float32", (2,), [0.5, 1.5]),
        },
    ]


def test_a_default_string_is_plain_bytes() -> None:
    found = tf.io.parse_single_example(b"", {"a": tf.io.FixedLenFeature([], tf.string, "none")})["a"]
    assert (found, isinstance(found, np.generic)) == (b"none", False)


def test_default_values_are_not_shared() -> None:
    features = {"a": tf.io.FixedLenFeature([2], tf.int64, default_value=[1, 2])}
    tf.io.parse_single_example(b"", features)["a"][:] = 9
    assert tf.io.parse_single_example(b"", features)["a"].tolist() == [1, 2]


PARTITIONS = tf.io.RaggedFeature


@pytest.mark.parametrize(
    ("partitions", "numbers", "rows"),
    [
        ([PARTITIONS.RowLengths("n")], [2, 0, 1], [[1, 2], [], [3]]),
        ([PARTITIONS.RowSplits("n")], [0, 1, 3], [[1], [2, 3]]),
        ([PARTITIONS.RowStarts("n")], [0, 1], [[1], [2, 3]]),
        ([PARTITIONS.RowLimits("n")], [1, 1, 3], [[1], [], [2, 3]]),
        ([PARTITIONS.ValueRowIds("n")], [0, 0, 2], [[1, 2], [], [3]]),
        ([PARTITIONS.UniformRowLength(3)], [], [[1, 2, 3]]),
        ([PARTITIONS.UniformRowLength(1), PARTITIONS.RowLengths("n")], [2, 1], [[[1, 2]], [[3]]]),
    ],
)
def test_partitions(partitions: list[Any], numbers: list[int], rows: list[Any]) -> None:
    features = {"r": tf.io.RaggedFeature(tf.int64, "v", partitions, tf.int64)}
    record = example(v=[1, 2, 3], n=numbers)
    found = tf.io.parse_single_example(record, features)["r"]  # dense, if the rows are uniform
    assert (found.tolist() if isinstance(found, tf.Tensor) else found.to_list()) == rows
    assert tf.io.parse_example([record, record], features)["r"].to_list() == [rows, rows]


def test_partitions_must_fit() -> None:
    features = {"r": tf.io.RaggedFeature(tf.int64, "v", [PARTITIONS.RowLengths("n")])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="record 1, field 'r': expected rows that divide 3 values"):
        tf.io.parse_example([example(v=[1], n=[1]), example(v=[1, 2, 3], n=[5])], features)


@pytest.mark.parametrize(
    ("kind", "record", "message"),
    [
        (tf.io.FixedLenFeature([], tf.int64), example(), "expected tf.int64 of shape \\(\\), found nothing. Check"),
        (tf.io.FixedLenFeature([], tf.int64), example(a=[1, 2]), "expected 1 values for the shape \\(\\), found 2"),
        (tf.io.FixedLenFeature([], tf.int64), example(a=[1.5]), "expected tf.int64 values, found tf.float32 values"),
        (tf.io.FixedLenFeature([], tf.int64), example(a=[b"12345678"]), "tf.int64 values, found tf.string values"),
        (tf.io.VarLenFeature(tf.string), example(a=[1]), "expected tf.string values, found tf.int64 values"),
        (tf.io.FixedLenSequenceFeature([2], tf.int64, True), example(a=[1]), "a multiple of 2 values"),
        (tf.io.RaggedFeature(tf.float32), example(a=[1]), "expected tf.float32 values"),
        (tf.io.FixedLenFeature([], tf.int64), b"\xff", "does not parse"),
    ],
)
def test_mismatched_record_raises_invalid_argument(kind: Any, record: bytes, message: str) -> None:
    good = example(a=[b"x"] if kind.dtype == tf.string else [1.0, 2.0] if kind.dtype == tf.float32 else [1])
    good = example(a=[1, 2]) if isinstance(kind, tf.io.FixedLenSequenceFeature) else good
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as alone:
        tf.io.parse_single_example(record, {"a": kind})
    assert alone.value.index is None
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as batch:
        tf.io.parse_example([good, record], {"a": kind}, example_names=["x", b"y"])
    assert (batch.value.index, batch.value.path) == (1, "y")


SPARSE = tf.io.SparseFeature(["x", "y"], "v", tf.string, [4, 2])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tf.io.FixedLenFeature([None], tf.int64), "known sizes"),
        (tf.io.FixedLenFeature([], tf.int32), "expected tf.int64, tf.float32 or tf.string"),
        (tf.io.FixedLenFeature([], None), "expected a dtype, found None"),
        (tf.io.FixedLenFeature([2], tf.int64, 1), "default_value of shape \\(2,\\)"),
        (tf.io.FixedLenSequenceFeature([], tf.int64), "allow_missing=True"),
        (tf.io.FixedLenSequenceFeature([0], tf.int64, True), "at least one value"),
        (tf.int64, "expected FixedLenFeature"),
        (SPARSE._replace(size=4), "a size for each of"),
        (SPARSE._replace(value_key=""), "an index_key and a value_key"),
    ],
)
def test_invalid_feature_configuration_raises(kind: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.io.parse_example([], {"a": kind})


def test_values_at_stored_indices() -> None:
    records = [example(x=[3, 1], y=[0, 1], v=[b"a", b"b"]), example(), example(x=[1], y=[0], v=[b"c"])]
    found = tf.io.parse_example(records, {"s": SPARSE, "y": tf.io.VarLenFeature(tf.int64)})
    assert plain(found["s"]) == ("sparse", [[0, 1, 1], [0, 3, 0], [2, 1, 0]], [b"b", b"a", b"c"], [3, 4, 2])
    assert list(found) == ["y", "s"]
    one = tf.io.parse_single_example(records[0], {"s": SPARSE._replace(already_sorted=True)})
    assert plain(one["s"]) == ("sparse", [[3, 0], [1, 1]], [b"a", b"b"], [4, 2])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"x": [1], "v": [b"a"]}, "expected 1 indices in 'y', one for each value, found 0"),
        ({"x": [1, 2], "y": [0, 2], "v": [b"a", b"b"]}, r"indices in 'y' within \[0, 2\), found 2"),
        ({"x": [1.5], "y": [0], "v": [b"a"]}, "expected tf.int64 values, found tf.float32"),
    ],
)
def test_indices_must_fit(features: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as error:
        tf.io.parse_example([example(), example(**features)], {"s": SPARSE})
    assert error.value.index == 1


def test_an_empty_batch() -> None:
    assert plain(tf.io.parse_example(np.array([], object), {"a": FEATURES["grid"], "b": FEATURES["many"]})) == {
        "b": ("sparse", [], [], [0, 0]),
        "a": ("float32", (0, 2, 2), []),
    }


def test_sequences() -> None:
    records = [
        sequence({"id": [1]}, frames=[[1.0, 2.0], [3.0, 4.0]], words=[[b"a"], [b"d"], [b"b", b"c"]]),
        sequence({"id": [2]}, frames=[[5.0, 6.0]]),
    ]
    context = {"id": tf.io.FixedLenFeature([], tf.int64)}
    lists = {"frames": tf.io.FixedLenSequenceFeature([2], tf.float32), "words": tf.io.VarLenFeature(tf.string)}
    found = tf.io.parse_single_sequence_example(records[0], context, lists)
    assert plain(dict(enumerate(found))) == {
        0: {"id": ("int64", (), 1)},
        1: {
            "words": ("sparse", [[0, 0], [1, 0], [2, 0], [2, 1]], [b"a", b"d", b"b", b"c"], [3, 2]),
            "frames": ("float32", (2, 2), [[1.0, 2.0], [3.0, 4.0]]),
        },
    }
    lists["words"] = tf.io.RaggedFeature(tf.string)
    values, columns, lengths = tf.io.parse_sequence_example(records, context, lists)
    assert (values["id"].tolist(), lengths["frames"].tolist()) == ([1, 2], [2, 1])
    assert columns["frames"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert columns["words"].to_list() == [[[b"a"], [b"d"], [b"b", b"c"]], []]
    with pytest.raises(tf.errors.InvalidArgumentError, match="record 1, field 'words': expected a feature list"):
        tf.io.parse_sequence_example(records, {}, {"words": tf.io.FixedLenSequenceFeature([], tf.string, False)})


# ---- files


@pytest.mark.parametrize("options", [None, "GZIP", "ZLIB", "", tf.io.TFRecordOptions("GZIP"), 2])
def test_write_and_read(tmp_path: Path, options: Any) -> None:
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path), options) as writer:
        writer.write(b"one")
        writer.flush()
        assert next(tf.python_io.tf_record_iterator(path)) == b"one"  # it grows under its name
        writer.write(b"")
    with pytest.raises(RuntimeError, match="closed"):
        writer.write(b"two")
    assert [*tf.python_io.tf_record_iterator(path)] == [b"one", b""] == [*v1.python_io.tf_record_iterator(str(path))]
    assert [*dataformats.open(path, format="tfrecord", payload="bytes")] == [b"one", b""]
    assert [one.name for one in tmp_path.iterdir()] == ["records"]  # no file more, which a glob would find


def test_dropped_writer_keeps_its_records(tmp_path: Path) -> None:
    writer = tf.io.TFRecordWriter(tmp_path / "a")
    writer.write(b"one")
    del writer
    assert [*tf.python_io.tf_record_iterator(tmp_path / "a")] == [b"one"]


def test_errors_of_files(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.data.TFRecordDataset([str(tmp_path / "a")]))
    with pytest.raises(ValueError, match="compression_type: expected"):
        tf.io.TFRecordOptions("LZ4")
    path = tmp_path / "b"
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(3):
            writer.write(bytes([number] * 9))
    blob = bytearray(path.read_bytes())
    blob[-5] ^= 1
    path.write_bytes(blob)
    iterator = tf.data.TFRecordDataset(path).as_numpy_iterator()
    assert [next(iterator), next(iterator)] == [bytes(9), b"\x01" * 9]
    with pytest.raises(tf.errors.DataLossError, match="checksum"):
        next(iterator)


# ---- arrays in bytes


@pytest.mark.parametrize("value", [3, 2.5, "text", [[1, 2]], ["a", "bc"], np.zeros((0, 2), np.uint16), True, 2j])
def test_tensors_as_bytes(value: Any) -> None:
    array = np.asarray(tf.constant(value) if not isinstance(value, str) else np.array(value.encode(), object))
    found = tf.io.parse_tensor(tf.io.serialize_tensor(value), array.dtype)
    assert (np.asarray(found, array.dtype).tolist(), np.shape(found)) == (array.tolist(), array.shape)


def test_tensors_as_bytes_are_tensors() -> None:
    found = tf.io.serialize_tensor([1])
    assert (found.numpy(), found.shape, type(found.numpy())) == (bytes(found), (), bytes)


def test_tensors_of_lists_of_values() -> None:
    # dtype int32 (3), shape [2, 2], int_val 5: the last value stands for the rest.
    blob = b"\x08\x03\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02\x3a\x01\x05"
    assert tf.io.parse_tensor(blob, tf.int32).tolist() == [[5, 5], [5, 5]]
    for bad, kind in (
        (blob, tf.int64),
        (blob[:-1], tf.int32),
        (b"\x08\x03\x22\x04aaaa\x12\x04\x12\x02\x08\x02", "int32"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.io.parse_tensor(bad, kind)


def test_raw_numbers() -> None:
    assert tf.io.decode_raw(b"\1\0\2\0", tf.uint16).tolist() == [1, 2]
    assert tf.io.decode_raw([b"\1\0", b"\2\0"], tf.int16, little_endian=False).tolist() == [[256], [512]]
    assert tf.io.decode_raw([b"\1\2\3", b"\4"], tf.uint8, fixed_length=2).tolist() == [[1, 2], [4, 0]]
    for blobs in (b"abc", [b"ab", b"abcd"]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.io.decode_raw(blobs, tf.int16)


# ---- names


def test_dtypes() -> None:
    assert (tf.float32, np.dtype("int64"), tf.string) == (np.float32, tf.int64, tf.as_dtype(bytes))
    assert (tf.uint8.max, tf.int8.min, tf.float32.is_floating, tf.half.name) == (255, -128, True, "float16")
    assert np.arange(2).astype(tf.float32).dtype == tf.float32
    assert {tf.int32: 1}[tf.as_dtype(int)] == 1
    assert tf.cast([1.9, -1.9], tf.int32).tolist() == [1, -1]
    with pytest.raises(TypeError, match="as a dtype"):
        tf.as_dtype("resource")


@pytest.mark.parametrize("module", [tf, v1])
def test_missing_tensorflow_name_raises(module: Any) -> None:
    with pytest.raises(AttributeError, match=r"tf\.keras is not in"):
        _ = module.keras
    assert module.data.TFRecordDataset is tf.data.TFRecordDataset


def test_names_of_version_1() -> None:
    features = {"a": v1.FixedLenFeature([], v1.int64), "b": v1.VarLenFeature(v1.int64)}
    found = v1.parse_single_example(example(a=[1], b=[2]), features)
    assert (found["a"], v1.sparse_tensor_to_dense(found["b"]).tolist()) == (1, [2])


@pytest.mark.parametrize(
    "name", ["int8", "uint16", "int32", "int64", "float16", "float32", "float64", "bool", "complex64"]
)
def test_numpy_dtypes_are_known(name: str) -> None:
    assert tf.as_dtype(np.dtype(name)) is tf.as_dtype(name) is tf.as_dtype(np.dtype(name).type)
    assert tf.as_dtype(tf.as_dtype(name).as_datatype_enum) is tf.as_dtype(name)


# ---- configurations of features


@pytest.mark.parametrize(
    ("shape", "shown", "value"),
    [
        ([2, 3], "[2, 3]", [[0, 1, 2], [3, 4, 5]]),
        ((2, 3), "(2, 3)", [[0, 1, 2], [3, 4, 5]]),
        (6, "6", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_features_keep_the_shape_as_it_was_given(shape: Any, shown: str, value: Any) -> None:
    feature = tf.io.FixedLenFeature(shape, tf.int64)
    assert repr(feature) == f"FixedLenFeature(shape={shown}, dtype=tf.int64, default_value=None)"
    stored = tf.train.Feature(int64_list=tf.train.Int64List(value=range(6)))
    record = tf.train.Example(features=tf.train.Features(feature={"a": stored})).SerializeToString()
    assert tf.io.parse_single_example(record, {"a": feature})["a"].tolist() == value


def test_a_program_may_change_the_shape_of_a_feature() -> None:
    stored = tf.train.Feature(int64_list=tf.train.Int64List(value=range(4)))
    record = tf.train.Example(features=tf.train.Features(feature={"a": stored})).SerializeToString()
    features = {"a": tf.io.FixedLenFeature([4], tf.int64)}
    assert tf.io.parse_single_example(record, features)["a"].shape == (4,)
    features["a"].shape[:] = [2, 2]
    assert tf.io.parse_single_example(record, features)["a"].shape == (2, 2)
