"""Folders of tensorflow_datasets: the splits, types and values that the original reads."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, SpecError, UnknownNameError
from dataformats.sidecars.tfds_features import spec_of_features
from tests.cases import GOLDEN

FOLDER = GOLDEN / "tfds"
EXPECTED = json.loads(gzip.decompress((FOLDER / "expected.json.gz").read_bytes()))


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "tfds")
    for path in (tmp_path / "tfds" / "array_record").rglob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    return tmp_path / "tfds"


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("format", ["tfrecord", "array_record"])
def test_values_equal_the_values_of_the_original(folders: Path, format: str, split: str) -> None:
    if format == "array_record":
        pytest.importorskip("array_record", reason="array_record has no wheel here")
    src = dataformats.open(folders / format / "things" / "1.0.0", split=split)
    expected = EXPECTED[f"{format}/{split}"]
    assert (src.format, src.payload, len(src)) == (format, "example", len(expected))
    stored = {"mask": None, "zipped": None, "raw": None, "photo": None}  # as bytes, and JPEG by another decoder
    for found, values in zip(src, expected, strict=True):
        assert found.keys() == values.keys()
        for name in values.keys() - stored:
            assert plain(found[name]) == values[name], name
        assert np.abs(found["photo"].astype(int) - np.array(values["photo"])).max() <= 6
        assert np.frombuffer(found["raw"], np.int32).reshape(2, 2).tolist() == values["raw"]
    assert src.spec["objects/bbox"] == dataformats.Spec({"x": "float32[][4]"})["x"]
    assert dataformats.verify(src).ok
    assert pickle.loads(pickle.dumps(src)).read([1])["text"][0] == expected[1]["text"]


def test_split_must_be_chosen(folders: Path) -> None:
    folder = folders / "tfrecord" / "things" / "1.0.0"
    with pytest.raises(SpecError, match=r"2 splits: 'train', 'test'. Pass split='train', or another one"):
        dataformats.open(folder)
    with pytest.raises(UnknownNameError, match=r"unknown split 'tests'.*test"):
        dataformats.open(folder, split="tests")
    with pytest.raises(SpecError, match="split='train' is for a folder whose files or folders are named for splits"):
        dataformats.open(GOLDEN / "real" / "photos.tfrecord", split="train")
    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps(info | {"splits": info["splits"][1:]}))
    assert len(dataformats.open(folder)) == len(EXPECTED["tfrecord/test"])


def test_parquet_has_examples_in_a_column(folders: Path) -> None:
    src = dataformats.open(folders / "parquet" / "things" / "1.0.0", split="train")
    assert (src.format, dict(src.spec.to_json()), len(src)) == ("parquet", {"data": "bytes"}, 5)


def test_missing_shard_is_named(folders: Path) -> None:
    folder = folders / "tfrecord" / "things" / "1.0.0"
    (folder / "things-train.tfrecord-00000-of-00001").unlink()
    with pytest.raises(FormatError, match=r"shards of the split 'train' are missing: things-train\.tfrecord-00000-of"):
        dataformats.open(folder, split="train")
    (folder / "dataset_info.json").write_text("{")
    with pytest.raises(FormatError, match=r"not JSON.*dataset_info\.json|dataset_info\.json.*not JSON"):
        dataformats.open(folder, split="train")


def test_unknown_features_are_inferred(folders: Path) -> None:
    folder = folders / "tfrecord" / "things" / "1.0.0"
    features = json.loads((folder / "features.json").read_text())
    known = dataformats.open(folder, split="test").spec
    features["featuresDict"]["features"]["text"] = {"video": {}}
    assert "text" not in spec_of_features(features)[0]
    (folder / "features.json").write_text(json.dumps(features))
    src = dataformats.open(folder, split="test")
    assert dict(src.spec) == {**known, "text": dataformats.Type.parse("bytes")}
    assert src[0]["text"] == EXPECTED["tfrecord/test"][0]["text"].encode()
    assert pickle.loads(pickle.dumps(src)).spec == src.spec
    assert dataformats.open(folder, split="test", spec={"text": "utf8"}).spec == known
    (folder / "features.json").write_text(json.dumps({"pythonClassName": "Unknown"}))
    assert dataformats.open(folder, split="test").spec_facts.provenance == "inferred"
