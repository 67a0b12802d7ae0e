"""Where data lie: files, lists, globs, folders, URLs, path objects; and files that change while they are open."""

from __future__ import annotations

import io
import os
import posixpath
from typing import Any

import pytest

from dataformats.errors import DataFormatsError, FormatError
from dataformats.testing.records import PLAIN, plain, same
from dataformats.testing.workshop import Workshop, check_plain

__all__ = ["MemoryPath", "PlaceConformance"]


class MemoryPath:
    """A path object that is no `pathlib.Path` and no `PathLike`: what `open` asks for, over a dict."""

    def __init__(self, files: dict[str, bytes], name: str) -> None:
        self._files = files
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __truediv__(self, name: str) -> MemoryPath:
        return MemoryPath(self._files, f"{self._name}/{name}")

    @property
    def parent(self) -> MemoryPath:
        """The folder."""
        return MemoryPath(self._files, posixpath.dirname(self._name))

    def exists(self) -> bool:
        """Return True for a file or a folder."""
        return self._name in self._files or self.is_dir()

    def is_dir(self) -> bool:
        """Return True for a folder."""
        return any(name.startswith(f"{self._name}/") for name in self._files)

    def mkdir(self) -> None:
        """Do nothing: a folder is there with its first file."""

    def glob(self, pattern: str) -> list[MemoryPath]:
        """Return all files of this folder."""
        assert pattern == "*"
        return [MemoryPath(self._files, name) for name in self._files if posixpath.dirname(name) == self._name]

    def open(self, mode: str = "rb") -> Any:
        """Open the file."""
        if mode == "rb":
            return io.BytesIO(self._files[self._name])
        return _Written(self._files, self._name)


class _Written(io.BytesIO):
    def __init__(self, files: dict[str, bytes], name: str) -> None:
        super().__init__()
        self._files, self._name = files, name

    def close(self) -> None:
        if not self.closed:
            self._files[self._name] = self.getvalue()
        super().close()


