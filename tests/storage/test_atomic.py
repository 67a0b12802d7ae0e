"""Files and folders are published in one rename."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from dataformats.storage import atomic


def test_files_and_folders_get_their_name(tmp_path: Path) -> None:
    makers: list[Callable[[Path], object]] = [lambda path: path.write_bytes(b"x"), Path.mkdir]
    for make in makers:
        for there in (None, "file", "folder"):
            final, partial = tmp_path / "final", tmp_path / "partial"
            if there == "file":
                final.write_bytes(b"old")
            if there == "folder":
                (final / "inner").mkdir(parents=True)
            make(partial)
            if there == "file" and partial.is_dir():
                final.unlink()
            atomic.publish(partial, final)
            assert [path.name for path in tmp_path.iterdir()] == ["final"]
            assert not (final / "inner").exists()
            atomic.remove(final)
    atomic.remove(tmp_path / "nothing")


def test_a_folder_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "final").write_bytes(b"old")
    (tmp_path / "partial").mkdir()
    atomic.publish(tmp_path / "partial", tmp_path / "final")
    assert (tmp_path / "final").is_dir()


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [bytes([i]) * 5000 for i in range(8)]

    def write(text: bytes) -> None:
        for _ in range(5):
            atomic.write_bytes(path, text)

    workers = [threading.Thread(target=write, args=(text,)) for text in texts]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        assert not path.exists() or path.read_bytes() in texts
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_link_is_removed_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    atomic.remove(tmp_path / "link")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
