"""`tf.data.Options`."""

from __future__ import annotations

from typing import Any

__all__ = ["Options"]


class Options:
    """Options of a dataset: any attribute may be set, and none has an effect.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> options = tf.data.Options()
        >>> options.threading.private_threadpool_size = 4
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = Options()
        setattr(self, name, value)
        return value
