"""How long each thread has waited for storage, for whoever reports what limits."""

from __future__ import annotations

import threading

__all__ = ["IO_WAIT"]


class _Waited(threading.local):
    """Of this thread.

    Attributes:
        seconds: In all reads of blobs since it began, checksums included.
    """

    seconds = 0.0


IO_WAIT = _Waited()
