"""Sources joined record by record, by index and by key."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import DataFormatsError, FormatError, SpecError, UnknownNameError
from dataformats.indexing.index_cache import cache_folder
from dataformats.reading.derived_source import joined_sources

N = 300


def write(path: Path, keys: Any, field: str, *, text: bool = False) -> dataformats.DecodingSource:
    kinds = {"key": "utf8" if text else "int64", field: "int64", "name": "utf8"}
    with dataformats.create(path, "tfrecord", spec=kinds) as writer:
        for place, key in enumerate(keys):
            shown = f"key-{key}" * (key % 5) + f"{key}" if text else key
            writer.append({"key": shown, field: 10 * key + place % 2, "name": f"{field} of {key}"})
    return dataformats.open(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[dataformats.DecodingSource, dataformats.DecodingSource]:
    return write(tmp_path / "a.tfrecord", range(N), "a"), write(tmp_path / "b.tfrecord", range(N), "b")


RENAME = {"right.key": "right_key", "right.name": "right_name"}


def test_records_of_equal_index(pair: Any) -> None:
    left, right = pair
    joined = dataformats.zip({"left": left, "right": right}, rename=RENAME)
    assert list(joined.spec) == [*left.spec, "right_key", "b", "right_name"]
    assert len(joined) == N
    expected = [{**one, "right_key": other["key"], "b": other["b"], "right_name": other["name"]}
                for one, other in zip(left, right, strict=True)]  # fmt: skip
    assert [joined[i] for i in range(N)] == list(joined) == list(joined.read(range(N))) == expected
    assert joined[7, ["b", "a"]] == {"b": expected[7]["b"], "a": expected[7]["a"]}
    assert joined.select("right_name")[5:7][1] == {"right_name": "b of 6"}
    assert joined.where(lambda record: record["b"] < 50)[-1] == expected[4]
    again = pickle.loads(pickle.dumps(joined))
    assert (again.fingerprint, again[9]) == (joined.fingerprint, expected[9])
    assert joined.fingerprint not in (left.fingerprint, dataformats.zip([right, left.select("a")]).fingerprint)
    assert joined.with_spec({"b": "int64", "name": "bytes"})[3] == {**expected[3], "name": b"a of 3"}
    assert joined.stats("b").count == N
    assert dataformats.verify(joined).ok


def test_lists_and_single_values(pair: Any, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "text.tfrecord", "tfrecord", payload="utf8") as writer:
        writer.extend(f"text {i}" for i in range(N))
    texts = dataformats.open(tmp_path / "text.tfrecord", payload="utf8")
    joined = dataformats.zip([pair[0].select("a"), texts])
    assert joined[4] == {"a": 40, "1": "text 4"}
    assert joined.read([4, 2])["1"][1] == "text 2"
    assert dataformats.zip({"caption": texts})[3] == {"caption": "text 3"}
    nested = dataformats.zip([joined, pair[1].select("b")])
    assert nested[4] == {"a": 40, "1": "text 4", "b": 40}
    assert len(joined_sources(nested)) == 3


def test_reads_only_the_sources_of_the_fields(pair: Any, tmp_path: Path) -> None:
    joined = dataformats.zip({"left": pair[0], "right": pair[1]}, rename=RENAME)
    (tmp_path / "b.tfrecord").unlink()
    dataformats.open(tmp_path / "a.tfrecord").close()
    assert joined.read([3], ["a"])["a"].tolist() == [31]
    assert len(list(joined.select("a"))) == N
    with pytest.raises(DataFormatsError, match=r"b\.tfrecord"):
        joined.read([3], ["b"])


@pytest.mark.parametrize("text", [False, True])
def test_records_of_equal_keys(text: bool, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(N + 50).tolist()
    left = write(tmp_path / "a.tfrecord", order[:N], "a", text=text)
    right = write(tmp_path / "b.tfrecord", sorted(order), "b", text=text)
    joined = dataformats.zip({"left": left, "right": right}, on="key", rename={"right.name": "other"})
    assert list(joined.spec) == ["key", "a", "name", "b", "other"]
    assert [record["other"] for record in joined] == [f"b of {key}" for key in order[:N]]
    assert [record["b"] // 10 for record in joined] == order[:N]
    same = dataformats.zip({"left": left, "right": right}, on={"left": "key", "right": "key"}, rename=RENAME)
    assert all(record["key"] == record["right_key"] for record in same)
    assert pickle.loads(pickle.dumps(joined)).fingerprint == joined.fingerprint == same.fingerprint
    assert len(pickle.dumps(joined)) < 4000
    kept = list((cache_folder() / "joins").iterdir())
    assert kept
    for file in kept:  # a damaged one is made again
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    again = dataformats.zip({"left": left, "right": right}, on="key", rename={"right.name": "other"})
    assert list(again) == list(joined)


def test_records_of_equal_keys_in_another_field(tmp_path: Path) -> None:
    left = write(tmp_path / "a.tfrecord", [0, 1, 2], "a")
    with dataformats.create(tmp_path / "b.tfrecord", spec={"one": "int64", "two": "int64", "c": "int64"}) as writer:
        writer.extend({"one": i, "two": 2 - i, "c": i} for i in range(3))
    right = dataformats.open(tmp_path / "b.tfrecord")
    for field, found in (("one", [0, 1, 2]), ("two", [2, 1, 0])):
        joined = dataformats.zip({"left": left, "right": right}, on={"left": "key", "right": field})
        assert [record["c"] for record in joined] == found


def test_wrong_keys(tmp_path: Path) -> None:
    left, right = write(tmp_path / "a.tfrecord", range(5), "a"), write(tmp_path / "b.tfrecord", [4, 3, 1, 0], "b")
    rename = {"1.name": "other"}
    with pytest.raises(SpecError, match=r"1 of 5 keys are missing in .*b\.tfrecord': first 2 of record 2 of .*a\.tf"):
        dataformats.zip([left, right], on="key", rename=rename)
    twice = write(tmp_path / "c.tfrecord", [0, 1, 2, 1], "b")
    with pytest.raises(
        SpecError, match=r"not unique: record 1 of .*c\.tfrecord' and record 3 of .*c\.tfrecord' have 1"
    ):
        dataformats.zip([left[:3], twice], on="key", rename=rename)
    text = write(tmp_path / "d.tfrecord", range(5), "b", text=True)
    with pytest.raises(SpecError, match="the keys are integers in 'key', and text in 'key'"):
        dataformats.zip([left, text], on="key", rename=rename)
    twice = write(tmp_path / "e.tfrecord", [0, 1, 2, 1], "b", text=True)
    with pytest.raises(SpecError, match=r"not unique: record 1 .* and record 3 .* have .key-11"):
        dataformats.zip([text, twice], on="key", rename=rename)
    with pytest.raises(UnknownNameError, match="unknown key field of the source '1' 'a'"):
        dataformats.zip([left, right], on="a", rename=rename)


@pytest.mark.parametrize("text", [False, True])
def test_find_records_by_key(text: bool, tmp_path: Path) -> None:
    order = np.random.default_rng(2).permutation(N).tolist()
    source = write(tmp_path / "a.tfrecord", order, "a", text=text)
    keys = source.read(range(N), ["key"])["key"]
    assert source.find(keys, "key").tolist() == list(range(N))
    kept = max((cache_folder() / "keys").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    before = kept.stat().st_mtime_ns
    again = dataformats.open(tmp_path / "a.tfrecord")
    assert again.find(keys[5], on="key") == 5
    assert kept.stat().st_mtime_ns == before
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")  # a damaged index is made again
    assert dataformats.open(tmp_path / "a.tfrecord").find(keys, "key").tolist() == list(range(N))
    other = write(tmp_path / "b.tfrecord", sorted(order), "b", text=text)
    joined = dataformats.zip([source, other], on="key", rename={"1.name": "other"})
    assert joined.find(keys[9], "key") == 9
    with pytest.raises(SpecError, match="expected keys that are " + ("text" if text else "integers")):
        source.find(3 if text else "3", "key")
    with pytest.raises(SpecError, match="no field of the records is their key"):
        source.find(keys[0])
    with pytest.raises(SpecError, match="find: keys are integers or text"):
        dataformats.open("tests/golden/recordio/images.rec").find(3, "label")
    with pytest.raises(KeyError, match="unknown key in 'key'"):
        source[:0].find(keys[0], "key")


@pytest.mark.parametrize(
    ("path", "field", "package"),
    [("recordio/images.rec", "id", ""), ("webdataset/train-*.tar", "__key__", ""), ("lmdb/folder", "key", "lmdb")],
)
def test_find_keys_of_formats(path: str, field: str, package: str) -> None:
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")
    source = dataformats.open(f"tests/golden/{path}")
    keys = list(source.select(field).read(range(len(source)))[field])
    assert source[::-1].find(keys).tolist() == list(range(len(keys)))[::-1]
    assert dataformats.concat([source[:2], source[3:]]).find(keys[3]) == 2
    assert dataformats.zip({"left": source}).find(keys[1]) == 1


def test_wrong_arguments(pair: Any) -> None:
    left, right = pair
    with pytest.raises(SpecError, match=r"'left' has 300 records, 'right' has 299.*Pass on="):
        dataformats.zip({"left": left, "right": right[1:]}, rename=RENAME)
    with pytest.raises(SpecError, match=r"field 'key': zip: 'left' and 'right' both have it.*'right\.key': 'key_1'"):
        dataformats.zip({"left": left, "right": right})
    with pytest.raises(UnknownNameError, match=r"unknown field 'right\.kex'"):
        dataformats.zip({"left": left, "right": right}, rename={**RENAME, "right.kex": "x"})
    with pytest.raises(SpecError, match="'1' has no spec"):
        dataformats.zip([left, right.map(len)])
    for wrong in ([], "x.tfrecord", ["x.tfrecord"], {"a": "x.tfrecord"}, {"a": 3}):
        with pytest.raises(TypeError, match="zip: expected"):
            dataformats.zip(wrong)  # type: ignore[arg-type]


def test_damaged_records(pair: Any, tmp_path: Path) -> None:
    left, right = pair
    for name, place in (("a", 5), ("b", 3)):
        path = tmp_path / f"{name}.tfrecord"
        data = bytearray(path.read_bytes())
        at = data.index(b"%s of %d" % (name.encode(), place))
        data[at] ^= 1
        path.write_bytes(data)
    left, right = dataformats.open(tmp_path / "a.tfrecord"), dataformats.open(tmp_path / "b.tfrecord")
    joined = dataformats.zip({"left": left, "right": right}, rename=RENAME)
    batch = joined.read([6, 5, 3, 2], on_corrupt="omit")
    assert (batch.indices.tolist(), batch["b"].tolist(), sorted(batch.failed)) == ([6, 2], [60, 20], [3, 5])
    assert "b.tfrecord" in str(batch.failed[3])
    assert "record 3 of" in str(batch.failed[3])
    for indices, name in (([5, 3], "a"), ([3, 5], "b")):
        with pytest.raises(FormatError, match=rf"{name}\.tfrecord"):
            joined.read(indices)
    read: list[int] = []
    with pytest.raises(FormatError, match=r"b\.tfrecord"):
        read.extend(record["b"] for record in joined)
    assert read == [0, 11, 20]
    assert len(dataformats.verify(joined).findings) == 2


def test_windows_of_blocks(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    left = write(tmp_path / "a.tfrecord", range(N), "a")
    dataformats.convert(left, tmp_path / "b.parquet", rename={"a": "b"}, fields=["a"])
    table = dataformats.open(tmp_path / "b.parquet")
    joined = dataformats.zip([left, table])
    assert joined.block_starts is not None
    assert joined.block_starts.tolist()[0] == 0
    loader = dataformats.Loader(joined, 32, seed=1, drop_last=False)
    seen = [value for batch in loader for value in zip(batch["a"].tolist(), batch["b"].tolist(), strict=True)]
    assert sorted(seen) == [(value, value) for value in sorted(record["a"] for record in left)]


def test_conversion(pair: Any, tmp_path: Path) -> None:
    left, right = pair
    joined = dataformats.zip({"left": left, "right": right.select("key", "b")}, on="key")
    report = dataformats.convert(joined, tmp_path / "joined.ffr", workers=2, shard_records=100)
    assert report.records == N
    assert list(dataformats.open(tmp_path / "joined.ffr")) == list(joined)
