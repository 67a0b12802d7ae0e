"""File systems: a forked child makes its own, with the same arguments."""

from __future__ import annotations

import socket
import threading
from typing import Any
from unittest import TestCase

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem, get_loop, sync

from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.systems import CurrentSystem
from tests.storage.test_fork_hooks import exit_code_of_child
from tests.waiting import LIMIT_S


class RepeatedByte(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A file of one byte, again and again. Like a file system of a server, it runs a thread, which a child lacks."""

    def __init__(self, byte: bytes, *, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.data = byte * size

    async def _info(self, path: str, **options: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self.data), "type": "file", "ETag": '"1"'}

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        return bytes(self.data[start:end])


def test_a_forked_child_makes_its_file_system_anew() -> None:
    fs = RepeatedByte(b"x", size=1000)
    file = FsspecFile(fs, "a")
    assert file.pread(990, 20) == b"x" * 10
    assert exit_code_of_child(lambda: int(file.pread(990, 20) != b"x" * 10)) == 0
    assert file.fs is fs


def test_a_forked_child_keeps_a_file_system_without_threads() -> None:
    """Such as the file system in memory, whose files a new one might lack."""
    memory = AbstractFileSystem()
    system = CurrentSystem(memory)
    assert exit_code_of_child(lambda: int(system.current is not memory)) == 0


def test_a_forked_child_removes_no_connection_of_its_parent() -> None:
    """They share an epoll instance; the parent would wait for an answer until a timer of its loop ends."""
    loop = get_loop()
    ours, theirs = socket.socketpair()
    has_answer = threading.Event()

    async def watch() -> None:
        loop.add_reader(ours, has_answer.set)

    async def forget() -> None:
        loop.remove_reader(ours)

    def close() -> int:
        with TestCase().assertNoLogs("asyncio"):
            loop.call_exception_handler({"message": "Unclosed client session"})
        return int(loop._remove_reader(ours))  # as the transport of a connection does

    with ours, theirs:
        sync(loop, watch)
        assert exit_code_of_child(close) == 0
        theirs.send(b"x")
        assert has_answer.wait(LIMIT_S)
        sync(loop, forget)
