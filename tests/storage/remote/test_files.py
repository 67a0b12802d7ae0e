"""Files behind URLs: a small file beside the data is read whole or refused, and no change is missed."""

from __future__ import annotations

from typing import Any

import pytest

from dataformats.errors import FormatError
from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.versions import Versions
from tests.storage.remote.counting_store import CountingStore


def test_too_long_file_beside_the_data_is_refused() -> None:
    store = CountingStore()
    data = store.file("a", b"data")
    store.file("a.json", b"{'a': 123}")
    assert data.bytes_beside("a.json", 10) == (f"memory://{store.folder}/a.json", b"{'a': 123}")
    with pytest.raises(FormatError, match="too long to be read whole"):
        data.bytes_beside("a.json", 9)


def test_the_file_compared_longest_ago_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = CountingStore(), list[str]()

    def version(file: FsspecFile) -> dict[str, tuple[str, ...]]:
        asked.append(file.path[-1])
        return {}

    monkeypatch.setattr(Versions, "is_due", True)
    monkeypatch.setattr(FsspecFile, "_version", version)
    files = [store.file(name, b"data") for name in "abc"]
    for _ in range(4):
        FsspecFile.check_unchanged(files)
    assert asked == ["a", "b", "c", "a"]


def test_kept_listings_hide_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    store, kept = CountingStore(), dict[str, Any]()
    monkeypatch.setattr(Versions, "is_due", True)
    monkeypatch.setattr(store, "info", lambda path: kept.setdefault(path, store.fs.info(path)), raising=False)
    monkeypatch.setattr(store, "invalidate_cache", lambda path: kept.clear(), raising=False)
    file = store.file("a", b"old")
    FsspecFile.check_unchanged([file])
    store.fs.pipe_file(file.path, b"newer")
    with pytest.raises(FormatError, match="replaced or changed"):
        FsspecFile.check_unchanged([file])
