"""`tf.compat.v2`: the names of TensorFlow 2."""

from __future__ import annotations

import sys
from typing import Any

_VERSION_2 = __name__.removesuffix(".compat.v2")


def __getattr__(name: str) -> Any:
    return getattr(sys.modules[_VERSION_2], name)  # imported before this module, which it imports
