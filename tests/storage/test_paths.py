"""Paths, globs and folders resolve to files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dataformats.errors import MissingExtraError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.files import LocalFile
from dataformats.storage.paths import is_local, resolve


def names(path: Any) -> list[str]:
    found = resolve(path)
    return [name for entry in found for name in (entry.names() if isinstance(entry, Folder) else [entry.name])]


def test_what_a_path_can_be(tmp_path: Path) -> None:
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


def test_what_is_not_there(tmp_path: Path) -> None:
    missing: list[Any] = [tmp_path / "x", f"{tmp_path}/*", [], f"{tmp_path}/[", "memory://nothing/x"]
    for path in [*missing, "memory://nothing/*"]:
        with pytest.raises(FileNotFoundError):
            resolve(path)
    for wrong in (None, 3, b"x", {"x": 1}, object()):
        with pytest.raises(TypeError):
            resolve(wrong)


def test_local_or_not() -> None:
    assert is_local("x")
    assert is_local(Path("x"))
    assert not is_local("s3://x")
    assert not is_local(object())


@pytest.mark.parametrize(("url", "package", "extra"), [("s3://x/y", "s3fs", "s3"), ("gs://x/y", "gcsfs", "gcs")])
def test_the_extra_of_a_scheme(monkeypatch: pytest.MonkeyPatch, url: str, package: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"'{url}' .* needs: pip install 'dataformats\[{extra}\]'"):
        resolve(url)


def test_a_scheme_without_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(ImportError, match="adlfs") as caught:
        resolve("abfs://x/y")
    assert not isinstance(caught.value, MissingExtraError)
