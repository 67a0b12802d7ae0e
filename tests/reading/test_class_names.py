"""Names of classes: metadata of a field, from the files of other programs, kept and shown."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import dataformats
from dataformats import Spec, SpecError, Type
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

NAMES = ("no", "yes")
SPEC: dict[str, Any] = {"label": {"type": "int64", "class_names": NAMES}, "n": "int64"}


def with_features(path: Path, rows: dict[str, Any], features: Any) -> None:
    """Write a table as Hugging Face's datasets does, with the features in the metadata of the schema."""
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(pyarrow.table(rows).replace_schema_metadata(metadata), path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with_features(
        tmp_path / "a.parquet",
        {"label": [0, 1, 1], "many": [[1], [], [0, 1]], "n": [5, 6, 7], "text": ["a", "b", "c"]},
        {
            "label": {"names": [*NAMES], "_type": "ClassLabel"},
            "many": [{"names": [*NAMES], "_type": "ClassLabel"}],
            "n": {"dtype": "int64", "_type": "Value"},
            "text": {"names": [*NAMES], "_type": "ClassLabel"},  # not a number
        },
    )
    return tmp_path / "a.parquet"


def classes(source: Any) -> dict[str, tuple[str, ...]]:
    return {name: kind.class_names for name, kind in source.spec.items() if kind.class_names}


def test_features_of_hugging_face(path: Path, tmp_path: Path) -> None:
    source = dataformats.open(path)
    assert classes(source) == {"label": NAMES, "many": NAMES}
    dataformats.convert(path, tmp_path / "b.parquet", rename={"label": "y"}, fields=["label", "many"])
    features = json.loads(parquet.read_schema(tmp_path / "b.parquet").metadata[b"huggingface"])["info"]["features"]
    assert features["y"] == {"names": [*NAMES], "_type": "ClassLabel"}
    assert features["many"]["feature"] == features["y"]
    (tmp_path / "b.parquet.dataformats.json").unlink()
    assert classes(dataformats.open(tmp_path / "b.parquet")) == {"y": NAMES, "many": NAMES}


@loop_over(
    "damage", [b"{", b"[]", b'{"info": 3}', b'{"info": {"features": {"label": {"_type": "ClassLabel", "names": 3}}}}']
)
def test_damaged_features_are_ignored(damage: bytes, path: Path) -> None:
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({"huggingface": damage}), path)
    assert classes(dataformats.open(path)) == {}


def test_arrays_of_hugging_face(tmp_path: Path) -> None:
    arrays = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    feature = {"shape": [2, 3], "dtype": "float32", "_type": "Array2D"}
    rows = {"a": pyarrow.array(arrays.tolist(), pyarrow.list_(pyarrow.list_(pyarrow.float32())))}
    with_features(tmp_path / "a.parquet", rows, {"a": feature})
    source = dataformats.open(tmp_path / "a.parquet")
    assert source.spec == {"a": "float32[2,3]"}
    assert (source.read(range(2))["a"] == arrays).all()
    with_features(tmp_path / "a.parquet", rows, {"a": {**feature, "shape": ["x", 3]}})
    assert dataformats.open(tmp_path / "a.parquet").spec == {"a": "json"}


def test_labels_of_tensorflow_datasets() -> None:
    source = dataformats.open(GOLDEN / "tfds" / "tfrecord" / "things" / "1.0.0", split="train")
    lines = (GOLDEN / "tfds" / "tfrecord" / "things" / "1.0.0" / "label.labels.txt").read_text("utf-8")
    assert classes(source) == {"label": tuple(lines.split())}


def test_names_stay_with_their_field(path: Path) -> None:
    source = dataformats.open(path)
    assert classes(pickle.loads(pickle.dumps(source))) == classes(source)
    assert classes(source.with_spec({"label": "int32"}).select("label", "n")) == {"label": NAMES}
    assert classes(dataformats.open(path, spec={"label": "uint8"})) == classes(source)
    assert classes(
        dataformats.zip([source, source], rename={"1.label": "b", "1.many": "c", "1.n": "d", "1.text": "e"})
    ) == {
        "label": NAMES,
        "many": NAMES,
        "b": NAMES,
        "c": NAMES,
    }


