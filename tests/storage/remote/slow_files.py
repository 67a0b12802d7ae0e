"""A file system of local files that several processes read: it is slow, and logs what is requested."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from dataformats.storage.remote.files import FsspecFile


class SlowFiles(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Local files, of which each call takes some time.

    Args:
        log: Gets a line for each range: process, start, stop.
        delay_s: The time.
    """

    cachable = False

    def __init__(self, log: Path, delay_s: float) -> None:
        super().__init__()
        self.log, self.delay_s = log, delay_s

    def cat_ranges(
        self, paths: Any, starts: Any, ends: Any, max_gap: Any = None, on_error: Any = "return", **options: Any
    ) -> list[Any]:
        with self.log.open("a") as file:
            file.write("".join(f"{os.getpid()} {start} {end}\n" for start, end in zip(starts, ends, strict=True)))
        time.sleep(self.delay_s)
        return list(super().cat_ranges(paths, starts, ends, max_gap, on_error, **options))

    def file(self, path: Path) -> FsspecFile:
        """Return a file that has a version."""
        return FsspecFile(self, str(path))

    @property
    def n_bytes(self) -> int:
        """The bytes that all processes requested."""
        rows = [line.split() for line in self.log.read_text().splitlines()]
        return sum(int(end) - int(start) for _, start, end in rows)
