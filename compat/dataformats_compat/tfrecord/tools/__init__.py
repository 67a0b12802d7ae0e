"""Tools for indexes: `tfrecord2idx`, imported when it is used, because it also runs as a program."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataformats_compat.tfrecord.tools import tfrecord2idx
    from dataformats_compat.tfrecord.tools.tfrecord2idx import create_index

__all__ = ["create_index", "tfrecord2idx"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.tfrecord2idx")
    return module if name == "tfrecord2idx" else module.create_index
