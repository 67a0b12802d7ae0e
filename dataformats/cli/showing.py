"""Values as text for people, and as JSON for programs."""

from __future__ import annotations

import base64
import math
import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["as_json", "shown"]

_BYTES, _CHARACTERS, _VALUES, _ITEMS = 32, 120, 8, 4
_IMAGES = {b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG"}


def shown(value: Any) -> str:
    """Return one line for a value of any type and size."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _shown_bytes(bytes(value))
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, np.ndarray):
        return _shown_array(value)
    if isinstance(value, Mapping):
        return "{" + _some([f"{key!r}: {shown(item)}" for key, item in _first(value.items())], len(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + _some([shown(item) for item in value[:_ITEMS]], len(value)) + "]"
    return _shown_other(value)


def as_json(value: Any) -> Any:
    """Return the whole value as JSON has it: bytes in base64, numbers that are not finite as text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, str)) else {"repr": repr(value)}


def _shown_bytes(blob: bytes) -> str:
    image = _shown_image(blob)
    if image is not None:
        return f"{image}, {len(blob)} bytes"
    return repr(blob) if len(blob) <= _BYTES else f"{len(blob)} bytes: {blob[:_BYTES]!r}..."


def _shown_image(blob: bytes) -> str | None:
    """Return format, size and mode of a JPEG or PNG as its header tells them; no pixel is decoded."""
    name = next((name for start, name in _IMAGES.items() if blob.startswith(start)), None)
    if name is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes: nothing of that size is made here
            with Image.open(BytesIO(blob), formats=[name]) as image:
                return f"{name} image, {image.width} x {image.height}, {image.mode}"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"{name} image that cannot be opened ({error})"


def _shown_array(array: np.ndarray[Any, Any]) -> str:
    kind = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if not array.size:
        return kind
    values = " ".join(str(value) for value in array.reshape(-1)[:_VALUES].tolist())
    return f"{kind}: {values}{' ...' if array.size > _VALUES else ''}"


def _shown_other(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."


def _cut(text: str) -> str:
    return repr(text) if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]!r}... ({len(text)} characters)"


def _first(items: Any) -> list[tuple[Any, Any]]:
    return [item for item, _ in zip(items, range(_ITEMS), strict=False)]


def _some(texts: Sequence[str], n: int) -> str:
    more = [f"... ({n} in all)"] if n > len(texts) else []
    return ", ".join([*texts, *more])
