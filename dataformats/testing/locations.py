"""Where data lie: files, lists, globs, folders, URLs, path objects; and files that change while they are open."""

from __future__ import annotations

import io
import os
import pickle
import posixpath
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from dataformats.errors import DataFormatsError, FormatError, UnknownNameError
from dataformats.testing.dataset_fixture import Workshop, check_plain, fail_after, in_fork
from dataformats.testing.records import PLAIN, plain, same
from dataformats.testing.subprocess_entry import digest

__all__ = ["BarePath", "MemoryPath", "PlaceConformance"]


class BarePath:
    """A path object that is no `pathlib.Path` and no `PathLike`: what `open` asks for and no more, over a dict."""

    def __init__(self, files: dict[str, bytes], name: str) -> None:
        self._files = files
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __truediv__(self, name: str) -> Self:
        return type(self)(self._files, f"{self._name}/{name}")

    def exists(self) -> bool:
        """Return True for a file or a folder."""
        return self._name in self._files or self.is_dir()

    def is_dir(self) -> bool:
        """Return True for a folder."""
        return any(name.startswith(f"{self._name}/") for name in self._files)

    def is_file(self) -> bool:
        """Return True for a file."""
        return self._name in self._files

    def mkdir(self) -> None:
        """Do nothing: a folder is there with its first file."""

    def glob(self, pattern: str) -> list[Self]:
        """Return all files and folders of this folder."""
        assert pattern == "*"
        inside = [name.removeprefix(f"{self._name}/") for name in self._files if name.startswith(f"{self._name}/")]
        return [self / name for name in dict.fromkeys(name.partition("/")[0] for name in inside)]

    def open(self, mode: str = "rb") -> Any:
        """Open the file."""
        if mode == "rb":
            return io.BytesIO(self._files[self._name])
        return _Written(self._files, self._name)


