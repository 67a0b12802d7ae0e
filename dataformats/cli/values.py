"""Values as JSON for programs."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["as_json"]


def as_json(value: Any) -> Any:
    """Return the whole value as JSON: bytes in base64, numbers that are not finite as text.

    Values may nest as deep as codecs allow, so each level costs one call only.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, np.generic) and value.dtype.char in "gG":
        return str(value)  # longer than a number of Python, or of readers of JSON
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return dict(zip(map(str, value), map(as_json, value.values()), strict=True))
    if isinstance(value, (list, tuple)):
        return list(map(as_json, value))
    return value if value is None or isinstance(value, (bool, int, str)) else {"repr": repr(value)}
