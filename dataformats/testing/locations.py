"""Locations: files, lists, globs, folders, URLs, path objects; and files that change while they are open."""

from __future__ import annotations

import io
import os
import pickle
import posixpath
import secrets
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from dataformats.errors import DataFormatsError, FormatError, UnknownNameError
from dataformats.testing.dataset_fixture import DatasetFixture, fail_after
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value
from dataformats.testing.subprocess_entry import digest, in_fork


class BarePath:
    """A path object over a dict, neither `pathlib.Path` nor `PathLike`, with the methods that `open` calls."""

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
        """Do nothing: a folder exists once it has a file."""

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
    """A path object that also knows its folder, so that sidecars are found and written."""

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


class LocationConformance:
    """The same records from everywhere."""

    def test_lists_keep_their_order(self, data: DatasetFixture) -> None:
        """A list of paths, each a str or PathLike, may repeat a path."""
        a, b = data.write(3, "a"), data.write(4, "b", first=3)
        for declared in ({}, data.declared()):
            src = data.open([b, str(a), b], **declared)
            data.check_spec(src)
            data.check(src, [3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6])
            paths = [data.open(path).paths for path in (b, a, b)]
            assert src.paths == tuple(name for named in paths for name in named)
        if not data.case.folder:
            assert src.paths == (str(b), str(a), str(b))
        if data.case.plain:
            data.write_records([{"id": "x"}], {"id": "utf8"}, "c")
            with pytest.raises(DataFormatsError, match=r"spec|fields"):
                data.open([a, data.path("c")])
        with pytest.raises(FileNotFoundError):
            data.open([])

    def test_folders_and_globs(self, data: DatasetFixture) -> None:
        """Files in the format's order, without hidden files and sidecars."""
        folder = data.folder / "train"
        with data.create(folder, shard_records=1) as writer:
            writer.extend(data.records(range(12)))
        (folder / ".hidden").write_bytes(b"hidden")
        (folder / f"x{data.case.suffix}.partial").write_bytes(b"unfinished")
        (folder / f"x{data.case.suffix}.dataformats.idx").write_bytes(b"ours")
        for path in (folder, str(folder), str(folder) + "/", folder.as_uri(), [folder]):
            data.check_spec(data.open(path))
            data.check(data.open(path), range(12))
        data.check(data.open(f"{folder}/*"), range(12))
        declared = data.declared() if data.case.folder else {}  # only the outer folder has a sidecar
        data.check(data.open([f"{folder}/*", folder], **declared), [*range(12), *range(12)])
        data.folder.joinpath("train.dataformats.json").unlink(missing_ok=True)
        for found in (folder, f"{folder}/*"):
            data.check(data.open(found, **data.declared()), range(12))
        for missing in (folder / "nothing", f"{folder}/nothing*", "/nowhere/at/all"):
            with pytest.raises(FileNotFoundError):
                data.open(missing)

    def test_folders_by_other_names(self, data: DatasetFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sidecar is found through `.`, a relative path and a link."""
        folder = data.folder / "train"
        with data.create(folder, shard_records=5) as writer:
            writer.extend(data.records(range(12)))
        link = data.folder / "elsewhere"
        link.mkdir()
        (link / "linked").symlink_to(folder)
        data.check(data.open(link / "linked"), range(12))
        monkeypatch.chdir(folder)
        for path in (".", "../train", "../train/.", ""):
            if path:
                data.check(data.open(path), range(12))

    def test_links_out_of_the_folder_are_refused(self, data: DatasetFixture) -> None:
        """Links to files and folders elsewhere are refused, unless the call follows links."""
        folder, elsewhere = data.folder / "train", data.folder / "elsewhere"
        with data.create(folder, shard_records=5) as writer:
            writer.extend(data.records(range(12)))
        folder.rename(elsewhere)
        folder.mkdir()
        for path in elsewhere.iterdir():
            (folder / path.name).symlink_to(path)
        with pytest.raises(FormatError, match="a link that leads out of its folder"):
            data.open(folder)
        data.check(data.open(folder, follow_links=True, **data.declared()), range(12))

    def test_other_data_raise_errors(self, data: DatasetFixture) -> None:
        """Other data raise an error with the reasons; so does an empty file, unless its name is of the format.

        Then it is an empty dataset, or an error of a format whose files have a header.
        """
        noise = data.folder / "noise.bin"
        noise.write_bytes(bytes(range(1, 200)))
        with pytest.raises(FormatError, match="no known format: it begins with b"):
            data.open(noise)
        empty = data.folder / "empty"
        empty.mkdir()
        with pytest.raises(DataFormatsError, match="empty"):
            data.open(empty)
        nameless = data.folder / "nothing.bin"
        nameless.touch()
        with pytest.raises(FormatError, match="nothing"):
            data.open(nameless)
        named = data.path("nothing")
        named.touch()
        try:
            n, culprit = len(data.open(named)), str(named)
        except FormatError as error:
            n, culprit = 0, str(error.path)
        assert (n, culprit) == (0, str(named))
        with pytest.raises(DataFormatsError, match="no-such-format"):
            data.open(noise, format="no-such-format")
        with pytest.raises(FormatError, match="no known format: it begins with b"):
            data.open(noise.read_bytes())
        for wrong in (3, None, object()):
            with pytest.raises(TypeError):
                data.open(wrong)

    def test_urls(self, data: DatasetFixture) -> None:
        """`memory://`: written, opened by file, folder and glob, indexed, overwritten."""
        base = f"memory://{data.case.name}-{secrets.token_hex(8)}"
        one, many = f"{base}/one{data.case.suffix}", f"{base}/many"
        with data.create(one) as writer:
            writer.extend(data.records(range(5)))
        with data.create(many, shard_records=4) as writer:
            writer.extend(data.records(range(10)))
        data.check(data.open(one), range(5))
        data.check(data.open(many), range(10))
        data.check_spec(data.open(one), data.open(many))
        data.check(data.open(f"{many}/*"), range(10))
        data.check(data.open([one, many]), [*range(5), *range(10)])
        assert data.open(one).paths == (one,) or data.open(one).paths[0].startswith("memory://")
        assert data.open(one).fingerprint == data.open(data.write(5)).fingerprint
        with pytest.raises(FileExistsError):
            data.create(one)
        with data.create(one, overwrite=True) as writer:
            writer.append(data.record(7))
        data.check(data.open(one), [7])
        with pytest.raises(FileNotFoundError):
            data.open(f"{base}/nothing")

    def test_path_objects(self, data: DatasetFixture) -> None:
        """Path objects that are neither `str` nor `PathLike`."""
        files: dict[str, bytes] = {}
        root = MemoryPath(files, "/folder")
        one, many = root / f"one{data.case.suffix}", root / "many"
        with data.create(one) as writer:
            writer.extend(data.records(range(5)))
        with data.create(many, shard_records=4) as writer:
            writer.extend(data.records(range(10)))
        data.check(data.open(one), range(5))
        data.check(data.open(many), range(10))
        data.check_spec(data.open(one), data.open(many))
        data.check(data.open([one, many, one]), [*range(5), *range(10), *range(5)])
        with pytest.raises(FileNotFoundError):
            data.open(root / "nothing")
        with pytest.raises(FileExistsError):
            data.create(many)
        bare = BarePath(files, "/folder")  # has no sidecar: its folder is not known
        data.check(data.open(bare / f"one{data.case.suffix}", **data.declared()), range(5))
        data.check(data.open(bare / "many", **data.declared()), range(10))
        before = sorted(files)
        with pytest.raises(TypeError, match="parent"):
            data.create(bare / "new")
        assert sorted(files) == before

    def test_only_local_data_are_resumed(
        self, data: DatasetFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`resume` refuses a path object and a single URL at once; nothing is left in the temporary folder."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        url = f"memory://{data.case.name}-{secrets.token_hex(8)}/one{data.case.suffix}"
        for path in (url, MemoryPath({}, f"/folder/one{data.case.suffix}")):
            for options in ({}, {"shard_records": 3}) if path is not url else ({},):
                with pytest.raises(ValueError, match="local"):
                    data.create(path, resume=True, **options)
            with data.create(path) as writer:
                writer.extend(data.records(range(3)))
            with pytest.raises(FileExistsError):
                data.create(path)
            with pytest.raises(ZeroDivisionError):
                fail_after(data.create(path, overwrite=True), [data.record(1)])
            with pytest.raises(TypeError, match="no_such_option"):
                data.create(path, overwrite=True, no_such_option=1)
            data.check(data.open(path), range(3))
            assert list((tmp_path / "temporary").iterdir()) == []

    @loop_over("cache", ["memory", ("data",)])
    def test_caches(self, data: DatasetFixture, cache: Any) -> None:
        """Files held in memory, all or only some fields' files, give the same records, in other processes too."""
        if cache != "memory" and data.spec:
            cache = tuple(data.spec)[-1:]
        path = data.write(30)
        source = data.open(path, cache=cache)
        expected = digest(data.open(path))
        if data.case.survives_fork:
            assert in_fork(lambda: digest(source)) == expected  # the parent process has not read it
        assert digest(source) == expected
        assert source.fingerprint == data.open(path).fingerprint
        if data.case.survives_fork:
            assert in_fork(lambda: digest(source)) == expected
        again = pickle.loads(pickle.dumps(source))
        assert len(pickle.dumps(source)) < 1024
        assert digest(again) == expected
        if data.case.plain:
            assert source.read([3], ["data"])[0] == {"data": data.record(3)["data"]}
        with ThreadPoolExecutor(4) as threads:
            fresh = data.open(path, cache=cache)
            for batch in threads.map(lambda seed: fresh.read([seed, 29 - seed]), range(8)):
                data.check(batch, batch.indices.tolist())
        for wrong in ("disk", "data"):
            with pytest.raises(ValueError, match="cache"):
                data.open(path, cache=wrong)
        if not data.case.blobs:
            with pytest.raises(UnknownNameError, match="nothing"):
                data.open(path, cache=("nothing",))

    @loop_over("verify", [True, False])
    def test_shrunk_file_raises_its_name(self, data: DatasetFixture, verify: bool) -> None:
        """Records that are cut off are errors that name the file; the others are right."""
        path = data.write(50)
        for file in map(Path, data.open(path).paths):
            whole = file.read_bytes()
            for kept in (0, 1, len(whole) // 2, len(whole) - 1):
                src = data.open(path, verify_checksums=verify)
                data.check([src[0], src[49]], [0, 49])
                os.truncate(file, kept)
                failures = _read_changed(data, src, str(file), range(50))
                is_in_memory = file.name.endswith(data.case.read_once) or data.case.ends is None  # decompressed
                assert failures >= 1 or is_in_memory
                file.write_bytes(whole)

    def test_replaced_file_raises_its_name(self, data: DatasetFixture) -> None:
        """A file that is replaced or written over is an error that names the file, never other records."""
        path, others = data.write(50), data.write(50, "other", first=100)
        for file, other in zip(data.open(path).paths, data.open(others).paths, strict=True):
            whole = Path(file).read_bytes()
            for change in ("rename", "write"):
                src = data.open(path)
                data.check([src[0]], [0])
                if change == "rename":
                    data.path("new").write_bytes(Path(other).read_bytes())
                    data.path("new").replace(file)
                else:
                    Path(file).write_bytes(Path(other).read_bytes())
                failures = _read_changed(data, src, file, range(50))
                assert failures == 50 or data.case.ends is None  # decompressed data may be in memory
                Path(file).write_bytes(whole)


def _read_changed(data: DatasetFixture, src: Any, path: str, numbers: range) -> int:
    """Read all records of a file that changed; return how many fail."""
    failures: list[Exception] = []
    for index in numbers:
        try:
            found = src[index]
        except (DataFormatsError, FileNotFoundError) as error:
            failures.append(error)
        else:
            assert is_same_value(found, data.record(index))
    n_failures = len(failures)
    streamed: list[Any] = []
    try:
        streamed.extend(src)
    except (DataFormatsError, FileNotFoundError) as error:
        failures.append(error)
    assert len(failures) > n_failures or n_failures < len(numbers)
    assert [str(error) for error in failures if path not in str(error)] == [], "an error does not name the file"
    data.check(streamed, numbers[: len(streamed)])
    return n_failures
