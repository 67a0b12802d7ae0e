"""Indexes and facts beside data: right, or ignored."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.storage import sidecar
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.sidecar import (
    Index,
    load_facts,
    load_index,
    load_inferred,
    save_facts,
    save_index,
    save_inferred,
)

COLUMNS = {"length": np.arange(40, dtype="<i8") ** 3, "crc": np.arange(40, dtype="<u4"), "none": np.zeros(0, "<i8")}
FACTS = {"rest": None, "n": 3}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalFile:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "data"
    path.write_bytes(b"data")
    os.utime(path, ns=(10**18, 10**18))
    return LocalFile(path)


def is_right(index: Index | None) -> bool:
    return (
        index is not None
        and index.facts == FACTS
        and all(
            np.array_equal(index.columns[name], array) and index.columns[name].dtype == array.dtype
            for name, array in COLUMNS.items()
        )
    )


@pytest.mark.parametrize("where", ["cache", "beside", "folder"])
def test_indexes_come_back(file: LocalFile, where: str, tmp_path: Path) -> None:
    place = str(tmp_path / "folder") if where == "folder" else where
    assert load_index(file, place, "kind") is None
    path = save_index(file, place, "kind", Index(COLUMNS, FACTS))
    assert path is not None
    found = load_index(file, place, "kind")
    assert is_right(found)
    assert found is not None
    assert found.exact
    assert load_index(file, place, "other kind") is None


def test_large_columns(file: LocalFile) -> None:
    columns = {"x": np.arange(400_000, dtype="<i8")}
    path = save_index(file, "cache", "kind", Index(columns, {}))
    found = load_index(file, "cache", "kind")
    assert found is not None
    assert np.array_equal(found.columns["x"], columns["x"])
    assert path is not None
    data = bytearray(path.read_bytes())
    for at in (2**20 + 100, len(data) - 100):
        damaged = data.copy()
        damaged[at] ^= 1
        path.write_bytes(damaged)
        assert load_index(file, "cache", "kind") is None


def test_damaged_indexes_are_ignored(file: LocalFile) -> None:
    path = save_index(file, "beside", "kind", Index(COLUMNS, FACTS))
    assert path is not None
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        assert load_index(file, "beside", "kind") is None
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert load_index(file, "beside", "kind") is None
    path.write_bytes(whole + b"\0")
    assert load_index(file, "beside", "kind") is None


@pytest.mark.parametrize(
    "header",
    [
        [],
        3,
        {},
        {"kind": "kind", "identity": [], "facts": {}, "columns": [], "made_ns": 0},
        {"kind": "kind", "identity": 4, "facts": {}, "columns": [], "made_ns": 0},
        *(
            {"kind": "kind", "identity": ["4"], "facts": {}, "columns": columns, "made_ns": 0}
            for columns in (
                [["x", "O", 1]], [["x", "<i8", -1]], [["x", "<i8", 2**70]], [["x", "V0", 5]], [["x", "nonsense", 1]],
                [["x", "<i8", 1e400]], [["x", "<i8", "1"]], [["x"]], [3], 3, {"x": 1}, [[["x"], "<i8", 0]],
            )
        ),
    ],
)  # fmt: skip
def test_crafted_indexes_are_ignored(file: LocalFile, header: Any) -> None:
    text = json.dumps(header).encode()
    path = file.local.with_name("data.dataformats.idx") if file.local else Path()
    path.write_bytes(struct.pack("<8sII", b"DFINDEX1", len(text), zlib.crc32(text)) + text)
    assert load_index(file, "beside", "kind") is None


def test_deep_headers_are_ignored(file: LocalFile, tmp_path: Path) -> None:
    text = b"[" * 200_000
    data = struct.pack("<8sII", b"DFINDEX1", len(text), zlib.crc32(text)) + text
    (tmp_path / "data.dataformats.idx").write_bytes(data)
    assert load_index(file, "beside", "kind") is None


def test_indexes_of_changed_files_are_hints(file: LocalFile, tmp_path: Path) -> None:
    save_index(file, "beside", "kind", Index(COLUMNS, FACTS))
    os.utime(tmp_path / "data", ns=(5, 5))
    found = load_index(LocalFile(tmp_path / "data"), "beside", "kind")
    assert found is not None
    assert not found.exact
    (tmp_path / "data").write_bytes(b"more data")
    assert load_index(LocalFile(tmp_path / "data"), "beside", "kind") is None


def test_places_that_cannot_be_written(file: LocalFile) -> None:
    assert save_index(file, f"{file.name}/x", "kind", Index(COLUMNS, FACTS)) is None
    assert load_index(file, f"{file.name}/x", "kind") is None
    save_inferred([file], f"{file.name}/x", {"spec": {}})
    assert load_inferred([file], f"{file.name}/x") is None


def test_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    assert load_facts(LocalFolder(folder)) is None
    save_facts(folder, {"spec": {"x": "int64"}})
    expected = {"version": 1, "spec": {"x": "int64"}}
    monkeypatch.chdir(folder)
    for path in (folder, Path("."), Path("../folder"), tmp_path / "link", folder / "..", Path("/")):
        assert load_facts(LocalFolder(path)) == (expected if path.resolve() == folder else None)


def test_what_was_inferred(file: LocalFile, tmp_path: Path) -> None:
    assert load_inferred([file], "cache") is None
    facts = {"payload": "example", "spec": {"x": "int64", "é": "utf8"}}
    save_inferred([file], "cache", facts)
    assert load_inferred([file], "cache") == facts
    path = next(iter((tmp_path / "cache").rglob("*.spec.json")))
    whole = path.read_bytes()
    for damaged in [whole[:n] for n in range(len(whole))] + [b"[" * 100_000, b"[]", b"{}", b'{"facts": 1, "crc32": 1}']:
        path.write_bytes(damaged)
        assert load_inferred([file], "cache") is None
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert load_inferred([file], "cache") in (None, facts)
    path.write_bytes(whole)
    os.utime(tmp_path / "data", ns=(5, 5))
    assert load_inferred([LocalFile(tmp_path / "data")], "cache") is None
    assert sidecar.cache_folder() == tmp_path / "cache"
