"""Register `Batch` with JAX, which does not look into subclasses of dict by itself."""

from __future__ import annotations

import sys
import threading
from typing import Any

from dataformats.loaders.batch import Batch

__all__ = ["register_with_jax"]

_LOCK = threading.Lock()
_REGISTERED: set[Any] = set()


def register_with_jax() -> None:
    """Register `Batch` as a tree of its columns if JAX is imported; cheap, and may be called again.

    `jax.device_put(batch)` and `jax.tree.map(function, batch)` return a plain dict: positions and padding are int64
    arrays of the host, and stay with the batch.
    """
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):  # another thread may still be importing it
        return
    with _LOCK:
        if jax.tree_util not in _REGISTERED:
            key = jax.tree_util.DictKey
            jax.tree_util.register_pytree_with_keys(
                Batch, lambda batch: ([(key(name), batch[name]) for name in sorted(batch)], tuple(sorted(batch))), _dict
            )
            _REGISTERED.add(jax.tree_util)


def _dict(names: tuple[str, ...], columns: Any) -> dict[str, Any]:
    return dict(zip(names, columns, strict=True))
