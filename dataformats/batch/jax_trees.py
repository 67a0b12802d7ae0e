"""Register batches and columns with JAX, which looks only into types that it knows."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

from dataformats.batch.column_types import Nullable, Ragged

_LOCK = threading.Lock()
_REGISTERED: set[tuple[Any, type]] = set()


def register_with_jax(batch: type) -> None:
    """Register a type of batch, and the columns, as JAX trees if JAX is imported; cheap, and may be called again.

    `jax.device_put(batch)` and `jax.tree.map(function, batch)` return a plain dict without the other attributes of the
    batch. A `Ragged` and a `Nullable` keep their type, with arrays of JAX.

    Args:
        batch: A type with `keys` and `[]`.
    """
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):  # another thread may still be importing it
        return
    tree = jax.tree_util
    ragged = partial(_parts, tree.GetAttrKey, ("values", "offsets", "present"))
    nullable = partial(_parts, tree.GetAttrKey, ("values", "present"))
    for kind, flatten, unflatten in (
        (batch, partial(_columns, tree.DictKey), _dict),
        (Ragged, ragged, lambda item, parts: Ragged(parts[0], parts[1], item, parts[2])),
        (Nullable, nullable, lambda _, parts: Nullable(*parts)),
    ):
        with _LOCK:
            if (tree, kind) not in _REGISTERED:
                tree.register_pytree_with_keys(kind, flatten, unflatten)
                _REGISTERED.add((tree, kind))


def _columns(key: Any, batch: Any) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    names = tuple(sorted(batch.keys()))
    return [(key(name), batch[name]) for name in names], names


def _dict(names: tuple[str, ...], columns: Any) -> dict[str, Any]:
    return dict(zip(names, columns, strict=True))


def _parts(key: Any, names: tuple[str, ...], column: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(key(name), getattr(column, name)) for name in names], getattr(column, "item", None)
