"""How much memory the indexes and extents of all sources of a process may take together."""

from __future__ import annotations

import threading
import weakref

from dataformats.fork_hooks import after_fork


class MemoryBudget:
    """Memory that is taken while an object lives. Thread-safe.

    Args:
        n_bytes: The most memory.
    """

    def __init__(self, n_bytes: int) -> None:
        self.left: int = n_bytes
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()  # garbage collection may give memory back in the middle of `take`

    def take(self, owner: object, n_bytes: int) -> bool:
        """Take memory until `owner` is collected; return False if too little is left."""
        with self._lock:
            if n_bytes > self.left:
                return False
            self.left -= n_bytes
        weakref.finalize(owner, self._give_back, n_bytes).atexit = False
        return True

    def _give_back(self, n_bytes: int) -> None:
        with self._lock:
            self.left += n_bytes


INDEX_MEMORY = MemoryBudget(128 * 2**20)
"""For packed indexes and pinned extents. Beyond it, indexes are read from their files, which all processes share in the
page cache, and the reader locates the records of other formats."""
