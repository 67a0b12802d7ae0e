"""Runs the `tfrecord` package and the drop-in module on the same calls; a program of its own.

The `tfrecord` package registers TensorFlow's messages, so TensorFlow could not be imported in this process any more.
"""

from __future__ import annotations

import importlib
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import dataformats_compat.tfrecord as ours

tfrecord: Any = importlib.import_module("tfrecord")  # untyped
BOTH = (tfrecord, ours)
DATA = [
    {"a": (3, "int"), "b": (0.1, "float"), "c": (b"x", "byte")},
    {"a": ([1, -2, 2**62], "int"), "b": ([1, 2.5], "float"), "c": ([b"x", b"yz", b""], "byte")},
    {"a": (np.arange(5, dtype=np.int16), "int"), "b": (np.arange(3) / 7, "float"), "c": ((b"x", b"y"), "byte")},
    {"a": (np.array([2**63 - 1, -(2**63)]), "int"), "b": (np.arange(3, dtype=np.uint8), "float")},
    {"a": ([], "int"), "b": ([], "float"), "c": ([], "byte")},
    {"a": (np.int32(7), "int"), "b": (np.float64(1e30), "float"), "c": (np.array([b"ab", b"c"]), "byte")},
    {"a": (np.array([3], np.uint64), "int"), "b": (1e300, "float"), "c": (np.bytes_(b"q"), "byte")},
    {"naïve": ((1, 2), "int"), "d": (np.array([1e300, np.nan]), "float")},
    {},
]
BAD = [
    {"a": (1.5, "int")},
    {"a": ("text", "byte")},
    {"a": (bytearray(b"x"), "byte")},
    {"a": ([1, 2.5], "int")},
    {"a": (np.array([0.5]), "int")},
    {"a": (np.zeros((2, 2)), "float")},
    {"a": (np.zeros((2, 2), np.int64), "int")},
    {"a": (2**63, "int")},
    {"a": (np.array([2**63], np.uint64), "int")},
    {"a": (None, "int")},
    {"a": ([b"x", None], "byte")},
    {"a": (1, "integer")},
    {"a": 1},
    {"a": (b"x", "float")},
]
STEPS = [
    {"t": ([[0, 1], [1, 0, 0]], "int"), "s": ([b"x", [b"y", b"z"]], "byte"), "f": ([0.5, [1, 2]], "float")},
    {"t": ([np.arange(3), np.arange(2)], "int"), "s": ([], "byte"), "f": (np.ones((2, 3)), "float")},
    {},
]


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its exception."""
    try:
        return call()
    except Exception as error:
        return error


def check_equal(mine: Any, theirs: Any) -> None:
    """Values, types, dtypes and shapes are the same; an exception of mine is one of theirs, too."""
    if isinstance(theirs, Exception):
        assert isinstance(mine, type(theirs)), (mine, theirs)
    elif isinstance(theirs, np.ndarray):
        assert mine.dtype == theirs.dtype, (mine, theirs)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.flags.writeable
        assert mine.flags.owndata
    elif isinstance(theirs, dict):
        assert mine.keys() == theirs.keys(), (mine, theirs)
        for key in theirs:
            check_equal(mine[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert type(mine) is type(theirs)
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            check_equal(one, other)
    elif isinstance(theirs, torch.Tensor):
        assert torch.equal(mine, theirs)
    else:
        assert type(mine) is type(theirs), (mine, theirs)
        assert mine == theirs


def seeded(call: Callable[[], Any]) -> Any:
    """Return the outcome and the state of the random generators after it."""
    np.random.seed(5)
    torch.manual_seed(5)
    return outcome(call), np.random.random()


def compare(call: Callable[[Any], Any]) -> None:
    theirs, mine = (seeded(lambda: call(module)) for module in BOTH)  # noqa: B023  # called at once
    check_equal(mine, theirs)


def write(module: ModuleType, path: Path, *records: tuple[Any, ...]) -> None:
    writer = module.TFRecordWriter(str(path))
    for record in records:
        writer.write(*record)
    writer.close()


def written_messages(folder: Path) -> None:
    pb = tfrecord.example_pb2
    for datum in DATA:
        theirs, mine = (pb.Example.FromString(module.TFRecordWriter.serialize_tf_example(datum)) for module in BOTH)
        assert str(mine.features) == str(theirs.features), datum  # NaN does not equal itself
    for datum, steps in itertools.product(DATA, STEPS):
        blobs = [module.TFRecordWriter.serialize_tf_sequence_example(datum, steps) for module in BOTH]
        theirs, mine = map(pb.SequenceExample.FromString, blobs)
        assert str(mine.context) == str(theirs.context), datum
        assert str(mine.feature_lists) == str(theirs.feature_lists), steps
    for datum in BAD:
        compare(lambda m: m.TFRecordWriter.serialize_tf_example(datum))  # noqa: B023  # called at once
        compare(lambda m: m.TFRecordWriter.serialize_tf_sequence_example(datum, {}))  # noqa: B023
    compare(lambda m: m.TFRecordWriter.masked_crc(b"123456789"))


def written_files(folder: Path) -> None:
    for name, records in (
        ("examples", [(datum,) for datum in DATA]),
        ("sequences", [(datum, steps) for datum in DATA for steps in STEPS]),
    ):
        for module in BOTH:
            path = folder / f"{name}-{module.__name__}"
            write(module, path, *records)
            compare(lambda m: [bytes(record) for record in m.tfrecord_iterator(str(path))])  # noqa: B023
            compare(lambda m: list(m.tfrecord_loader(str(path), None)))  # noqa: B023
            compare(lambda m: list(m.tfrecord_loader(str(path), None, sequence_description=[])))  # noqa: B023
            compare(lambda m: list(m.tfrecord_loader(str(path), None, ["a"])))  # noqa: B023
            compare(lambda m: next(m.tfrecord_loader(str(path), None, ["a", "c"])))  # noqa: B023
            compare(lambda m: next(m.tfrecord_loader(str(path), None, {"a": "int", "b": None})))  # noqa: B023
            compare(lambda m: next(m.tfrecord_loader(str(path), None, {"a": "float"})))  # noqa: B023
            compare(lambda m: next(m.tfrecord_loader(str(path), None, {"a": "integer"})))  # noqa: B023
            compare(lambda m: next(m.sequence_loader(str(path), None, {"a": "int"}, {"t": "int", "s": None})))  # noqa: B023
            compare(lambda m: next(m.sequence_loader(str(path), None, {}, ["none"])))  # noqa: B023


def many(folder: Path, n: int = 1000) -> tuple[str, str]:
    """A file whose records differ in names and kinds, and its index."""
    rng = random.Random(3)
    values: dict[str, Callable[[], list[Any]]] = {
        "int": lambda: [rng.randrange(-(2**63), 2**63) >> rng.randrange(64) for _ in range(rng.randrange(4))],
        "float": lambda: [rng.uniform(-9, 9) for _ in range(rng.randrange(4))],
        "byte": lambda: [rng.randbytes(rng.randrange(6)) + b"." for _ in range(rng.randrange(4))],
    }
    records = []
    for index in range(n):
        datum: dict[str, Any] = {"index": (index, "int")}
        for name in rng.sample("abcdefgh", rng.randrange(6)):
            kind = rng.choice([*values])
            datum[name] = (values[kind](), kind)
        records.append((datum,))
    path, index_path = str(folder / "many.tfrecord"), str(folder / "many.tfindex")
    write(ours, Path(path), *records)
    compare(lambda m: m.tools.create_index(path, index_path) or Path(index_path).read_bytes())
    return path, index_path


def iterations(folder: Path) -> None:
    path, index = many(folder)
    compare(lambda m: list(m.tfrecord_loader(path, None)))
    compare(lambda m: list(m.tfrecord_loader(path, index)))
    for shard in ((0, 3), (2, 3), (999, 1000)):
        compare(lambda m: list(m.tfrecord_loader(path, index, shard=shard)))  # noqa: B023
        compare(lambda m: [bytes(record) for record in m.tfrecord_iterator(path, index, shard)])  # noqa: B023
    compare(lambda m: list(m.shuffle_iterator(m.tfrecord_loader(path, index, ["index"]), 100)))
    compare(lambda m: list(m.shuffle_iterator(iter("abc"), 100)))
    compare(lambda m: list(m.sample_iterators([lambda: iter("abc"), lambda: iter("xy")], [1, 3], infinite=False)))
    pattern, splits = str(folder / "{}.tfrecord"), {"many": 0.8, "few": 0.2}
    write(ours, folder / "few.tfrecord", *[({"index": (-number, "int")},) for number in range(1, 20)])
    tfrecord.tools.create_index(str(folder / "few.tfrecord"), str(folder / "few.tfindex"))
    for indexes, infinite in itertools.product((None, str(folder / "{}.tfindex")), (False, True)):
        compare(  # two rounds of records
            lambda m: list(
                itertools.islice(m.multi_tfrecord_loader(pattern, indexes, splits, ["index"], infinite=infinite), 2100)  # noqa: B023
            )
        )


def datasets(folder: Path) -> None:
    path, index = many(folder, 60)
    for workers, indexed, queue in ((0, None, 8), (0, index, None), (2, index, 8)):

        def batches(module: ModuleType) -> list[Any]:
            dataset = module.torch.TFRecordDataset(path, indexed, {"index": "int"}, queue)  # noqa: B023
            return list(DataLoader(dataset, batch_size=7, num_workers=workers))  # noqa: B023

        compare(batches)


def failures(folder: Path) -> None:
    path, _ = many(folder, 5)
    content = Path(path).read_bytes()
    cut = folder / "cut.tfrecord"
    for size in (len(content) - 1, len(content) - 5, len(content) // 2):
        cut.write_bytes(content[:size])
        compare(lambda m: list(m.tfrecord_loader(str(cut), None)))
    compare(lambda m: list(m.tfrecord_loader(path, None, compression_type="zip")))
    compare(lambda m: list(m.tfrecord_loader(str(folder / "none"), None)))
    compare(lambda m: list(m.tfrecord_loader(path, str(folder / "none"))))
    compare(lambda m: m.extract_feature_dict(m.example_pb2.Example(), None, {}))


def features(module: ModuleType) -> Iterator[Any]:
    pb = module.example_pb2
    names = {"byte": "bytes_list", "float": "float_list"}
    feature = pb.Feature(float_list=pb.FloatList(value=[0.5]))
    for typename in (None, "byte", "float", "int"):
        yield outcome(lambda: module.process_feature(feature, typename, names, "key"))  # noqa: B023
    lists = pb.FeatureLists(feature_list={"key": pb.FeatureList(feature=[feature, feature])})
    yield outcome(lambda: module.extract_feature_dict(lists, ["key"], names))
    yield outcome(lambda: module.extract_feature_dict(lists, None, names))
    yield outcome(lambda: module.extract_feature_dict(lists, {"other": None}, names))


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    for check in (written_messages, written_files, iterations, datasets, failures):
        (folder / check.__name__).mkdir()
        check(folder / check.__name__)
    compare(lambda m: list(features(m)))
    print("equal")


if __name__ == "__main__":
    main()
