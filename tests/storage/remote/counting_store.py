"""The file system in memory, which notes the ranges that it is asked for, and answers as a test says."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import fsspec

from dataformats.storage.remote.files import FsspecFile
from tests.waiting import LIMIT_S


class CountingStore:
    """Stands for a file system of a server.

    Attributes:
        calls: The ranges of each `cat_ranges`, as (file name, start, stop).
        answering: Called with (name, start, answer); returns the answer, or an error that stands for it.
        held: If it is cleared, requests wait for it.
    """

    def __init__(self) -> None:
        self.fs = fsspec.filesystem("memory")
        self.folder = f"/{uuid.uuid4().hex}"
        self.fs.makedirs(self.folder)
        self.calls: list[list[tuple[str, int, int]]] = []
        self.answering: Any = lambda name, start, answer: answer
        self.held = threading.Event()
        self.held.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fs, name)

    def file(self, name: str, data: bytes) -> FsspecFile:
        self.fs.pipe_file(f"{self.folder}/{name}", data)
        return FsspecFile(self, f"{self.folder}/{name}")

    def cat_ranges(self, paths: Any, starts: Any, ends: Any, **options: Any) -> list[Any]:
        assert options == {"on_error": "return"}
        names = [path.rpartition("/")[2] for path in paths]
        self.calls.append(list(zip(names, starts, ends, strict=True)))
        answers = self.fs.cat_ranges(paths, starts, ends, on_error="return")
        self.held.wait(LIMIT_S)
        return [self.answering(*row) for row in zip(names, starts, answers, strict=True)]

    @property
    def n_requests(self) -> int:
        return sum(map(len, self.calls))

    @property
    def n_bytes(self) -> int:
        return sum(stop - start for call in self.calls for _, start, stop in call)
