"""A remote file that changes while it is open is an error, whichever of the files of a read it is."""

from __future__ import annotations

import pickle
import time
from typing import Any

import fsspec
import pytest

import dataformats
from dataformats.storage.paths import resolve
from dataformats.storage.remote import range_requests
from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.versions import Versions


@pytest.mark.parametrize("name", ["", "/*.syr"])
def test_every_file_of_a_read_is_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked once: for the listing or the glob that the files came with."""
    memory = fsspec.filesystem("memory")
    with dataformats.create(
        "memory://versions/x", "syrah", spec={"n": "int64"}, shard_records=1, overwrite=True
    ) as out:
        out.extend({"n": number} for number in range(4))
    source = dataformats.open(f"memory://versions/x{name}")
    assert source.read([0, 1, 2, 3])["n"].tolist() == [0, 1, 2, 3]
    asked: list[str] = []
    monkeypatch.setattr(type(memory), "info", _noted(type(memory).info, asked))
    monkeypatch.setattr(Versions, "is_due", True)
    assert source.read([3, 1])["n"].tolist() == [3, 1]
    assert not [path for path in asked if path.endswith(".syr")]
    last = source.paths[3].removeprefix("memory:/")
    memory.pipe_file(last, memory.cat_file(source.paths[0].removeprefix("memory:/")))
    with pytest.raises(dataformats.FormatError, match="replaced or changed while it was open") as caught:
        source.read([0, 1, 2, 3])
    assert caught.value.path == source.paths[3]
    assert source.read([0, 2])["n"].tolist() == [0, 2]
    memory.rm_file(last)
    with pytest.raises(FileNotFoundError):
        source.read([0, 3])


@pytest.mark.parametrize("name", ["", "/*"])
def test_version_check_is_repeated_after_transient_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are pickled; some file systems give no size of folders."""
    memory = fsspec.filesystem("memory")
    memory.pipe({"/passing/x/a": b"abc", "/passing/x/sub/b": b""})
    (folder,) = pickle.loads(pickle.dumps(resolve(f"memory://passing/x{name}")))
    file = folder.file(folder.names()[0])
    failed: list[str] = []

    def listed(real: Any) -> Any:
        def answer(self: Any, path: str, **options: Any) -> Any:
            if path not in failed:
                failed.append(path)
                raise ConnectionResetError("cut")
            found = real(self, path, **options)
            for entry in found if isinstance(found, list) else []:
                if entry["type"] == "directory":
                    del entry["size"]
            return found

        return answer

    for method in ("ls", "glob"):
        monkeypatch.setattr(type(memory), method, listed(getattr(type(memory), method)))
    monkeypatch.setattr(range_requests, "_pause", lambda seconds: None)
    monkeypatch.setattr(Versions, "is_due", True)
    assert file.pread(0, 3) == b"abc"
    assert failed


def _noted(real: Any, asked: list[str]) -> Any:
    def info(self: Any, path: str, **options: Any) -> Any:
        asked.append(path)
        return real(self, path, **options)

    return info


def test_slow_listing_is_rarely_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    asked: list[float] = []

    def ask() -> dict[str, tuple[str, ...]]:
        asked.append(now[0])
        return {}

    versions = Versions(ask, seconds=3.0)
    for _ in range(100):
        now[0] += 1.0
        versions.update()
    assert asked == [130.0] + [float(second) for second in range(131, 201)]  # asking took no time here


def test_a_copy_is_not_the_file() -> None:
    """`simplecache::` keeps its copy: neither its blocks nor an index of it may stand for the new version."""
    memory = fsspec.filesystem("memory")
    found = []
    for content in (b"old", b"new"):
        memory.pipe_file("/copied/x", content)
        for chain in ("simplecache::", ""):
            (file,) = resolve(f"{chain}memory://copied/x")
            assert isinstance(file, FsspecFile)
            found.append((file.pread(0, 3), file.has_name))
    assert found == [(b"old", False), (b"old", True), (b"old", False), (b"new", True)]
