"""Files: read at an offset, refused if they changed, a bounded number open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import Folder
from dataformats.storage import descriptors
from dataformats.storage.descriptors import DESCRIPTORS
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.path_objects import ObjectFile, ObjectFolder
from dataformats.storage.selected_files import is_data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(200)))
    return path


def test_reading_by_position(path: Path) -> None:
    for file in (LocalFile(path), ObjectFile(path)):
        assert (file.size, file.basename) == (200, "data")
        assert file.pread(5, 3) == b"\5\6\7"
        assert file.pread(198, 10) == bytes([198, 199])
        assert file.pread(300, 10) == b""
        assert file.pread(0, -1) == b""
        assert file.read_all(200) == bytes(range(200))
        with pytest.raises(FormatError, match="199"):
            file.read_all(199)
        ranges = [(198, 10), (5, 3), (300, 10), (0, -1)]
        assert file.pread_many(ranges) == [file.pread(*part) for part in ranges]
        file.release()
        assert file.pread(0, 2) == b"\0\1"
        file.release()


def test_short_reads_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, preadv = bytes(range(200)), os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: preadv(fd, [buffers[0][:7]], offset))
    assert LocalFile(path).pread(0, 200) == whole


@pytest.mark.parametrize("change", ["cut", "grown", "written", "replaced", "deleted"])
def test_changed_files(path: Path, change: str) -> None:
    file = LocalFile(path)
    assert file.pread(0, 5) == bytes(range(5))
    if change == "cut":
        os.truncate(path, 100)
    elif change == "grown":
        path.write_bytes(bytes(300))
    elif change == "written":
        path.write_bytes(bytes(200))
        os.utime(path, ns=(1, 1))
    elif change == "replaced":
        (path.parent / "other").write_bytes(bytes(200))
        os.utime(path.parent / "other", ns=(1, 1))  # two writes within a tick of the clock have one time
        (path.parent / "other").replace(path)
    else:
        path.unlink()
    with pytest.raises(FormatError, match="data"):
        file.pread(150, 10)
    file.release()
    with pytest.raises((FormatError, FileNotFoundError), match="data"):
        file.pread(0, 10)


def test_cut_files_say_where(path: Path) -> None:
    file = LocalFile(path)
    file.pread(0, 1)
    os.truncate(path, 100)
    with pytest.raises(FormatError) as raised:
        file.pread(90, 20)
    assert isinstance(raised.value, TruncatedError | FormatError)
    assert str(path) in str(raised.value)


def test_a_file_may_be_closed_while_another_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any allocation may collect garbage, and the collection may close a source."""
    one, other = LocalFile(path), LocalFile(path)
    assert other.pread(0, 1) == b"\0"
    open_descriptor = one.open_descriptor

    def close_and_open() -> int:
        other.release()
        return open_descriptor()

    monkeypatch.setattr(one, "open_descriptor", close_and_open)
    assert one.pread(5, 3) == b"\5\6\7"
    assert other.pread(5, 3) == b"\5\6\7"


def test_few_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DESCRIPTORS.close_spare()
    monkeypatch.setattr(descriptors, "_MAX_OPEN", 5)
    for i in range(30):
        (tmp_path / str(i)).write_bytes(bytes([i] * 3))
    opened = [LocalFile(tmp_path / str(i)) for i in range(30)]
    for _ in range(2):
        assert [file.pread(1, 1)[0] for file in opened] == list(range(30))
        assert len(DESCRIPTORS._open) <= 6
    for file in opened:
        file.release()
    assert DESCRIPTORS._open == {}


def test_local_file_refuses_other_paths(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        LocalFile(tmp_path)
    with pytest.raises(FormatError, match="regular"):
        LocalFile(Path(os.devnull))
    with pytest.raises(FileNotFoundError):
        LocalFile(tmp_path / "nothing")


def test_folders(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden", "x.partial", "x.dataformats.json", "x.dataformats.idx", "x.journal"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "inner").mkdir()
    folders: list[Folder] = [LocalFolder(tmp_path), ObjectFolder(tmp_path)]
    for folder in folders:
        assert folder.names() == ["a", "b"]
        assert folder.folders() == ["inner"]
        file = folder.file("a")
        assert file.pread(0, 9) == b"a"
        file.release()
        assert folder.folder("inner").names() == []
    assert LocalFolder(tmp_path / "inner").file_beside("a") is not None
    assert LocalFolder(tmp_path / "inner").file_beside("c") is None
    assert not is_data(".x")


def test_a_file_beside_whose_name_is_too_long_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    path.write_bytes(b"")
    (tmp_path / ("f" * 255)).mkdir()
    assert LocalFile(path).file_beside(f"{path.name}.dataformats.json") is None
    assert LocalFolder(tmp_path / ("f" * 255)).file_beside("f" * 256) is None
