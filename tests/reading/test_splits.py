"""Splits of folders by the names of their files, as the hub of Hugging Face lays them out."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import dataformats
from dataformats.errors import FormatError, SpecError, UnknownNameError
from dataformats.testing.loop_over import loop_over

ENDINGS = {"tfrecord": ".tfrecord", "jsonl": ".jsonl"}


def write_shards(folder: Path, format: str, names: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}{ENDINGS[format]}"
        with dataformats.create(path, format, spec={"n": "int64"}) as writer:
            writer.append({"n": len(name)})
        path.with_name(f"{path.name}.dataformats.json").unlink(missing_ok=True)


@loop_over("format", ENDINGS)
@loop_over("below", ["data", "."])
def test_split_is_chosen_by_names(format: str, below: str, tmp_path: Path) -> None:
    root = tmp_path / "x"
    names = "train-00000-of-00002", "train-00001-of-00002"
    write_shards(root / below, format, names)
    (root / "README.md").write_text("about")
    assert [record["n"] for record in dataformats.open(root, split="train")] == [20, 20]
    if below == "data":
        assert [record["n"] for record in dataformats.open(root)] == [20, 20]
    write_shards(root / below, format, ("test-00000-of-00001",))
    with pytest.raises(FormatError, match=r"several splits.*Pass split='train', or another one"):
        dataformats.open(root)
    source = dataformats.open(root, split="test")
    assert list(pickle.loads(pickle.dumps(source))) == [{"n": 19}]
    with pytest.raises(UnknownNameError, match="unknown split 'dev'"):
        dataformats.open(root, split="dev")
    report = dataformats.convert(root, tmp_path / "new.ffr", source_options={"split": "train"})
    assert report.records == 2


def test_split_is_a_folder(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write_shards(tmp_path / name / "year=1", "tfrecord", (name,))
    assert list(dataformats.open(tmp_path, split="test")) == [{"n": 4, "year": 1}]
    for path in (tmp_path / "train" / "year=1", tmp_path / "train" / "year=1" / "train.tfrecord"):
        assert len(dataformats.open(path)) == 1
    with pytest.raises(SpecError, match=r"is for a folder whose files or folders are named for splits.*Leave out"):
        dataformats.open(str(tmp_path / "t*" / "*" / "*.tfrecord"), split="test")