class MemoryPath(BarePath):
    """One that also knows its folder, so that siblings are found and written."""

    @property
    def parent(self) -> Self:
        """The folder."""
        return type(self)(self._files, posixpath.dirname(self._name))


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
        for told in ({}, shop.told()):
            src = shop.open([b, str(a), b], **told)
            assert src.spec == PLAIN
            check_plain(src, [3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6])
            paths = [shop.open(path).paths for path in (b, a, b)]
            assert src.paths == tuple(name for named in paths for name in named)
        if not shop.case.folder:
            assert src.paths == (str(b), str(a), str(b))
        shop.write_records([{"id": 1}], {"id": "int64"}, "c")
        with pytest.raises(DataFormatsError, match=r"spec|fields"):
            shop.open([a, shop.path("c")])
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
        for path in (folder, str(folder), str(folder) + "/", folder.as_uri(), [folder]):
            assert shop.open(path).spec == PLAIN
            check_plain(shop.open(path), range(12))
        check_plain(shop.open(f"{folder}/*"), range(12))
        told = shop.told() if shop.case.folder else {}  # the folder that we wrote is not that of each file
        check_plain(shop.open([f"{folder}/*", folder], **told), [*range(12), *range(12)])
        shop.folder.joinpath("train.dataformats.json").unlink()
        for found in (folder, f"{folder}/*"):
            check_plain(shop.open(found, **shop.told()), range(12))
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
        assert shop.open(one).spec == shop.open(many).spec == PLAIN
        check_plain(shop.open(f"{many}/*"), range(10))
        check_plain(shop.open([one, many]), [*range(5), *range(10)])
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
        files: dict[str, bytes] = {}
        root = MemoryPath(files, "/folder")
        one, many = root / f"one{shop.case.suffix}", root / "many"
        with shop.create(one, spec=PLAIN) as writer:
            writer.extend(map(plain, range(5)))
        with shop.create(many, spec=PLAIN, shard_records=4) as writer:
            writer.extend(map(plain, range(10)))
        check_plain(shop.open(one), range(5))
        check_plain(shop.open(many), range(10))
        assert shop.open(one).spec == shop.open(many).spec == PLAIN
        check_plain(shop.open([one, many, one]), [*range(5), *range(10), *range(5)])
        with pytest.raises(FileNotFoundError):
            shop.open(root / "nothing")
        with pytest.raises(FileExistsError):
            shop.create(many, spec=PLAIN)
        bare = BarePath(files, "/folder")  # has no sibling: nothing tells where its folder is
        check_plain(shop.open(bare / f"one{shop.case.suffix}", **shop.told()), range(5))
        check_plain(shop.open(bare / "many", **shop.told()), range(10))
        before = sorted(files)
        with pytest.raises(TypeError, match="parent"):
            shop.create(bare / "new", spec=PLAIN)
        assert sorted(files) == before

    def test_only_local_data_are_resumed(self, shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A URL and a path object are refused at once; nothing is left in the temporary folder, then or ever."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        url = f"memory://{shop.folder.name}-{os.getpid()}-{shop.case.name}-{id(shop)}/one{shop.case.suffix}"
        for path in (url, MemoryPath({}, f"/folder/one{shop.case.suffix}")):
            for options in ({}, {"shard_records": 3}):
                with pytest.raises(ValueError, match="local"):
                    shop.create(path, spec=PLAIN, resume=True, **options)
            with shop.create(path, spec=PLAIN) as writer:
                writer.extend(map(plain, range(3)))
            with pytest.raises(FileExistsError):
                shop.create(path, spec=PLAIN)
            with pytest.raises(ZeroDivisionError):
                fail_after(shop.create(path, spec=PLAIN, overwrite=True), [plain(1)])
            with pytest.raises(TypeError, match="no_such_option"):
                shop.create(path, spec=PLAIN, overwrite=True, no_such_option=1)
            check_plain(shop.open(path), range(3))
            assert list((tmp_path / "temporary").iterdir()) == []

    @pytest.mark.parametrize("cache", ["memory", ("data",)], ids=str)
    def test_caches(self, shop: Workshop, cache: Any) -> None:
        """Files, or those of some fields, held in memory: the same records, in other processes too."""
        path = shop.write(30)
        source = shop.open(path, cache=cache)
        expected = digest(shop.open(path))
        assert in_fork(lambda: digest(source)) == expected  # not read before
        assert digest(source) == expected
        assert source.fingerprint == shop.open(path).fingerprint
        assert in_fork(lambda: digest(source)) == expected
        again = pickle.loads(pickle.dumps(source))
        assert len(pickle.dumps(source)) < 1024
        assert digest(again) == expected
        assert source.read([3], ["data"])[0] == {"data": plain(3)["data"]}
        with ThreadPoolExecutor(4) as threads:
            fresh = shop.open(path, cache=cache)
            for batch in threads.map(lambda seed: fresh.read([seed, 29 - seed]), range(8)):
                check_plain(batch, batch.indices.tolist())
        for wrong in ("disk", "data"):
            with pytest.raises(ValueError, match="cache"):
                shop.open(path, cache=wrong)
        if not shop.case.blobs:
            with pytest.raises(UnknownNameError, match="nothing"):
                shop.open(path, cache=("nothing",))

    @pytest.mark.parametrize("verify", [True, False])
    def test_files_that_shrink(self, shop: Workshop, verify: bool) -> None:
        """What is cut off is an error that names the file, what is left is right."""
        path = shop.write(50)
        for file in map(Path, shop.open(path).paths):
            whole = file.read_bytes()
            for kept in (0, 1, len(whole) // 2, len(whole) - 1):
                src = shop.open(path, verify_checksums=verify)
                check_plain([src[0], src[49]], [0, 49])
                os.truncate(file, kept)
                failures = _read_changed(src, str(file), range(50))
                assert failures >= 1 or file.name.endswith(shop.case.read_once)
                file.write_bytes(whole)

    def test_files_that_are_replaced(self, shop: Workshop) -> None:
        """By a rename, or written over: an error that names the file, never other records."""
        path, others = shop.write(50), shop.write(50, "other", first=100)
        for file, other in zip(shop.open(path).paths, shop.open(others).paths, strict=True):
            whole = Path(file).read_bytes()
            for way in ("rename", "write"):
                src = shop.open(path)
                check_plain([src[0]], [0])
                if way == "rename":
                    shop.path("new").write_bytes(Path(other).read_bytes())
                    shop.path("new").replace(file)
                else:
                    Path(file).write_bytes(Path(other).read_bytes())
                failures = _read_changed(src, file, range(50))
                assert failures == 50 or shop.case.ends is None  # decompressed data may be in memory
                Path(file).write_bytes(whole)


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
