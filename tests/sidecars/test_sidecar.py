"""Sidecars: correct, or ignored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dataformats.indexing.index_cache import cache_folder
from dataformats.indexing.inferred_spec import load_inferred, save_inferred
from dataformats.sidecars.sidecar import Sidecar, load_sidecar, sidecar_bytes
from dataformats.storage.files import LocalFile, LocalFolder


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalFile:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "data"
    path.write_bytes(b"data")
    os.utime(path, ns=(10**18, 10**18))
    return LocalFile(path)


def test_unwritable_cache_stores_no_inferred_facts(file: LocalFile) -> None:
    save_inferred([file], f"{file.name}/x", {"spec": {}})
    assert load_inferred([file], f"{file.name}/x") is None


def test_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    assert load_sidecar(LocalFolder(folder)) is None
    (tmp_path / "folder.dataformats.json").write_bytes(sidecar_bytes({"spec": {"x": "int64"}}))
    expected = Sidecar(str(tmp_path / "folder.dataformats.json"), {"spec": {"x": "int64"}})
    monkeypatch.chdir(folder)
    for path in (folder, Path("."), Path("../folder"), tmp_path / "link", folder / "..", Path("/")):
        assert load_sidecar(LocalFolder(path)) == (expected if path.resolve() == folder else None)


def test_each_fact_and_each_file_has_a_line() -> None:
    facts = {"format": "ffrecord", "files": [{"name": f"{n}.ffr", "records": n} for n in range(3)], "plan": {}}
    for content in (facts, {**facts, "files": []}, {}):
        text = sidecar_bytes(content)
        assert json.loads(text) == {"version": 1, **content}
        n_files = len(content.get("files", ()))
        assert len(text.splitlines()) == len(content) + 3 + (n_files + 1 if n_files else 0)


def test_inferred_facts_are_cached_and_checked(file: LocalFile, tmp_path: Path) -> None:
    assert load_inferred([file], "cache") is None
    metadata = {"payload": "example", "spec": {"x": "int64", "é": "utf8"}}
    save_inferred([file], "cache", metadata)
    assert load_inferred([file], "cache") == metadata
    path = next(iter((tmp_path / "cache").rglob("*.spec.json")))
    whole = path.read_bytes()
    for damaged in [whole[:n] for n in range(len(whole))] + [b"[" * 100_000, b"[]", b"{}", b'{"facts": 1, "crc32": 1}']:
        path.write_bytes(damaged)
        assert load_inferred([file], "cache") is None
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert load_inferred([file], "cache") in (None, metadata)
    path.write_bytes(whole)
    os.utime(tmp_path / "data", ns=(5, 5))
    assert load_inferred([LocalFile(tmp_path / "data")], "cache") is None
    assert cache_folder() == tmp_path / "cache"
