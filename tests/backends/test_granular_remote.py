"""Granular behind a URL: few requests, and independent requests run together."""

from __future__ import annotations

import threading
from typing import Any

import fsspec
import pytest

import dataformats
from dataformats.storage.remote.files import FsspecFolder

SPEC = {"a": "int64", "b": "utf8", "c": "bytes"}
MEMORY = type(fsspec.filesystem("memory"))


def written(name: str, generation: int) -> str:
    url = f"memory://granular-remote/{name}-{generation}"
    with dataformats.create(url, "granular", spec=SPEC, generation=generation, overwrite=True) as writer:
        writer.extend({"a": i, "b": str(i), "c": b"x" * i} for i in range(1, 50))
    return url


def together(real: Any, n: int, ending: str) -> Any:
    """Return a method that waits until `n` threads have called it for such paths."""
    barrier = threading.Barrier(n, timeout=240)

    def called(self: Any, paths: Any, *arguments: Any, **named: Any) -> Any:
        if (paths if isinstance(paths, str) else paths[0]).endswith(ending):
            barrier.wait()
        return real(self, paths, *arguments, **named)

    return called


@pytest.mark.parametrize("generation", [2, 3])
def test_tables_of_fields_are_requested_at_once(generation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    url = written("tables", generation)
    source = dataformats.open(url)
    n = len(source)
    if generation == 3:
        monkeypatch.setattr(MEMORY, "cat_ranges", together(MEMORY.cat_ranges, 3, ".idx"))
    assert source.read([0, n - 1])["a"].tolist() == [1, 49]
    assert dataformats.open(url).fingerprint == source.fingerprint


def test_a_declared_dataset_is_one_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    url = written("declared", 3)
    asked: list[str] = []
    real = MEMORY.info

    def info(self: Any, path: str, **options: Any) -> Any:
        asked.append(path)
        return real(self, path, **options)

    monkeypatch.setattr(MEMORY, "info", info)
    assert len(dataformats.open(url, format="granular", spec=SPEC)) == 49
    assert not [path for path in asked if path.endswith("declared-3")]
    with pytest.raises(FileNotFoundError, match="granular-remote/none"):
        dataformats.open("memory://granular-remote/none", format="granular", spec=SPEC)
    bag = "memory://granular-remote/declared-3/a.bag"
    assert len(dataformats.open(bag, format="granular")) == 49


def test_missing_sizes_are_requested_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing without sizes, such as the pages of HTTP servers, which list names alone."""
    folder = FsspecFolder(fsspec.filesystem("memory"), written("sizes", 3).removeprefix("memory:/"))
    names = [name for name in folder.names() if name.endswith(".idx")]
    monkeypatch.setattr(folder, "_listing", {name: {"type": "file", "size": None} for name in names})
    monkeypatch.setattr(MEMORY, "info", together(MEMORY.info, 3, ".idx"))
    assert [(file.basename, file.size) for file in folder.files(names)] == [(name, 8 * 49) for name in names]
