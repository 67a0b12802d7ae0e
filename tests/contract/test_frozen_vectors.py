"""Fingerprints and indexes are frozen: states of training runs hold the first, and caches the second."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.indexing.index_cache import IndexCache, read_header
from dataformats.storage.files import LocalFile
from tests.cases import GOLDEN

FROZEN = GOLDEN / "frozen"
FINGERPRINTS = json.loads((FROZEN / "fingerprints.json").read_text())
RECORDS = [{"id": i, "text": b"t" * (i % 7 + 1)} for i in range(40)]
TIME_NS = 10**18  # in make.py beside the files
INDEXED = ["tfrecord", "ofrecord"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the files, with the times that the indexes know."""
    shutil.copytree(FROZEN, tmp_path / "frozen")
    for path in (tmp_path / "frozen").glob("data.*"):
        os.utime(path, ns=(TIME_NS, TIME_NS))
    return tmp_path / "frozen"


def index_of(path: Path) -> Path:
    return path.with_name(path.name + ".dataformats.idx")


def parts_of(index: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header, but for the time when the index was made, and the blocks."""
    content = index.read_bytes()
    header, base = read_header(lambda offset, n: content[offset : offset + n], len(content))
    return {name: value for name, value in header.items() if name != "made_ns"}, content[base:]


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_datasets_have_the_same_fingerprint(name: str, folder: Path) -> None:
    assert dataformats.open(folder / name).fingerprint == FINGERPRINTS[name]
    assert dataformats.verify(folder / name).ok


@pytest.mark.parametrize("where", ["beside", "cache"])
@pytest.mark.parametrize("suffix", INDEXED)
def test_indexes_are_not_built_again(
    suffix: str, where: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(IndexCache, "save", lambda *_: pytest.fail("the index is built again"))
    path = folder / f"data.{suffix}"
    index = index_of(path)
    if where == "cache":
        name = hashlib.blake2b(str(path).encode(), digest_size=16).hexdigest() + ".dataformats.idx"
        (tmp_path / "cache" / "indexes").mkdir(parents=True)
        index = index.rename(tmp_path / "cache" / "indexes" / name)
        assert IndexCache("cache").path(LocalFile(path)) == str(index)
    whole = index.read_bytes()
    source = dataformats.open(path, index=where)
    assert [source[39], source[7]] == [RECORDS[39], RECORDS[7]]
    assert list(source.read(range(40))) == RECORDS
    assert index.read_bytes() == whole


@pytest.mark.parametrize("suffix", INDEXED)
def test_new_indexes_have_the_same_bytes(suffix: str, folder: Path) -> None:
    path = folder / f"data.{suffix}"
    frozen = parts_of(index_of(path))
    index_of(path).unlink()
    assert dataformats.open(path, index="beside")[39] == RECORDS[39]
    assert parts_of(index_of(path)) == frozen
