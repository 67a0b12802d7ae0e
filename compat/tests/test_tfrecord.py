"""`dataformats_compat.tfrecord`: the values, orders and errors of the `tfrecord` package."""

from __future__ import annotations

import gzip
import itertools
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats_compat import tfrecord
from dataformats_compat.tfrecord import example_pb2 as pb
from dataformats_compat.tfrecord.reader import FeatureKeyError, FeatureTypeError, TruncatedFileError

N = 400


def write(path: Path, *records: Any, sequences: Any = None) -> str:
    writer = tfrecord.TFRecordWriter(str(path))
    for record in records:
        writer.write(record, sequences)
    writer.close()
    return str(path)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A file of the numbers 0 to N, and its index."""
    folder = tmp_path_factory.mktemp("numbers")
    path = write(folder / "n.tfrecord", *({"n": (index, "int")} for index in range(N)))
    tfrecord.tools.create_index(path, str(folder / "n.index"))
    return path, str(folder / "n.index")


def labels(records: Iterator[dict[str, Any]]) -> list[int]:
    return [int(record["n"][0]) for record in records]


@pytest.fixture(params=["native", "reference"])
def _kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        for module in ("dataformats.kernels.wire_write", "dataformats.codecs.features.located_features"):
            monkeypatch.setattr(f"{module}.wire_kernels", lambda: None)
        monkeypatch.setattr("dataformats_compat.tfrecord.writer._writer", lambda *_: None)


@pytest.mark.usefixtures("_kernels")
def test_values_are_arrays_and_single_bytes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tfrecord",
        {"i": (3, "int"), "f": ([0.5, 1], "float"), "b": (b"x", "byte"), "s": ([b"x", b"yz"], "byte")},
        {"i": (np.arange(3, dtype=np.int8), "int"), "f": (np.ones(2), "float"), "s": ([], "byte"), "more": (1, "int")},
        {"s": ([b"x\0", b"y"], "byte"), "i": ((-1, 2**63 - 1), "int")},
    )
    first, second, third = tfrecord.tfrecord_loader(path, None)
    assert (first["i"].dtype, first["f"].dtype, first["s"].dtype) == (np.int64, np.float32, np.dtype("S2"))
    assert (first["i"].tolist(), first["f"].tolist(), first["b"]) == ([3], [0.5, 1], b"x")
    assert first["i"].base is None  # keeps no other record in memory
    assert second.keys() == {"i", "f", "s", "more"}
    assert (second["i"].tolist(), len(second["s"])) == ([0, 1, 2], 0)
    assert third["s"].tolist() == [b"x\0", b"y"]  # numpy's bytes would lose the NUL
    assert third["i"].tolist() == [-1, 2**63 - 1]
    assert [*next(tfrecord.example_loader(path, None, ["s", "i"]))] == ["s", "i"]


@pytest.mark.usefixtures("_kernels")
def test_integers_past_int64_are_refused() -> None:
    for numbers in ([2**63], np.array([2**63], np.uint64)):
        with pytest.raises(FeatureTypeError, match="expected values of type 'int'"):
            tfrecord.TFRecordWriter.serialize_tf_example({"n": (numbers, "int")})


def test_sequences_are_pairs_of_dicts(tmp_path: Path) -> None:
    steps = {"t": ([[0, 1], np.array([2])], "int"), "w": ([b"x", [b"y", b"z"]], "byte"), "none": ([], "float")}
    path = write(tmp_path / "a.tfrecord", {"n": (3, "int")}, {"n": (4, "int")}, sequences=steps)
    (context, lists), _ = tfrecord.tfrecord_loader(path, None, sequence_description=[])
    assert context["n"].tolist() == [3]
    assert [step.tolist() for step in lists["t"]] == [[0, 1], [2]]
    assert (lists["w"][0], lists["w"][1].tolist(), lists["none"]) == (b"x", [b"y", b"z"], [])
    context, lists = next(tfrecord.sequence_loader(path, None, {"n": "int"}, {"t": "int"}))
    assert (*context, *lists) == ("n", "t")
    with pytest.raises(TypeError, match="'int'"):
        next(tfrecord.sequence_loader(path, None, None, {"t": "float"}))


@pytest.mark.usefixtures("_kernels")
def test_record_unlike_description_raises(tmp_path: Path) -> None:
    good, other, lacking = {"n": (1, "int")}, {"n": (0.5, "float")}, {"m": (1, "int")}
    path = write(tmp_path / "a.tfrecord", good, good, other)
    loader = tfrecord.tfrecord_loader(path, None, {"n": "int"})
    assert labels(itertools.islice(loader, 2)) == [1, 1]
    with pytest.raises(FeatureTypeError, match=rf"record 2 of '{path}', field 'n': .*'int'.*'float'") as raised:
        next(loader)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, dataformats.SpecError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    path = write(tmp_path / "a.tfrecord", good, lacking)
    with pytest.raises(FeatureKeyError, match=r"record 1 of .*Key n doesn't exist \(select from \['m'\]\)") as missing:
        list(tfrecord.tfrecord_loader(path, None, ["n"]))
    assert isinstance(missing.value, KeyError)
    with pytest.raises(KeyError, match="unknown type 'integer'"):
        next(tfrecord.tfrecord_loader(path, None, {"n": "integer"}))


def test_types_of_the_documentation_are_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", {"image": (b"x", "bytes"), "n": (1, "int")})
    assert next(tfrecord.tfrecord_loader(path, None, {"image": "bytes", "n": "int "}))["image"] == b"x"


def test_a_feature_without_a_kind_is_missing(tmp_path: Path) -> None:
    example = pb.Example(
        features=pb.Features(feature={"none": pb.Feature(), "n": pb.Feature(int64_list=pb.Int64List())})
    )
    with dataformats.create(tmp_path / "a.tfrecord", payload="bytes") as writer:
        writer.append(example.SerializeToString())
    path = str(tmp_path / "a.tfrecord")
    assert [*next(tfrecord.tfrecord_loader(path, None))] == ["n"]
    with pytest.raises(KeyError, match="none"):
        next(tfrecord.tfrecord_loader(path, None, ["none"]))
    assert tfrecord.process_feature(pb.Feature(), None, {}, "none") is None


def test_records_are_independent_and_verified(numbers: tuple[str, str], tmp_path: Path) -> None:
    records = list(tfrecord.tfrecord_iterator(numbers[0]))
    assert len({bytes(record) for record in records}) == N
    content = bytearray(Path(numbers[0]).read_bytes())
    content[-5] ^= 1
    damaged = tmp_path / "a.tfrecord"
    damaged.write_bytes(content)
    loader = tfrecord.tfrecord_loader(str(damaged), None)
    assert labels(itertools.islice(loader, N - 1)) == [*range(N - 1)]
    with pytest.raises(dataformats.ChecksumError, match=f"record {N - 1} "):
        next(loader)
    damaged.write_bytes(content[:-1])
    with pytest.raises(RuntimeError) as cut:
        list(tfrecord.tfrecord_iterator(str(damaged)))
    assert isinstance(cut.value, TruncatedFileError)
    damaged.write_bytes(gzip.compress(Path(numbers[0]).read_bytes()))
    for compression in ("gzip", None):
        assert labels(tfrecord.tfrecord_loader(str(damaged), None, compression_type=compression)) == [*range(N)]
    with pytest.raises(ValueError, match="compression_type"):
        next(tfrecord.tfrecord_iterator(str(damaged), compression_type="zip"))


def test_an_index_rotates_and_shares_the_records(numbers: tuple[str, str]) -> None:
    path, index = numbers
    np.random.seed(1)
    first = int(np.random.choice(N))
    np.random.seed(1)
    assert labels(tfrecord.tfrecord_loader(path, index)) == [*range(first, N), *range(first)]
    parts = [labels(tfrecord.tfrecord_loader(path, index, shard=(part, 3))) for part in range(3)]
    assert [len(part) for part in parts] == [133, 133, 134]
    assert [*itertools.chain(*parts)] == [*range(N)]
    assert [labels(tfrecord.tfrecord_loader(path, None, shard=(part, 3))) for part in range(3)] == parts
    assert labels(tfrecord.tfrecord_loader(path, None, shard=(0, 1))) == [*range(N)]
    with pytest.raises(FileNotFoundError):
        next(tfrecord.tfrecord_loader(path, f"{index}.none"))


@pytest.mark.parametrize("indexed", [False, True])
def test_workers_share_the_records(numbers: tuple[str, str], indexed: bool) -> None:
    data = pytest.importorskip("torch.utils.data", reason="the extra torch is not installed")
    path, index = numbers[0], numbers[1] if indexed else None
    one = tfrecord.torch.TFRecordDataset(path, index, ["n"])
    several = tfrecord.torch.MultiTFRecordDataset(path.replace("n.t", "{}.t"), None, {"n": 1.0}, ["n"], infinite=False)
    for dataset in (one, several):
        loader = data.DataLoader(dataset, batch_size=None, num_workers=2)
        assert sorted(int(record["n"]) for record in loader) == [*range(N)]


def test_iterators_use_the_global_random_state(numbers: tuple[str, str]) -> None:
    np.random.seed(2)
    drawn = [int(np.random.randint(3)) for _ in range(3)]
    np.random.seed(2)
    shuffled = tfrecord.shuffle_iterator(iter(range(9)), 3)
    queue, expected = [0, 1, 2], []
    for place, following in zip(drawn, (3, 4, 5), strict=True):
        expected.append(queue[place])
        queue[place] = following
    assert [next(shuffled) for _ in range(3)] == expected
    assert sorted([*expected, *shuffled]) == [*range(9)]
    with pytest.warns(UserWarning, match=r"less than the queue size \(N=10\)"):
        assert sorted(tfrecord.shuffle_iterator(iter("ab"), 10)) == ["a", "b"]
    assert list(tfrecord.cycle(lambda: iter(()))) == []
    mixed = tfrecord.multi_tfrecord_loader(f"{numbers[0][:-10]}{{}}.tfrecord", None, {"n": 0.2}, ["n"])
    assert len(list(itertools.islice(mixed, N + 5))) == N + 5


def test_an_unclosed_writer_completes_its_file(tmp_path: Path) -> None:
    writer = tfrecord.TFRecordWriter(str(tmp_path / "a.tfrecord"))
    writer.write({"n": (1, "int")})
    assert not (tmp_path / "a.tfrecord").exists()
    del writer
    assert labels(tfrecord.tfrecord_loader(str(tmp_path / "a.tfrecord"), None)) == [1]
    writer = tfrecord.TFRecordWriter(str(tmp_path / "b.tfrecord"))
    with pytest.raises(FeatureTypeError, match="field 'n'"):
        writer.write({"n": (0.5, "int")})
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write({"n": (1, "int")})


def test_indexes_of_a_folder(numbers: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(numbers[0]).parent
    tool = tfrecord.tools.tfrecord2idx
    monkeypatch.setattr(sys, "argv", ["tfrecord2idx", str(folder)])
    tool.main()
    index = (folder / "n.tfindex").read_bytes()
    assert index == Path(numbers[1]).read_bytes()
    monkeypatch.setattr(sys, "argv", ["tfrecord2idx", numbers[0], str(folder / "other")])
    tool.main()
    assert (folder / "other").read_bytes() == index
    monkeypatch.setattr(sys, "argv", ["tfrecord2idx", numbers[0]])
    with pytest.raises(SystemExit):
        tool.main()


def test_git_lfs_pointers_are_named(tmp_path: Path) -> None:
    pointer = tmp_path / "a.tfrecord"
    pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n")
    calls = (
        lambda: tfrecord.tools.create_index(str(pointer), str(tmp_path / "a.index")),
        lambda: tfrecord.tools.tfrecord2idx.create_indices(str(tmp_path)),
        lambda: next(tfrecord.tfrecord_loader(str(pointer), None)),
    )
    for call in calls:
        with pytest.raises(
            dataformats.FormatError, match=r"a git-lfs pointer\. Run git lfs pull --include a\.tfrecord"
        ):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["a.tfrecord"]
