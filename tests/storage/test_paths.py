"""Paths, globs and folders resolve to files."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.core import OpenFile
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

import dataformats
from dataformats.errors import MissingExtraError, UnknownNameError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.staging.paths import area_at
from dataformats.storage.files import LocalFile
from dataformats.storage.paths import is_local, resolve
from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.systems import _EXTRAS
from dataformats.testing.loop_over import loop_over


def names(path: Any) -> list[str]:
    found = resolve(path)
    return [name for entry in found for name in (entry.names() if isinstance(entry, Folder) else [entry.name])]


def test_resolve_accepts_every_kind_of_path(tmp_path: Path) -> None:
    for name in ("a1", "a2", "b", "[x]", ".hidden", "a3.partial"):
        (tmp_path / name).write_bytes(b"1")
    a1 = str(tmp_path / "a1")
    for path in (a1, tmp_path / "a1", [a1], (tmp_path / "a1",), f"file://{a1}"):
        assert names(path) == [a1]
    assert names(str(tmp_path / "[x]")) == [str(tmp_path / "[x]")]
    assert names(f"{tmp_path}/a*") == [a1, str(tmp_path / "a2")]
    assert names(f"{tmp_path}/**/b") == [str(tmp_path / "b")]
    assert names(tmp_path) == ["[x]", "a1", "a2", "b"]
    found = resolve([a1, f"{tmp_path}/a*"])
    assert isinstance(found[0], LocalFile)
    assert isinstance(found[1], Folder)
    assert not isinstance(found[1], StoredFile)


def test_resolve_refuses_missing_and_wrong_paths(tmp_path: Path) -> None:
    missing: list[Any] = [tmp_path / "x", f"{tmp_path}/*", [], f"{tmp_path}/[", "memory://nothing/x"]
    for path in [*missing, "memory://nothing/*"]:
        with pytest.raises(FileNotFoundError):
            resolve(path)
    for wrong in (None, 3, {"x": 1}, object()):
        with pytest.raises(TypeError):
            resolve(wrong)


def test_local_or_not() -> None:
    assert is_local("x")
    assert is_local(Path("x"))
    assert not is_local("s3://x")
    assert not is_local(object())


@loop_over(
    "url, package, line",
    [
        ("s3://x/y", "s3fs", "pip install 'dataformats[s3]'"),
        ("gs://x/y", "gcsfs", "pip install 'dataformats[gcs]'"),
        ("simplecache::gs://x/y", "gcsfs", "pip install 'dataformats[gcs]'"),
        ("http://x/y", "aiohttp", "pip install aiohttp"),
        ("abfs://x/y", "adlfs", "pip install adlfs"),
        ("hf://datasets/x/y", "huggingface_hub", "pip install huggingface_hub"),
    ],
)
def test_missing_package_error_states_the_install_command(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str, line: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    scheme = url.rpartition("::")[2].partition("://")[0]
    monkeypatch.delitem(_registry, scheme, raising=False)  # another test may have used it
    for use in (resolve, area_at):
        with pytest.raises(MissingExtraError, match=re.escape(f"'{url}' ")) as caught:
            use(url)
        assert caught.value.remedy == f"Run {line}"


def test_extras_in_errors_exist() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert {*_EXTRAS.values()} <= declared["project"]["optional-dependencies"].keys()


def test_files_of_a_folder_are_asked_for_in_one_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes, versions, and which indexes lie beside them."""
    with dataformats.create("memory://listed/x", "tfrecord", shard_records=1, overwrite=True) as writer:
        writer.extend([b"x"] * 20)
    memory = fsspec.filesystem("memory")
    asked: list[str] = []
    real = type(memory).info

    def info(self: Any, path: str, **options: Any) -> Any:
        asked.append(path)
        return real(self, path, **options)

    monkeypatch.setattr(type(memory), "info", info)
    for url in ("memory://listed/x", "memory://listed/x/*.tfrecord"):
        asked.clear()
        assert len(dataformats.open(url)) == 20
        assert len(asked) <= 4


def test_an_unknown_scheme() -> None:
    for use in (resolve, area_at):
        for url in ("s4://x/y", "simplecache::s4://x/y"):
            with pytest.raises(UnknownNameError, match="unknown URL scheme 's4'"):
                use(url)


def test_errors_of_file_systems_are_os_errors(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"no archive")
    for url in (f"zip://y::{tmp_path}/x", f"tar://y::{tmp_path}/x", "reference://x", "data://x"):
        with pytest.raises(OSError, match=re.escape(url)):
            resolve(url)


def test_an_unknown_user() -> None:
    for use in (resolve, area_at):
        with pytest.raises(FileNotFoundError, match="'~no-such-user/x': no user"):
            use("~no-such-user/x")


def test_a_cached_file_needs_no_listing_of_its_folder(tmp_path: Path) -> None:
    """HTTP servers may have no page for the folder of a file, and `filecache::` looks for one."""

    class Unlisted(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
        protocol = "unlisted"
        store: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
        pseudo_dirs: ClassVar[list[str]] = [""]

        def ls(self, path: str, *_: Any, **__: Any) -> Any:
            raise FileNotFoundError(path)

    fs = Unlisted()
    fs.pipe_file("/folder/x", b"content")
    cached = fsspec.filesystem("filecache", fs=fs, cache_storage=str(tmp_path))
    (file,) = resolve(OpenFile(cached, "/folder/x"))
    assert isinstance(file, FsspecFile)
    assert file.pread(0, 7) == b"content"
