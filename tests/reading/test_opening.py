"""How `open` chooses format and payload: names, sidecars, empty files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import dataformats


@pytest.mark.parametrize("format", ["tfrecord", "ofrecord"])
def test_our_own_empty_files_open(tmp_path: Path, format: str) -> None:
    dataformats.create(tmp_path / "x", format, spec={"a": "int64"}).close()
    assert len(dataformats.open(tmp_path / "x")) == 0
    assert dataformats.verify(tmp_path / "x").ok


def test_files_of_ours_in_a_folder_keep_their_siblings(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"a": "int64"}) as writer:
        writer.append({"a": 1})
    assert dataformats.open(tmp_path)[0] == {"a": 1}


class _Loud:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle in data was run",)


def test_only_the_call_can_name_pickle(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", spec={"x": "bytes"}) as writer:
        writer.append({"x": pickle.dumps(_Loud())})
    sibling = tmp_path / "x.ffr.dataformats.json"
    sibling.write_text(json.dumps(json.loads(sibling.read_text()) | {"spec": {"x": "pickle"}}))
    for payload in (None, "example"):
        with pytest.raises(dataformats.UnknownNameError, match="file may name"):
            dataformats.open(path, payload=payload)[0]
    assert dataformats.convert(path, tmp_path / "y.tfrecord", "tfrecord").copied


def test_a_description_of_one_kind_of_name() -> None:
    with pytest.raises(dataformats.UnknownNameError, match="'5'"):
        dataformats.open("tests", format=5)  # type: ignore[arg-type]  # what a caller without types may do
    with pytest.raises(FileNotFoundError):
        dataformats.open("")


def test_an_unknown_format_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n" * 20)
    with pytest.raises(dataformats.FormatError, match="not tfrecord") as caught:
        dataformats.open(tmp_path / "notes.md")
    assert (caught.value.path, caught.value.remedy) == (str(tmp_path / "notes.md"), "Pass format= if you know it.")
    with pytest.raises(
        dataformats.FormatError, match=r"the folder holds a file of no known format: 'notes\.md'"
    ) as caught:
        dataformats.open(tmp_path)
    assert (caught.value.path, caught.value.remedy) == (str(tmp_path), "Pass format=, or a glob.")
