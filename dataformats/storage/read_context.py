"""ReadContext: what a loader sets for the reads of its threads, and the time that they take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataformats.storage.remote.block_cache import BlockCache


class ReadContext(threading.local):
    """The context of all reads of a thread: no arguments, because contracts of other packages lie in between.

    Attributes:
        cache: Remote files are read through it; `None` if each range is a request.
        n_readers: Concurrent readers, this thread included; each uses its share of the processors.
        waited_s: Seconds in all reads of blobs so far, checksums included.
    """

    cache: BlockCache | None = None
    n_readers: int = 1
    waited_s: float = 0.0

    @contextmanager
    def reading_through(self, cache: BlockCache | None) -> Iterator[None]:
        """Let this thread read remote files through a cache."""
        before, self.cache = self.cache, cache
        try:
            yield
        finally:
            self.cache = before


READ_CONTEXT = ReadContext()
"""The context of the current thread."""