def test_different_names_are_left_out(path: Path, tmp_path: Path) -> None:
    others = {
        "label": {"names": ["yes", "no"], "_type": "ClassLabel"},
        "many": [{"names": [*NAMES], "_type": "ClassLabel"}],
    }
    with_features(tmp_path / "b.parquet", parquet.read_table(path).to_pydict(), others)
    source, other = (dataformats.open(tmp_path / name) for name in ("a.parquet", "b.parquet"))
    with pytest.warns(UserWarning, match="field 'label': class 0 is 'no' in 'source 0' and 'yes' in 'source 1'"):
        both = dataformats.concat([source, other])
    assert classes(both) == classes(dataformats.concat([both, other])) == {"many": NAMES}
    with pytest.warns(UserWarning, match="\"component 'a'\" and 'yes' in \"component 'b'\""):
        dataformats.mix({"a": source, "b": other})
    same = other.with_spec({"label": source.spec["label"]})
    assert classes(dataformats.concat([source, same])) == classes(source)


def test_classes_numbered_differently_are_a_note(path: Path, tmp_path: Path) -> None:
    for name, names in (("b", []), ("c", [*NAMES, "maybe"]), ("d", [*reversed(NAMES)])):
        features = {"label": {"names": names, "_type": "ClassLabel"}}
        with_features(tmp_path / f"{name}.parquet", {"label": [0, 1], "n": [1, 2]}, features)
    assert classes(dataformats.open([path, tmp_path / "b.parquet", tmp_path / "c.parquet"])) == {}  # they agree
    with pytest.warns(UserWarning, match="class 0 is 'no' in '.*c.parquet' and 'yes' in '.*d.parquet'") as warned:
        source = dataformats.open(tmp_path)
    assert (len(warned), warned[0].filename, classes(source)) == (1, __file__, {})
    assert dataformats.info(tmp_path).notes == (str(warned[0].message),)
    assert dataformats.verify(tmp_path).ok
    remedy = re.search("pass (spec=.*?) to open", str(warned[0].message))
    assert remedy is not None
    same = eval(f"dataformats.open({str(tmp_path)!r}, {remedy[1]})")  # the warning shows this code
    assert classes(same) == {"label": (*NAMES, "maybe")}
    assert classes(source.with_spec({"label": {"type": "int64", "class_names": NAMES}})) == {"label": NAMES}
    assert classes(source.with_spec({"label": {"type": "int64", "class_names": ["a", "b"]}})) == {"label": ("a", "b")}


@loop_over("format", ["ffrecord", "tfrecord", "mds", "parquet", "webdataset"])
def test_files_with_other_fields(format: str, tmp_path: Path) -> None:
    for name, names, more in (("a", NAMES, {}), ("b", NAMES, {"x": 1.5}), ("c", ("a", "b"), {"x": 1.5})):
        spec: dict[str, Any] = {"label": {"type": "int64", "class_names": names}, **dict.fromkeys(more, "float32")}
        with dataformats.create(tmp_path / f"{name}.{format}", format, spec=spec) as writer:
            writer.append({"label": 1, **more})
    paths = {name: tmp_path / f"{name}.{format}" for name in "abc"}
    assert classes(dataformats.open([paths["a"], paths["b"]])) == {"label": NAMES}
    with pytest.warns(UserWarning, match=f"class 0 is 'no' in '.*[ab].{format}' and 'a' in '.*c.{format}'"):
        assert classes(dataformats.open([paths["a"], paths["b"], paths["c"]])) == {}


def test_names_of_new_files(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.ffr", spec=SPEC) as writer:
        writer.append({"label": 1, "n": 2})
    assert classes(dataformats.open(tmp_path / "a.ffr")) == {"label": NAMES}
    assert Spec(Spec(SPEC).to_json())["label"].class_names == NAMES
    dataformats.open(tmp_path / "a.ffr").with_spec({"label": Type("int64", class_names=("a", "b"))})


@loop_over(
    "wrong",
    [
        {"type": "float32", "class_names": ["a"]},
        {"type": "int64", "class_names": "ab"},
        {"type": "int64", "class_names": [1]},
        {"type": "int64"},
        {"type": "int64", "class_names": ["a"], "x": 1},
    ],
)
def test_wrong_names(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"field 'label': .*class_names"):
        Spec({"label": wrong})