class PlaceConformance:
    """The same records from everywhere."""

    def test_lists_keep_their_order(self, shop: Workshop) -> None:
        """Of paths, as str or PathLike, repeats included."""
        a, b = shop.write(3, "a"), shop.write(4, "b", first=3)
        src = shop.open(
            [b, str(a), b], payload="example" if shop.case.blobs else None, spec=PLAIN if shop.case.blobs else None
        )
        check_plain(src, [3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6])
        assert src.paths == (str(b), str(a), str(b))
        with pytest.raises(FileNotFoundError):
            shop.open([])

    def test_folders_and_globs(self, shop: Workshop) -> None:
        """Files in the format's order, hidden ones and ours left out."""
        folder = shop.folder / "train"
        with shop.create(folder, spec=PLAIN, shard_records=1) as writer:
            writer.extend(map(plain, range(12)))
        (folder / ".hidden").write_bytes(b"hidden")
        (folder / f"x{shop.case.suffix}.partial").write_bytes(b"unfinished")
        (folder / f"x{shop.case.suffix}.dataformats.idx").write_bytes(b"ours")
        told = {"payload": "example", "spec": PLAIN} if shop.case.blobs else {}
        for path in (folder, str(folder), str(folder) + "/", folder.as_uri()):
            check_plain(shop.open(path), range(12))
        check_plain(shop.open(f"{folder}/*", **told), range(12))
        check_plain(shop.open([f"{folder}/*", folder], **told), [*range(12), *range(12)])
        for missing in (folder / "nothing", f"{folder}/nothing*", "/nowhere/at/all"):
            with pytest.raises(FileNotFoundError):
                shop.open(missing)

    def test_folders_by_other_names(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sibling is found through `.`, a relative path and a link."""
        folder = shop.folder / "train"
        with shop.create(folder, spec=PLAIN, shard_records=5) as writer:
            writer.extend(map(plain, range(12)))
        link = shop.folder / "elsewhere"
        link.mkdir()
        (link / "linked").symlink_to(folder)
        check_plain(shop.open(link / "linked"), range(12))
        monkeypatch.chdir(folder)
        for path in (".", "../train", "../train/.", ""):
            if path:
                check_plain(shop.open(path), range(12))

    def test_what_is_no_data(self, shop: Workshop) -> None:
        """Is refused with the reasons, and an empty file unless the format is named."""
        noise = shop.folder / "noise.bin"
        noise.write_bytes(bytes(range(1, 200)))
        with pytest.raises(FormatError, match=shop.case.format):
            shop.open(noise)
        empty = shop.folder / "empty"
        empty.mkdir()
        with pytest.raises(DataFormatsError, match="empty"):
            shop.open(empty)
        nothing = shop.path("nothing")
        nothing.write_bytes(b"")
        with pytest.raises(FormatError, match="nothing"):
            shop.open(nothing)
        with pytest.raises(DataFormatsError, match="no-such-format"):
            shop.open(noise, format="no-such-format")
        for wrong in (3, None, b"bytes", object()):
            with pytest.raises(TypeError):
                shop.open(wrong)

    def test_urls(self, shop: Workshop) -> None:
        """`memory://`: written, opened by file, folder and glob, indexed, overwritten."""
        base = f"memory://{shop.folder.name}-{os.getpid()}-{shop.case.name}-{id(shop)}"
        one, many = f"{base}/one{shop.case.suffix}", f"{base}/many"
        with shop.create(one, spec=PLAIN) as writer:
            writer.extend(map(plain, range(5)))
        with shop.create(many, spec=PLAIN, shard_records=4) as writer:
            writer.extend(map(plain, range(10)))
        check_plain(shop.open(one), range(5))
        check_plain(shop.open(many), range(10))
        told = {"payload": "example", "spec": PLAIN} if shop.case.blobs else {}
        check_plain(shop.open(f"{many}/*", **told), range(10))
        assert shop.open(one).paths == (one,) or shop.open(one).paths[0].startswith("memory://")
        assert shop.open(one).fingerprint == shop.open(shop.write(5)).fingerprint
        with pytest.raises(FileExistsError):
            shop.create(one, spec=PLAIN)
        with shop.create(one, spec={"x": "int64"}, overwrite=True) as writer:
            writer.append({"x": 3})
        assert list(shop.open(one)) == [{"x": 3}]
        with pytest.raises(FileNotFoundError):
            shop.open(f"{base}/nothing")

    def test_path_objects(self, shop: Workshop) -> None:
        """That are neither `str` nor `PathLike`."""
        root = MemoryPath({}, "/root")
        one, many = root / f"one{shop.case.suffix}", root / "many"
        with shop.create(one, spec=PLAIN) as writer:
            writer.extend(map(plain, range(5)))
        with shop.create(many, spec=PLAIN, shard_records=4) as writer:
            writer.extend(map(plain, range(10)))
        check_plain(shop.open(one), range(5))
        told = {"payload": "example", "spec": PLAIN} if shop.case.blobs else {}
        check_plain(shop.open(many, **told), range(10))
        check_plain(shop.open([one, one]), [*range(5), *range(5)]) if not told else None
        with pytest.raises(FileNotFoundError):
            shop.open(root / "nothing")

    @pytest.mark.parametrize("verify", [True, False])
    def test_files_that_shrink(self, shop: Workshop, verify: bool) -> None:
        """What is cut off is an error that names the file, what is left is right."""
        path = shop.write(50)
        size = path.stat().st_size
        for kept in (0, 1, size // 2, size - 1):
            src = shop.open(path, verify_checksums=verify)
            check_plain([src[0], src[49]], [0, 49])
            whole = path.read_bytes()
            os.truncate(path, kept)
            failures = _read_changed(src, str(path), range(50))
            assert failures >= 1
            path.write_bytes(whole)

    def test_files_that_are_replaced(self, shop: Workshop) -> None:
        """By a rename, or written over: an error that names the file, never other records."""
        path = shop.write(50)
        whole, other = path.read_bytes(), shop.write(50, "other", first=100).read_bytes()
        for way in ("rename", "write"):
            path.write_bytes(whole)
            src = shop.open(path)
            check_plain([src[0]], [0])
            if way == "rename":
                shop.path("new").write_bytes(other)
                shop.path("new").replace(path)
            else:
                path.write_bytes(other)
            failures = _read_changed(src, str(path), range(50))
            assert failures == 50 or shop.case.ends is None  # decompressed data may be in memory


def _read_changed(src: Any, path: str, numbers: range) -> int:
    """Read all records of a file that changed; return how many fail."""
    failures: list[Exception] = []
    for index in numbers:
        try:
            found = src[index]
        except (DataFormatsError, FileNotFoundError) as error:
            failures.append(error)
        else:
            assert same(found, plain(index))
    n_failures = len(failures)
    streamed: list[Any] = []
    try:
        streamed.extend(src)
    except (DataFormatsError, FileNotFoundError) as error:
        failures.append(error)
    assert len(failures) > n_failures or n_failures < len(numbers)
    assert [str(error) for error in failures if path not in str(error)] == [], "an error does not name the file"
    check_plain(streamed, numbers[: len(streamed)])
    return n_failures
