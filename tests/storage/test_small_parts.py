"""atomic, ahead, forks, locate: the small rooms of storage."""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile
from dataformats.storage.paths import is_local, resolve
from dataformats.storage.prefetch import prefetch


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "ahead" in thread.name]


def ended() -> bool:
    """Wait for the threads; they need not hurry."""
    until = time.monotonic() + 60
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    return not threads()


class TestAhead:
    def test_everything_comes_in_order(self) -> None:
        assert list(prefetch(iter(range(100)))) == list(range(100))
        assert list(prefetch(iter([]))) == []
        assert list(prefetch(iter([None, None]))) == [None, None]
        assert threads() == []

    def test_one_item_is_made_ahead(self) -> None:
        made: list[int] = []

        def items() -> Iterator[int]:
            for i in range(9):
                made.append(i)
                yield i

        ahead = prefetch(items())
        assert next(ahead) == 0
        deadline = time.monotonic() + 60
        while made != [0, 1] and time.monotonic() < deadline:
            time.sleep(0.001)
        assert made == [0, 1]
        ahead.close()  # type: ignore[attr-defined]
        assert threads() == []

    def test_errors_come_after_what_was_before(self) -> None:
        def items() -> Iterator[int]:
            yield 1
            raise ZeroDivisionError

        found: list[int] = []
        with pytest.raises(ZeroDivisionError):
            found.extend(prefetch(items()))
        assert found == [1]
        assert threads() == []

    def test_stopping_early_closes_the_source(self) -> None:
        closed: list[bool] = []

        def items() -> Iterator[int]:
            try:
                yield from range(1000)
            finally:
                closed.append(True)

        for item in prefetch(items()):
            if item == 3:
                break
        gc.collect()
        assert closed == [True]
        assert threads() == []

    def test_a_cycle_may_be_collected_by_its_own_thread(self) -> None:
        """Garbage is collected in whatever thread allocates."""
        dropped, collected, closed = threading.Event(), threading.Event(), threading.Event()

        def items() -> Iterator[int]:
            try:
                yield 0
                assert dropped.wait(60)
                gc.collect()
                collected.set()
                yield 1
            finally:
                closed.set()

        cycle: list[Any] = [prefetch(items())]
        assert next(cycle[0]) == 0
        cycle.append(cycle)
        gc.disable()
        try:
            del cycle
            dropped.set()
            assert collected.wait(60)
        finally:
            gc.enable()
        assert closed.wait(60)
        assert ended()

    def test_a_cycle_may_be_collected_by_who_holds_what_its_thread_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dataformats.storage.prefetch._PATIENCE_S", 0.05)
        lock, begun, closed = threading.Lock(), threading.Event(), threading.Event()

        def items() -> Iterator[int]:
            try:
                yield 0
                begun.set()
                with lock:
                    yield 1
            finally:
                closed.set()

        cycle: list[Any] = [prefetch(items())]
        with lock:
            assert next(cycle[0]) == 0
            assert begun.wait(60)
            cycle.append(cycle)
            del cycle
            gc.collect()
        assert closed.wait(60)
        assert ended()


class TestAtomic:
    def test_files_and_folders_get_their_name(self, tmp_path: Path) -> None:
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

    def test_a_folder_over_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "final").write_bytes(b"old")
        (tmp_path / "partial").mkdir()
        atomic.publish(tmp_path / "partial", tmp_path / "final")
        assert (tmp_path / "final").is_dir()

    def test_many_writers_of_one_file(self, tmp_path: Path) -> None:
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

    def test_a_link_is_removed_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "folder")
        atomic.remove(tmp_path / "link")
        assert [p.name for p in tmp_path.iterdir()] == ["folder"]


class TestForks:
    def test_a_child_is_told(self) -> None:
        class DeclaredSchema:
            told = 0

            def tell(self) -> None:
                self.told += 1

        thing, forgotten = DeclaredSchema(), DeclaredSchema()
        after_fork(thing, "tell")
        after_fork(forgotten, "tell")
        del forgotten
        gc.collect()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
            child = os.fork()
        if child == 0:
            os._exit(40 + thing.told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
        assert thing.told == 0


class TestLocate:
    def names(self, path: Any) -> list[str]:
        found = resolve(path)
        return [name for entry in found for name in (entry.names() if isinstance(entry, Folder) else [entry.name])]

    def test_what_a_path_can_be(self, tmp_path: Path) -> None:
        for name in ("a1", "a2", "b", "[x]", ".hidden", "a3.partial"):
            (tmp_path / name).write_bytes(b"1")
        a1 = str(tmp_path / "a1")
        for path in (a1, tmp_path / "a1", [a1], (tmp_path / "a1",), f"file://{a1}"):
            assert self.names(path) == [a1]
        assert self.names(str(tmp_path / "[x]")) == [str(tmp_path / "[x]")]
        assert self.names(f"{tmp_path}/a*") == [a1, str(tmp_path / "a2")]
        assert self.names(f"{tmp_path}/**/b") == [str(tmp_path / "b")]
        assert self.names(tmp_path) == ["[x]", "a1", "a2", "b"]
        found = resolve([a1, f"{tmp_path}/a*"])
        assert isinstance(found[0], LocalFile)
        assert isinstance(found[1], Folder)
        assert not isinstance(found[1], StoredFile)

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        missing: list[Any] = [tmp_path / "x", f"{tmp_path}/*", [], f"{tmp_path}/[", "memory://nothing/x"]
        for path in [*missing, "memory://nothing/*"]:
            with pytest.raises(FileNotFoundError):
                resolve(path)
        for wrong in (None, 3, b"x", {"x": 1}, object()):
            with pytest.raises(TypeError):
                resolve(wrong)

    def test_local_or_not(self) -> None:
        assert is_local("x")
        assert is_local(Path("x"))
        assert not is_local("s3://x")
        assert not is_local(object())
